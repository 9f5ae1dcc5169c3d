// A bound from a sample of each row: every group of lanes has the best of some elements for a delegate, and
// the row's last block finds the delegate of a certain rank. row_sample.h says how large the sample is.
#pragma once

#include <cstdint>

#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/radix_passes.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/row_sample.h"
#include "cuda/device/sample.cuh"
#include "cuda/device/stored_candidates.cuh"

namespace gputopk::cuda {

template <class Bits, class Index>
struct Sample {
  int blocks_per_row;
  int group;
  int rank;  // of the bound, or one no more than `slack` behind it
  int slack;
  int upper;                                               // rank of the upper guess; 0: none
  int delegates;                                           // a row
  int lines;                                               // of memory that a lane looks at; 0: elements
  Strata strata;                                           // of either; one of each is read
  ExtendedKey<typename KeyWord<Bits>::type, Index>* list;  // rows x delegates

  // Lines are those that a row has wherever it begins.
  void set(const DelegateSample& sample, int64_t cols) {
    constexpr int kLineVectors = tuning::kSampleLineVectors;
    blocks_per_row = sample.blocks;
    delegates = sample.delegates;
    group = blocks_per_row * tuning::kPassThreads / delegates;
    rank = sample.rank;
    upper = sample.upper;
    lines = sample.lines;
    slack = rank / (lines > 0 ? tuning::kSampleLinesSlack : tuning::kSampleElementsSlack);
    strata = lines > 0 ? Strata::of((cols / kPerVector<Bits> - 1) / kLineVectors,
                                    int64_t{blocks_per_row} * (tuning::kPassThreads / kLineVectors) * lines)
                       : Strata::of(cols, delegates);
  }

  // The thread's element in part `part` of a row's sample of elements.
  __device__ int64_t element(int part) const {
    return strata.entry_of(static_cast<uint32_t>(part) * tuning::kPassThreads + threadIdx.x);
  }

  size_t shared_bytes() const { return sizeof(uint32_t) * kListBins + sizeof(*list) * delegates; }
};

// The best of this thread's elements in part `part` of a row's sample of lines: load(v) is vector number v of
// the row, and `head` the first one's first element.
template <class Order, class Index, class Load>
__device__ ExtendedKey<typename KeyWord<typename Order::Bits>::type, Index> best_of_lines(
    const Sample<typename Order::Bits, Index>& sample, int part, int head, Index last_index,
    const Order& order, Load&& load) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  constexpr int kLineVectors = tuning::kSampleLineVectors;  // an octet of lanes reads them
  constexpr int kOctets = 32 / kLineVectors;                // of a warp
  constexpr int kLines = tuning::kSampleLines;              // in flight a lane at most, a vector of each

  // The lines of a warp lie far apart, so that in a sorted row neighbours are in different delegates.
  const uint32_t octets =
      static_cast<uint32_t>(sample.blocks_per_row) * (tuning::kPassThreads / kLineVectors);
  const uint32_t octet =
      static_cast<uint32_t>(part) * (tuning::kPassThreads / kLineVectors) + threadIdx.x / kLineVectors;
  int64_t at[kLines];
  Vector<Bits> loaded[kLines];
#pragma unroll
  for (int v = 0; v < kLines; ++v) {
    if (v >= sample.lines) continue;
    const uint32_t stratum = (v * kOctets + octet % kOctets) * (octets / kOctets) + octet / kOctets;
    at[v] = sample.strata.entry_of(stratum) * kLineVectors + threadIdx.x % kLineVectors;
    loaded[v] = load(at[v]);
  }
  ExtendedKey<Word, Index> best{0, 0};
#pragma unroll
  for (int v = 0; v < kLines; ++v) {
    if (v >= sample.lines) continue;
#pragma unroll
    for (int i = 0; i < kPerVector<Bits>; ++i) {
      const Word key = order(loaded[v][i]);
      if (key > best.key || (v == 0 && i == 0)) {  // of equal ones, the first
        const int64_t index = head + at[v] * kPerVector<Bits> + i;
        best = {key, static_cast<Index>(last_index - static_cast<Index>(index))};
      }
    }
  }
  return best;
}

// Adds a thread's best in part `part` of a row's sample, or that of its group of lanes, to the row's
// delegates.
template <class Bits, class Index>
__device__ void add_delegate(const Sample<Bits, Index>& sample, int64_t row, int part,
                             ExtendedKey<typename KeyWord<Bits>::type, Index> best) {
  using Extended = ExtendedKey<typename KeyWord<Bits>::type, Index>;
  for (int step = 1; step < sample.group; step *= 2) {
    const Extended other{__shfl_xor_sync(~0u, best.key, step), __shfl_xor_sync(~0u, best.reversed, step)};
    if (best < other) best = other;
  }
  const int thread = part * tuning::kPassThreads + static_cast<int>(threadIdx.x);
  if (thread % sample.group != 0) return;
  sample.list[row * sample.delegates + thread / sample.group] = best;
}

// The bound, of a row's delegates, all of which are there; scratch.range is the range of their keys, up to
// the upper guess where there is one. `shared` has sample.shared_bytes(). By all threads of a block.
template <class Bits, class Index, class Word = typename KeyWord<Bits>::type>
__device__ ExtendedKey<Word, Index> bound_of_delegates(const Sample<Bits, Index>& sample, int64_t row,
                                                       int index_bits, unsigned char* shared,
                                                       ListSelectionScratch<Word>& scratch) {
  using Extended = ExtendedKey<Word, Index>;
  const Extended* const list = sample.list + row * sample.delegates;
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(shared);
  Extended* const local = reinterpret_cast<Extended*>(shared + sizeof(uint32_t) * kListBins);
  find_key_range</*kInFlight=*/8>(sample.delegates, scratch, [&](int i) {
    local[i] = {__ldcg(&list[i].key), __ldcg(&list[i].reversed)};
    return local[i].key;
  });
  const auto entry = [&](int i) { return local[i]; };
  const uint64_t rank = static_cast<uint64_t>(sample.rank), slack = static_cast<uint64_t>(sample.slack);
  if (sample.upper == 0) {
    return bound_in_list<Word, Index>(sample.delegates, rank, slack, index_bits, kListDigitBits, histogram,
                                      scratch, entry);
  }
  const auto first = ListDigit<Word, Index>::counted(sample.delegates, index_bits, kListDigitBits, histogram,
                                                     scratch, entry);
  const auto upper = first.selection_of(static_cast<uint64_t>(sample.upper), histogram, scratch);
  const auto lower = first.selection_of(rank, histogram, scratch);
  if (threadIdx.x == 0) scratch.range.greatest = upper.split.key;
  return narrow_in_list(sample.delegates, lower, slack, kListDigitBits, first.key_bits, first.index_bits,
                        histogram, scratch.target, entry);
}

// Writes the row's bound, and a key near its greatest or the upper guess, to its state. `best` is of this
// thread's elements in part `part` of the row's sample; `shared` has sample.shared_bytes(). By all threads of
// a kernel's blocks, which waits for the kernel before.
template <class Bits, class Index>
__device__ void find_bound(const RadixPasses<Bits, Index>& params, const Sample<Bits, Index>& sample,
                           int64_t row, int part, ExtendedKey<typename KeyWord<Bits>::type, Index> best,
                           unsigned char* shared) {
  using Word = typename KeyWord<Bits>::type;
  __shared__ ListSelectionScratch<Word> scratch;
  add_delegate(sample, row, part, best);

  wait_for_kernel_before();  // the row's state is zero
  auto& state = params.states[row];
  if (!is_last_block(&state.arrived, sample.blocks_per_row)) return;
  const ExtendedKey<Word, Index> bound = bound_of_delegates(sample, row, params.index_bits, shared, scratch);
  if (threadIdx.x == 0) {
    state.bound = bound;
    state.greatest = scratch.range.greatest;
  }
}

}  // namespace gputopk::cuda
