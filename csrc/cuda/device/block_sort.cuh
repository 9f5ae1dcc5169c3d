// A block puts entries in order: best first, equal keys by index.
//
// The entries' extended keys, (key, index), differ in all. One digit of their own range, as many bins as
// there are entries, brings each to within a few places of where it belongs; there it is ranked by comparing
// it with its bin. (Of floats of both signs the digit is one of the range of their values; equals of a bound
// that a caller tells of have bins of their own, by index.) Where that takes
// too many comparisons, bins are dealt out anew: half of them to the small part of the range in which most
// entries lie (ties at a threshold, say, and some elements far above), or else, to each part of it, as many
// as it has entries, for its own range (floats of both signs, or winners that are near to each other but far
// from the rest). Where they crowd all the same, digit after digit is sorted by from the lowest, which no
// input makes slower.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/bin_starts.cuh"
#include "cuda/device/block_loop.cuh"
#include "cuda/device/block_sort.h"
#include "cuda/device/digit_sort.cuh"
#include "cuda/device/entry.cuh"
#include "cuda/device/key_range.cuh"
#include "cuda/device/numbers.h"
#include "cuda/device/placed_entries.cuh"
#include "cuda/device/sort_bins.cuh"
#include "cuda/device/warp_sort.cuh"

namespace gputopk::cuda {

template <class Order, class Index>
inline constexpr int kItems =
    sizeof(typename Order::Bits) == 8 || sizeof(Index) == 8 ? tuning::kSortWideItems : tuning::kSortItems;

template <class Word, class Index, class Bins_ = SortBins<Word, Index>>
struct BlockScratch {
  using Bins = Bins_;

  uint32_t warp_sums[32];
  uint32_t comparisons;
  uint32_t first, last;  // the bins of most entries
  uint32_t outside;      // comparisons that ranking the others takes
  bool in_groups;        // bins dealt out anew, or else spread
  Bins all;              // not set while KeyBins alone serve
  SpreadBins<Word, Index> spread;
  union {  // one after the other
    SeenEntries<Word, Index> of_warps[tuning::kSortMaxThreads / 32];
    GroupBins<Word, Index> groups;
  };

  __device__ uint32_t new_bin_of(Word key, Index index) const {
    if (!in_groups) return spread.of(all, key, index);
    return groups.group[all.of(key, index) >> groups.bins_log2].bin_of(key, index);
  }
};

// Adds the comparisons that entries take which have met so many others in their bins before them. By whole
// warps.
__device__ inline void add_met(uint32_t met, uint32_t& comparisons) {
  met = __reduce_add_sync(~0u, met);
  if (threadIdx.x % 32 == 0) atomicAdd(&comparisons, 2 * met);
}

// Brings entries that threads hold, number `thread + e * threads` each, to their bins in memory; bins are
// zero. with_bins(visit) calls visit(bin_of) once. scratch.comparisons is then what ranking within bins
// takes. By all threads of a block, with barriers before and behind.
template <int kItems, class Order, class Index, bool kPacks, class Scratch, class WithBins,
          class Bits = typename Order::Bits>
__device__ __forceinline__ void place_in_bins(int count, const Order& order,
                                              const PlacedEntries<Order, Index, kPacks>& placed,
                                              uint32_t* bins, Scratch& scratch, const Bits (&bits)[kItems],
                                              const Index (&indices)[kItems], WithBins&& with_bins) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int first_of_warp = thread - thread % 32;
  uint32_t places[kItems];  // the bin, and how many came to it before
  uint32_t met = 0;
  if (first_of_warp < count) {
    with_bins([&](auto&& bin_of) {
#pragma unroll
      for (int e = 0; e < kItems; ++e) {
        if (first_of_warp + e * threads >= count) break;
        if (thread + e * threads < count) {
          const uint32_t bin = bin_of(order(bits[e]), indices[e]), before = atomicAdd(bins + bin, 1u);
          places[e] = bin << 16 | before;
          met += before;
        }
      }
    });
    add_met(met, scratch.comparisons);
  }
  __syncthreads();  // all have come to their bins
  start_bins(bins, bins_of(count), scratch.warp_sums);
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    if (first_of_warp + e * threads >= count) break;
    if (thread + e * threads < count) {
      placed.put(order, static_cast<int>(bins[places[e] >> 16] + (places[e] & 0xFFFF)), bits[e], indices[e]);
    }
  }
  __syncthreads();  // all are in their places
}

__device__ inline void clear_bins(uint32_t* bins, int count_of_bins) {
  each_in_block(count_of_bins / 4, [&](int i) { reinterpret_cast<uint4*>(bins)[i] = uint4{}; });
}

// Brings entries that are placed in bins of their range, which are scratch.all from then on, to new ones,
// scratch.new_bin_of. Most entries are what is left when a sixteenth of them is taken off at either end, if
// that does not crowd itself. By all threads of a block.
template <int kItems, class Order, class Index, bool kPacks, class Scratch, class Bits = typename Order::Bits>
__device__ __noinline__ void deal_bins_anew(int count, Order order,
                                            PlacedEntries<Order, Index, kPacks> placed, uint32_t* bins,
                                            EntryRange<typename KeyWord<Bits>::type, Index> range,
                                            Scratch& scratch, typename Scratch::Bins::KnownTies ties) {
  using Word = typename KeyWord<Bits>::type;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int count_of_bins = bins_of(count);
  const uint32_t margin = static_cast<uint32_t>(count) / 16;
  const auto holds = [&](int bin, uint32_t place) { return bins[bin] <= place && place < bins[bin + 1]; };
  if (thread == 0) {
    scratch.outside = 0;
    scratch.all = Scratch::Bins::over(order, range, count_of_bins, ties);
  }
  __syncthreads();  // the sum is zero
  uint32_t outside = 0;
  each_in_block(count_of_bins, [&](int bin) {
    const uint32_t begin = bins[bin], end = bins[bin + 1];
    if (holds(bin, margin)) scratch.first = static_cast<uint32_t>(bin);
    if (holds(bin, count - 1 - margin)) scratch.last = static_cast<uint32_t>(bin);
    if (end <= margin || begin > count - 1 - margin) outside += (end - begin) * (end - begin);
  });
  outside = __reduce_add_sync(~0u, outside);
  if (thread % 32 == 0) atomicAdd(&scratch.outside, outside);
  __syncthreads();  // all have added, and most entries' bins are known
  const uint32_t first = scratch.first, last = scratch.last;
  const bool in_groups =
      (last - first + 1) * tuning::kSortSpreadGain > static_cast<uint32_t>(count_of_bins) ||
      scratch.outside > static_cast<uint32_t>(tuning::kSortFullBin * count);
  using Groups = GroupBins<Word, Index>;
  const int per_group = max(count_of_bins / Groups::kMostGroups, Groups::kLeastBins);
  const int groups = min(count_of_bins / Groups::kLeastBins, Groups::kMostGroups);
  if (!in_groups) {
    SeenEntries<Word, Index> seen{};
    const int end = static_cast<int>(bins[last + 1]);
#pragma unroll 1
    for (int i = static_cast<int>(bins[first]) + thread; i < end; i += threads) {
      const auto entry = placed.get(order, i);
      seen.see(entry.key, entry.index);
    }
    const auto of_most = seen.range_over_block(scratch.of_warps);
    if (thread == 0) {
      const auto within = DigitBins<Word, Index>::over(of_most, count_of_bins / 2);
      scratch.spread =
          SpreadBins<Word, Index>::over(within, first, last, static_cast<uint32_t>(count_of_bins));
    }
  } else {
    each_in_block(groups, [&](int group) {
      scratch.groups.group[group].reset(bins[group * per_group], bins[(group + 1) * per_group]);
    });
    if (thread == 0) scratch.groups.bins_log2 = bits_of(static_cast<uint32_t>(per_group - 1));
  }
  if (thread == 0) scratch.in_groups = in_groups;
  Bits bits[kItems];
  Index indices[kItems];
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    if (thread + e * threads < count) {
      const auto entry = placed.get(order, thread + e * threads);
      bits[e] = entry.bits;
      indices[e] = entry.index;
    }
  }
  __syncthreads();
  clear_bins(bins, count_of_bins);
  if (thread == 0) scratch.comparisons = 0;
  if (in_groups) {
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      const int at = thread + e * threads;
      if (at - at % 32 >= count) break;
      const bool is_there = at < count;
      const Word key = is_there ? order(bits[e]) : Word{};
      const Index index = is_there ? indices[e] : Index{};
      scratch.groups.see(is_there, scratch.all.of(key, index), key, index);
    }
    __syncthreads();  // all ranges are known
    each_in_block(groups, [&](int group) { scratch.groups.group[group].divide(); });
  }
  __syncthreads();  // bins are clear, and groups know theirs
  place_in_bins<kItems>(count, order, placed, bins, scratch, bits, indices, [&](auto&& visit) {
    visit([&](Word key, Index index) { return scratch.new_bin_of(key, index); });
  });
}

// Clears what sort_prepared needs clear. By all threads of a block, with a barrier before that.
template <class Bits, class Index, class Scratch>
__device__ __forceinline__ void prepare_sort(int count, const BlockMemory<Bits, Index>& memory,
                                             Scratch& scratch) {
  clear_bins(memory.counters, bins_of(count));
  if (threadIdx.x == 0) scratch.comparisons = 0;
}

// Ranks few entries, no more than threads: for so few, the barriers of bins take longer. Fewer yet are
// compared with all, by as many lanes as there are for each; else warps sort runs of 32, in all of which each
// entry is looked up. As sort_prepared.
template <class Order, class Index, class Read, class Write>
__device__ __forceinline__ void rank_few(int count, int wanted, const Order& order,
                                         const BlockMemory<typename Order::Bits, Index>& memory, Read&& read,
                                         Write&& write) {
  using Bits = typename Order::Bits;
  using Packed = EntryOf<Bits, Index>;
  using Entry = typename Packed::type;
  struct alignas(16) Pair {
    Entry first, second;
  };
  auto* const entries = reinterpret_cast<Entry*>(memory.counters);
  const unsigned thread = threadIdx.x, all = static_cast<unsigned>(count);
  const bool in_runs =
      all > min(static_cast<unsigned>(tuning::kSortComparedFew), blockDim.x / tuning::kSortComparedLanes);
  unsigned lanes_log2 = 0;
  while (!in_runs && lanes_log2 < 5 && (all << (lanes_log2 + 1)) <= blockDim.x) ++lanes_log2;
  const unsigned lanes = 1u << lanes_log2, own = thread >> lanes_log2, first = thread & (lanes - 1);
  Bits bits{};
  Index index{};
  Entry entry = 0;  // less than all
  if (own < all) {
    read(static_cast<int>(own), bits, index);
    entry = Packed::pack(order(bits), index);
  }
  const unsigned runs = (all + 31) / 32;
  if (in_runs) {
    if (thread < 32 * runs) {
      Entry sorted[1] = {entry};
      sort_warp</*kDescending=*/true>(sorted);
      entries[thread] = sorted[0];
    }
  } else {
    if (own < all && first == 0) entries[own] = entry;
    if (thread == 0) entries[all] = 0;  // the last pair may have one
  }
  __syncthreads();  // all are there
  int rank = 0;
  if (in_runs) {
    if (thread >= 32 * runs) return;
#pragma unroll 4
    for (unsigned run = 0; run < runs; ++run) {
      const Entry* const others = entries + 32 * run;
      int better = 0;
#pragma unroll
      for (int step = 16; step > 0; step /= 2) {
        if (others[better + step - 1] > entry) better += step;
      }
      rank += better + (others[better] > entry ? 1 : 0);
    }
  } else {
    if ((thread & ~31u) >= all << lanes_log2) return;
    const Pair* const pairs = reinterpret_cast<const Pair*>(entries);
#pragma unroll 4
    for (unsigned i = first; 2 * i < all; i += lanes) {
      const Pair others = pairs[i];
      rank += (others.first > entry) + (others.second > entry);
    }
    for (unsigned step = lanes / 2; step > 0; step /= 2) rank += __shfl_xor_sync(~0u, rank, step);
  }
  if (own < all && first == 0 && rank < wanted) write(rank, bits, index);
}

// Puts the best `wanted` of `count` entries in order, which are no more than blockDim.x * kItems: read(i,
// bits, index) gives number i and is called for all of them before write(rank, bits, index) is for any, once
// for each rank < wanted. `scratch` is a BlockScratch, of TiedBins where ties are told of. By all threads
// of a block, with a barrier before the next call.
template <int kItems, bool kPacks = false, class Order, class Index, class Scratch, class Read, class Write>
__device__ void sort_prepared(int count, int wanted, const Order& order,
                              const BlockMemory<typename Order::Bits, Index>& memory, Scratch& scratch,
                              Read&& read, Write&& write,
                              const typename Scratch::Bins::KnownTies& ties = {}) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  if (count <= min(tuning::kSortRankedFew, threads)) {
    rank_few(count, wanted, order, memory, read, write);
    return;
  }
  uint32_t* const bins = memory.counters;
  const int count_of_bins = bins_of(count);
  // Where entries are few, most warps have none, and do nothing but wait.
  const int first_of_warp = thread - thread % 32;
  Bits bits[kItems];
  Index indices[kItems];
  // Several at once, as they may be far away.
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    if ((e % 4 == 0 || e == 1) && first_of_warp + e * threads >= count) break;
    if (thread + e * threads < count) read(thread + e * threads, bits[e], indices[e]);
  }
  SeenEntries<Word, Index> seen{};
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    if (first_of_warp + e * threads >= count) break;
    if (thread + e * threads < count) seen.see(order(bits[e]), indices[e]);
  }
  const EntryRange<Word, Index> range =
      seen.range_over_warps(scratch.of_warps, min(threads, count + 31) / 32);
  const PlacedEntries<Order, Index, kPacks> placed(order, memory, range);
  // Other bins than these have many fields: they lie in memory.
  const auto keys = KeyBins<Word>::over(order, range, count_of_bins);
  const bool by_keys = keys.scale > 0 && !ties.exist();
  place_in_bins<kItems>(count, order, placed, bins, scratch, bits, indices, [&](auto&& visit) {
    if (by_keys) {
      visit([&](Word key, Index) { return keys.of(key); });
    } else if constexpr (std::is_same_v<typename Scratch::Bins::KnownTies, NoTies>) {
      const auto all = RangeBins<Word, Index>::over(order, range, count_of_bins);
      if (thread == 0) scratch.all = {keys, all};
      visit([&](Word key, Index index) { return all.of(key, index); });
    } else {
      const auto all = Scratch::Bins::over(order, range, count_of_bins, ties);
      if (thread == 0) scratch.all = all;
      visit([&](Word key, Index index) { return all.of(key, index); });
    }
  });

  const bool anew = scratch.comparisons >
                    static_cast<uint32_t>(tuning::kSortFullBin * count + tuning::kSortFullThread * threads);
  if (anew) {
    deal_bins_anew<kItems>(count, order, placed, bins, range, scratch, ties);
    if (scratch.comparisons > static_cast<uint32_t>(tuning::kSortCrowdedBin * count)) {
      const EntryRange<Word, Index> of_all = scratch.all.range();
      PlacedEntries<Order, Index, kPacks>(order, memory, of_all).template unpack<kItems>(order, count);
      sort_by_digits<kItems, Order, Index>(count, order, memory.entries(), memory.entries(), of_all,
                                           memory.counters);
      each_in_block(min(count, wanted), [&](int i) { write(i, memory.values[i], memory.indices[i]); });
      return;
    }
  }
  const auto rank = [&](auto&& bin_of) {
#pragma unroll 1
    for (int i = thread; i < count; i += threads) {
      const auto own = placed.get(order, i);
      const uint32_t bin = bin_of(own.key, own.index);
      const int first = static_cast<int>(bins[bin]), last = static_cast<int>(bins[bin + 1]);
      if (first >= wanted) break;  // nor is any behind it
      const int rank = first + placed.better(order, first, last, i, own);
      if (rank < wanted) write(rank, own.bits, own.index);
    }
  };
  // Apart, as what other bins have in memory would be read first.
  if (by_keys && !anew) {
    rank([&](Word key, Index) { return keys.of(key); });
  } else {
    rank([&](Word key, Index index) {
      return anew ? scratch.new_bin_of(key, index) : scratch.all.of(key, index);
    });
  }
}

// The same from the beginning.
template <int kItems, bool kPacks = false, class Order, class Index, class Scratch, class Read, class Write>
__device__ void sort_in_block(int count, int wanted, const Order& order,
                              const BlockMemory<typename Order::Bits, Index>& memory, Scratch& scratch,
                              Read&& read, Write&& write,
                              const typename Scratch::Bins::KnownTies& ties = {}) {
  prepare_sort(count, memory, scratch);
  __syncthreads();
  sort_prepared<kItems, kPacks>(count, wanted, order, memory, scratch, read, write, ties);
}

}  // namespace gputopk::cuda
