// A block's histogram of digits in shared memory, and the digit that holds the k-th best element.
#pragma once

#include <cassert>
#include <cstdint>

namespace gputopk::cuda {

// Plain shared-memory atomics, one copy a block: measured as fast as reading, for spread and for crowded
// digits alike (PERFORMANCE.md).
__device__ inline void clear_histogram(uint32_t* histogram, int bins) {
  uint4* const vectors = reinterpret_cast<uint4*>(histogram);
  for (int i = static_cast<int>(threadIdx.x); i < (bins + 3) / 4; i += static_cast<int>(blockDim.x)) {
    vectors[i] = uint4{};
  }
}

template <class Count>
struct TargetDigit {
  uint32_t digit;    // the largest digit with at least `owed` elements at or above it
  uint32_t highest;  // the largest digit that any element has
  Count above;       // elements with a larger digit
  Count count;       // elements with this digit
};

// Shared memory of find_target_digit.
template <class Count>
struct TargetDigitScratch {
  Count warp_sums[32];
  uint32_t chunk;
  Count chunk_above;
  uint32_t highest;
  TargetDigit<Count> result;
};

// A thread sums this many adjacent bins at most: what one warp can then search in one step.
inline constexpr int kBinsPerThread = 32;

// Steps 2 and 3 of a radix iteration: prefix sums from the highest digit down, and the digit at which they
// reach `owed`. Called by all threads of a block on a finished histogram in shared memory. Needs
// 1 <= owed <= its sum, and powers of two with bins <= kBinsPerThread * blockDim.x.
template <class Count>
__device__ TargetDigit<Count> find_target_digit(const Count* histogram, int bins, uint64_t owed,
                                                TargetDigitScratch<Count>& scratch) {
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32, warp = thread / 32, warps = (threads + 31) / 32;
  if (thread == 0) scratch.highest = 0;

  // Thread t sums the t-th chunk from the top. The rotation by t keeps a warp's reads in separate banks.
  const int summing = 1 << (31 - __clz(threads));  // a power of two of them: the rest have no bin
  assert(owed >= 1 && bins <= kBinsPerThread * summing);
  const int chunk = bins > summing ? bins / summing : 1;
  const int first_bin = bins - (thread + 1) * chunk;
  Count sum = 0;
  int highest = -1;
  if (first_bin >= 0) {
    for (int i = 0; i < chunk; ++i) {
      const int bin = first_bin + ((i + thread) & (chunk - 1));
      const Count count = histogram[bin];
      sum += count;
      if (count > 0 && bin > highest) highest = bin;
    }
  }

  // Inclusive scan over the threads: within the warp, then over the warps' sums.
  Count inclusive = sum;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const Count other = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += other;
  }
  if (lane == 31) scratch.warp_sums[warp] = inclusive;
  __syncthreads();
  if (warp == 0) {
    Count warp_sum = lane < warps ? scratch.warp_sums[lane] : 0;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const Count other = __shfl_up_sync(~0u, warp_sum, step);
      if (lane >= step) warp_sum += other;
    }
    scratch.warp_sums[lane] = warp_sum;
  }
  __syncthreads();
  if (warp > 0) inclusive += scratch.warp_sums[warp - 1];

  // One atomic a warp: those of a whole block on one address would take as long as all else.
  const int highest_of_warp = __reduce_max_sync(~0u, highest);
  if (lane == 0 && highest_of_warp >= 0) atomicMax(&scratch.highest, static_cast<uint32_t>(highest_of_warp));
  const Count above = inclusive - sum;
  if (above < owed && owed <= inclusive) {  // exactly one thread
    scratch.chunk = static_cast<uint32_t>(thread);
    scratch.chunk_above = above;
  }
  __syncthreads();

  // One warp finds the bin within the chunk.
  if (warp == 0) {
    const int top_bin = bins - 1 - static_cast<int>(scratch.chunk) * chunk;
    const Count count = lane < chunk ? histogram[top_bin - lane] : 0;
    Count within = count;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const Count other = __shfl_up_sync(~0u, within, step);
      if (lane >= step) within += other;
    }
    const Count reached = scratch.chunk_above + within;
    if (reached >= owed && reached - count < owed) {
      scratch.result = {static_cast<uint32_t>(top_bin - lane), scratch.highest, reached - count, count};
    }
  }
  __syncthreads();
  return scratch.result;
}

// The same by one warp, for few bins: a power of two, 32 to 1024. It leaves out `highest`. `result` is in
// shared memory.
__device__ inline void find_target_digit_by_warp(const uint32_t* histogram, int bins, uint32_t owed,
                                                 TargetDigit<uint32_t>& result) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto sum_so_far = [&](uint32_t value) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const uint32_t other = __shfl_up_sync(~0u, value, step);
      if (lane >= step) value += other;
    }
    return value;
  };
  // Lane l sums the l-th chunk from the top. The rotation by l keeps the lanes' reads in separate banks.
  const int chunk = bins / 32, first_bin = bins - (lane + 1) * chunk;
  uint32_t sum = 0;
  for (int i = 0; i < chunk; ++i) sum += histogram[first_bin + ((i + lane) & (chunk - 1))];
  const uint32_t inclusive = sum_so_far(sum);
  const bool holds = inclusive - sum < owed && owed <= inclusive;  // one lane's
  const int holder = __ffs(static_cast<int>(__ballot_sync(~0u, holds))) - 1;
  const uint32_t above_chunk = __shfl_sync(~0u, inclusive - sum, holder);

  const int bin = bins - 1 - holder * chunk - lane;
  const uint32_t count = lane < chunk ? histogram[bin] : 0;
  const uint32_t reached = above_chunk + sum_so_far(count);
  if (reached >= owed && reached - count < owed) {
    result.digit = static_cast<uint32_t>(bin);
    result.above = reached - count;
    result.count = count;
  }
}

}  // namespace gputopk::cuda
