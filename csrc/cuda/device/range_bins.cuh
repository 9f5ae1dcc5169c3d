// A block narrows a range of numbers to that which holds the k-th best of its elements, by digits of the
// range.
#pragma once

#include <cstdint>

#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/warp.cuh"

namespace gputopk::cuda {

// The block's elements in [low, high] hold the k-th best, and `taken` are above. Below, everything is the
// same in all threads.
template <class Number>
struct Bounds {
  Number low, high;
  int taken;

  // To one bin of the digit above `shift`.
  __device__ void narrow(const TargetDigit<uint32_t>& target, int shift) {
    low += static_cast<Number>(target.digit) << shift;
    const Number within = static_cast<Number>((Number{1} << shift) - 1), left = high - low;
    high = low + (left < within ? left : within);
    taken += static_cast<int>(target.above);
  }
};

// The bin of the k-th best, on a histogram of 2^digit_bits zeros; its digit lies above `shift`. `each(count)`
// calls count(element) for the elements, or for what stands for them. `target` is in shared memory.
template <class Number, class Each>
__device__ __forceinline__ TargetDigit<uint32_t> find_bin(const Bounds<Number>& bounds, int k, int digit_bits,
                                                          int& shift, uint32_t* histogram,
                                                          TargetDigit<uint32_t>& target, Each&& each) {
  const Number span = bounds.high - bounds.low;
  shift = max(bits_of(span) - digit_bits, 0);
  each([&](Number element) {
    const Number distance = element - bounds.low;
    if (distance <= span) atomicAdd(histogram + static_cast<uint32_t>(distance >> shift), 1u);
  });
  __syncthreads();  // all have counted
  if (threadIdx.x < 32) {
    find_target_digit_by_warp(histogram, 1 << digit_bits, static_cast<uint32_t>(k - bounds.taken), target);
  }
  __syncthreads();                                       // the bin is found
  return {target.digit, 0, target.above, target.count};  // `highest` was left out
}

}  // namespace gputopk::cuda
