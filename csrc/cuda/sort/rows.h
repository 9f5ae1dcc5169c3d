// Rows of entries that are to be put in order, and the two ways to do it.
#pragma once

#include "core/problem.h"
#include "cuda/sort/memory.h"
#include "cuda/sort/numbers.h"
#include "cuda/sort/sort.h"
#include "cuda/stream.h"

namespace gputopk::cuda::sort {

// Where entries lie: an output, a workspace, rows of the input or shared memory.
struct Entries {
  void* values;
  void* indices;  // of int64 where `wide`, else of int32; null: an entry's index is where it lies in its row
  bool wide;
};

struct Rows {
  int64_t rows;
  int64_t entries;  // of a row
  int64_t kept;     // the best so many of a row are written
  Entries from;     // row r from r * from_stride on
  int64_t from_stride;
  Entries to;  // row r from r * kept on; may be `from`
};

inline constexpr int kDigits = 1 << tuning::kSortDigitBits;
inline constexpr int kLeastBins = 128;  // what a warp scans in one step

// Bins for so many entries: a power of two.
constexpr int bins_for(int64_t entries) {
  int bins = kLeastBins;
  while (bins < entries) bins *= 2;
  return bins;
}

// Dynamic shared memory of a block that sorts: its entries, and counters of bins or of digits.
constexpr int64_t counters_of_block(int capacity, int threads) {
  const int64_t bins = bins_for(capacity) + 4;  // where the last one ends, and its alignment
  const int64_t digits = int64_t{threads / 32 + 1} * kDigits;
  return bins > digits ? bins : digits;
}
constexpr int64_t block_bytes(int entry_bytes, int capacity, int threads) {
  return int64_t{entry_bytes} * capacity + int64_t{sizeof(uint32_t)} * counters_of_block(capacity, threads);
}

// Of a block that deals entries out: a part's splitter, its shift and its bin, and entries with their parts.
constexpr int64_t deal_bytes(int entry_bytes, int parts, int tile) {
  return int64_t{16 + 8} * parts + int64_t{sizeof(uint32_t)} * (bins_for(parts) + 4) +
         int64_t{entry_bytes + 2} * tile;
}

// The most entries that a block sorts.
int most_in_block(const Problem& problem, const Device& device);

// The shape for rows of so many entries.
Shape shape_of(const Problem& problem, int64_t entries, const Device& device);

// A block sorts a row.
ErrorCode sort_whole(const Problem& problem, const Rows& rows, const Shape& shape, Stream stream);

// A row is dealt out to parts, and a block sorts each.
ErrorCode sort_in_parts(const Problem& problem, const Rows& rows, const Shape& shape, const Memory& memory,
                        Stream stream);

inline ErrorCode sort_rows(const Problem& problem, const Rows& rows, const Shape& shape, void* workspace,
                           Stream stream) {
  if (shape.parts == 1) return sort_whole(problem, rows, shape, stream);
  return sort_in_parts(problem, rows, shape, Memory(problem, shape, workspace), stream);
}

}  // namespace gputopk::cuda::sort
