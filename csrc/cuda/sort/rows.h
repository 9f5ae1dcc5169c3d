// Rows of entries that are to be put in order, and the two ways to do it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/key_order.h"
#include "core/problem.h"
#include "cuda/device/block_sort.h"
#include "cuda/sort/memory.h"
#include "cuda/sort/numbers.h"
#include "cuda/sort/sort.h"
#include "cuda/stream.h"

namespace gputopk::cuda::sort {

struct Rows {
  int64_t rows;
  int64_t entries;  // of a row
  int64_t kept;     // the best so many of a row are written
  Entries from;     // row r from r * from_stride on
  int64_t from_stride;
  Entries to;     // row r from r * kept on; may be `from`
  bool by_index;  // the order that they are put in, or by value
};

// Of a block that sorts `chunk` entries of a sample.
constexpr int64_t sample_bytes(int entry_bytes, int chunk) {
  return block_bytes(entry_bytes, (chunk + 63) / 64 * 64, tuning::kSortMaxThreads);
}

// Of a block that deals entries out: a part's bin and shift, and entries with their parts.
constexpr int64_t deal_bytes(int entry_bytes, int index_bytes, int parts, int tile) {
  return int64_t{index_bytes} * parts + int64_t{sizeof(uint32_t)} * (bins_for(parts) + 4) +
         int64_t{entry_bytes + 2} * tile;
}

// The most entries that a block sorts.
int most_in_block(const Problem& problem, const Device& device);

// The shape for rows of so many entries.
Shape shape_of(const Problem& problem, int64_t entries, const Device& device);

// Calls visitor(order) with that in which rows are sorted.
template <class Visitor>
ErrorCode visit_row_order(const Problem& problem, const Rows& rows, Visitor&& visitor) {
  if (rows.by_index) return visit_equals(problem.dtype, visitor);
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, visitor);
}

// Calls launch(first, blocks) for rows that have a block each, as many at a time as a grid has, until one
// fails.
template <class Launch>
ErrorCode launch_block_a_row(int64_t rows, Launch&& launch) {
  constexpr int64_t kMostBlocks = INT32_MAX;
  ErrorCode error = 0;
  for (int64_t first = 0; first < rows && error == 0; first += kMostBlocks) {
    error = launch(first, static_cast<unsigned>(std::min(rows - first, kMostBlocks)));
  }
  return error;
}

// Dynamic shared memory of a block that marks columns: the marks, how many are before each word, and the
// entries in their places.
inline int64_t bytes_of_marks(const Problem& problem, int64_t words) {
  return words * int64_t{sizeof(uint32_t) + sizeof(uint16_t)} +
         (problem.k + 7) / 8 * 8 * (dtype_bytes(problem.dtype) + int64_t{sizeof(uint32_t)});
}

// A block puts the entries `rows.to`, of unique indices below problem.cols, in order of index where they are.
ErrorCode order_by_marks(const Problem& problem, const Rows& rows, const Marks& marks, Stream stream);

// A block sorts a row.
ErrorCode sort_whole(const Problem& problem, const Rows& rows, const Shape& shape, Stream stream);

// A row is dealt out to parts, and a block sorts each.
ErrorCode sort_in_parts(const Problem& problem, const Rows& rows, const Shape& shape, const Memory& memory,
                        Stream stream);

}  // namespace gputopk::cuda::sort
