// AIR top-k: radix selection, digit by digit, from the highest. Any dtype, rows, cols and k.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/problem.h"
#include "cuda/cost.h"
#include "cuda/gpu.h"
#include "cuda/stream.h"
#include "cuda/windows.h"

namespace gputopk::cuda::air {

// Many blocks a row, a launch a pass.
struct ManyBlocks {
  static constexpr Algorithm kAlgorithm = Algorithm::kAir;
  static constexpr const char* kName = "air.many_blocks";

  int blocks_per_row;
  int digit_bits;       // of every digit but the last
  int64_t buffer;       // candidates a row that can be stored between passes
  bool adaptive;        // store them only where that saves reading; off only for the paper's ablation
  bool launches_ahead;  // a pass's blocks may start while the pass before ends
  bool early_stop;      // stop when all candidates are winners; off only for the paper's ablation

  static bool serves(const Problem&, const Device&) { return true; }
  static ManyBlocks plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  // The last winner alone it finds without the others.
  bool in_order(const Problem& problem) const { return problem.k == 1 || problem.last_alone; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// One block a row, which it keeps in registers: one launch, one read, and winners in order.
struct ResidentRow {
  static constexpr Algorithm kAlgorithm = Algorithm::kAir;
  static constexpr const char* kName = "air.resident_row";

  int threads;
  int elements;  // a thread: 16 or 32
  int maxima;    // a thread, of its elements: 1, 2, 4 or 8; 0: the list is found by digits
  int rank;      // among a warp's maxima, of the bound
  bool counts;   // maxima, all that there are, in place of sorting a warp's
  int digit_bits;
  int room;  // entries of the list, a multiple of 64: k at least
  int bins;  // in which they are ranked

  static bool serves(const Problem& problem, const Device& device);
  static ResidentRow plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return true; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem&) const { return 0; }
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// One block a row: one launch, and reads after the first mostly from cache.
struct OneBlock {
  static constexpr Algorithm kAlgorithm = Algorithm::kAir;
  static constexpr const char* kName = "air.one_block";

  int digit_bits;
  int threads;
  bool lists_row;      // rank the whole row: cols <= tuning::kAirBlockList
  bool lists_winners;  // rank the winners too, so that they are in order: a small k

  static bool serves(const Problem& problem, const Device& device);
  static OneBlock plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem& problem) const { return lists_row || lists_winners || problem.last_alone; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem&) const { return 0; }
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
  // Windows of fewer than 2^32 elements; any k. Dense outputs of problem.k places a row: the winners by
  // position in the window, in order with lists_winners, behind them entries that are worse than any other,
  // in order, at positions beyond all columns. With rows.kth_alone, problem.k is 1.
  ErrorCode run_windows(const Problem& problem, const WindowRows& rows, const Buffers& buffers,
                        Stream stream) const;
};

// One cluster of blocks a row: one launch, and blocks that exchange digits without leaving it.
struct OneCluster {
  static constexpr Algorithm kAlgorithm = Algorithm::kAir;
  static constexpr const char* kName = "air.one_cluster";

  int blocks;  // a row: a power of two
  int threads;
  int digit_bits;
  int ranked;          // rank so many at most: up to tuning::kAirClusterMostRanked, k with ranks_winners
  bool ranks_winners;  // rank the winners too, so that they are in order: a small k

  static bool serves(const Problem& problem, const Device& device);
  static OneCluster plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem& problem) const { return ranks_winners || problem.last_alone; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem&) const { return 0; }
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;

  // The most blocks of a cluster that the current device takes; 1 where it has no clusters.
  static int most_blocks();
};

// Rows that the SMs' shared memory holds, a row in the parts of blocks that run together: one launch, one
// read, and any k.
struct ResidentGrid {
  static constexpr Algorithm kAlgorithm = Algorithm::kAir;
  static constexpr const char* kName = "air.resident_grid";

  int blocks;        // of a row
  int part_vectors;  // of 16 bytes, that a block holds
  int ranked;        // entries of a list at most, unless winners are written by index
  bool by_index;     // where they are more than that, or wanted so; else they are in order

  static bool serves(const Problem& problem, const Device& device);
  static ResidentGrid plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem& problem) const { return !by_index || problem.last_alone; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
  // Whether that failed as this context, of a part of the GPU perhaps, has no room for so many blocks at
  // once: nothing is done then, and nothing is left of the error.
  static bool lacked_room(ErrorCode error);
};

// Overrides of the plan's numbers for ablations and tuning studies; zero: the plan's choice.
struct Study {
  int threads = 0;  // set: one block of so many threads a row, or a cluster of such blocks
  int cluster = 0;  // set: one cluster of so many blocks a row; blocks and below are then of no account
  int digit_bits = 0;
  int blocks = 0;
  bool adaptive = true;
  bool early_stop = true;
};

ManyBlocks plan_many_blocks(const Problem& problem, const Device& device, const Study& study);
OneBlock plan_one_block(const Problem& problem, const Device& device, const Study& study);
OneCluster plan_one_cluster(const Problem& problem, const Device& device, const Study& study);

}  // namespace gputopk::cuda::air
