// Bitonic networks over the 32 * kItems values of a warp, or of a part of it: value number lane * kItems + i
// is item i of its lane.
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

// The greater of two values, or the lesser: two instructions at most, where which one is known only to run.
template <class T>
__device__ __forceinline__ T greater_or_lesser(bool greater, T x, T y) {
  if constexpr (sizeof(T) == 4) {
    return greater ? max(x, y) : min(x, y);
  } else {
    return (x > y) == greater ? x : y;
  }
}

// A merge of bitonic runs of 2 * kStride values, which come out descending where `descends`, else ascending.
template <int kStride, class T, int kItems>
__device__ __forceinline__ void merge_runs(T (&items)[kItems], bool descends) {
  if constexpr (kStride >= kItems) {
    const bool takes_greater = ((threadIdx.x & kStride / kItems) == 0) == descends;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const T other = shuffle_xor(items[i], kStride / kItems);
      items[i] = greater_or_lesser(takes_greater, items[i], other);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (i & kStride) continue;
      const T low = items[i], high = items[i + kStride];
      items[i] = greater_or_lesser(descends, low, high);
      items[i + kStride] = greater_or_lesser(!descends, low, high);
    }
  }
  if constexpr (kStride > 1) merge_runs<kStride / 2>(items, descends);
}

// Where `turn`, makes values their complements, whose order is the other way round.
template <class T, int kItems>
__device__ __forceinline__ void complement(T (&items)[kItems], bool turn) {
  const uint32_t mask = turn ? ~0u : 0;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      items[i] = __uint_as_float(__float_as_uint(items[i]) ^ (mask & 1u << 31));
    } else {
      items[i] ^= mask;
    }
  }
}

// Of a lane's own values: runs of kSize, which descend and ascend in turn.
template <int kSize, class T, int kItems>
__device__ __forceinline__ void sort_own_runs(T (&items)[kItems]) {
  if constexpr (kSize > 2) sort_own_runs<kSize / 2>(items);
#pragma unroll
  for (int begin = 0; begin < kItems; begin += kSize) {
    T run[kSize];
#pragma unroll
    for (int i = 0; i < kSize; ++i) run[i] = items[begin + i];
    merge_runs<kSize / 2>(run, (begin & kSize) == 0);
#pragma unroll
    for (int i = 0; i < kSize; ++i) items[begin + i] = run[i];
  }
}

// Sorts runs of kSize values: in the last step all the same way, before it so that they descend and ascend in
// turn. Where a run is to ascend, lanes hold words' complements and let those descend: an exchange within a
// lane is then two instructions, where with a direction that differs from lane to lane it is six.
template <int kSize, bool kLast, bool kDescending, class T, int kItems>
__device__ __forceinline__ void sort_runs(T (&items)[kItems]) {
  if constexpr (kSize < kItems) {
    sort_own_runs<kSize>(items);
  } else {
    if constexpr (kSize > 2) sort_runs<kSize / 2, /*kLast=*/false, kDescending>(items);
    // The lanes whose runs ascend: those of the step before, and of this one.
    constexpr unsigned kBefore = kSize / 2 > 1 ? kSize / 2 / kItems : 0, kNow = kSize / kItems;
    const bool ascended = (threadIdx.x & kBefore) != 0;
    const bool ascends = kLast ? !kDescending : (threadIdx.x & kNow) != 0;
    if constexpr (sizeof(T) == 4) {
      if (kBefore != 0 || !kLast || !kDescending) complement(items, ascended != ascends);
      merge_runs<kSize / 2>(items, /*descends=*/true);
      if (kLast && !kDescending) complement(items, true);
    } else {
      merge_runs<kSize / 2>(items, !ascends);
    }
  }
}

// Sorts the values of each kLanes lanes.
template <int kLanes, class T, int kItems>
__device__ __forceinline__ void sort_lanes(T (&items)[kItems]) {
  sort_runs<kLanes * kItems, /*kLast=*/true, /*kDescending=*/true>(items);
}
template <bool kDescending, class T, int kItems>
__device__ __forceinline__ void sort_warp(T (&items)[kItems]) {
  sort_runs<32 * kItems, /*kLast=*/true, kDescending>(items);
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
