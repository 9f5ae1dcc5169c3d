// The range of the keys that threads have seen.
#pragma once

#include <type_traits>

#include "cuda/device/warp.cuh"

namespace gputopk::cuda {

// What one thread has seen.
template <class Word>
struct SeenKeys {
  Word least = static_cast<Word>(~Word{0}), greatest = 0;

  __device__ void see(Word key) {
    least = min(least, key);
    greatest = max(greatest, key);
  }

  // What the lanes of a warp have seen, together. The least is the greatest complement.
  __device__ SeenKeys of_warp() const {
    return {static_cast<Word>(~warp_max(static_cast<Word>(~least))), warp_max(greatest)};
  }
};

struct SeesNothing {
  template <class Word>
  __device__ void see(Word) {}
};

// What the threads of a block have seen, in shared memory.
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

  // By whole warps, one atomic each.
  __device__ void add(const SeenKeys<Word>& seen) {
    const SeenKeys<Word> all = seen.of_warp();
    if (threadIdx.x % 32 != 0) return;
    atomicMin(&least, static_cast<Atomic>(all.least));
    atomicMax(&greatest, static_cast<Atomic>(all.greatest));
  }

  // By one thread.
  __device__ void add(Word key) {
    atomicMin(&least, static_cast<Atomic>(key));
    atomicMax(&greatest, static_cast<Atomic>(key));
  }
};

}  // namespace gputopk::cuda
