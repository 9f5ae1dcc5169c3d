// Ragged rows as kernels take them.
#pragma once

#include <cstdint>

#include "core/varlen_problem.h"

namespace gputopk::cuda {

// Which elements of a row's window are candidates: a bit for each, from the window's start.
struct RowCandidates {
  const uint32_t* bits = nullptr;  // null: all are

  GPUTOPK_HOST_DEVICE bool has(int64_t position) const {
    return bits == nullptr || (bits[position >> 5] >> (position & 31) & 1) != 0;
  }
  // Bits of the `count` positions from `first` on: count <= 16. The last word that is needed for positions in
  // the window is the last that is read, if first is a multiple of count or all of them are.
  GPUTOPK_HOST_DEVICE uint32_t of(int64_t first, int count) const {
    const uint32_t all = (1u << count) - 1;
    if (bits == nullptr) return all;
    const int shift = static_cast<int>(first & 31);
    uint32_t found = bits[first >> 5] >> shift;
    if (shift + count > 32) found |= bits[(first >> 5) + 1] << (32 - shift);
    return found & all;
  }
};

// Those of all rows, and how many there are.
struct Candidates {
  uint32_t* bits = nullptr;   // rows x words; null: of each window all elements
  int64_t words = 0;          // a row
  int64_t* counts = nullptr;  // rows

  static int64_t words_of(int64_t cols) { return (cols + 31) / 32; }
  GPUTOPK_HOST_DEVICE RowCandidates of(int64_t row) const {
    return {bits == nullptr ? nullptr : bits + row * words};
  }
};

// What a caller gets of windows' winners.
struct WindowOutputs {
  void* values = nullptr;   // value_stride apart; null: not wanted
  void* indices = nullptr;  // index_stride apart
  int32_t* counts = nullptr;
  int64_t value_stride = 0;
  int64_t index_stride = 0;
  bool wide_indices = false;
  IndexMap map;
  uint64_t pad = 0;  // the value behind the winners, here or where a step goes on with them

#ifdef __CUDACC__
  template <class Bits>
  __device__ void write(int64_t row, int64_t place, Bits value, int64_t index) const {
    if (values != nullptr) static_cast<Bits*>(values)[row * value_stride + place] = value;
    const int64_t at = row * index_stride + place;
    if (wide_indices) {
      static_cast<int64_t*>(indices)[at] = index;
    } else {
      static_cast<int32_t*>(indices)[at] = static_cast<int32_t>(index);
    }
  }
#endif
};

// Rows whose windows lie in device memory: parts of the input's rows, or the candidates of those parts where
// they were moved together, to the beginning of rows of their own.
struct WindowRows {
  Windows windows;
  Candidates candidates;
  int64_t row_stride = 0;
  bool moved = false;
  bool kth_alone = false;  // as VarlenProblem has it
  bool any_order = false;  // winners are by position where all candidates win; else by value
  WindowOutputs outputs;   // no indices: another step goes on with the winners

  // Where the row's elements begin, how many there are, and how many win.
  GPUTOPK_HOST_DEVICE Window of(int64_t row) const {
    Window window = windows.of(row);
    if (kth_alone) window.k = windows.kth_of(row);
    const int64_t count = count_of(row, window);
    if (moved) {
      window.start = 0;
      window.length = count;
    }
    if (window.k > count) window.k = count;
    return window;
  }
  GPUTOPK_HOST_DEVICE int64_t count_of(int64_t row, const Window& window) const {
    return candidates.counts == nullptr ? window.length : candidates.counts[row];
  }
};

}  // namespace gputopk::cuda
