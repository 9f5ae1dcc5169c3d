// The range of the keys that a block's threads have seen, in shared memory.
#pragma once

#include <type_traits>

#include "cuda/device/warp.cuh"

namespace gputopk::cuda {

template <class Word>
struct KeyRange {
  // For atomics, which know no narrower type of 64 bits.
  using Atomic = std::conditional_t<sizeof(Word) == 8, unsigned long long, unsigned>;

  Atomic least, greatest;

  // By one thread, a barrier before any adds to it.
  __device__ void reset() {
    least = ~Atomic{0};
    greatest = 0;
  }

  // What each thread has seen: by whole warps, one atomic each.
  __device__ void add(Word least_seen, Word greatest_seen) {
    // The least is the greatest complement.
    least_seen = static_cast<Word>(~warp_max(static_cast<Word>(~least_seen)));
    greatest_seen = warp_max(greatest_seen);
    if (threadIdx.x % 32 != 0) return;
    atomicMin(&least, static_cast<Atomic>(least_seen));
    atomicMax(&greatest, static_cast<Atomic>(greatest_seen));
  }
};

// What one thread has seen.
template <class Word>
struct SeenKeys {
  Word least = static_cast<Word>(~Word{0}), greatest = 0;

  __device__ void see(Word key) {
    least = min(least, key);
    greatest = max(greatest, key);
  }
};

struct SeesNothing {
  template <class Word>
  __device__ void see(Word) {}
};

}  // namespace gputopk::cuda
