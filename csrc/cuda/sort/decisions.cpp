// How rows are sorted: by a block each or in parts, and with what numbers.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cuda/device/split.h"
#include "cuda/sort/numbers.h"
#include "cuda/sort/rows.h"
#include "cuda/sort/sort.h"

namespace gputopk::cuda::sort {
namespace {

int64_t power_of_two_from(int64_t x) {
  int64_t power = 1;
  while (power < x) power *= 2;
  return power;
}

int threads_for(int64_t entries, int64_t items) {
  return static_cast<int>(std::clamp<int64_t>(power_of_two_from(divide_up(entries, items)),
                                              tuning::kSortMinThreads, tuning::kSortMaxThreads));
}

double bytes_of_input(const Problem& problem) {
  return static_cast<double>(problem.rows) * static_cast<double>(problem.cols) * dtype_bytes(problem.dtype);
}

// In the outputs.
double bytes_of_entries(const Problem& problem, int64_t entries) {
  const int entry_bytes = dtype_bytes(problem.dtype) + (problem.wide_indices ? 8 : 4);
  return static_cast<double>(problem.rows) * static_cast<double>(entries) * entry_bytes;
}

size_t sort_bytes(const Problem& problem, const Shape& shape) {
  return shape.parts == 1 ? 0 : Memory(problem, shape, nullptr).bytes;
}

}  // namespace

namespace {

// Of sorting by a block, and in parts: as the recorded sweeps number them. (1 was a cluster.)
int way_of(const Shape& shape) { return shape.parts == 1 ? 0 : 2; }

constexpr int kStatic = 2048;  // the variables of kernels that deal entries out

int items_of(const Problem& problem) {
  const bool wide = dtype_bytes(problem.dtype) == 8 || index_bytes(problem) == 8;
  return wide ? tuning::kSortWideItems : tuning::kSortItems;
}

int entry_bytes_of(const Problem& problem) { return dtype_bytes(problem.dtype) + index_bytes(problem); }

}  // namespace

int most_in_block(const Problem& problem, const Device& device) {
  int most = tuning::kSortMaxThreads * items_of(problem);
  const int entry_bytes = entry_bytes_of(problem);
  while (block_bytes(entry_bytes, most, tuning::kSortMaxThreads) + tuning::kSortStaticBytes >
         device.shared_bytes_per_block) {
    most /= 2;
  }
  return most;
}

Shape shape_of(const Problem& problem, int64_t entries, const Device& device) {
  const int entry_bytes = entry_bytes_of(problem), items = items_of(problem);
  // For each of the blocks that an SM is to have.
  const auto has_room = [&](int64_t bytes) {
    return tuning::kSortDealBlocksPerSm * (bytes + kStatic) <= device.shared_bytes_per_block;
  };
  const int most = most_in_block(problem, device);

  Shape shape{};
  shape.entries = entries;
  shape.parts = 1;
  if (entries <= most) {
    const bool few_rows = problem.rows <= device.sm_count;
    shape.threads = threads_for(entries, few_rows ? tuning::kSortItemsFewRows : tuning::kSortItemsManyRows);
    shape.capacity = static_cast<int>(divide_up(std::max<int64_t>(entries, 1), 64) * 64);
    return shape;
  }
  // The smallest blocks that leave a row few parts.
  const auto parts_of = [&](int threads) {
    const int64_t room = std::min<int64_t>(int64_t{threads} * items, most);
    return divide_up(static_cast<int64_t>(tuning::kSortPartSlack * static_cast<double>(entries)), room);
  };
  shape.threads = tuning::kSortPartThreads;
  while (shape.threads < tuning::kSortMaxThreads && parts_of(shape.threads) > tuning::kSortFewParts) {
    shape.threads *= 2;
  }
  // As many for each SM, where those are few.
  const int64_t per_sm = divide_up(parts_of(shape.threads) * problem.rows, device.sm_count);
  const int64_t parts = per_sm <= tuning::kSortFewPartsPerSm
                            ? std::max(per_sm * device.sm_count / problem.rows, parts_of(shape.threads))
                            : parts_of(shape.threads);
  shape.parts = static_cast<int>(std::clamp<int64_t>(parts, 2, tuning::kSortMaxParts));
  shape.capacity = std::min(shape.threads * items, most);

  // Chunks of the sample, a block each.
  const int64_t sample = power_of_two_from(int64_t{shape.parts} * tuning::kSortSamplesPerPart);
  shape.sample_blocks = 1;
  while (shape.sample_blocks < tuning::kSortSampleBlocks &&
         sample / shape.sample_blocks > tuning::kSortSampleChunk &&
         problem.rows * 2 * shape.sample_blocks <= device.sm_count) {
    shape.sample_blocks *= 2;
  }
  shape.sample_chunk = static_cast<int>(sample / shape.sample_blocks);
  while (shape.sample_chunk > most || int64_t{shape.sample_chunk} * shape.sample_blocks > entries) {
    shape.sample_chunk /= 2;
  }
  // Lanes share a comparison where an SM has no other block.
  const bool few_blocks = problem.rows * shape.sample_blocks <= device.sm_count;
  shape.sample_threads =
      few_blocks ? tuning::kSortMaxThreads
                 : std::clamp(shape.sample_chunk, tuning::kSortMinThreads, tuning::kSortMaxThreads);

  const int64_t blocks = int64_t{tuning::kSortDealBlocksPerSm} * device.sm_count;
  constexpr int kStep = tuning::kSortDealThreads;
  int most_tile = kStep * items;
  while (!has_room(deal_bytes(entry_bytes, index_bytes(problem), shape.parts, most_tile))) most_tile /= 2;
  // Of a row, as many blocks as take the least time where all rows' come in rounds.
  const int64_t most_blocks = std::max<int64_t>(1, entries / tuning::kSortDealMinTile);
  const auto time = [&](int64_t per_row) {
    return divide_up(problem.rows * per_row, blocks) *
           (divide_up(entries, per_row) + tuning::kSortDealBeginning);
  };
  int64_t best = std::min(divide_up(blocks, problem.rows), most_blocks);
  for (int64_t per_row = 1; per_row <= std::min(most_blocks, tuning::kSortDealMostBlocks); ++per_row) {
    if (time(per_row) < time(best)) best = per_row;
  }
  const int64_t share = divide_up(divide_up(entries, best), kStep) * kStep;
  shape.tile = static_cast<int>(std::clamp<int64_t>(share, tuning::kSortDealMinTile, most_tile));
  shape.blocks_per_row = static_cast<int>(std::min(best, divide_up(entries, shape.tile)));
  return shape;
}

namespace {

// Fewer entries are ranked sooner, each compared with all.
Marks marks_of(const Problem& problem, const Device& device) {
  if (!problem.by_index || problem.k <= tuning::kSortRankedFew) return {};
  const bool few_rows = problem.rows <= device.sm_count;
  const int threads =
      threads_for(problem.k, few_rows ? tuning::kSortItemsFewRows : tuning::kSortItemsManyRows);
  const int64_t words = divide_up(divide_up(problem.cols, 32), threads) * threads;
  const bool pays =
      problem.k <= int64_t{threads} * tuning::kMarkedItems &&
      words <= tuning::kMarkedWordsPerEntry * problem.k &&
      bytes_of_marks(problem, words) + tuning::kSortStaticBytes <= device.shared_bytes_per_block;
  return pays ? Marks{static_cast<int>(words), threads} : Marks{};
}

}  // namespace

const char* unsupported_reason(const Problem& problem, const Device& device) {
  return WholeRows::serves(problem, device)
             ? nullptr
             : "rows are longer than 8192, and k is less than an eighth of cols";
}

OrderRows OrderRows::plan(const Problem& problem, const Device& device) {
  return {shape_of(problem, problem.k, device), marks_of(problem, device)};
}

Work OrderRows::work(const Problem& problem, const Device& device) const {
  Problem winners = problem;
  winners.cols = problem.k;
  Work work = work_of(winners, device, problem.rows, /*threads=*/256, /*per_sm=*/4, /*reads=*/1);
  work.way = way_of(shape);
  return work;
}

size_t OrderRows::workspace_bytes(const Problem& problem) const {
  return marks.words > 0 ? 0 : sort_bytes(problem, shape);
}

void OrderRows::describe(char* text, size_t text_bytes) const {
  if (marks.words > 0) {
    std::snprintf(text, text_bytes, "then order_rows by marks of %d words, %d threads a row", marks.words,
                  marks.threads);
  } else if (shape.parts == 1) {
    std::snprintf(text, text_bytes, "then order_rows, %d threads a row", shape.threads);
  } else {
    std::snprintf(text, text_bytes, "then order_rows in %d parts, %d blocks a row", shape.parts,
                  shape.blocks_per_row);
  }
}

LastInPlace LastInPlace::plan(const Problem& problem, const Device& device) {
  const int64_t k = problem.k;
  int64_t blocks = 1;
  if (k > tuning::kLastMostInBlock) {
    const int64_t room = divide_up(int64_t{tuning::kLastBlocksPerSm} * device.sm_count, problem.rows);
    blocks = std::min(divide_up(k, tuning::kLastShare), room);
    blocks = divide_up(k, divide_up(k, blocks));  // so that no share is empty
  }
  const int64_t threads = power_of_two_from(divide_up(divide_up(k, blocks), tuning::kLastItems));
  return {static_cast<int>(std::clamp<int64_t>(threads, 32, tuning::kLastMaxThreads)),
          static_cast<int>(blocks)};
}

Work LastInPlace::work(const Problem& problem, const Device& device) const {
  Problem winners = problem;
  winners.cols = problem.k;
  // As OrderRows and Copy have it, by whose costs it is judged.
  Work work =
      work_of(winners, device, problem.rows * blocks_per_row, /*threads=*/256, /*per_sm=*/4, /*reads=*/1);
  if (blocks_per_row > 1) work.bytes = bytes_of_entries(problem, problem.k);
  work.winners = work.entries = 0;  // none is put in order
  return work;
}

size_t LastInPlace::workspace_bytes(const Problem& problem) const {
  return blocks_per_row == 1 ? 0 : sizeof(int64_t) * problem.rows * blocks_per_row;
}

void LastInPlace::describe(char* text, size_t text_bytes) const {
  if (blocks_per_row == 1) {
    std::snprintf(text, text_bytes, "then the last in its place, %d threads a row", threads);
  } else {
    std::snprintf(text, text_bytes, "then the last in its place, %d blocks a row of %d threads",
                  blocks_per_row, threads);
  }
}

Copy Copy::plan(const Problem& problem, const Device& device) {
  const int64_t blocks = divide_up(problem.rows * problem.cols, tuning::kCopyThreads);
  return {static_cast<int>(std::min<int64_t>(blocks, int64_t{tuning::kCopyBlocksPerSm} * device.sm_count))};
}

Work Copy::work(const Problem& problem, const Device& device) const {
  Work work = work_of(problem, device, blocks, tuning::kCopyThreads, tuning::kCopyBlocksPerSm, /*reads=*/1);
  work.bytes = bytes_of_entries(problem, problem.cols) + bytes_of_input(problem);
  work.winners = work.entries = 0;  // its outputs are bytes like any
  return work;
}

void Copy::describe(const Problem&, char* text, size_t text_bytes) const {
  std::snprintf(text, text_bytes, "sort: a copy, %d blocks", blocks);
}

bool WholeRows::serves(const Problem& problem, const Device&) {
  return problem.cols <= tuning::kSortShortCols || problem.k >= problem.cols / tuning::kSortMostColsPerK;
}

WholeRows WholeRows::plan(const Problem& problem, const Device& device) {
  return {shape_of(problem, problem.cols, device)};
}

Work WholeRows::work(const Problem& problem, const Device& device) const {
  const int per_sm = std::max(1, tuning::kSortMaxThreads / shape.threads);
  Work work = work_of(problem, device, problem.rows * shape.parts, shape.threads, per_sm, /*reads=*/1);
  work.way = way_of(shape);
  work.bytes = bytes_of_entries(problem, problem.k) + bytes_of_input(problem);
  if (shape.parts > 1) {  // read twice more, and written and read as entries
    const double entry_bytes = dtype_bytes(problem.dtype) + index_bytes(problem);
    const double entries = static_cast<double>(problem.rows) * static_cast<double>(problem.cols);
    work.bytes += bytes_of_input(problem) + 2 * entries * entry_bytes;
  }
  return work;
}

void WholeRows::describe(const Problem&, char* text, size_t text_bytes) const {
  if (shape.parts == 1) {
    std::snprintf(text, text_bytes, "sort: one block a row, %d threads", shape.threads);
  } else {
    std::snprintf(text, text_bytes, "sort: %d parts a row, %d blocks a row", shape.parts,
                  shape.blocks_per_row);
  }
}

size_t WholeRows::workspace_bytes(const Problem& problem) const { return sort_bytes(problem, shape); }

}  // namespace gputopk::cuda::sort
