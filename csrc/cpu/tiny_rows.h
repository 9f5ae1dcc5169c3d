// Exact top-k of rows of a few elements, many rows at a time: a row is a lane of vectors.
//
//  1. The elements of a group of rows are transposed: element j of every row is one line of 64 bytes.
//  2. An element's rank is the number of better ones in its row, and of equal ones before it: each is
//     compared with each other, for all rows at once, without a branch.
//  3. Row by row, ranks become the list of winners.
//
// Where k = cols and any order will do, there is nothing to select.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cpu/lanes.h"
#include "cpu/outputs.h"
#include "cpu/select_rows.h"

namespace gputopk::cpu::GPUTOPK_CPU_LEVEL {

template <class Bits>
void copy_rows(const Batch& batch, const Output& output) {
  const int64_t stride = output.stride;
  visit_outputs<Bits>(output, 0, [&](Bits* __restrict values, auto* __restrict indices) {
    using Index = std::decay_t<decltype(*indices)>;
    if (batch.col_stride == 1 && stride == 1) {
      for (int64_t i = 0; i < batch.count; ++i) {
        const Bits* const row = static_cast<const Bits*>(batch.rows[i]);
        const int64_t place = batch.places[i];
        for (int64_t j = 0; j < batch.cols; ++j) values[place + j] = row[j];
        for (int64_t j = 0; j < batch.cols; ++j) indices[place + j] = static_cast<Index>(j);
      }
      return;
    }
    for (int64_t j = 0; j < batch.cols; ++j) {  // of columns, side by side
      for (int64_t i = 0; i < batch.count; ++i) {
        const int64_t place = batch.places[i] + j * stride;
        values[place] = static_cast<const Bits*>(batch.rows[i])[j * batch.col_stride];
        indices[place] = static_cast<Index>(j);
      }
    }
  });
}

// A group of rows, transposed.
template <class Bits>
struct TinyRows {
  using Signed = std::make_signed_t<Bits>;  // compared in one instruction

  Bits bits[kMaxTinyCols][kLanes<Bits>];
  Signed keys[kMaxTinyCols][kLanes<Bits>];
  Signed ranks[kMaxTinyCols][kLanes<Bits>];
};

// Step 1 for the rows of the batch from `begin` on.
template <class Order, class Bits>
void read_tiny_rows(const Order& order, const Batch& batch, int64_t begin, int64_t lanes,
                    TinyRows<Bits>& tiny) {
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const Bits* const row = static_cast<const Bits*>(batch.rows[begin + lane]);
    for (int64_t j = 0; j < batch.cols; ++j) tiny.bits[j][lane] = row[j * batch.col_stride];
  }
  for (int64_t j = 0; j < batch.cols; ++j) {
    for (int lane = 0; lane < kLanes<Bits>; ++lane) {
      const Bits key = static_cast<Bits>(order(tiny.bits[j][lane]) ^ kSign);
      tiny.keys[j][lane] = static_cast<typename TinyRows<Bits>::Signed>(key);
    }
  }
}

// Step 2. A comparison is -1 where it holds.
template <class Bits>
void rank_tiny_rows(int64_t cols, int64_t lanes, TinyRows<Bits>& tiny) {
  using Signed = typename TinyRows<Bits>::Signed;
  for (int64_t lane = 0; lane < lanes; lane += kVectorLanes<Signed>) {
    for (int64_t j = 0; j < cols; ++j) {
      const Vector<Signed> mine = load_vector(tiny.keys[j] + lane);
      Vector<Signed> rank = static_cast<Signed>(j) - Vector<Signed>{};
      for (int64_t i = 0; i < j; ++i) rank += mine > load_vector(tiny.keys[i] + lane);
      for (int64_t i = j + 1; i < cols; ++i) rank -= load_vector(tiny.keys[i] + lane) > mine;
      __builtin_memcpy(tiny.ranks[j] + lane, &rank, sizeof(rank));
    }
  }
}

template <class Order>
void select_tiny_rows(const Order& order, const Batch& batch, const Output& output) {
  using Bits = typename Order::Bits;
  TinyRows<Bits> tiny;
  for (int64_t begin = 0; begin < batch.count; begin += kLanes<Bits>) {
    const int64_t lanes = smaller<int64_t>(kLanes<Bits>, batch.count - begin);
    if (lanes < kLanes<Bits>) __builtin_memset(tiny.bits, 0, batch.cols * sizeof(tiny.bits[0]));
    read_tiny_rows(order, batch, begin, lanes, tiny);
    rank_tiny_rows(batch.cols, lanes, tiny);
    for (int64_t lane = 0; lane < lanes; ++lane) {  // step 3
      uint8_t ranked[kMaxTinyCols];
      for (int64_t j = 0; j < batch.cols; ++j) ranked[tiny.ranks[j][lane]] = static_cast<uint8_t>(j);
      visit_outputs<Bits>(output, batch.places[begin + lane], [&](Bits* values, auto* indices) {
        for (int64_t winner = 0; winner < batch.k; ++winner) {
          values[winner * output.stride] = tiny.bits[ranked[winner]][lane];
          indices[winner * output.stride] = ranked[winner];
        }
      });
    }
  }
}

}  // namespace gputopk::cpu::GPUTOPK_CPU_LEVEL
