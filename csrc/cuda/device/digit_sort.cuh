// A block sorts entries by digits, from the lowest up: as fast whatever they are.
#pragma once

#include <cstdint>

#include "cuda/device/block_sort.h"
#include "cuda/device/entries.cuh"
#include "cuda/device/numbers.h"
#include "cuda/device/selection.cuh"

namespace gputopk::cuda {

// One digit of a sort from the lowest digit up: brings `count` entries to where their digit has them, in the
// order that they are in. `to` may be `from` where a block holds all of them. digit(bits, index) is below
// kDigits. By all threads of a block.
template <int kItems, class Bits, class Index, class GetDigit>
__device__ void sort_by_digit(int64_t count, const Entries& from, const Entries& to, uint32_t* counters,
                              GetDigit&& digit) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32, warp = thread / 32, warps = threads / 32;
  const unsigned lanes_below = (1u << lane) - 1;
  uint32_t* const next = counters;  // where the next entry of a digit goes
  uint32_t* const of_warp = counters + (1 + warp) * kDigits;

  for (int d = thread; d < kDigits; d += threads) next[d] = 0;
  __syncthreads();
  for (int64_t i = thread; i < count; i += threads) {
    Bits bits;
    Index index;
    read_entry(from, i, bits, index);
    atomicAdd(next + digit(bits, index), 1u);
  }
  __syncthreads();
  if (warp == 0) {
    uint32_t start = 0;
    for (int d = lane; d < kDigits; d += 32) {
      const uint32_t own = next[d];
      uint32_t inclusive = own;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const uint32_t other = __shfl_up_sync(~0u, inclusive, distance);
        if (lane >= distance) inclusive += other;
      }
      next[d] = start + inclusive - own;
      start += __shfl_sync(~0u, inclusive, 31);
    }
  }

  // A tile is what the block holds in registers: a warp has 32 * kItems adjacent entries of it.
  for (int64_t tile = 0; tile < count; tile += int64_t{threads} * kItems) {
    const int64_t first = tile + warp * 32 * kItems + lane;
    Bits bits[kItems];
    Index indices[kItems];
    uint32_t places[kItems];  // the digit, and how many before it in the warp have the same
    for (int d = lane; d < kDigits; d += 32) of_warp[d] = 0;
    __syncwarp();
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      const bool present = first + e * 32 < count;
      uint32_t own = kDigits;
      if (present) {
        read_entry(from, first + e * 32, bits[e], indices[e]);
        own = digit(bits[e], indices[e]);
      }
      const unsigned same = __match_any_sync(~0u, own);
      const uint32_t before = present ? of_warp[own] : 0;
      __syncwarp();
      if (present && (same & lanes_below) == 0) of_warp[own] = before + __popc(same);
      __syncwarp();
      places[e] = own << 16 | (before + __popc(same & lanes_below));
    }
    __syncthreads();
    for (int d = thread; d < kDigits; d += threads) {
      uint32_t start = next[d];
      for (int w = 1; w <= warps; ++w) {
        const uint32_t own = counters[w * kDigits + d];
        counters[w * kDigits + d] = start;
        start += own;
      }
      next[d] = start;
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      if (first + e * 32 < count) {
        write_entry(to, of_warp[places[e] >> 16] + (places[e] & 0xFFFF), bits[e], indices[e]);
      }
    }
    __syncthreads();
  }
}

// Sorts the entries in `from` by all digits that the range leaves, going back and forth between `from` and
// `to`, which may be one where a block holds all entries. Is where the order ends. By all threads of a block.
template <int kItems, class Order, class Index>
__device__ __noinline__ Entries
sort_by_digits(int64_t count, Order order, Entries from, Entries to,
               EntryRange<typename KeyWord<typename Order::Bits>::type, Index> range, uint32_t* counters) {
  using Bits = typename Order::Bits;
  constexpr int kBits = tuning::kSortDigitBits;
  const int index_digits = (range.index_bits + kBits - 1) / kBits;
  const int digits = index_digits + (range.key_bits + kBits - 1) / kBits;
  for (int d = 0; d < digits; ++d) {
    const bool of_index = d < index_digits;
    const int shift = of_index ? d * kBits : (d - index_digits) * kBits + range.trim;
    sort_by_digit<kItems, Bits, Index>(count, from, to, counters, [&](Bits bits, Index index) {
      return of_index ? static_cast<uint32_t>(range.index_distance(index) >> shift) & (kDigits - 1)
                      : static_cast<uint32_t>(range.key_distance(order(bits)) >> shift) & (kDigits - 1);
    });
    const Entries sorted = to;
    to = from;
    from = sorted;
  }
  return from;
}

}  // namespace gputopk::cuda
