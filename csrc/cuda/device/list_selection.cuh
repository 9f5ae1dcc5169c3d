// A radix selection by one block from a list in shared memory.
#pragma once

#include <cstdint>

#include "cuda/device/key_range.cuh"
#include "cuda/device/numbers.h"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/warp.cuh"

namespace gputopk::cuda {

using tuning::kListDigitBits;
inline constexpr int kListBins = 1 << kListDigitBits;

template <class Word>
struct ListSelectionScratch {
  TargetDigitScratch<uint32_t> target;
  KeyRange<Word> range;
};

// The range of a list's keys. `look(i)` is the key of entry number i, and is called once for each, kInFlight
// at a time by each thread. By all threads of a block.
template <int kInFlight, class Word, class Look>
__device__ void find_key_range(int count, ListSelectionScratch<Word>& scratch, Look&& look) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  if (thread == 0) scratch.range.reset();
  __syncthreads();  // the extremes are reset
  SeenKeys<Word> seen;
#pragma unroll kInFlight
  for (int i = thread; i < count; i += threads) seen.see(look(i));
  scratch.range.add(seen);
  __syncthreads();  // all warps have added
}

// Counts a digit of the selection's candidates, which `seen` sees too, in a list that may have others:
// entry(i) is number i of `count`. By all threads of a block.
template <class Word, class Index, class Seen, class Entry>
__device__ void count_in_list(int count, const Selection<Word, Index>& selection, const Digit& digit,
                              uint32_t* histogram, Seen& seen, Entry&& entry) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const ExtendedKey<Word, Index> x = entry(i);
    if (x < selection.low || selection.split < x) continue;
    seen.see(x.key);
    atomicAdd(histogram + digit.of(static_cast<Word>(x.key - selection.low.key),
                                   static_cast<Index>(x.reversed - selection.low.reversed)),
              1u);
  }
}

// So few candidates are compared, each with all: a digit's barriers take longer.
inline constexpr int kListCompared = 128;

// Resolves digits of the selection's candidates, which differ in so many bits, until no more than `slack` of
// them are more than is owed: what reaches the bound that is returned are the winners and those. entry(i) is
// number i of `count` in a list in shared memory; no two are equal, and it may have others than the
// candidates. `histogram` has 2^digit_bits bins, blockDim.x * kBinsPerThread at most. Called by all threads
// of a block; the same in all.
template <class Word, class Index, class Entry>
__device__ ExtendedKey<Word, Index> narrow_in_list(int count, Selection<Word, Index> selection,
                                                   uint64_t slack, int digit_bits, int key_bits,
                                                   int index_bits, uint32_t* histogram,
                                                   TargetDigitScratch<uint32_t>& scratch, Entry&& entry) {
  for (int pass = 1; selection.candidates - selection.owed > slack; ++pass) {
    const Digit digit = digit_of_pass(pass, digit_bits, key_bits, index_bits);
    clear_histogram(histogram, 1 << digit.width());
    __syncthreads();  // no thread counts into bins that another has yet to clear
    SeesNothing nothing;
    count_in_list(count, selection, digit, histogram, nothing, entry);
    __syncthreads();  // all have counted
    const TargetDigit<uint32_t> target =
        find_target_digit(histogram, 1 << digit.width(), selection.owed, scratch);
    selection.narrow(digit, target.digit, target.above, target.count);
  }
  return selection.low;
}

// The first digit of a list's keys, over their range.
template <class Word, class Index>
struct ListDigit {
  Selection<Word, Index> all;
  Digit digit;
  int key_bits, index_bits;  // below it

  // Counts it. `scratch` has the range; otherwise as bound_in_list.
  template <class Entry>
  __device__ static ListDigit counted(int count, int index_bits, int digit_bits, uint32_t* histogram,
                                      const ListSelectionScratch<Word>& scratch, Entry&& entry) {
    const int key_bits = bits_of(static_cast<Word>(scratch.range.greatest - scratch.range.least));
    const Digit digit = digit_of_pass(1, digit_bits, key_bits, index_bits);
    auto all = Selection<Word, Index>::whole_row(/*k=*/1, count);
    all.low.key = static_cast<Word>(scratch.range.least);
    clear_histogram(histogram, 1 << digit.width());
    __syncthreads();  // no thread counts into bins that another has yet to clear
    SeesNothing nothing;
    count_in_list(count, all, digit, histogram, nothing, entry);
    __syncthreads();  // all have counted
    return {all, digit, key_bits - digit.key_width, index_bits - digit.index_width};
  }

  // What the digit leaves of the list for the entry of a rank. By all threads.
  __device__ Selection<Word, Index> selection_of(uint64_t rank, const uint32_t* histogram,
                                                 ListSelectionScratch<Word>& scratch) const {
    Selection<Word, Index> selection = all;
    selection.owed = rank;
    const auto target = find_target_digit(histogram, 1 << digit.width(), rank, scratch.target);
    selection.narrow(digit, target.digit, target.above, target.count);
    return selection;
  }
};

// A bound that k of `count` entries reach, and `slack` more at most; 1 <= k <= count. Digits are of the keys'
// range, which `scratch` has.
template <class Word, class Index, class Entry>
__device__ ExtendedKey<Word, Index> bound_in_list(int count, uint64_t k, uint64_t slack, int index_bits,
                                                  int digit_bits, uint32_t* histogram,
                                                  ListSelectionScratch<Word>& scratch, Entry&& entry) {
  auto selection = Selection<Word, Index>::whole_row(k, count);
  selection.low.key = static_cast<Word>(scratch.range.least);
  const int key_bits = bits_of(static_cast<Word>(scratch.range.greatest - scratch.range.least));
  return narrow_in_list(count, selection, slack, digit_bits, key_bits, index_bits, histogram, scratch.target,
                        entry);
}

}  // namespace gputopk::cuda
