// What reaches a bound in a row, read by blocks that run together. Common to one_grid.cu and grid_parts.cu.
#pragma once

#include <cstdint>

#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"

namespace gputopk::cuda::delegate {

// Reads part `part` of `parts` of a row, stores what reaches the bound, and calls count(x) for it, x being
// its extended key. Is the greatest key of what this thread has stored, or 0. By all threads of a block.
template <class Order, class Index, class Store, class Count,
          class Word = typename KeyWord<typename Order::Bits>::type>
__device__ __forceinline__ Word store_reaching(const Order& order, const typename Order::Bits* row,
                                               int64_t cols, int part, int parts,
                                               const ExtendedKey<Word, Index>& bound, Store& store,
                                               Count&& count) {
  using Bits = typename Order::Bits;
  const Index last_index = static_cast<Index>(cols - 1);
  const int64_t bound_index = static_cast<int64_t>(static_cast<Index>(last_index - bound.reversed));
  Word greatest = 0;
  BoundFilter<Order> filter(order);
  visit_tiles<Reading::kOnceAhead, BlockTeam, /*kEnds=*/true>(
      row, cols, part, parts, AllTiles{},
      [&](const auto& elements, int64_t, bool valid) { return valid ? filter.probe(elements) : 0; },
      [&](Bits bits, int64_t at, bool chosen) {
        const Index index = static_cast<Index>(at);
        const ExtendedKey<Word, Index> x{order(bits), static_cast<Index>(last_index - index)};
        const bool reaches = chosen && !(x < bound);
        if (reaches) {
          count(x);
          greatest = max(greatest, x.key);
        }
        store.push(reaches, bits, index);
      },
      // Behind the bound's own index, elements of its key do not reach it.
      [&](int64_t first) { filter.raise(bound.key, first > bound_index); });
  return greatest;
}

}  // namespace gputopk::cuda::delegate
