// Entries as they are dealt out to parts.
#pragma once

#include "cuda/device/entries.cuh"

namespace gputopk::cuda {

// Where a value is as wide as an index the two lie side by side, so that the few entries that a block brings
// to a part at a time fill more of a sector.
template <class Bits, class Index>
class DealtEntries {
 public:
  static constexpr bool kPaired = sizeof(Bits) == sizeof(Index);

  // From number `first` on of those in this memory, whose `indices` are not used where they lie in pairs.
  __device__ DealtEntries(void* values, void* indices, int64_t first)
      : values_(static_cast<Bits*>(values) + (kPaired ? 2 : 1) * first),
        indices_(static_cast<Index*>(indices) + (kPaired ? 0 : first)) {}

  __device__ void read(int64_t at, Bits& bits, Index& index) const {
    if constexpr (kPaired) {
      const Pair pair = reinterpret_cast<const Pair*>(values_)[at];
      bits = pair.bits;
      index = pair.index;
    } else {
      bits = values_[at];
      index = indices_[at];
    }
  }
  __device__ void write(int64_t at, Bits bits, Index index) const {
    if constexpr (kPaired) {
      reinterpret_cast<Pair*>(values_)[at] = {bits, index};
    } else {
      values_[at] = bits;
      indices_[at] = index;
    }
  }

  // The memory of so many of them, for others.
  __device__ Entries memory_of(int64_t count) const {
    return {values_, kPaired ? static_cast<void*>(values_ + count) : indices_, sizeof(Index) == 8};
  }

 private:
  struct alignas(2 * sizeof(Index)) Pair {
    Bits bits;
    Index index;
  };

  Bits* values_;
  Index* indices_;
};

}  // namespace gputopk::cuda
