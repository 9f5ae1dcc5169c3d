// Bitonic networks over the 32 * kItems values of a warp: value number lane * kItems + i is item i of its
// lane.
//
// Everything is inlined: values stay in registers only where no call takes their address.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gputopk::cuda {

template <class T>
__device__ __forceinline__ T shuffle(T value, int lane) {
  if constexpr (sizeof(T) == 16) {
    const uint64_t high = __shfl_sync(~0u, static_cast<uint64_t>(value >> 64), lane);
    const uint64_t low = __shfl_sync(~0u, static_cast<uint64_t>(value), lane);
    return static_cast<T>(high) << 64 | low;
  } else {
    return __shfl_sync(~0u, value, lane);
  }
}

template <class T>
__device__ __forceinline__ T shuffle_xor(T value, int mask) {
  if constexpr (sizeof(T) == 16) {
    const uint64_t high = __shfl_xor_sync(~0u, static_cast<uint64_t>(value >> 64), mask);
    const uint64_t low = __shfl_xor_sync(~0u, static_cast<uint64_t>(value), mask);
    return static_cast<T>(high) << 64 | low;
  } else {
    return __shfl_xor_sync(~0u, value, mask);
  }
}

// The greater of two values, or the lesser: one instruction, where a comparison and a choice are two.
template <class T>
__device__ __forceinline__ T greater_or_lesser(bool greater, T x, T y) {
  if constexpr (sizeof(T) == 4) {
    return greater ? max(x, y) : min(x, y);
  } else {
    return (x > y) == greater ? x : y;
  }
}

// One stage of a bitonic merge of runs of kSize values, which come out descending and ascending in turn:
// values kStride apart change places where they are out of order.
template <int kSize, int kStride, bool kDescending, class T, int kItems>
__device__ __forceinline__ void exchange(T (&items)[kItems]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool run_descends = kDescending == ((lane & kSize / kItems) == 0);
  if constexpr (kStride >= kItems) {
    const bool takes_greater = ((lane & kStride / kItems) == 0) == run_descends;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const T other = shuffle_xor(items[i], kStride / kItems);
      items[i] = greater_or_lesser(takes_greater, items[i], other);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (i & kStride) continue;
      const bool descends = kSize < kItems ? kDescending == ((i & kSize) == 0) : run_descends;
      const T low = items[i], high = items[i + kStride];
      items[i] = greater_or_lesser(descends, low, high);
      items[i + kStride] = greater_or_lesser(!descends, low, high);
    }
  }
}

template <int kSize, int kStride, bool kDescending, class T, int kItems>
__device__ __forceinline__ void merge_runs(T (&items)[kItems]) {
  exchange<kSize, kStride, kDescending>(items);
  if constexpr (kStride > 1) merge_runs<kSize, kStride / 2, kDescending>(items);
}

template <int kSize, bool kDescending, class T, int kItems>
__device__ __forceinline__ void sort_runs(T (&items)[kItems]) {
  if constexpr (kSize > 2) sort_runs<kSize / 2, kDescending>(items);
  merge_runs<kSize, kSize / 2, kDescending>(items);
}

// Bitonic sort of the warp's values.
template <bool kDescending, class T, int kItems>
__device__ __forceinline__ void sort_warp(T (&items)[kItems]) {
  sort_runs<32 * kItems, kDescending>(items);
}

// Item number i of a lane's. By masks: of a chain of conditions the compiler makes an array in memory.
template <class T, int kItems>
__device__ __forceinline__ T item_at(const T (&items)[kItems], int i) {
  if constexpr (std::is_same_v<T, float>) {
    uint32_t bits[kItems];
#pragma unroll
    for (int own = 0; own < kItems; ++own) bits[own] = __float_as_uint(items[own]);
    return __uint_as_float(item_at(bits, i));
  } else {
    T item = 0;
#pragma unroll
    for (int own = 0; own < kItems; ++own) item |= items[own] & (T{0} - static_cast<T>(i == own));
    return item;
  }
}

// Value number `rank` of the warp's, in all lanes; the same rank in all of them.
template <class T, int kItems>
__device__ __forceinline__ T value_at(const T (&items)[kItems], int rank) {
  return shuffle(item_at(items, rank % kItems), rank / kItems);
}

}  // namespace gputopk::cuda
