// Delegate top-k (Dr. Top-k) for long rows: a bound first, then only what can hold winners is looked at.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/problem.h"
#include "cuda/cost.h"
#include "cuda/gpu.h"
#include "cuda/stream.h"

namespace gputopk::cuda::delegate {

// Why delegate cannot serve the request, or nullptr.
const char* unsupported_reason(const Problem& problem);

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

  static bool serves(const Problem& problem, const Device&) { return unsupported_reason(problem) == nullptr; }
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

  int sample_blocks_per_row;
  int delegates;  // a row, each of a group of lanes: a power of two up to 32
  int rank;       // the delegate that is the bound
  int blocks_per_row;
  int digit_bits;       // of the passes over candidates, or over the row
  int64_t buffer;       // candidates a row
  int likely_passes;    // 0 where few candidates are expected
  bool launches_ahead;  // a kernel's blocks may start while the one before ends

  // Where a sample small beside the row gives a bound that says much.
  static bool serves(const Problem& problem, const Device& device);
  static FromSample plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem& problem) const { return problem.k == 1; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// The bound from maxima while rows pass through a ring of shared memory, a block's one after the other: one
// read, and winners in order, in one launch.
struct OnChip {
  static constexpr Algorithm kAlgorithm = Algorithm::kDelegate;
  static constexpr const char* kName = "delegate.on_chip";

  // Overrides of the plan's numbers for studies; zero: the plan's choice.
  struct Study {
    int threads = 0;
    int blocks_per_sm = 0;
    int chunk_bytes = 0;
  };

  int blocks;               // of the grid
  int threads;              // a power of two
  int chunk_vectors;        // 16-byte vectors of a row that are copied at a time
  int chunks;               // a row
  int stride;               // from a chunk to the one that is visited next: ChunkedRows
  int stages;               // chunks in the ring
  int window;               // chunks that the first bound is from: stages at most
  int groups;               // delegates a thread: a power of two
  int delegate_digit_bits;  // of the selection from delegates
  int digit_bits;           // of all others
  int capacity;             // of the list of candidates: a multiple of 16
  int slack;                // elements more than k that a bound may let in
  int prune_at;             // candidates that are too many between chunks
  int part_vectors;         // vectors that the list has room for beside k entries and a row's ends
  int places;               // of winners: room for k rounded up to a power of two, or for all entries
  int spare_bytes;          // for delegates, or twice the places

  // Rows long enough to have so many delegates, and k that the list has room for.
  static bool serves(const Problem& problem, const Device& device);
  static OnChip plan(const Problem& problem, const Device& device) { return plan(problem, device, {}); }
  static OnChip plan(const Problem& problem, const Device& device, const Study& study);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return true; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem&) const { return 0; }
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

}  // namespace gputopk::cuda::delegate
