// What a radix selection does with a block's part of a row, read from cache each time: counts a digit, and
// visits what is left. `part` is the row from element number `first` on, `cols` elements of it, and
// `reversed` the reversed index of the first: device/selection.cuh. By all threads of the block.
#pragma once

#include <cstdint>

#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"

namespace gputopk::cuda {

// `has` of all elements.
struct HasAll {
  __device__ constexpr uint32_t operator()(int64_t, int) const { return ~0u; }
};

// The first digit of every element, which `seen` sees too. Elements are those that has(first, count) has a
// bit for, of `count` of the part from number `first` on.
template <class Order, class Index, class Seen, class Has = HasAll>
__device__ void count_first_digit(const Order& order, const typename Order::Bits* part, int64_t cols,
                                  Index reversed, const Digit& digit, uint32_t* histogram, Seen& seen,
                                  const Has& has = {}) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  visit_row<Reading::kAgain>(
      part, cols, /*part=*/0, /*parts=*/1, AllTiles{},
      [&](const auto& elements, int64_t index, bool valid) -> uint32_t {
        if (!valid) return 0;
        const uint32_t there = has(index, elements.kElements);
#pragma unroll
        for (int i = 0; i < elements.kElements; ++i) {
          if ((there >> i & 1) == 0) continue;
          const Word key = order(elements[i]);
          seen.see(key);
          if constexpr (sizeof(Bits) == 1) {
            atomicAdd(histogram + digit.of(key, reversed - static_cast<Index>(index) - i), 1u);
          } else {  // a first digit is of the key alone
            atomicAdd(histogram + (key >> digit.key_shift), 1u);
          }
        }
        return 0;
      },
      [](Bits, int64_t, bool) {});
}

// Calls visit(x) for each of the selection's candidates, x being its extended key.
template <class Order, class Word, class Index, class Visit, class Has = HasAll>
__device__ void visit_candidates_of(const Order& order, const typename Order::Bits* part, int64_t cols,
                                    Index reversed, const Selection<Word, Index>& selection, Visit&& visit,
                                    const Has& has = {}) {
  using Bits = typename Order::Bits;
  using Extended = ExtendedKey<Word, Index>;
  const Word span = selection.split.key - selection.low.key;
  visit_row<Reading::kAgain>(
      part, cols, /*part=*/0, /*parts=*/1, AllTiles{},
      [&](const auto& elements, int64_t index, bool valid) -> uint32_t {
        if (!valid) return 0;
        const uint32_t there = has(index, elements.kElements);
#pragma unroll
        for (int i = 0; i < elements.kElements; ++i) {
          const Word distance = static_cast<Word>(order(elements[i]) - selection.low.key);
          if (distance > span || (there >> i & 1) == 0) continue;
          const Index own = reversed - static_cast<Index>(index) - i;
          const Extended x{static_cast<Word>(selection.low.key + distance), own};
          if (x < selection.low || selection.split < x) continue;
          visit(x);
        }
        return 0;
      },
      [](Bits, int64_t, bool) {});
}

// The next digit of the selection's candidates, likewise.
template <class Order, class Word, class Index, class Seen, class Has = HasAll>
__device__ void count_next_digit(const Order& order, const typename Order::Bits* part, int64_t cols,
                                 Index reversed, const Selection<Word, Index>& selection, const Digit& digit,
                                 uint32_t* histogram, Seen& seen, const Has& has = {}) {
  visit_candidates_of(
      order, part, cols, reversed, selection,
      [&](const ExtendedKey<Word, Index>& x) {
        seen.see(x.key);
        atomicAdd(histogram + digit.of(static_cast<Word>(x.key - selection.low.key),
                                       x.reversed - selection.low.reversed),
                  1u);
      },
      has);
}

// Calls visit(bits, x) for each element that reaches `low`, x being its extended key.
template <class Order, class Word, class Index, class Visit>
__device__ void visit_at_least(const Order& order, const typename Order::Bits* part, int64_t cols,
                               Index reversed, const ExtendedKey<Word, Index>& low, Visit&& visit) {
  using Bits = typename Order::Bits;
  KeyFilter<Order> filter(order);
  visit_tiles<Reading::kAgain, BlockTeam, /*kEnds=*/true>(
      part, cols, /*part=*/0, /*parts=*/1, AllTiles{},
      [&](const auto& elements, int64_t, bool valid) { return valid ? filter.probe(elements) : 0; },
      [&](Bits bits, int64_t index, bool chosen) {
        const ExtendedKey<Word, Index> x{order(bits), reversed - static_cast<Index>(index)};
        if (chosen && !(x < low)) visit(bits, x);
      },
      [&](int64_t first) { filter.raise(low.key, reversed - static_cast<Index>(first) < low.reversed); });
}

}  // namespace gputopk::cuda
