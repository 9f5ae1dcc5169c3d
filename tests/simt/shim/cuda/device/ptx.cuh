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

inline uint32_t anew(uint32_t x) { return x; }
inline uint64_t anew(uint64_t x) { return x; }

template <int kLanes>
inline void add_from_before(int& sum, int step) {
  const int other = __shfl_up_sync(~0u, sum, step);
  if (static_cast<int>(threadIdx.x % kLanes) >= step) sum += other;
}

template <class T>
inline void count_greater(int& count, T x, T y) {
  count += x > y;
}

}  // namespace gputopk::cuda
