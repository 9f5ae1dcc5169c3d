// The block of a group that arrives last, in one audited place.
#pragma once

#include <cstdint>

namespace gputopk::cuda {

// True in every thread of exactly one block: the last of `blocks` that call this with the same counter.
// It then sees every write and atomic that any thread of the others made before their call. Resets the
// counter, so that the next launch finds it at zero.
__device__ inline bool is_last_block(uint32_t* arrived, uint32_t blocks) {
  __shared__ bool last;
  // Each thread orders its own writes before the arrival below...
  __threadfence();
  // ...and no warp may still be adding when thread 0 announces the block: without this barrier the last
  // block can read a histogram that lacks a slow warp's counts.
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(arrived, 1u) == blocks - 1;
    if (last) *arrived = 0;
  }
  __syncthreads();
  // Reads below may not be served by what this block's threads saw before the arrival.
  if (last) __threadfence();
  return last;
}

}  // namespace gputopk::cuda
