// Which rows' winners a block puts in order of index by marks, and what memory that takes: index_marks.cuh.
#pragma once

#include <cstdint>

#include "core/key_order.h"  // GPUTOPK_HOST_DEVICE
#include "core/problem.h"

namespace gputopk::cuda {

// Of longer rows, or more winners, they would take more than a fifth of an SM's memory each.
inline constexpr int64_t kMostMarkedCols = 1 << 18;
inline constexpr int64_t kMostMarked = 4096;

inline bool is_marked(const Problem& problem) {
  return problem.by_index && problem.cols <= kMostMarkedCols && problem.k <= kMostMarked;
}

// Words of marks, whole vectors.
GPUTOPK_HOST_DEVICE int64_t mark_words(int64_t cols) { return (cols + 127) / 128 * 4; }

// Of a row's marks, how many come before each word, and its winners.
GPUTOPK_HOST_DEVICE int64_t marks_bytes(int64_t cols, int64_t k, int element_bytes) {
  const int64_t winners = (k + 3) / 4 * 4;
  return mark_words(cols) * int64_t{sizeof(uint32_t) + sizeof(uint16_t)} +
         winners * (element_bytes + int64_t{sizeof(uint32_t)});
}
inline int64_t marks_bytes(const Problem& problem, int64_t cols) {
  return is_marked(problem) ? marks_bytes(cols, problem.k, dtype_bytes(problem.dtype)) : 0;
}
inline int64_t marks_bytes(const Problem& problem) { return marks_bytes(problem, problem.cols); }

// Where marks lie in a block's dynamic shared memory, behind so many bytes, some; 0: winners are not marked.
inline int marks_behind(int64_t bytes, const Problem& problem) {
  return is_marked(problem) ? static_cast<int>(bytes) : 0;
}

}  // namespace gputopk::cuda
