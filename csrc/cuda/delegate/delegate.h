// Delegate top-k (Dr. Top-k) for long rows: a bound first, then only what can hold winners is looked at.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/problem.h"
#include "core/strided_problem.h"
#include "cuda/cost.h"
#include "cuda/gpu.h"
#include "cuda/sampled_bounds.h"
#include "cuda/stream.h"
#include "cuda/windows.h"

namespace gputopk::cuda::delegate {

// Why delegate cannot serve the request, or nullptr.
const char* unsupported_reason(const Problem& problem, const Device& device);

// Overrides of the plan's numbers for studies; zero: the plan's choice.
struct Study {
  int alpha = 0;
  int beta = 0;
};

// The least and greatest alpha that serve the request; the first is the greater where none does.
struct AlphaRange {
  int least, most;
};
AlphaRange alphas(const Problem& problem, int beta);

// The bound from the best of every subrange of the row; then only what can hold winners is read again.
struct FromMaxima {
  static constexpr Algorithm kAlgorithm = Algorithm::kDelegate;
  static constexpr const char* kName = "delegate.from_maxima";

  int alpha;           // a subrange has 2^alpha elements
  int beta;            // delegates of a subrange: its best element; in the study build also its best two
  int blocks_per_row;  // that read the row
  // Of the first selection, from the delegates, and of the second, from the candidates.
  int first_digit_bits;
  int second_digit_bits;
  int first_blocks_per_row;
  int64_t first_buffer;   // delegates a row that can be stored between passes
  int64_t second_buffer;  // candidates a row; if there are more, the second selection is from the row
  int likely_passes;      // of the second selection: 0 where few candidates are expected
  bool launches_ahead;    // a kernel's blocks may start while the one before ends

  static bool serves(const Problem& problem, const Device&);
  static FromMaxima plan(const Problem& problem, const Device& device) { return plan(problem, device, {}); }
  static FromMaxima plan(const Problem& problem, const Device& device, const Study& study);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem& problem) const { return problem.k == 1; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// The bound from a sample of the row: one read of a long row, whatever it holds.
struct FromSample {
  static constexpr Algorithm kAlgorithm = Algorithm::kDelegate;
  static constexpr const char* kName = "delegate.from_sample";

  DelegateSample sample;
  int blocks_per_row;
  int digit_bits;       // of the passes over candidates, or over the row
  int64_t buffer;       // candidates a row
  int likely_passes;    // 0 where few candidates are expected
  int dealt_share;      // one in so many tiles of a row is dealt to the blocks that are done; 0: none
  bool blocks_meet;     // to select together from what they have on chip
  bool launches_ahead;  // a kernel's blocks may start while the one before ends

  // Where a sample small beside the row gives a bound that says much.
  static bool serves(const Problem& problem, const Device& device);
  static FromSample plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  // The last winner alone it finds without the others.
  bool in_order(const Problem& problem) const { return problem.k == 1 || problem.last_alone; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// Two bounds from a sample of the row, between which its k-th best element lies: one read where many win.
struct TwoBounds {
  static constexpr Algorithm kAlgorithm = Algorithm::kDelegate;
  static constexpr const char* kName = "delegate.two_bounds";

  ElementSample sample;
  BoundRanks ranks;
  int blocks_per_row;
  int digit_bits;       // of the passes over candidates, or over the row
  double candidates;    // that are expected
  int64_t buffer;       // for candidates a row
  int likely_passes;    // 0 where few candidates are expected
  bool many_win;        // so large a part of the row that winners are told from others as they are read
  bool blocks_meet;     // as of FromSample
  bool launches_ahead;  // a kernel's blocks may start while the one before ends

  // Where the bounds leave a part of the row that is worth while.
  static bool serves(const Problem& problem, const Device& device);
  static TwoBounds plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  // The last winner alone it finds without the others.
  bool in_order(const Problem& problem) const { return problem.k == 1 || problem.last_alone; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// From a sample too, by blocks that run together: one launch, and up to some thousands of winners in order.
struct OneGrid {
  static constexpr Algorithm kAlgorithm = Algorithm::kDelegate;
  static constexpr const char* kName = "delegate.one_grid";

  DelegateSample sample;  // of as many blocks as a row has
  int prefetched_tiles;   // into L2, by each block, while the bound is found
  bool counts;            // candidates by a digit, as they are stored
  int64_t buffer;         // candidates a row that can be stored

  static bool serves(const Problem& problem, const Device& device);
  static OneGrid plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return true; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// The same of many winners: candidates are dealt out to parts of their range, and a block puts a part in
// order.
struct GridParts {
  static constexpr Algorithm kAlgorithm = Algorithm::kDelegate;
  static constexpr const char* kName = "delegate.grid_parts";

  int blocks;            // of a row
  int rank;              // of the bound in the sample
  double candidates;     // of a row that are expected
  int prefetched_tiles;  // into L2, by each block, while the bound is found
  int64_t buffer;        // candidates a row that can be stored
  int64_t dealt;         // and that can be dealt out: k, and what shares the last winner's bin

  static bool serves(const Problem& problem, const Device& device);
  static GridParts plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return true; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// How a block finds a row's bound in a sample of the row, and how many candidates it lists on chip.
struct SampledBound {
  int threads;     // of a block; 0: no sample tells k of such a row
  int vectors;     // of the sample, a thread's; 0, of windows alone: there is none
  int rank;        // of the bound in the sample: at most `threads`
  int room;        // for candidates of a row: a multiple of 64
  int neighbours;  // of a sample's elements, that lie side by side: the rank reaches beyond as many, or 0
};

// The same for rows of some thousands to some millions of elements: sample, bound and candidates on chip, in
// one launch, and the winners in order.
struct OneCluster : SampledBound {
  static constexpr Algorithm kAlgorithm = Algorithm::kDelegate;
  static constexpr const char* kName = "delegate.one_cluster";

  int blocks;            // of a row's cluster: a power of two
  int prefetched_tiles;  // into L2, by a block, while the bound is found
  bool reads_ahead;      // a tile's loads are under way while the one before is looked at

  static bool serves(const Problem& problem, const Device& device);
  static OneCluster plan(const Problem& problem, const Device& device) {
    return plan(problem, device, false);
  }
  // `windows`: rows are windows of no more than problem.cols, as far as is known.
  static bool serves_windows(const Problem& problem, const Device& device);
  static OneCluster plan(const Problem& problem, const Device& device, bool windows);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return true; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem&) const { return 0; }
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
  // Windows of fewer than 2^32 elements. To rows.outputs; where those have no indices, dense, problem.k
  // places a row: the winners by position in the window, in order, and padding (device/window_writer.cuh).
  ErrorCode run_windows(const Problem& problem, const WindowRows& rows, const Buffers& buffers,
                        Stream stream) const;
};

// Rows in the registers of a cluster's blocks, which find the bound in what they hold: one read, one launch,
// and the winners in order.
struct ResidentCluster {
  static constexpr Algorithm kAlgorithm = Algorithm::kDelegate;
  static constexpr const char* kName = "delegate.resident_cluster";

  int threads;     // of a block; 0: such rows do not fit, or k is too much for a bound from delegates
  int elements;    // a thread's at most
  int blocks;      // of a row's cluster: a power of two
  int rank;        // of the bound among a block's delegates, one a thread
  int room;        // for candidates of a row: a multiple of 64
  int ordered_by;  // blocks: one, or all

  static bool serves(const Problem& problem, const Device& device);
  static ResidentCluster plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return true; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem&) const { return 0; }
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// OneCluster's way in three launches, for rows of any lengths: the elements of all of them are shared equally
// by the GPU's blocks.
struct EqualShares : SampledBound {
  static constexpr Algorithm kAlgorithm = Algorithm::kDelegate;
  static constexpr const char* kName = "delegate.equal_shares";

  int blocks;            // that share all elements
  int prefetched_tiles;  // into L2, by each of them, while bounds are found
  int order_threads;     // of the block that puts a row's list in order
  int order_blocks;      // of that block's cluster, a power of two: what finds the bound that a sample missed
  bool launches_ahead;   // a kernel's blocks may start while the one before ends

  static bool serves(const Problem& problem, const Device& device);
  static EqualShares plan(const Problem& problem, const Device& device) {
    return plan(problem, device, false);
  }
  // `windows`: as OneCluster's.
  static bool serves_windows(const Problem& problem, const Device& device);
  static EqualShares plan(const Problem& problem, const Device& device, bool windows);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return true; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
  ErrorCode run_windows(const Problem& problem, const WindowRows& rows, const Buffers& buffers,
                        Stream stream) const;
};

// Rows in the registers of the whole GPU's blocks, launched together, which find the bound in what they hold:
// one read, one launch, and the winners in order.
struct ResidentGrid {
  static constexpr Algorithm kAlgorithm = Algorithm::kDelegate;
  static constexpr const char* kName = "delegate.resident_grid";

  int threads;     // of a block; 0: such rows do not fit, or k is too much for a bound from delegates
  int elements;    // a thread's at most
  int blocks;      // of a row
  int of_warp;     // delegates: a power of two
  int room;        // of a list of candidates: a multiple of 64
  int ordered_by;  // blocks: a part of what is listed each
  EqualShares without_room;  // where a context has none for all blocks at once

  int delegates() const { return blocks * (threads / 32) * of_warp; }

  static bool serves(const Problem& problem, const Device& device);
  static ResidentGrid plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return true; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// From a sample too, of rows side by side that do not lie so themselves: those of a dimension other than the
// last. They are read across, where they lie, and their winners written in order to where they belong.
struct AcrossRows {
  static constexpr Algorithm kAlgorithm = Algorithm::kDelegate;
  static constexpr const char* kName = "delegate.across_rows";

  int delegates;        // of a row's sample
  int group;            // sampled elements that one of them is the best of
  int rank;             // of the bound among them
  double candidates;    // of a row that are expected
  int room;             // for them: a multiple of 64
  int blocks;           // that share all elements, about
  int order_threads;    // of the block that puts a row's list in order; 0: a warp does
  int64_t list_bytes;   // of candidates' memory at once, at most
  bool launches_ahead;  // a kernel's blocks may start while the one before ends

  static bool serves(const StridedProblem& strided, const Device& device);
  static AcrossRows plan(const StridedProblem& strided, const Device& device);
  Work work(const StridedProblem& strided, const Device& device) const;
  // Rows whose lists are in memory at once: whole outer rows of `inner` each, or a part of one.
  int64_t rows_at_once(const Problem& problem, int64_t inner) const;
  void describe(const StridedProblem& strided, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const StridedProblem& strided) const;
  ErrorCode run_strided(const StridedProblem& strided, const Buffers& buffers, Stream stream) const;
};

}  // namespace gputopk::cuda::delegate
