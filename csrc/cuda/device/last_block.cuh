// The block of a group that arrives last, in one audited place.
#pragma once

#include <cstdint>
#include <cuda/atomic>

namespace gputopk::cuda {

// True in every thread of exactly one block: the last of `blocks` that call this with the same counter.
// It then sees every write and atomic that any thread of the others made before their call. Resets the
// counter, so that the next launch finds it at zero.
__device__ inline bool is_last_block(uint32_t* arrived, uint32_t blocks) {
  __shared__ bool last;
  // No warp may still be adding when thread 0 announces the block: without this barrier the last block can
  // read a histogram that lacks a slow warp's counts.
  __syncthreads();
  if (threadIdx.x == 0) {
    // A release of one thread is of all that it has met at the barrier; a fence in each would be waited for
    // by all, and would empty the L1 that the SM's other blocks read through.
    using Arrived = ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_device>;
    last = Arrived(*arrived).fetch_add(1u, ::cuda::memory_order_release) == blocks - 1;
    if (last) {
      *arrived = 0;
      // Reads below may not be served by what this block's threads saw before the arrival.
      __threadfence();
    }
  }
  __syncthreads();
  return last;
}

}  // namespace gputopk::cuda
