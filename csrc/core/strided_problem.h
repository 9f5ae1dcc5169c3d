// One top-k request over rows whose elements, or whose winners, do not lie side by side: those of a dimension
// other than the last, or of a tensor with strides of its own. The contract is problem.h's.
#pragma once

#include <cstdint>

#include "core/key_order.h"
#include "core/problem.h"

namespace gputopk {

// Where rows lie, in elements. They are numbered outer * inner + the number of the inner one.
struct RowLayout {
  int64_t inner = 1;
  int64_t outer_stride = 0;
  int64_t inner_stride = 0;
  int64_t col_stride = 1;

  // Of the row's first element.
  GPUTOPK_HOST_DEVICE int64_t row(int64_t number) const {
    if (inner == 1) return number * outer_stride;
    // Most rows have small numbers, which a GPU divides in a third of the time.
    const bool small = ((number | inner) >> 32) == 0;
    const int64_t outer =
        small ? static_cast<uint32_t>(number) / static_cast<uint32_t>(inner) : number / inner;
    return outer * outer_stride + (number - outer * inner) * inner_stride;
  }
  // Rows one behind the other, of elements side by side.
  GPUTOPK_HOST_DEVICE bool is_plain() const { return inner == 1 && col_stride == 1; }
};

constexpr bool operator==(const RowLayout& a, const RowLayout& b) {
  return a.inner == b.inner && a.outer_stride == b.outer_stride && a.inner_stride == b.inner_stride &&
         a.col_stride == b.col_stride;
}

struct StridedProblem {
  Problem problem;    // its row_stride is input.outer_stride
  RowLayout input;    // of cols elements a row
  RowLayout outputs;  // of k winners a row: dense [rows / inner, k, inner]

  // A problem of problem.h, whose winners are dense [rows, k].
  bool is_plain() const { return input.is_plain() && outputs.is_plain(); }
};

// A side of the squares in which rows side by side are turned: a vector of 16 bytes, or half of one.
constexpr int square_side(int element_bytes) { return element_bytes == 1 ? 8 : 16 / element_bytes; }

// Whether squares of such rows from the first one on hold whole vectors of each column.
inline bool lies_in_squares(const RowLayout& layout, const void* first, int element_bytes) {
  const int side = square_side(element_bytes);
  const auto whole = [&](int64_t elements) { return elements % side == 0; };
  return layout.inner_stride == 1 && whole(layout.inner) && whole(layout.outer_stride) &&
         whole(layout.col_stride) && reinterpret_cast<uintptr_t>(first) % (side * element_bytes) == 0;
}

// How well rows side by side can be read by vectors, wherever the first of them is aligned: 0, vectors of
// each column hold adjacent rows, 1, those of an outer row do, of whole columns, one behind the other; 2,
// neither.
inline int alignment_of_rows(const RowLayout& layout, int element_bytes) {
  const int64_t vector = 16 / element_bytes;
  const auto whole = [&](int64_t elements) { return elements % vector == 0; };
  if (layout.inner_stride != 1 || !whole(layout.outer_stride)) return 2;
  if (whole(layout.inner) && whole(layout.col_stride)) return 0;
  return layout.col_stride == layout.inner ? 1 : 2;
}

inline StridedProblem plain(const Problem& problem) {
  return {problem, {1, problem.row_stride, 0, 1}, {1, problem.k, 0, 1}};
}

}  // namespace gputopk
