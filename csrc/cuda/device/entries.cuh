// Entries: the bits of a value and its index in the row, in memory and in order.
#pragma once

#include <cstdint>

#include "cuda/device/block_sort.h"
#include "cuda/device/key_range.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/warp.cuh"

namespace gputopk::cuda {

template <class Index, class Bits>
__device__ void read_entry(const Entries& entries, int64_t at, Bits& bits, Index& index) {
  bits = static_cast<const Bits*>(entries.values)[at];
  if (entries.indices == nullptr) {
    index = static_cast<Index>(at);
  } else {
    index = entries.wide ? static_cast<Index>(static_cast<const int64_t*>(entries.indices)[at])
                         : static_cast<Index>(static_cast<const uint32_t*>(entries.indices)[at]);
  }
}

template <class Index, class Bits>
__device__ void write_entry(const Entries& entries, int64_t at, Bits bits, Index index) {
  static_cast<Bits*>(entries.values)[at] = bits;
  if (entries.wide) {
    static_cast<int64_t*>(entries.indices)[at] = static_cast<int64_t>(index);
  } else {
    static_cast<uint32_t*>(entries.indices)[at] = static_cast<uint32_t>(index);
  }
}

// The entries from number `at` on.
template <class Bits>
__host__ __device__ Entries entries_from(const Entries& entries, int64_t at) {
  void* const indices = entries.indices == nullptr
                            ? nullptr
                            : static_cast<char*>(entries.indices) + at * (entries.wide ? 8 : 4);
  return {static_cast<Bits*>(entries.values) + at, indices, entries.wide};
}

__device__ inline uint32_t warp_or(uint32_t x) { return __reduce_or_sync(~0u, x); }
__device__ inline uint64_t warp_or(uint64_t x) {
  return uint64_t{__reduce_or_sync(~0u, static_cast<uint32_t>(x >> 32))} << 32 |
         __reduce_or_sync(~0u, static_cast<uint32_t>(x));
}

// What is known of some entries: their keys and indices are in a range, and in which bits keys differ.
template <class Word, class Index>
struct EntryRange {
  Word greatest, least;
  Index least_index;
  int key_bits, index_bits;  // of the distances below
  int trim;                  // bits at the end in which all keys agree

  // Distances are zero for the best key and for the lowest index, so that lesser ones come first.
  __device__ Word key_distance(Word key) const { return static_cast<Word>(greatest - key); }
  __device__ Index index_distance(Index index) const { return static_cast<Index>(index - least_index); }
};

// Finds it, over all threads of a block. In shared memory.
template <class Word, class Index>
struct RangeScratch {
  KeyRange<Word> keys;
  KeyRange<Index> indices;
  typename KeyRange<Word>::Atomic set, clear;  // bits that some key has set, and that some has clear

  // By one thread, a barrier before any adds to it.
  __device__ void reset() {
    keys.reset();
    indices.reset();
    set = clear = 0;
  }

  __device__ EntryRange<Word, Index> range() const {
    EntryRange<Word, Index> range{};
    range.greatest = static_cast<Word>(keys.greatest);
    range.least = static_cast<Word>(keys.least);
    range.least_index = static_cast<Index>(indices.least);
    const Word differ = static_cast<Word>(set & clear);
    if (differ != 0) {
      range.trim = bits_of(static_cast<Word>(differ & (Word{0} - differ))) - 1;
      range.key_bits = bits_of(static_cast<Word>(keys.greatest - keys.least)) - range.trim;
    }
    range.index_bits = bits_of(static_cast<Index>(indices.greatest - indices.least));
    return range;
  }
};

// What one thread has seen of it.
template <class Word, class Index>
struct SeenEntries {
  SeenKeys<Word> keys;
  SeenKeys<Index> indices;
  Word set = 0, clear = 0;

  __device__ void see(Word key, Index index) {
    keys.see(key);
    indices.see(index);
    set |= key;
    clear |= static_cast<Word>(~key);
  }

  // By whole warps.
  __device__ void add_to(RangeScratch<Word, Index>& scratch) const {
    scratch.keys.add(keys);
    scratch.indices.add(indices);
    const Word all_set = warp_or(set), all_clear = warp_or(clear);
    if (threadIdx.x % 32 != 0) return;
    using Atomic = typename KeyRange<Word>::Atomic;
    atomicOr(&scratch.set, static_cast<Atomic>(all_set));
    atomicOr(&scratch.clear, static_cast<Atomic>(all_clear));
  }
};

}  // namespace gputopk::cuda
