// What the blocks of a row that run together, all over the GPU, wait for and tell each other. Common to
// resident_grid.cu and one_grid.cu.
#pragma once

#include <cstdint>
#include <cuda/atomic>

#include "cuda/delegate/numbers.h"

namespace gputopk::cuda::delegate {

// A barrier of a row's blocks, all of which run. Writes of before it are seen behind it by reads of L2.
class RowBarrier {
 public:
  // `waits`: how often it was waited for before.
  __device__ RowBarrier(uint32_t* arrived, int blocks, int waits)
      : arrived_(arrived),
        blocks_(static_cast<uint32_t>(blocks)),
        awaited_(static_cast<uint32_t>(waits * blocks)) {}

  __device__ void wait() {
    // Were a block ever missing, after some seconds an error is better than a GPU that hangs.
    constexpr int kMostNaps = 1 << 26;
    awaited_ += blocks_;
    __syncthreads();  // all threads' writes come before the arrival, which releases them
    if (threadIdx.x == 0) {
      using Arrived = ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_device>;
      Arrived(*arrived_).fetch_add(1u, ::cuda::memory_order_release);
      for (int naps = 0; Arrived(*arrived_).load(::cuda::memory_order_acquire) < awaited_; ++naps) {
        if (naps == kMostNaps) __trap();
        __nanosleep(20);
      }
    }
    __syncthreads();  // all have arrived
  }

 private:
  uint32_t* arrived_;
  uint32_t blocks_, awaited_;
};

// Histograms of a row, used in turn, so that one is cleared while the others are in use. The one that is used
// first is zero before.
inline constexpr int kGridBins = 1 << tuning::kClusterDigitBits;
inline constexpr int kGridHistograms = 3;

struct alignas(16) GridCounts {
  uint32_t of[kGridHistograms][kGridBins];
};

// Adds up what the row's blocks have counted.
struct GridSums {
  RowBarrier barrier;
  GridCounts& all;
  bool is_first;  // block
  int pass = 0;

  __device__ void operator()(const uint32_t* own, uint32_t* sums, int bins) {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    uint32_t* const counts = all.of[pass % kGridHistograms];
    uint32_t* const next = all.of[(pass + 1) % kGridHistograms];
    __syncthreads();  // all have counted
    for (int bin = thread; bin < bins; bin += threads) {
      if (own[bin] > 0) atomicAdd(counts + bin, own[bin]);
    }
    for (int bin = thread; is_first && bin < kGridBins; bin += threads) next[bin] = 0;
    barrier.wait();
    for (int bin = thread; bin < bins; bin += threads) sums[bin] = __ldcg(counts + bin);
    __syncthreads();  // the sums are there
    ++pass;
  }
};

}  // namespace gputopk::cuda::delegate
