// Split-bucket top-k's plan: which sizes tiles have.

#include <algorithm>
#include <cstdio>

#include "cuda/device/index_width.h"
#include "cuda/device/split.h"
#include "cuda/split_bucket/numbers.h"
#include "cuda/split_bucket/split_bucket.h"

namespace gputopk::cuda::split_bucket {
namespace {

int entry_bytes(const Problem& problem) {
  return dtype_bytes(problem.dtype) == 8 || !has_narrow_indices(problem.cols) ? 16 : 8;
}

int threads_of(const Problem& problem, const Device& device, int cutoff) {
  const auto tile_of = [&](int threads) { return row_tile(problem, {threads, cutoff}); };
  // As small as hands on a small part of itself; larger where there are SMs enough for all tiles: fewer
  // entries.
  int threads = tuning::kSplitLeastThreads;
  while (threads < tuning::kSplitMostThreads &&
         tile_of(threads) < int64_t{tuning::kSplitTilePerCutoff} * cutoff) {
    threads *= 2;
  }
  constexpr int kUsual = tuning::kSplitUsualThreads;
  const bool is_enough = problem.rows * divide_up(problem.cols, tile_of(kUsual)) >= 2 * device.sm_count;
  return is_enough ? std::max(threads, kUsual) : threads;
}

Split split_of(const Problem& problem, const Device& device, const Study& study) {
  Split split{study.threads, study.cutoff};
  if (split.cutoff == 0) {
    split.cutoff = tuning::kSplitLeastCutoff;
    while (split.cutoff < 2 * problem.k) split.cutoff *= 2;
  }
  if (split.threads == 0) split.threads = threads_of(problem, device, split.cutoff);
  return split;
}

int levels_of(const Problem& problem, const Split& split) {
  int levels = 1;
  for (int64_t tiles = divide_up(problem.cols, row_tile(problem, split)); tiles > 1; ++levels) {
    tiles = divide_up(tiles * split.cutoff, entry_tile(problem));
  }
  return levels;
}

Work work_of_split(const Problem& problem, const Device& device, const Split& split) {
  const int64_t tiles = divide_up(problem.cols, row_tile(problem, split));
  Work work = work_of(problem, device, problem.rows * tiles, split.threads,
                      tuning::kSplitThreadsPerSm / split.threads, /*reads=*/1);
  if (tiles == 1) return work;
  // Entries are written and read; later levels have a small part of them.
  const double entries = static_cast<double>(problem.rows * tiles * split.cutoff);
  work.bytes += 2 * entries * entry_bytes(problem);
  work.elements += entries / device.sm_count;
  work.waves += levels_of(problem, split) - 1;
  return work;
}

void describe_split(const Problem& problem, const Split& split, const char* buckets, char* text,
                    size_t text_bytes) {
  std::snprintf(text, text_bytes,
                "split_bucket: tiles of %lld elements in buckets by %s, %d entries of each go on, %d levels",
                static_cast<long long>(row_tile(problem, split)), buckets, split.cutoff,
                levels_of(problem, split));
}

}  // namespace

const char* unsupported_reason(const Problem& problem) {
  static_assert(kMaxK == 1024, "the text says so");
  return problem.k <= kMaxK ? nullptr : "k is larger than 1024, the most that its tiles hand on";
}

const char* unfit_reason(const Problem& problem, const Split& split) {
  const auto is_power = [](int x) { return x > 0 && (x & (x - 1)) == 0; };
  if (!is_power(split.threads) || split.threads < tuning::kSplitLeastThreads ||
      split.threads > tuning::kSplitMostThreads) {
    return "threads of a tile are a power of two from 128 to 512";
  }
  if (!is_power(split.cutoff) || split.cutoff < tuning::kSplitLeastCutoff ||
      split.cutoff > tuning::kSplitMostCutoff) {
    return "the cutoff is a power of two from 64 to 2048";
  }
  // What is divided is more than a thread holds: a sample with an element of each thread has two at least.
  return split.cutoff < problem.k + 32 ? "the cutoff is at least k + 32" : nullptr;
}

int64_t row_tile(const Problem& problem, const Split& split) {
  return int64_t{split.threads} * tuning::split_elements(dtype_bytes(problem.dtype));
}

int64_t entry_tile(const Problem& problem) {
  return int64_t{tuning::kSplitEntryThreads} * tuning::split_entries(entry_bytes(problem));
}

Radix Radix::plan(const Problem& problem, const Device& device, const Study& study) {
  return {split_of(problem, device, study)};
}

Tree Tree::plan(const Problem& problem, const Device& device, const Study& study) {
  return {split_of(problem, device, study), study.one_tree_a_row, study.best_buckets_first};
}

Work Radix::work(const Problem& problem, const Device& device) const {
  return work_of_split(problem, device, split);
}

Work Tree::work(const Problem& problem, const Device& device) const {
  return work_of_split(problem, device, split);
}

void Radix::describe(const Problem& problem, char* text, size_t text_bytes) const {
  describe_split(problem, split, "digits", text, text_bytes);
}

void Tree::describe(const Problem& problem, char* text, size_t text_bytes) const {
  describe_split(problem, split, one_tree_a_row ? "a tree a row" : "a tree a tile", text, text_bytes);
}

}  // namespace gputopk::cuda::split_bucket
