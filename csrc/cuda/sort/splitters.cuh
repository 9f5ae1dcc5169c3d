// The splitters of a row in a block's shared memory: of which part an entry is.
#pragma once

#include "cuda/device/block_sort.cuh"
#include "cuda/sort/numbers.h"

namespace gputopk::cuda::sort {

// Splitter number p, from 1 on, is the best entry of part p. They lie in order; bins of their range, several
// for each, say how many lie in those before, so that an entry is compared with the few of its own bin.
template <class Order, class Index>
class Splitters {
 public:
  using Word = typename KeyWord<typename Order::Bits>::type;

  struct Scratch {
    SeenEntries<Word, Index> of_warps[tuning::kSortDealThreads / 32];
    uint32_t warp_sums[32];
  };

  static constexpr int bytes(int parts) {
    return static_cast<int>(sizeof(Word) + sizeof(Index)) * (parts + 1) +
           static_cast<int>(sizeof(uint32_t)) * (bins_of(parts) + 4);
  }

  // Of shared memory, `bytes` of it, and what lies in global memory: number p at place p. By all threads of a
  // block.
  __device__ Splitters(unsigned char* base, int parts, const Order& order, const Word* keys,
                       const Index* indices, Scratch& scratch)
      : starts_(reinterpret_cast<uint32_t*>(base)),
        keys_(reinterpret_cast<Word*>(starts_ + bins_of(parts) + 4)),
        indices_(reinterpret_cast<Index*>(keys_ + (parts + 1) / 2 * 2)),
        count_(parts - 1) {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const int bins = bins_of(parts);
    clear_bins(starts_, bins);
    SeenEntries<Word, Index> seen{};
    for (int i = thread; i < count_; i += threads) {
      keys_[i] = keys[i + 1];
      indices_[i] = indices[i + 1];
      seen.see(keys_[i], indices_[i]);
    }
    EntryRange<Word, Index> range = seen.range_over_block(scratch.of_warps);
    // Other entries may differ where all splitters agree.
    range.trim = 0;
    range.key_bits = bits_of(static_cast<Word>(range.greatest - range.least));
    last_index_ = range.least_index;
    if (range.index_bits > 0)
      last_index_ += static_cast<Index>(~Index{0}) >> (8 * sizeof(Index) - range.index_bits);
    bins_ = RangeBins<Word, Index>::over(order, range, bins);
    for (int i = thread; i < count_; i += threads) atomicAdd(starts_ + bins_.of(keys_[i], indices_[i]), 1u);
    __syncthreads();  // splitters are counted
    start_bins(starts_, bins, scratch.warp_sums);
  }

  // Of several entries, side by side: a search alone waits for shared memory at every step.
  template <int kCount>
  __device__ void parts_of(const Word (&keys)[kCount], const Index (&indices)[kCount],
                           int (&parts)[kCount]) const {
    int ends[kCount];
    bool is_open = false;
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      const uint32_t bin = bin_of(keys[e], indices[e]);
      parts[e] = static_cast<int>(starts_[bin]);
      ends[e] = static_cast<int>(starts_[bin + 1]);
      is_open |= parts[e] < ends[e];
    }
    while (is_open) {
      is_open = false;
#pragma unroll
      for (int e = 0; e < kCount; ++e) {
        if (parts[e] == ends[e]) continue;
        const int middle = (parts[e] + ends[e]) / 2;
        if (is_before(keys[e], indices[e], middle)) {
          ends[e] = middle;
        } else {
          parts[e] = middle + 1;
        }
        is_open |= parts[e] < ends[e];
      }
    }
  }

 private:
  static constexpr int bins_of(int parts) { return bins_for(tuning::kSortBinsPerPart * parts); }

  __device__ bool is_before(Word key, Index index, int splitter) const {
    const Word other = keys_[splitter];
    return (key > other) | ((key == other) & (index < indices_[splitter]));
  }

  // An entry beyond all splitters is in the bin of the nearest.
  __device__ uint32_t bin_of(Word key, Index index) const {
    const EntryRange<Word, Index>& range = bins_.digits.range;
    const Word nearest = min(max(key, range.least), range.greatest);
    if (!bins_.digits.digit.reaches_index()) return bins_.of(nearest, Index{0});
    index = min(max(index, range.least_index), last_index_);
    if (key > range.greatest) index = range.least_index;
    if (key < range.least) index = last_index_;
    return bins_.of(nearest, index);
  }

  uint32_t* starts_;  // of each bin: the splitters in those before; and of all
  Word* keys_;
  Index* indices_;
  int count_;
  Index last_index_;
  RangeBins<Word, Index> bins_;
};

}  // namespace gputopk::cuda::sort
