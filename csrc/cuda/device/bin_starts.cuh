// Where bins start, of how many entries each has.
#pragma once

#include <cstdint>

#include "cuda/device/block_sort.h"
#include "cuda/device/warp.cuh"

namespace gputopk::cuda {

// Where a lane's four bins start, behind so many entries.
__device__ __forceinline__ uint4 starts_of(const uint4& count, uint32_t before) {
  return {before, before + count.x, before + count.x + count.y, before + count.x + count.y + count.z};
}

// start_bins, where there are more than a warp each scans in a step. Inlined: a call, though none took it,
// left kernels that hold entries in registers up to 1.4 times as slow.
__device__ __forceinline__ void start_many_bins(uint32_t* bins, int count_of_bins, uint32_t* warp_sums) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const unsigned steps = static_cast<unsigned>(count_of_bins) / kLeastBins;
  // As many as a power of two of the warps has each: others have none.
  const unsigned steps_a_warp = steps >> (31 - __clz(static_cast<int>(warps)));
  const unsigned first = min(warp * steps_a_warp, steps), last = min(first + steps_a_warp, steps);
  uint4* const vectors = reinterpret_cast<uint4*>(bins);
  uint32_t start = 0;
#pragma unroll 1
  for (unsigned step = first; step < last; ++step) {
    const uint4 count = vectors[step * 32 + lane];
    start += count.x + count.y + count.z + count.w;
  }
  start = __reduce_add_sync(~0u, start);
  if (lane == 0) warp_sums[warp] = start;
  __syncthreads();  // all warps have added up
  start = __reduce_add_sync(~0u, lane < warp ? warp_sums[lane] : 0);
#pragma unroll 1
  for (unsigned step = first; step < last; ++step) {
    const uint4 count = vectors[step * 32 + lane];
    const uint32_t own = count.x + count.y + count.z + count.w, so_far = sum_so_far(own);
    vectors[step * 32 + lane] = starts_of(count, start + so_far - own);
    start += __shfl_sync(~0u, so_far, 31);
  }
  if (first < last && last == steps && lane == 0) bins[count_of_bins] = start;
  __syncthreads();  // all bins have their starts
}

// Turns counts into where each bin starts, with one more start at the end; bins are a power of two from
// kLeastBins on. By all threads of a block.
__device__ __forceinline__ void start_bins(uint32_t* bins, int count_of_bins, uint32_t* warp_sums) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned steps = static_cast<unsigned>(count_of_bins) / kLeastBins;
  if (32 * steps > blockDim.x) {
    start_many_bins(bins, count_of_bins, warp_sums);
    return;
  }
  uint4* const own_bins = reinterpret_cast<uint4*>(bins) + threadIdx.x;
  uint4 count{};
  uint32_t before = 0;
  if (warp < steps) {
    count = *own_bins;
    const uint32_t own = count.x + count.y + count.z + count.w, so_far = sum_so_far(own);
    before = so_far - own;
    if (lane == 31) warp_sums[warp] = so_far;
  }
  __syncthreads();  // all warps have added up
  if (warp < steps) {
    before += __reduce_add_sync(~0u, lane < warp ? warp_sums[lane] : 0);
    *own_bins = starts_of(count, before);
    if (threadIdx.x == 32 * steps - 1) bins[count_of_bins] = before + count.x + count.y + count.z + count.w;
  }
  __syncthreads();  // all bins have their starts
}

}  // namespace gputopk::cuda
