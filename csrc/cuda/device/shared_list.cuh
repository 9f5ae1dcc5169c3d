// A block's list of candidates in shared memory, and how it is pruned. Of grid_select/shared_list.cu.
#pragma once

#include <cstdint>

#include "cuda/device/list_selection.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/shared_memory.cuh"

namespace gputopk::cuda {

// A block's dynamic shared memory: the count, the histogram, the entries' keys, and their reversed indices.
inline constexpr size_t kHeaderBytes = 16;

template <class Word, class Index>
constexpr size_t list_bytes(int capacity, int digit_bits) {
  return kHeaderBytes + (sizeof(uint32_t) << digit_bits) +
         static_cast<size_t>(capacity) * (sizeof(Word) + sizeof(Index));
}

template <class Word, class Index>
struct List {
  using Extended = ExtendedKey<Word, Index>;

  int capacity;
  int digit_bits;
  int index_bits;

  // What all warps have asked for, which is more than `capacity` where not all of it fitted.
  __device__ static uint32_t& count() { return *reinterpret_cast<uint32_t*>(memory()); }
  __device__ static uint32_t* histogram() { return reinterpret_cast<uint32_t*>(memory() + kHeaderBytes); }
  __device__ Word* keys() const {
    return reinterpret_cast<Word*>(memory() + kHeaderBytes + (sizeof(uint32_t) << digit_bits));
  }
  __device__ Index* reversed() const { return reinterpret_cast<Index*>(keys() + capacity); }

  __device__ Extended operator[](int i) const { return {keys()[i], reversed()[i]}; }
  __device__ int entries() const { return min(static_cast<int>(count()), capacity); }

  // Appends an entry of each lane that `takes`, where there is room. Called by all lanes of a warp together.
  // False in lanes whose entry did not fit; `full` is the same in all: some did not.
  __device__ bool push(bool takes, const Extended& entry, bool& full) const {
    const unsigned takers = __ballot_sync(~0u, takes);
    full = false;
    if (takers == 0) return true;
    const unsigned lane = threadIdx.x % 32;
    uint32_t base = 0;
    if (lane == 0) base = atomicAdd(&count(), static_cast<uint32_t>(__popc(takers)));
    base = __shfl_sync(~0u, base, 0);
    full = base + __popc(takers) > static_cast<uint32_t>(capacity);
    const uint32_t at = base + __popc(takers & ((1u << lane) - 1));
    const bool fits = at < static_cast<uint32_t>(capacity);
    if (takes && fits) {
      keys()[at] = entry.key;
      reversed()[at] = entry.reversed;
    }
    return !takes || fits;
  }

 private:
  __device__ static unsigned char* memory() {
    unsigned char* const dynamic = dynamic_shared();
    return dynamic;
  }
};

// A bound that `wanted` entries of the list reach and at most `slack` more: a radix selection over the range
// of keys that the list has. The same in all threads of the block, which call it together when the list's
// first `entries` are whole. Needs 1 <= wanted <= entries.
template <class Word, class Index>
__device__ ExtendedKey<Word, Index> bound_of_list(List<Word, Index> list, int entries, int wanted,
                                                  int slack) {
  __shared__ ListSelectionScratch<Word> scratch;
  find_key_range</*kInFlight=*/1>(entries, scratch, [&](int i) { return list.keys()[i]; });
  return bound_in_list<Word, Index>(entries, static_cast<uint64_t>(wanted), static_cast<uint64_t>(slack),
                                    list.index_bits, list.digit_bits, list.histogram(), scratch,
                                    [&](int i) { return list[i]; });
}

// Keeps the entries that reach the bound. Called by all threads of the block when the list's first `entries`
// are whole; they are again when it returns. Each thread's own bound holds for the entries it looks at.
template <class Word, class Index>
__device__ void keep_from(List<Word, Index> list, int entries, ExtendedKey<Word, Index> bound) {
  using Extended = ExtendedKey<Word, Index>;
  constexpr int kEach = 4;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  __syncthreads();  // no thread still asks for the count
  if (thread == 0) list.count() = 0;
  for (int base = 0; base < entries; base += threads * kEach) {
    Extended x[kEach];
    bool stays[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int at = base + e * threads + thread;
      x[e] = at < entries ? list[at] : Extended{};
      stays[e] = at < entries && !(x[e] < bound);
    }
    // What is pushed now lies at or below what all threads have just read, and never above it: with this
    // barrier no entry is overwritten before it is read.
    __syncthreads();
    bool full;
#pragma unroll
    for (int e = 0; e < kEach; ++e) list.push(stays[e], x[e], full);
  }
  __syncthreads();  // the list is whole
}

}  // namespace gputopk::cuda
