// Which elements of each row are no worse than a given one of them, in plain numbers: what the binding hands
// to the CPU and to CUDA. With a row's k-th element that is the mask of its k best.
#pragma once

#include <cstdint>

#include "core/key_order.h"
#include "core/problem.h"
#include "core/varlen_problem.h"

namespace gputopk {

struct MaskProblem {
  DType dtype = DType::kFloat32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;  // elements of a row are adjacent
  bool largest = true;
  bool magnitude = false;
  bool equals = false;  // of elements that equal the given one, all; else those of no higher index
  Numbers lengths;      // of rows; elements behind are in the mask. None: cols
};

struct MaskBuffers {
  const void* input = nullptr;
  const int64_t* indices = nullptr;  // rows: the given element's; outside [0, cols): all are in the mask
  uint8_t* mask = nullptr;           // rows x cols, dense, 0 or 1
};

// A row's elements that are in the mask: better than `key`; of that key at columns up to last_equal; and from
// `end` on.
template <class Order>
struct KeptOfRow {
  using Bits = typename Order::Bits;

  Bits key;
  int64_t last_equal;
  int64_t end;

  GPUTOPK_HOST_DEVICE static KeptOfRow of(const MaskProblem& problem, const MaskBuffers& buffers, int64_t row,
                                          const Order& order) {
    const Bits* const elements = static_cast<const Bits*>(buffers.input) + row * problem.row_stride;
    const int64_t index = buffers.indices[row];
    const int64_t length =
        problem.lengths.data ? clamp_number(problem.lengths.at(row), 0, problem.cols) : problem.cols;
    if (index < 0 || index >= problem.cols) return {Bits{0}, problem.cols, length};
    return {order(elements[index]), problem.equals ? problem.cols : index, length};
  }
};

}  // namespace gputopk
