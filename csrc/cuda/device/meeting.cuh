// A barrier of a row's blocks that holds them only if all of them run.
#pragma once

#include <cstdint>
#include <cuda/atomic>

#include "cuda/device/row_barrier.cuh"

namespace gputopk::cuda {

// Blocks may wait for each other if all of them run at once. A cooperative launch makes sure of that, but its
// blocks cannot start while the kernel before ends. Here the first of a row's blocks to come to the barrier
// looks whether all have begun: if so, each has its place on the GPU until it ends, and all wait, if that one
// is willing; else none does. All zero at first.
struct Meeting {
  uint32_t begun;    // blocks
  uint32_t outcome;  // once it is known
  uint32_t arrived;  // of those that wait

  static constexpr uint32_t kOpen = 0, kTogether = 1, kApart = 2;

  // Says that a block of the row runs. By one thread of each, once the meeting is zero.
  __device__ void begin() { atomicAdd(&begun, 1u); }

  // Whether the row's `blocks` have waited for each other; the same in all. If so, writes of before are seen
  // by reads of L2. By all threads of a block, once.
  __device__ bool wait(int blocks, bool willing) {
    __shared__ bool together;
    if (threadIdx.x == 0) {
      using Word = ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_device>;
      uint32_t known = Word(outcome).load(::cuda::memory_order_relaxed);
      if (known == kOpen) {
        const bool all = Word(begun).load(::cuda::memory_order_relaxed) == static_cast<uint32_t>(blocks);
        const uint32_t own = all && willing ? kTogether : kApart;
        known = atomicCAS(&outcome, kOpen, own);  // blocks that see another number begun must agree
        if (known == kOpen) known = own;
      }
      together = known == kTogether;
    }
    __syncthreads();  // the outcome is known
    if (!together) return false;
    RowBarrier(&arrived, blocks, /*waits=*/0).wait();
    return true;
  }
};

}  // namespace gputopk::cuda
