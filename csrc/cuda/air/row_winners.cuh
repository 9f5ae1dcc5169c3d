// Step 3 of a resident row (resident_row.cu): the winners among what is listed are put in order, and written.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/air/numbers.h"
#include "cuda/device/bin_starts.cuh"
#include "cuda/device/block_loop.cuh"
#include "cuda/device/block_sort.cuh"
#include "cuda/device/entry.cuh"
#include "cuda/device/placed_entries.cuh"
#include "cuda/device/resident_row.cuh"
#include "cuda/device/sort_bins.cuh"
#include "cuda/device/warp.cuh"
#include "cuda/device/warp_sort.cuh"
#include "cuda/device/winner_writer.cuh"

namespace gputopk::cuda::air {

using Index = uint32_t;

// Of entries in bins: comparisons that ranking takes, the bin of the k-th best, and how far the least of what
// is left lies below the greatest.
struct BinScratch {
  uint32_t warp_sums[32];
  uint32_t comparisons, kth_bin;
  unsigned long long distance;

  __device__ void reset() {
    comparisons = 0;
    distance = 0;
  }
};

template <class Bits>
struct WriteWinner {
  const Bits* input;
  int k;
  WinnerWriter<Bits> output;

  __device__ __forceinline__ void operator()(int rank, Index index) const {
    if (rank < k) output.write(rank, input[index], index);
  }
  __device__ __forceinline__ void operator()(int rank, Bits bits, Index index) const {
    if (rank < k) output.write(rank, bits, index);
  }
};

// What stands for an element in a list, the greater, the better: no two are equal, and 0 stands for none.
template <class Bits>
struct Listed {
  using Pack = EntryOf<Bits, Index>;
  static constexpr bool kNarrow = Resident<Bits>::kDistinct;
  using Entry = std::conditional_t<kNarrow, typename Resident<Bits>::Held, typename Pack::type>;

  __device__ static Entry entry(Bits key, Index index) {
    if constexpr (kNarrow) return Resident<Bits>::held(key, index);
    return Pack::pack(key, index);
  }
  __device__ static Index index(Entry entry) {
    if constexpr (kNarrow) return Resident<Bits>::index(entry);
    return Pack::index(entry);
  }
};

// For few, no more than threads: each warp puts 32 in order, and looks up in each other warp's 32 how
// many are better.
template <class Order>
__device__ __noinline__ void write_in_runs(int listed, Order order,
                                           BlockMemory<typename Order::Bits, Index> memory,
                                           WriteWinner<typename Order::Bits> write) {
  using Of = Listed<typename Order::Bits>;
  using Entry = typename Of::Entry;
  auto* const all = reinterpret_cast<Entry*>(memory.counters);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int runs = (listed + 31) / 32;
  Entry own[1] = {};
  if (thread < listed) {
    const Index index = memory.indices[thread];
    own[0] = Of::entry(order(write.input[index]), index);
  }
  if (warp < runs) {
    sort_warp</*kDescending=*/true>(own);
    all[thread] = own[0];
  }
  __syncthreads();  // all are in order
  const Entry entry = own[0];
  if (entry == 0) return;
  int rank = lane;
  for (int other = 0; other < runs; ++other) {
    if (other == warp) continue;
    const Entry* const run = all + 32 * other;
    int better = 0;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) better += run[better + step - 1] > entry ? step : 0;
    rank += better + (run[better] > entry);
  }
  write(rank, Of::index(entry));
}

// A block's dynamic shared memory: what it sorts in, with room for keys in place of values.
template <class Bits>
__device__ BlockMemory<Bits, Index> memory_of(unsigned char* base, int room) {
  BlockMemory<Bits, Index> memory(base, room);
  memory.counters =
      reinterpret_cast<uint32_t*>(base + (sizeof(Index) + sizeof(typename KeyWord<Bits>::type)) * room);
  return memory;
}

// Bins of equal parts of a range of keys.
template <class Word>
class EvenBins {
 public:
  __device__ EvenBins(Word least, Word greatest, int empty_bits, int, int count_of_bins)
      : greatest_(greatest),
        empty_bits_(empty_bits),
        shift_(max(
            bits_of(static_cast<Word>(greatest - least)) - bits_of(static_cast<uint32_t>(count_of_bins - 1)),
            empty_bits)) {}

  __device__ Word distance_of(Word key) const { return greatest_ - min(key, greatest_); }  // NaNs are beyond
  __device__ uint32_t of(Word key, Index) const { return static_cast<uint32_t>(distance_of(key) >> shift_); }
  __device__ bool has_bins_of_several() const { return shift_ > empty_bits_; }

 private:
  Word greatest_;
  int empty_bits_, shift_;
};

// The same of a range that has fewer keys: those of each key are parts of the row.
template <class Word>
class IndexBins {
 public:
  __device__ IndexBins(Word least, Word greatest, int empty_bits, int cols, int count_of_bins)
      : greatest_(greatest), empty_bits_(empty_bits), col_bits_(bits_of(static_cast<uint32_t>(cols - 1))) {
    part_bits_ = min(col_bits_, spare_bits(least, greatest, empty_bits, count_of_bins));
  }
  // Of a bin's number, so many that no key takes.
  __device__ static int spare_bits(Word least, Word greatest, int empty_bits, int count_of_bins) {
    return bits_of(static_cast<uint32_t>(count_of_bins - 1)) -
           bits_of(static_cast<Word>(((greatest - least) >> empty_bits) + 1));
  }

  __device__ Word distance_of(Word key) const { return greatest_ - min(key, greatest_); }
  __device__ uint32_t of(Word key, Index index) const {
    // A NaN has no part with what is greatest, as one of them may be at any place.
    const uint32_t digit = key > greatest_ ? 0 : static_cast<uint32_t>(distance_of(key) >> empty_bits_) + 1;
    return (digit << part_bits_) + (index >> (col_bits_ - part_bits_));
  }
  __device__ static bool has_bins_of_several() { return false; }

 private:
  Word greatest_;
  int empty_bits_, col_bits_, part_bits_;
};

// Where keys crowd in some of their bins, a group of bins has new ones, as many as entries, for its own
// range.
template <class Word>
struct GroupedBins {
  EvenBins<Word> bins;
  const GroupBins<Word, Index>& groups;

  __device__ uint32_t of(Word key, Index index) const {
    return groups.group[bins.of(key, index) >> groups.bins_log2].bin_of(key, index);
  }
};

// A thread's entries of a list, number `thread + e * threads` each, on their way to bins.
template <int kItems, class Word>
struct OwnEntries {
  Word keys[kItems];
  Index indices[kItems];
  uint32_t places[kItems];  // in their bins: how many came before

  // Calls visit(e, at) for each that there is, number `at` of the list.
  template <class Visit>
  __device__ __forceinline__ static void each(int listed, Visit&& visit) {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      if (thread + e * threads >= listed) break;
      visit(e, thread + e * threads);
    }
  }
  // Counts them in their bins, which were zero, and finds where these start; read(e, at) comes before an
  // entry is counted. By all threads of a block.
  template <class BinOf, class Read>
  __device__ __forceinline__ void count(int listed, const BinOf& bin_of, uint32_t* bins, int count_of_bins,
                                        BinScratch& scratch, Read&& read) {
    uint32_t met = 0;
    each(listed, [&](int e, int at) {
      read(e, at);
      places[e] = atomicAdd(bins + bin_of.of(keys[e], indices[e]), 1u);
      met += places[e];
    });
    add_met(met, scratch.comparisons);
    __syncthreads();  // all are counted
    start_bins(bins, count_of_bins, scratch.warp_sums);
  }
  // Brings those for which is_wanted(bin, key) to their bins.
  template <class BinOf, class IsWanted>
  __device__ __forceinline__ void bring(int listed, const BinOf& bin_of, const uint32_t* bins, Index* list,
                                        Word* list_keys, IsWanted&& is_wanted) const {
    each(listed, [&](int e, int) {
      const uint32_t bin = bin_of.of(keys[e], indices[e]);
      if (!is_wanted(bin, keys[e])) return;
      const uint32_t at = bins[bin] + places[e];
      list_keys[at] = keys[e];
      list[at] = indices[e];
    });
  }
};

// Ranks entries that lie in their bins, by comparing each with those of its bin.
template <int kItems, class Compared, class Bits, class Word, class BinOf>
__device__ __forceinline__ void rank_in_bins(int listed, const Compared& numbers, const Word* keys,
                                             const Index* list, const uint32_t* bins, const BinOf& bin_of,
                                             const WriteWinner<Bits>& write) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    const int at = thread + e * threads;
    if (at >= listed) break;
    const Word key = keys[at];
    const Index index = list[at];
    Bits bits;
    if (!numbers.bits_of_all(Compared::number_of(key), bits)) bits = write.input[index];
    const uint32_t bin = bin_of.of(key, index), end = bins[bin + 1];
    uint32_t rank = bins[bin];
    for (uint32_t other = rank; other < end; ++other) {
      const Word other_key = keys[other];
      rank += (other_key > key) | ((other_key == key) & (list[other] < index));
    }
    write(static_cast<int>(rank), bits, index);
  }
}

// Ranks `listed` entries that lie in their bins, of which `bins` are the starts, but crowd there: each group
// of bins is dealt new ones. False, list and keys as they were, where they crowd there too. By all threads of
// a block, a barrier behind the entries.
template <int kItems, class Compared, class Word, class Bits>
__device__ __noinline__ bool write_by_groups(int listed, Compared numbers, EvenBins<Word> bin_of,
                                             int count_of_bins, Index* list, Word* keys, uint32_t* bins,
                                             GroupBins<Word, Index>& groups, BinScratch& scratch,
                                             WriteWinner<Bits> write) {
  using Groups = GroupBins<Word, Index>;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int per_group = max(count_of_bins / Groups::kMostGroups, Groups::kLeastBins);
  const int group_count = min(count_of_bins / Groups::kLeastBins, Groups::kMostGroups);
  each_in_block(group_count, [&](int group) {
    // Starts behind the k-th best's bin count entries that have been left out.
    const auto start = [&](int bin) { return min(bins[bin], static_cast<uint32_t>(listed)); };
    groups.group[group].reset(start(group * per_group), start((group + 1) * per_group));
  });
  if (thread == 0) {
    groups.bins_log2 = bits_of(static_cast<uint32_t>(per_group - 1));
    scratch.reset();
  }
  OwnEntries<kItems, Word> own{};
  own.each(listed, [&](int e, int at) {
    own.keys[e] = keys[at];
    own.indices[e] = list[at];
  });
  __syncthreads();  // groups have their entries, and starts are not in use
  clear_bins(bins, bins_of(listed));
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    const int at = thread + e * threads;
    if (at - at % 32 >= listed) break;
    const bool is_there = at < listed;
    const Word key = own.keys[e];
    const Index index = own.indices[e];
    groups.see(is_there, is_there ? bin_of.of(key, index) : 0, key, index);
  }
  __syncthreads();  // all ranges are known
  each_in_block(group_count, [&](int group) { groups.group[group].divide(); });
  __syncthreads();  // bins are clear, and groups know theirs
  const GroupedBins<Word> new_bin_of{bin_of, groups};
  own.count(listed, new_bin_of, bins, bins_of(listed), scratch, [](int, int) {});
  if (scratch.comparisons > static_cast<uint32_t>(tuning::kAirResidentFullBin * listed)) return false;
  own.bring(listed, new_bin_of, bins, list, keys, [](uint32_t, Word) { return true; });
  __syncthreads();  // all are in their bins
  rank_in_bins<kItems>(listed, numbers, keys, list, bins, new_bin_of, write);
  return true;
}

// Where keys spread over `least` to `greatest`: each entry is brought to its bin of the range, and
// ranked among those that are there. Where that takes too many comparisons, what lies behind the k-th best's
// bin is left out of the list. If that is one of the first, it is out of the range too, and bins are dealt
// out anew; else groups of bins are. False, and nothing is written, where that does not do.
// `list`, keys and zeroed bins are in shared memory, scratch is reset. By all threads of a block.
template <int kItems, class BinOf, class Compared, class Word>
__device__ __forceinline__ bool write_by_bins(int& listed, int cols, const Compared& numbers, Word least,
                                              Word greatest, Index* list, Word* keys, uint32_t* bins,
                                              int count_of_bins, BinScratch& scratch,
                                              GroupBins<Word, Index>& groups,
                                              const WriteWinner<typename Compared::Bits>& write) {
  const int thread = static_cast<int>(threadIdx.x);
  const uint32_t end_of_bins = static_cast<uint32_t>(count_of_bins);
  for (;;) {
    const BinOf bin_of(least, greatest, numbers.empty_bits(), cols, count_of_bins);
    OwnEntries<kItems, Word> own;
    own.count(listed, bin_of, bins, count_of_bins, scratch, [&](int e, int at) {
      own.indices[e] = list[at];
      own.keys[e] = numbers.rank_key(write.input[own.indices[e]]);
    });
    const bool crowded = scratch.comparisons > static_cast<uint32_t>(tuning::kAirResidentFullBin * listed);
    uint32_t bins_left = end_of_bins;
    if (crowded) {
      if (!bin_of.has_bins_of_several()) return false;
      const uint32_t kth = static_cast<uint32_t>(min(write.k, listed) - 1);
      each_in_block(count_of_bins, [&](int bin) {
        if (bins[bin] <= kth && kth < bins[bin + 1]) scratch.kth_bin = static_cast<uint32_t>(bin);
      });
      __syncthreads();  // the bin is found
      bins_left = scratch.kth_bin + 1;
    }
    Word farthest = 0;
    own.bring(listed, bin_of, bins, list, keys, [&](uint32_t bin, Word key) {
      if (bin < bins_left) farthest = max(farthest, bin_of.distance_of(key));
      return bin < bins_left;
    });
    if (!crowded) {
      __syncthreads();  // all are in their bins
      rank_in_bins<kItems>(listed, numbers, keys, list, bins, bin_of, write);
      return true;
    }
    farthest = warp_max(farthest);
    if (thread % 32 == 0) atomicMax(&scratch.distance, static_cast<unsigned long long>(farthest));
    __syncthreads();  // what is left is in the list
    listed = static_cast<int>(bins[bins_left]);
    if constexpr (std::is_same_v<BinOf, EvenBins<Word>>) {
      if (bins_left * tuning::kAirResidentNarrowing > end_of_bins) {
        return write_by_groups<kItems>(listed, numbers, bin_of, count_of_bins, list, keys, bins, groups,
                                       scratch, write);
      }
    }
    least = greatest - static_cast<Word>(scratch.distance);
    if (least == greatest) return false;
    __syncthreads();  // all know what is left
    clear_bins(bins, count_of_bins);
    if (thread == 0) scratch.reset();
    __syncthreads();  // no thread counts into bins that another has yet to clear
  }
}

// write_by_bins where the range has few keys.
template <int kItems, class Compared, class Word>
__device__ __noinline__ bool write_by_index_bins(int listed, int cols, Compared numbers, Word least,
                                                 Word greatest, Index* list, Word* keys, uint32_t* bins,
                                                 int count_of_bins, BinScratch& scratch,
                                                 GroupBins<Word, Index>& groups,
                                                 WriteWinner<typename Compared::Bits> write) {
  return write_by_bins<kItems, IndexBins<Word>>(listed, cols, numbers, least, greatest, list, keys, bins,
                                                count_of_bins, scratch, groups, write);
}

// Wherever keys are. What the list holds beyond the row's end is worse than all.
template <class Order>
__device__ __noinline__ void write_sorted(
    int listed, const typename Order::Bits* input, int cols, Order order,
    BlockMemory<typename Order::Bits, Index> memory,
    BlockScratch<typename KeyWord<typename Order::Bits>::type, Index>& scratch,
    WriteWinner<typename Order::Bits> write) {
  using Bits = typename Order::Bits;
  sort_in_block<tuning::kAirResidentItems>(
      listed, write.k, order, memory, scratch,
      [&](int i, Bits& bits, Index& index) {
        index = memory.indices[i];
        bits = index < static_cast<Index>(cols) ? input[index] : order.worst();
      },
      [&](int rank, Bits, Index index) { write(rank, index); });
}

}  // namespace gputopk::cuda::air
