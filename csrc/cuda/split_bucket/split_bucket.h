// Split-bucket top-k: a row is split into tiles, every tile is partitioned into buckets and reduced on chip
// to a fixed number of entries, and those are a row again, until one tile is left. For k up to kMaxK.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/problem.h"
#include "cuda/cost.h"
#include "cuda/gpu.h"
#include "cuda/stream.h"
#include "cuda/windows.h"

namespace gputopk::cuda::split_bucket {

inline constexpr int64_t kMaxK = 1024;

// Why it cannot serve the request, or nullptr.
const char* unsupported_reason(const Problem& problem);

// How rows are split, whatever the buckets are.
struct Split {
  int threads;  // of a row's tile: what they hold in registers
  int cutoff;   // entries that a tile hands on, filled up: a power of two
};

// Overrides of the plan's numbers for studies; zero: the plan's choice.
struct Study {
  int threads = 0;
  int cutoff = 0;
  bool one_tree_a_row = true;
  bool best_buckets_first = true;
};

// Why a row cannot be split so, or nullptr: a study's choice.
const char* unfit_reason(const Problem& problem, const Split& split);

// Elements of a row's first tiles, and of the tiles of entries that follow.
int64_t row_tile(const Problem& problem, const Split& split);
int64_t entry_tile(const Problem& problem);

// Buckets are the bins of a digit of the range that a tile's keys have (the paper's TK_RdSP).
struct Radix {
  static constexpr Algorithm kAlgorithm = Algorithm::kSplitBucket;
  static constexpr const char* kName = "split_bucket.radix";

  Split split;

  static bool serves(const Problem& problem, const Device&) { return unsupported_reason(problem) == nullptr; }
  static Radix plan(const Problem& problem, const Device& device) { return plan(problem, device, {}); }
  static Radix plan(const Problem& problem, const Device& device, const Study& study);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return true; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// Buckets are what lies between the nodes of a search tree, which are elements of a sample (TK_StSP).
struct Tree {
  static constexpr Algorithm kAlgorithm = Algorithm::kSplitBucket;
  static constexpr const char* kName = "split_bucket.tree";

  Split split;
  bool one_tree_a_row;      // built by a kernel before; else every tile builds its own (task optimisation)
  bool best_buckets_first;  // and no others where those suffice; else all are counted (control flow)

  static bool serves(const Problem& problem, const Device&) { return unsupported_reason(problem) == nullptr; }
  static Tree plan(const Problem& problem, const Device& device) { return plan(problem, device, {}); }
  static Tree plan(const Problem& problem, const Device& device, const Study& study);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return true; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
  // Windows of fewer than 2^32 elements. Dense outputs of problem.k places a row: the winners by position in
  // the window, in order, behind them entries that are worse than any other, at positions beyond all columns.
  ErrorCode run_windows(const Problem& problem, const WindowRows& rows, const Buffers& buffers,
                        Stream stream) const;
};

}  // namespace gputopk::cuda::split_bucket
