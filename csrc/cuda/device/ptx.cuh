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

// ---- Bulk copies into shared memory, and the barriers that they are waited for at: compute capability 9.0
// ----

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__device__ inline uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// Makes `barrier`, 8 bytes of shared memory, one whose phases end with a single arrival and the bytes that it
// announces. By one thread; the block's others may wait at it after fence_copy_barriers and __syncthreads.
__device__ inline void init_copy_barrier(uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}
__device__ inline void fence_copy_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Arrives: the phase ends when `bytes` have been copied, at once if they are none. By one thread.
__device__ inline void announce_copy(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
}

// Copies `bytes` of global memory, as the barrier's phase has been told. All are multiples of 16. By one
// thread.
__device__ inline void copy_bulk(void* shared, const void* global, uint32_t bytes, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(shared)),
      "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// Waits until the barrier's phase number n has ended, n % 2 being `parity`, and no later one: then what was
// copied in it is seen.
__device__ inline void wait_for_copy(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}
#else
// No code of an older GPU is launched that calls these.
__device__ inline void init_copy_barrier(uint64_t*) {}
__device__ inline void fence_copy_barriers() {}
__device__ inline void announce_copy(uint64_t*, uint32_t) {}
__device__ inline void copy_bulk(void*, const void*, uint32_t, uint64_t*) {}
__device__ inline void wait_for_copy(uint64_t*, uint32_t) {}
#endif

// ---- Words ----

// Of each half of the word, all ones where it is negative.
__device__ inline uint32_t signs_of_halves(uint32_t word) {
  uint32_t signs;
  asm("prmt.b32 %0, %1, %1, 0xBB99;" : "=r"(signs) : "r"(word));
  return signs;
}

}  // namespace gputopk::cuda
