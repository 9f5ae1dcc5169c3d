// The functions of csrc's header of this name, without PTX.
#pragma once

#include <cstdint>

#include "simt.h"

namespace gputopk::cuda {

inline void prefetch_bulk(const void* first, uint32_t bytes) {
  if (reinterpret_cast<uintptr_t>(first) % 16 != 0 || bytes % 16 != 0) {
    ::simt::fail("prefetch_bulk of %u bytes from %p, not both multiples of 16", bytes, first);
  }
}

inline void init_copy_barrier(uint64_t* barrier) { ::simt::barrier_init(barrier, 1); }
inline void fence_copy_barriers() { ::simt::barrier_fence(); }
inline void announce_copy(uint64_t* barrier, uint32_t bytes) { ::simt::barrier_arrive(barrier, bytes); }
inline void copy_bulk(void* shared, const void* global, uint32_t bytes, uint64_t* barrier) {
  ::simt::copy_bulk(shared, global, bytes, barrier);
}
inline void wait_for_copy(uint64_t* barrier, uint32_t parity) {
  while (!::simt::barrier_try_wait(barrier, parity)) {
  }
}

inline uint32_t signs_of_halves(uint32_t word) {
  return (word >> 31 ? 0xFFFF0000u : 0) | (word >> 15 & 1 ? 0xFFFFu : 0);
}

}  // namespace gputopk::cuda
