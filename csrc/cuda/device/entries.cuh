// Entries: the bits of a value and its index in the row, in memory and in order.
#pragma once

#include <cstdint>

#include "cuda/device/block_sort.h"
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

// What one thread, a warp or a block has seen of it. All zero: nothing.
template <class Word, class Index>
struct SeenEntries {
  Word greatest, inverse_least;  // of the keys
  Index greatest_index, inverse_least_index;
  Word set, clear;  // bits that some key has set, and that some has clear

  __device__ void see(Word key, Index index) {
    greatest = max(greatest, key);
    inverse_least = max(inverse_least, static_cast<Word>(~key));
    greatest_index = max(greatest_index, index);
    inverse_least_index = max(inverse_least_index, static_cast<Index>(~index));
    set |= key;
    clear |= static_cast<Word>(~key);
  }

  __device__ SeenEntries of_warp() const {
    return {
        warp_max(greatest), warp_max(inverse_least), warp_max(greatest_index), warp_max(inverse_least_index),
        warp_or(set),       warp_or(clear)};
  }
  // By all threads of a block, the same for all. `of_warps`, in shared memory, has a place for each warp.
  __device__ EntryRange<Word, Index> range_over_block(SeenEntries* of_warps) const {
    return range_over_warps(of_warps, static_cast<int>(blockDim.x / 32));
  }
  // Of the first `warps` warps, and for them: others have seen nothing, and come to the barrier.
  __device__ EntryRange<Word, Index> range_over_warps(SeenEntries* of_warps, int warps) const {
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    if (warp < warps) {
      const SeenEntries own = of_warp();
      if (lane == 0) of_warps[warp] = own;
    }
    __syncthreads();  // all warps have theirs
    if (warp >= warps) return {};
    return of_warps[min(lane, warps - 1)].of_warp().range();
  }

 private:
  __device__ EntryRange<Word, Index> range() const {
    EntryRange<Word, Index> range{};
    range.greatest = greatest;
    range.least = static_cast<Word>(~inverse_least);
    range.least_index = static_cast<Index>(~inverse_least_index);
    const Word differ = static_cast<Word>(set & clear);
    if (differ != 0) {
      range.trim = bits_of(static_cast<Word>(differ & (Word{0} - differ))) - 1;
      range.key_bits = bits_of(static_cast<Word>(greatest - range.least)) - range.trim;
    }
    range.index_bits = bits_of(static_cast<Index>(greatest_index - range.least_index));
    return range;
  }
};

}  // namespace gputopk::cuda
