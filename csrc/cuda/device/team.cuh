// Lanes of a warp that share a row.
#pragma once

#include "cuda/device/warp.cuh"
#include "cuda/device/warp_sort.cuh"

namespace gputopk::cuda {

// kLanes of them. All lanes of the warp call everything together.
template <int kLanes>
struct Team {
  __device__ static int member() { return static_cast<int>(threadIdx.x % kLanes); }
  __device__ static int first_lane() { return static_cast<int>(threadIdx.x % 32 & ~(kLanes - 1)); }
  __device__ static unsigned lanes() { return ~0u >> (32 - kLanes) << first_lane(); }

  template <class T>
  __device__ static T from(T value, int member) {
    return shuffle(value, first_lane() + member);
  }
  template <class T>
  __device__ static T rotate(T value, int by) {
    return from(value, (member() + by) & (kLanes - 1));
  }
  template <class T, class Join>
  __device__ static T reduce(T value, Join&& join) {
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) value = join(value, shuffle_xor(value, step));
    return value;
  }
  template <class T>
  __device__ static T greatest(T value) {
    return reduce(value, [](T x, T y) { return max(x, y); });
  }
  __device__ static int sum(int value) {
    if constexpr (kLanes == 32) {
      return static_cast<int>(__reduce_add_sync(~0u, static_cast<unsigned>(value)));
    } else {
      return reduce(value, [](int x, int y) { return x + y; });
    }
  }
};

}  // namespace gputopk::cuda
