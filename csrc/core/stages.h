// Selection by several keys, in plain numbers: what the binding hands to the CPU and to CUDA.
//
// Stage by stage a row's winners by one key are found among the elements that equal, in the keys before it,
// the last winner that those found. Of a stage's winners those better than the last that is needed are sure.
// Where the element behind that one equals it, there is a choice, and the next key makes it, among all that
// equal it; else the last one is sure too, and later stages find nothing in the row. In the end the sure ones
// of all stages are joined: by the first key, those that are equal by the next, and those that are equal in
// all by index.
#pragma once

#include <cstdint>

#include "core/key_order.h"
#include "core/problem.h"
#include "core/varlen_problem.h"

namespace gputopk {

constexpr int kMostKeys = 4;

// What one stage has selected of each row.
struct Stage {
  DType dtype = DType::kFloat32;
  bool largest = true;
  bool magnitude = false;
  int64_t rows = 0;
  int64_t places = 0;  // of a row; one more than are needed, so that a choice shows
  int64_t k = 0;       // winners that are needed where the buffers do not say, k < places
  int32_t spare = 0;   // places that the next stage's selection is to have beside those needed: 1, or 0
};

struct StageBuffers {
  const void* values = nullptr;     // rows x places: the winners, best first, then padding
  const int32_t* counts = nullptr;  // of a row's winners
  const int32_t* needed = nullptr;  // of them; null: k
  int32_t* sure = nullptr;          // winners that stay, the first of them
  int32_t* left = nullptr;          // winners that the next stages are to find
  int32_t* row_k = nullptr;         // the next selection's
  void* last = nullptr;             // what the next stage's candidates must equal
};

// 0 <= sure, left and sure + left = min(counts, needed).
template <class Order>
GPUTOPK_HOST_DEVICE void settle_row(const Stage& stage, const StageBuffers& buffers, int64_t row,
                                    const Order& order) {
  using Bits = typename Order::Bits;
  const Bits* const values = static_cast<const Bits*>(buffers.values) + row * stage.places;
  const int32_t needed = buffers.needed ? buffers.needed[row] : static_cast<int32_t>(stage.k);
  const int32_t count = buffers.counts[row];
  const Bits last = values[needed > 0 ? needed - 1 : 0];
  int32_t sure = count < needed ? count : needed;
  int32_t left = 0;
  if (needed > 0 && count > needed && order(values[needed]) == order(last)) {
    // The first that equals the last is in [low, sure).
    int32_t low = 0, high = needed - 1;
    while (low < high) {
      const int32_t middle = low + (high - low) / 2;
      if (order(values[middle]) == order(last)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    sure = low;
    left = needed - low;
  }
  buffers.sure[row] = sure;
  buffers.left[row] = left;
  buffers.row_k[row] = left > 0 ? left + stage.spare : 0;
  static_cast<Bits*>(buffers.last)[row] = last;
}

// A key: an element for each row and column.
struct KeyColumn {
  const void* data = nullptr;
  int64_t row_stride = 0;
  int64_t col_stride = 0;
  DType dtype = DType::kFloat32;
  bool largest = true;
  bool magnitude = false;

  // The greater, the better, among elements of this key.
  GPUTOPK_HOST_DEVICE uint64_t key(int64_t row, int64_t col) const {
    return visit_key_order(dtype, largest, magnitude, [&](auto order) -> uint64_t {
      using Bits = typename decltype(order)::Bits;
      return order(static_cast<const Bits*>(data)[row * row_stride + col * col_stride]);
    });
  }

  // Writes an element, or padding where col < 0, to a place of an output of this dtype.
  GPUTOPK_HOST_DEVICE void copy(int64_t row, int64_t col, void* output, int64_t place) const {
    visit_key_order(dtype, largest, magnitude, [&](auto order) {
      using Bits = typename decltype(order)::Bits;
      static_cast<Bits*>(output)[place] =
          col < 0 ? static_cast<Bits>(pad_bits(dtype, largest, magnitude))
                  : static_cast<const Bits*>(data)[row * row_stride + col * col_stride];
    });
  }
};

struct JoinProblem {
  int64_t rows = 0;
  int64_t k = 0;     // places of a row in the outputs
  int64_t most = 0;  // winners of a row, at most: all stages', most <= k
  int keys = 0;      // and stages
  KeyColumn columns[kMostKeys];
  int64_t places[kMostKeys] = {};  // of a row, of each stage's indices
  WinnerOrder order = WinnerOrder::kByValue;
  bool wide_indices = false;  // int64, else int32: the stages', and the outputs'
  int64_t pad_index = -1;
};

struct JoinBuffers {
  const void* found[kMostKeys] = {};      // rows x places: the indices of a stage's winners, best first
  const int32_t* counts[kMostKeys] = {};  // of those that are sure
  void* values[kMostKeys] = {};           // rows x k of each key's dtype
  void* indices = nullptr;                // rows x k
  int32_t* totals = nullptr;              // of a row's winners
  void* workspace = nullptr;
};

// The winners of a row, stage after stage.
struct JoinedRow {
  const JoinProblem& problem;
  const JoinBuffers& buffers;
  int64_t row;
  int32_t total;

  GPUTOPK_HOST_DEVICE JoinedRow(const JoinProblem& problem_of_all, const JoinBuffers& buffers_of_all,
                                int64_t its_row)
      : problem(problem_of_all), buffers(buffers_of_all), row(its_row), total(0) {
    for (int stage = 0; stage < problem.keys; ++stage) total += buffers.counts[stage][row];
  }

  GPUTOPK_HOST_DEVICE int64_t index(int64_t winner) const {
    int stage = 0;
    while (winner >= buffers.counts[stage][row]) winner -= buffers.counts[stage++][row];
    const int64_t place = row * problem.places[stage] + winner;
    return problem.wide_indices ? static_cast<const int64_t*>(buffers.found[stage])[place]
                                : static_cast<const int32_t*>(buffers.found[stage])[place];
  }

  // Place number i of the row's outputs: the winner of that index, or padding where it is negative.
  GPUTOPK_HOST_DEVICE void write(int64_t i, int64_t index) const {
    const int64_t place = row * problem.k + i;
    for (int key = 0; key < problem.keys; ++key) {
      problem.columns[key].copy(row, index, buffers.values[key], place);
    }
    const int64_t written = index < 0 ? problem.pad_index : index;
    if (problem.wide_indices) {
      static_cast<int64_t*>(buffers.indices)[place] = written;
    } else {
      static_cast<int32_t*>(buffers.indices)[place] = static_cast<int32_t>(written);
    }
  }
};

}  // namespace gputopk
