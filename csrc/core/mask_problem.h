// Sets of each row's elements, in plain numbers, as the binding hands them to the CPU and to CUDA: the k
// best, or what is no worse than a given element, which with a row's k-th is the same.
#pragma once

#include <cstdint>

#include "core/key_order.h"
#include "core/problem.h"
#include "core/varlen_problem.h"

namespace gputopk {

// How a set is written: as a mask, or as the row with a number in place of what is not in the set.
struct KeptOutput {
  void* rows = nullptr;
  int64_t row_stride = 0;  // from one row to the next, in bytes of a mask or in elements
  bool keeps = false;      // elements of the input's dtype, maybe in its place; else bytes of 0 or 1
  uint64_t fill = 0;       // that number's bits
};

struct MaskProblem {
  DType dtype = DType::kFloat32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;  // elements of a row are adjacent
  bool largest = true;
  bool magnitude = false;
  bool equals = false;  // of elements that equal the given one, all; else those of no higher index
  Numbers indices;      // of rows: the given element's; outside [0, cols): all are in the set
  // Those elements, as far apart as the indices. None: they are read where they lie.
  const void* values = nullptr;
  Numbers lengths;  // of rows; elements behind are in the set. None: cols
};

struct MaskBuffers {
  const void* input = nullptr;
  KeptOutput output;
};

// Of the k best of each row. The request is a Problem, of which sorted, by_index, last_alone and wide_indices
// say nothing.
struct KeepBuffers {
  const void* input = nullptr;
  KeptOutput output;
  void* workspace = nullptr;
};

// Of what is no worse than the last winner of each row, at place k - 1 of its values and indices, rows x k.
inline MaskProblem mask_of_last(const Problem& problem, const void* values, const void* indices) {
  const int64_t last = problem.k - 1;
  MaskProblem mask;
  mask.dtype = problem.dtype;
  mask.rows = problem.rows;
  mask.cols = problem.cols;
  mask.row_stride = problem.row_stride;
  mask.largest = problem.largest;
  mask.magnitude = problem.magnitude;
  mask.values = static_cast<const char*>(values) + last * dtype_bytes(problem.dtype);
  const int index_bytes = problem.wide_indices ? 8 : 4;
  mask.indices = {static_cast<const char*>(indices) + last * index_bytes, problem.wide_indices, problem.k, 0};
  return mask;
}

// Up to such a part of a row, the k best are listed and marked: less than to read all elements once more.
// Lists, then marked by torch's scatter, took 0.5 to 1.1 times as long up to there, and to 2.6 times beyond
// (H200).
constexpr int64_t kListedColsPerK = 16;
constexpr bool is_listed(const Problem& problem) { return problem.k <= problem.cols / kListedColsPerK; }

// A row's elements that are in the set: better than `key`; of that key at columns up to last_equal; and from
// `end` on.
template <class Order>
struct KeptOfRow {
  using Bits = typename Order::Bits;

  Bits key;
  int64_t last_equal;
  int64_t end;

  // The given element is in the set, so that in place it is not written over meanwhile.
  GPUTOPK_HOST_DEVICE static KeptOfRow of(const MaskProblem& problem, const MaskBuffers& buffers, int64_t row,
                                          const Order& order) {
    const int64_t index = problem.indices.at(row);
    // Under way beside the index.
    Bits given{};
    if (problem.values) given = static_cast<const Bits*>(problem.values)[row * problem.indices.row_stride];
    const int64_t length =
        problem.lengths.data ? clamp_number(problem.lengths.at(row), 0, problem.cols) : problem.cols;
    if (index < 0 || index >= problem.cols) return {Bits{0}, problem.cols, length};
    if (!problem.values) given = static_cast<const Bits*>(buffers.input)[row * problem.row_stride + index];
    return {order(given), problem.equals ? problem.cols : index, length};
  }
};

}  // namespace gputopk
