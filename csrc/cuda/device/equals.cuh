// Of equal elements that a block's threads hold, those of the lowest indices.
#pragma once

#include <cstdint>

#include "cuda/device/warp.cuh"

namespace gputopk::cuda {

inline constexpr int kVectorsOfEquals = 8;  // a thread's at most

// Calls visit(place, i) for the thread's elements number i that are equal, where `place`, below `wanted`,
// counts the block's that have lower indices. `equals`, in shared memory, has a place for each vector of each
// warp. By all threads of a block, which hold a row's elements in ascending order of their indices.
template <class Share, class IsEqual, class Visit>
__device__ __forceinline__ void visit_equals(int wanted, uint32_t* equals, IsEqual&& is_equal,
                                             Visit&& visit) {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int warps = static_cast<int>(blockDim.x / 32);
  static_assert(Share::kVectors <= kVectorsOfEquals);
  const auto count_of = [&](int v) {
    unsigned own = 0;
#pragma unroll
    for (int i = 0; i < Share::kInVector; ++i) own += is_equal(v * Share::kInVector + i);
    return own;
  };
#pragma unroll
  for (int v = 0; v < Share::kVectors; ++v) {
    const unsigned all = __reduce_add_sync(~0u, count_of(v));
    if (lane == 0) equals[v * warps + warp] = all;
  }
  __syncthreads();  // all vectors of all warps are counted
  if (warp == 0) {
    // A vector of all warps lies before the next vector of any: in this order indices ascend.
    const int counts = Share::kVectors * warps, each = (counts + 31) / 32;
    int own = 0;
    for (int i = 0; i < each; ++i) {
      const int at = lane * each + i;
      own += at < counts ? static_cast<int>(equals[at]) : 0;
    }
    int before = sum_so_far(own) - own;
    for (int i = 0; i < each; ++i) {
      const int at = lane * each + i;
      if (at >= counts) break;
      const int count = static_cast<int>(equals[at]);
      equals[at] = static_cast<uint32_t>(before);
      before += count;
    }
  }
  __syncthreads();  // what lies before each is known
#pragma unroll
  for (int v = 0; v < Share::kVectors; ++v) {
    const int before = static_cast<int>(equals[v * warps + warp]);
    if (before >= wanted) break;
    const int own = static_cast<int>(count_of(v));
    int place = before + sum_so_far(own) - own;
#pragma unroll
    for (int i = v * Share::kInVector; i < (v + 1) * Share::kInVector; ++i) {
      if (is_equal(i) && place++ < wanted) visit(place - 1, i);
    }
  }
}

}  // namespace gputopk::cuda
