// Instructions that CUDA C++ has no name for: all inline PTX is here, each behind a function.
#pragma once

#include <cstdint>

namespace gputopk::cuda {

// Asks for `bytes` of memory to be fetched into L2; both are multiples of 16. By one thread.
__device__ inline void prefetch_bulk(const void* first, uint32_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(first)), "r"(bytes)
               : "memory");
#else
  (void)first, (void)bytes;
#endif
}

// The same number, which the compiler takes for another one: what is computed of it is computed anew at each
// use, not kept in registers from one to the next.
__device__ inline uint32_t anew(uint32_t x) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(x));
#endif
  return x;
}
__device__ inline uint64_t anew(uint64_t x) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+l"(x));
#endif
  return x;
}

}  // namespace gputopk::cuda
