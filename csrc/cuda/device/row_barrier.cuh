// What the blocks of a row that run together, all over the GPU, wait for and tell each other.
#pragma once

#include <cstdint>
#include <cuda/atomic>

namespace gputopk::cuda {

// Which row a block is of, and which of the row's blocks it is.
struct BlockOfRow {
  int64_t row;
  int number;

  __device__ static BlockOfRow own(int blocks_per_row) {
    const int block = static_cast<int>(blockIdx.x);
    // One row is the commonest, and a division takes as long as some loads.
    if (blocks_per_row == static_cast<int>(gridDim.x)) return {0, block};
    return {block / blocks_per_row, block % blocks_per_row};
  }
};

// A barrier of a row's blocks, all of which run. Writes of before it are seen behind it by reads of L2.
class RowBarrier {
 public:
  // `waits`: how often it was waited for before.
  __device__ RowBarrier(uint32_t* arrived, int blocks, int waits)
      : arrived_(arrived),
        blocks_(static_cast<uint32_t>(blocks)),
        awaited_(static_cast<uint32_t>(waits * blocks)) {}

  __device__ void wait() {
    arrive();
    wait_for_all();
  }

  // The two halves of it.
  __device__ void arrive() {
    __syncthreads();  // all threads' writes come before the arrival, which releases them
    if (threadIdx.x == 0) Arrived(*arrived_).fetch_add(1u, ::cuda::memory_order_release);
  }
  __device__ void wait_for_all() {
    // Were a block ever missing, an error after a while is better than a GPU that hangs.
    constexpr int kMostNaps = 1 << 26;
    awaited_ += blocks_;
    if (threadIdx.x == 0) {
      for (int naps = 0; Arrived(*arrived_).load(::cuda::memory_order_acquire) < awaited_; ++naps) {
        if (naps == kMostNaps) __trap();
        __nanosleep(20);
      }
    }
    __syncthreads();  // all have arrived
  }

 private:
  using Arrived = ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_device>;

  uint32_t* arrived_;
  uint32_t blocks_, awaited_;
};

// Histograms of a row, used in turn, so that one is cleared while the others are in use. The one that is used
// first is zero before.
template <int kBins>
struct alignas(16) RowCounts {
  static constexpr int kHistograms = 3;
  uint32_t of[kHistograms][kBins];
};

// Adds up what the row's blocks have counted.
template <int kBins>
struct RowSums {
  RowBarrier barrier;
  RowCounts<kBins>& all;
  bool is_first;  // block
  int pass = 0;

  __device__ void operator()(const uint32_t* own, uint32_t* sums, int bins) {
    const uint32_t* const counts = add(own, bins);
    for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += static_cast<int>(blockDim.x)) {
      sums[bin] = __ldcg(counts + bin);
    }
    __syncthreads();  // the sums are there
  }

  // The same, of which the sums lie in memory, where L2 has them.
  __device__ const uint32_t* add(const uint32_t* own, int bins) {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    uint32_t* const counts = all.of[pass % RowCounts<kBins>::kHistograms];
    uint32_t* const next = all.of[(pass + 1) % RowCounts<kBins>::kHistograms];
    __syncthreads();  // all have counted
    for (int bin = thread; bin < bins; bin += threads) {
      if (own[bin] > 0) atomicAdd(counts + bin, own[bin]);
    }
    for (int bin = thread; is_first && bin < kBins; bin += threads) next[bin] = 0;
    barrier.wait();
    ++pass;
    return counts;
  }
};

}  // namespace gputopk::cuda
