// What the lanes of a warp, or a word's bits, come to.
#pragma once

#include <cstdint>

#include "cuda/device/ptx.cuh"

namespace gputopk::cuda {

// Bits that hold x.
__device__ inline int bits_of(uint32_t x) { return 32 - __clz(static_cast<int>(x)); }
__device__ inline int bits_of(uint64_t x) { return 64 - __clzll(static_cast<long long>(x)); }
__device__ inline int bits_of(unsigned __int128 x) {
  const uint64_t high = static_cast<uint64_t>(x >> 64);
  return high != 0 ? 64 + bits_of(high) : bits_of(static_cast<uint64_t>(x));
}

__device__ inline uint32_t warp_max(uint32_t x) { return __reduce_max_sync(~0u, x); }
__device__ inline uint64_t warp_max(uint64_t x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = max(x, __shfl_xor_sync(~0u, x, step));
  return x;
}

// The values of kLanes lanes from the first to this one.
template <int kLanes = 32, class Word>
__device__ inline Word sum_so_far(Word value) {
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2) add_from_before<kLanes>(value, step);
  return value;
}

__device__ inline uint32_t warp_min(uint32_t x) { return __reduce_min_sync(~0u, x); }
template <class Word>
__device__ Word warp_min(Word value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = min(value, __shfl_xor_sync(~0u, value, step));
  return value;
}

}  // namespace gputopk::cuda
