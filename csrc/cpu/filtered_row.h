// The candidates of a filtered row, gathered in their order while the row is read once.
//
//  1. A block of elements at a time, what the filter accepts is put behind the candidates so far.
//  2. Where no more fit, all but the best k are dropped, still in their order. From then on an element must
//  be
//     better than the worst of them, as of equal ones the earlier wins; blocks without such are not filtered.
// So memory is O(k), whatever the row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/varlen_problem.h"
#include "cpu/filter_rows.h"
#include "cpu/level.h"
#include "cpu/topk_cpu.h"

namespace gputopk::cpu {

inline FilterKernel filter_kernel_of(Level level) {
  switch (level) {
#ifdef __x86_64__
    case Level::kAvx512: return avx512::filter_kernel();
    case Level::kAvx2: return avx2::filter_kernel();
#endif
    default: return baseline::filter_kernel();
  }
}

// Candidates that are held before the losers among them are dropped: a second-level cache holds so many.
constexpr int64_t kMinHeld = 8192;

// Places for the candidates of a row of up to so many elements and winners.
constexpr int64_t filtered_room(int64_t length, int64_t k) {
  return std::min(length, std::max(2 * k, kMinHeld)) + kFilterBlock;
}

template <class Bits>
struct FilteredRow {
  const VarlenProblem& varlen;
  const FilterKernel& kernel;
  int64_t row;
  Window window;
  const Bits* from;  // the window's elements
  // Of filtered_room elements, or more.
  Bits* elements;
  int64_t* positions;
  int64_t room;
  // Of k elements.
  Bits* values;
  int64_t* indices;
  void* selection;  // row_workspace_bytes of `room` elements

  // Returns how many there are: all that the filter accepts, or some that hold the k best.
  int64_t gather() const {
    alignas(64) uint8_t accepted[kFilterBlock];
    int64_t count = 0;
    bool dropped = false;
    uint64_t worst = 0;
    if (window.k == 0) return 0;
    for (int64_t begin = 0; begin < window.length; begin += kFilterBlock) {
      const int64_t block = std::min(kFilterBlock, window.length - begin);
      if (count > room - kFilterBlock) {
        worst = drop_losers(count);
        count = window.k;
        dropped = true;
      }
      std::memset(accepted, dropped ? 0 : 1, sizeof(accepted));
      if (dropped && !kernel.find_better(varlen.problem, from + begin, block, worst, accepted)) continue;
      kernel.clear_refused(varlen.filter, row, window.start + begin, block, accepted);
      count = append(begin, block, accepted, count);
    }
    return count;
  }

 private:
  int64_t append(int64_t begin, int64_t block, const uint8_t* accepted, int64_t count) const {
    constexpr int64_t kWord = sizeof(uint64_t);
    for (int64_t first = 0; first < block; first += kWord) {
      uint64_t any;
      std::memcpy(&any, accepted + first, kWord);
      if (any == 0) continue;
      const int64_t end = std::min(first + kWord, block);
      for (int64_t i = first; i < end; ++i) {
        elements[count] = from[begin + i];
        positions[count] = begin + i;
        count += accepted[i];
      }
    }
    return count;
  }

  // Keeps the k best of more than k, and returns the worst's key.
  uint64_t drop_losers(int64_t count) const {
    Problem problem = varlen.problem;
    problem.rows = 1;
    problem.cols = problem.row_stride = count;
    problem.k = window.k;
    problem.sorted = false;
    problem.wide_indices = true;
    topk(problem, Layout{}, {elements, values, indices, selection}, 1, nullptr);
    std::sort(indices, indices + window.k);
    for (int64_t i = 0; i < window.k; ++i) {  // i <= indices[i]
      elements[i] = elements[indices[i]];
      positions[i] = positions[indices[i]];
    }
    return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
      uint64_t worst = ~uint64_t{0};
      if constexpr (std::is_same_v<typename decltype(order)::Bits, Bits>) {
        for (int64_t i = 0; i < window.k; ++i) worst = std::min<uint64_t>(worst, order(elements[i]));
      }
      return worst;
    });
  }
};

}  // namespace gputopk::cpu
