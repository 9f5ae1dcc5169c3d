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

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/device/block_loop.cuh"
#include "cuda/device/block_sort.h"
#include "cuda/device/entries.cuh"
#include "cuda/device/entry.cuh"
#include "cuda/device/key_range.cuh"
#include "cuda/device/numbers.h"
#include "cuda/device/resident_row.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/warp_sort.cuh"

namespace gputopk::cuda {

template <class Order, class Index>
inline constexpr int kItems =
    sizeof(typename Order::Bits) == 8 || sizeof(Index) == 8 ? tuning::kSortWideItems : tuning::kSortItems;

// A block's dynamic shared memory.
template <class Bits, class Index>
struct BlockMemory {
  static constexpr int kEntryBytes = sizeof(Index) + sizeof(Bits);

  Index* indices;
  Bits* values;
  uint32_t* counters;

  // `capacity` is a multiple of 64, so that all parts are aligned.
  __device__ BlockMemory(unsigned char* base, int capacity)
      : indices(reinterpret_cast<Index*>(base)),
        values(reinterpret_cast<Bits*>(base + sizeof(Index) * capacity)),
        counters(reinterpret_cast<uint32_t*>(base + kEntryBytes * capacity)) {}

  __device__ Entries entries() const { return {values, indices, sizeof(Index) == 8}; }
};

// The order of entries whose values are keys.
template <class Word>
struct KeysAsTheyAre {
  using Bits = Word;
  static constexpr bool kFloating = false;
  __device__ Word operator()(Word key) const { return key; }
};

// bins_for, without a loop.
__device__ inline int bins_of(int entries) {
  return max(kLeastBins, 1 << bits_of(static_cast<uint32_t>(max(entries, 1) - 1)));
}

// The bin of an entry, by one digit of a range.
template <class Word, class Index>
struct DigitBins {
  EntryRange<Word, Index> range;
  Digit digit;

  // `bins`: a power of two.
  __device__ static DigitBins over(const EntryRange<Word, Index>& range, int bins) {
    const int width = bits_of(static_cast<uint32_t>(bins - 1));
    DigitBins result{range, digit_of_pass(1, width, range.key_bits, range.index_bits)};
    result.digit.key_shift += range.trim;
    return result;
  }

  __device__ uint32_t of(Word key, Index index) const {
    return digit.of(range.key_distance(key), range.index_distance(index));
  }
};

// The same by equal parts of the range of values, for floats of both signs: most of the keys between two such
// are those of numbers near zero.
template <class Word>
struct ValueBins {
  float scale;  // bins of a range of one; 0: no such bins
  float greatest;
  uint32_t last;
  Word zero;  // the key of zero
  bool is_half, is_bfloat16;

  template <class Order>
  __device__ static ValueBins over(const Order& order, Word greatest, Word least, int bins) {
    using Bits = typename Order::Bits;
    ValueBins result{};
    if constexpr (Order::kFloating && sizeof(Bits) > 1) {
      result.zero = order(Bits{0});
      if (least >= result.zero || greatest <= result.zero) return result;
      result.last = static_cast<uint32_t>(bins - 1);
      result.is_half = order.max_magnitude == max_magnitude_bits(DType::kFloat16);
      result.is_bfloat16 = order.max_magnitude == max_magnitude_bits(DType::kBFloat16);
      result.greatest = result.value(greatest);
      const float scale = static_cast<float>(bins) / (result.greatest - result.value(least));
      // Neither of a range that is infinite or has a NaN at its end, nor infinite itself.
      if (scale > 0 && scale <= __uint_as_float(0x7F7FFFFF)) result.scale = scale;
    }
    return result;
  }

  // It rises with the key: a negative where the smallest are wanted.
  __device__ float value(Word key) const {
    const bool is_below = key < zero;
    const Word bits = is_below ? static_cast<Word>(zero - key) : static_cast<Word>(key - zero);
    float magnitude;
    if constexpr (sizeof(Word) == 8) {
      magnitude = static_cast<float>(__longlong_as_double(static_cast<long long>(bits)));
    } else if (is_half) {
      magnitude = __half2float(__ushort_as_half(static_cast<uint16_t>(bits)));
    } else {
      magnitude = __uint_as_float(is_bfloat16 ? bits << 16 : bits);
    }
    return is_below ? -magnitude : magnitude;
  }
  __device__ uint32_t of(Word key) const {
    return min(static_cast<uint32_t>((greatest - value(key)) * scale), last);
  }
};

template <class Word, class Index>
struct RangeBins {
  DigitBins<Word, Index> digits;
  ValueBins<Word> values;

  template <class Order>
  __device__ static RangeBins over(const Order& order, const EntryRange<Word, Index>& range, int bins) {
    return {DigitBins<Word, Index>::over(range, bins),
            ValueBins<Word>::over(order, range.greatest, range.least, bins)};
  }
  __device__ uint32_t of(Word key, Index index) const {
    return values.scale > 0 ? values.of(key) : digits.of(key, index);
  }
};

// By parts of the range of keys, towards the least of which there are most where the best of a row are left:
// parts are three times as narrow there as at the greatest.
template <class Word>
struct KeyBins {
  Word greatest;
  float scale;  // of a distance to its share of the range; 0: no such bins
  float half;   // of the bins
  uint32_t last;

  // None where keys are fewer than bins, or between them most are those of numbers near zero.
  template <class Order, class Index>
  __device__ static KeyBins over(const Order& order, const EntryRange<Word, Index>& range, int bins) {
    const Word zero = order(typename Order::Bits{0});
    const Word span = static_cast<Word>(range.greatest - range.least);
    const bool serves = (span >> range.trim) >= static_cast<Word>(bins) &&
                        !(Order::kFloating && range.least < zero && zero < range.greatest);
    const float scale = serves ? __fdividef(1.f, static_cast<float>(span)) : 0.f;
    return {range.greatest, scale, 0.5f * static_cast<float>(bins), static_cast<uint32_t>(bins - 1)};
  }
  __device__ uint32_t of(Word key) const {
    const float share = static_cast<float>(static_cast<Word>(greatest - key)) * scale;
    return min(static_cast<uint32_t>(share * (half + half * share)), last);  // falls as the key rises
  }
};

// What a caller knows of entries that share the least key: nothing.
struct NoTies {
  __device__ static constexpr bool exist() { return false; }
};

// That they are equals of a bound, which may be many, whose indices have no more than `bits` bits, and that
// no entry is worse. 0 bits: nothing is known.
template <class Word, class Index>
struct Ties {
  Word key;
  int bits;

  // All that reach the bound are sorted: its equals end at its own index. 0 reversed: anywhere in the row.
  __device__ static Ties at(const ExtendedKey<Word, Index>& bound, Index last_index) {
    return {bound.key, bound.reversed == 0 ? 0 : bits_of(static_cast<Index>(last_index - bound.reversed))};
  }
  __device__ bool exist() const { return bits > 0; }
};

// An entry's bin when a block sorts.
template <class Word, class Index>
struct SortBins {
  using KnownTies = NoTies;

  KeyBins<Word> keys;
  RangeBins<Word, Index> others;

  template <class Order>
  __device__ static SortBins over(const Order& order, const EntryRange<Word, Index>& range, int bins,
                                  NoTies = {}) {
    return {KeyBins<Word>::over(order, range, bins), RangeBins<Word, Index>::over(order, range, bins)};
  }
  __device__ uint32_t of(Word key, Index index) const {
    return keys.scale > 0 ? keys.of(key) : others.of(key, index);
  }
  __device__ const EntryRange<Word, Index>& range() const { return others.digits.range; }
};

// The same where ties may be known: half of the bins are theirs, by index.
template <class Word, class Index>
struct TiedBins {
  using KnownTies = Ties<Word, Index>;

  SortBins<Word, Index> above;
  Word tied;
  uint32_t first_of_tied;  // 0: there are no ties
  int shift;

  template <class Order>
  __device__ static TiedBins over(const Order& order, const EntryRange<Word, Index>& range, int bins,
                                  const KnownTies& ties) {
    const int half = ties.exist() ? bins / 2 : 0;
    return {SortBins<Word, Index>::over(order, range, bins - half), ties.key, static_cast<uint32_t>(half),
            max(ties.bits - bits_of(static_cast<uint32_t>(bins / 2 - 1)), 0)};
  }
  __device__ uint32_t of(Word key, Index index) const {
    if (first_of_tied > 0 && key == tied) return first_of_tied + static_cast<uint32_t>(index >> shift);
    return above.of(key, index);
  }
  __device__ const EntryRange<Word, Index>& range() const { return above.range(); }
};

// As `all`, of either kind, but half of the bins are for what lies in `first` to `last`, by a digit of its
// own range, as many values may lie near zero and few far from it; what comes before, and behind, is left a
// quarter each.
template <class Word, class Index>
struct SpreadBins {
  DigitBins<Word, Index> within;
  uint32_t first, last;  // of `all`
  uint32_t quarter;
  float before, behind;  // a quarter's bins to one of those, no more than one

  __device__ static SpreadBins over(const DigitBins<Word, Index>& within, uint32_t first, uint32_t last,
                                    uint32_t bins) {
    const uint32_t quarter = bins / 4;
    return {within, first, last, quarter, share_of(quarter, first), share_of(quarter, bins - 1 - last)};
  }

  template <class AllBins>
  __device__ uint32_t of(const AllBins& all, Word key, Index index) const {
    const uint32_t bin = all.of(key, index);
    if (bin < first) return static_cast<uint32_t>(static_cast<float>(bin) * before);
    if (bin <= last) return quarter + within.of(key, index);
    return 3 * quarter + static_cast<uint32_t>(static_cast<float>(bin - last - 1) * behind);
  }

  // bin < bins: bin * share_of(quarter, bins) < quarter, as there are fewer than 2^16 of either.
  __device__ static float share_of(uint32_t quarter, uint32_t bins) {
    return __fdividef(static_cast<float>(quarter), static_cast<float>(max(bins, quarter)));
  }
};

// Adjacent bins of a digit, whose entries are given as many new ones, for equal parts of their own range: of
// keys, or, where all keys are equal, of indices. In shared memory.
template <class Word, class Index>
struct BinGroup {
  KeyRange<Word> keys;
  KeyRange<Index> indices;
  uint32_t scale;         // bins of a part, times 2^kPartBits
  int shift;              // from a distance to its part
  uint32_t start, count;  // of entries, and of the new bins

  static constexpr int kPartBits = 16;

  __device__ void reset(uint32_t first, uint32_t last) {
    keys.reset();
    indices.reset();
    start = first;
    count = last - first;
  }
  __device__ bool by_index() const { return keys.least == keys.greatest; }
  // Once the ranges are known.
  __device__ void divide() {
    const uint64_t span = by_index() ? indices.greatest - indices.least : keys.greatest - keys.least;
    shift = max(bits_of(span) - kPartBits, 0);
    scale = (count << kPartBits) / (static_cast<uint32_t>(span >> shift) + 1);
  }
  __device__ uint32_t bin_of(Word key, Index index) const {
    const uint32_t part =
        by_index()
            ? static_cast<uint32_t>(static_cast<Index>(index - static_cast<Index>(indices.least)) >> shift)
            : static_cast<uint32_t>(static_cast<Word>(static_cast<Word>(keys.greatest) - key) >> shift);
    return start + (part * scale >> kPartBits);  // part * scale < count << kPartBits
  }
};
constexpr uint64_t kMostSorted = tuning::kSortMaxThreads * tuning::kSortItems;
static_assert(kMostSorted << BinGroup<uint32_t, uint32_t>::kPartBits <= uint64_t{1} << 32, "part * scale");

// The bin of an entry, where each group has its own.
template <class Word, class Index>
struct GroupBins {
  static constexpr int kMostGroups = 64, kLeastBins = 16;  // of a group

  int bins_log2;  // of a group
  BinGroup<Word, Index> group[kMostGroups];

  // Adds entries to their groups' ranges: by whole warps, whose lanes have entries side by side in order of
  // their bins, so that they are of one group most often. Lane 0 has one.
  __device__ void see(bool is_there, uint32_t bin, Word key, Index index) {
    const uint32_t own = is_there ? bin >> bins_log2 : 0;
    const uint32_t first = __shfl_sync(~0u, own, 0);
    if (__all_sync(~0u, !is_there || own == first)) {
      SeenKeys<Word> keys;
      SeenKeys<Index> indices;
      if (is_there) {
        keys.see(key);
        indices.see(index);
      }
      group[first].keys.add(keys);
      group[first].indices.add(indices);
    } else if (is_there) {
      group[own].keys.add(key);
      group[own].indices.add(index);
    }
  }
};

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

// Entries as they lie in memory while they are ranked. Where a key and an index have room in one word they
// lie in one, so that one comparison tells which entry is better: of 2-byte keys, in place of the index; of
// 4-byte ones, where kPacks has it, in place of both, a key as its distance from the least, if the pattern
// can be told from that. (That takes a few registers more, which kernels that do other things too do not
// have.)
template <class Order, class Index, bool kPacks>
class PlacedEntries {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Memory = BlockMemory<Bits, Index>;
  using Halves = Resident<Bits>;
  static constexpr bool kHalves = Halves::kDistinct && sizeof(Index) == 4;
  static constexpr bool kWholes = kPacks && sizeof(Bits) == 4 && sizeof(Index) == 4;

 public:
  struct Entry {
    Bits bits;
    Word key;
    Index index;
  };

  __device__ PlacedEntries(const Order& order, const Memory& memory, const EntryRange<Word, Index>& range)
      : memory_(memory), least_(range.least), least_index_(range.least_index), packs_(false) {
    if constexpr (kHalves) packs_ = range.index_bits <= 16;
    if constexpr (kWholes) {
      packs_ = order.distance_from(range.least, range.greatest, distance_) && distance_.keeps_all();
    }
  }

  __device__ __forceinline__ void put(const Order& order, int at, Bits bits, Index index) const {
    if constexpr (kWholes) {
      if (packs_) {
        words()[at] = uint64_t{distance_(bits)} << 32 | static_cast<Index>(~index);
        return;
      }
    }
    memory_.values[at] = bits;
    if constexpr (kHalves) {
      if (packs_) index = Halves::held(order(bits), index - least_index_);
    }
    memory_.indices[at] = index;
  }
  __device__ __forceinline__ Entry get(const Order& order, int at) const {
    if constexpr (kWholes) {
      if (packs_) {
        const uint64_t word = words()[at];
        const Word distance = static_cast<Word>(word >> 32);
        return {distance_.bits_at(distance), least_ + distance,
                static_cast<Index>(~static_cast<Index>(word))};
      }
    }
    const Bits bits = memory_.values[at];
    Index index = memory_.indices[at];
    if constexpr (kHalves) {
      if (packs_) index = least_index_ + Halves::index(index);
    }
    return {bits, order(bits), index};
  }
  // How many of those number `first` to `last` - 1 are better than `entry`, number `own`.
  __device__ __forceinline__ int better(const Order& order, int first, int last, int own,
                                        const Entry& entry) const {
    int better = 0;
    // Few: to have several under way at once takes longer.
    const auto each = [&](auto&& is_better) {
#pragma unroll 1
      for (int other = first; other < last; ++other) better += is_better(other);
    };
    if constexpr (kHalves || kWholes) {
      if (packs_) {
        const auto* const packed = [&] {
          if constexpr (kHalves) return memory_.indices;
          if constexpr (kWholes) return words();
        }();
        const auto word = packed[own];
        each([&](int other) { return packed[other] > word; });
        return better;
      }
    }
    each([&](int other) {
      const Word key = order(memory_.values[other]);
      return (key > entry.key) | ((key == entry.key) & (memory_.indices[other] < entry.index));
    });
    return better;
  }
  // Puts values and indices in their places. Of kItems a thread at most; by all threads of a block.
  template <int kItems>
  __device__ void unpack(const Order& order, int count) const {
    if (!packs_) return;
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    Entry entries[kItems];
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      if (thread + e * threads < count) entries[e] = get(order, thread + e * threads);
    }
    __syncthreads();  // all are taken out
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      if (thread + e * threads < count) {
        memory_.values[thread + e * threads] = entries[e].bits;
        memory_.indices[thread + e * threads] = entries[e].index;
      }
    }
    __syncthreads();  // all are back
  }

 private:
  // `capacity` words of 64 bits: the indices, and behind them the values.
  __device__ uint64_t* words() const { return reinterpret_cast<uint64_t*>(memory_.indices); }

  Memory memory_;
  Word least_;
  Index least_index_;
  KeyDistance<Word> distance_;
  bool packs_;
};

// Where a lane's four bins start, behind so many entries.
__device__ __forceinline__ uint4 starts_of(const uint4& count, uint32_t before) {
  return {before, before + count.x, before + count.x + count.y, before + count.x + count.y + count.z};
}

// start_bins, where there are more than a warp each scans in a step. Inlined: a call, though none took it,
// left kernels that hold entries in registers up to 1.4 times as slow.
__device__ __forceinline__ void start_many_bins(uint32_t* bins, int count_of_bins, uint32_t* warp_sums) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const unsigned steps = static_cast<unsigned>(count_of_bins) / kLeastBins;
  // As many as a power of two of the warps has each: others have none.
  const unsigned steps_a_warp = steps >> (31 - __clz(static_cast<int>(warps)));
  const unsigned first = min(warp * steps_a_warp, steps), last = min(first + steps_a_warp, steps);
  uint4* const vectors = reinterpret_cast<uint4*>(bins);
  uint32_t start = 0;
#pragma unroll 1
  for (unsigned step = first; step < last; ++step) {
    const uint4 count = vectors[step * 32 + lane];
    start += count.x + count.y + count.z + count.w;
  }
  start = __reduce_add_sync(~0u, start);
  if (lane == 0) warp_sums[warp] = start;
  __syncthreads();  // all warps have added up
  start = __reduce_add_sync(~0u, lane < warp ? warp_sums[lane] : 0);
#pragma unroll 1
  for (unsigned step = first; step < last; ++step) {
    const uint4 count = vectors[step * 32 + lane];
    const uint32_t own = count.x + count.y + count.z + count.w, so_far = sum_so_far(own);
    vectors[step * 32 + lane] = starts_of(count, start + so_far - own);
    start += __shfl_sync(~0u, so_far, 31);
  }
  if (first < last && last == steps && lane == 0) bins[count_of_bins] = start;
  __syncthreads();  // all bins have their starts
}

// Turns counts into where each bin starts, with one more start at the end; bins are a power of two from
// kLeastBins on. By all threads of a block.
__device__ __forceinline__ void start_bins(uint32_t* bins, int count_of_bins, uint32_t* warp_sums) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned steps = static_cast<unsigned>(count_of_bins) / kLeastBins;
  if (32 * steps > blockDim.x) {
    start_many_bins(bins, count_of_bins, warp_sums);
    return;
  }
  uint4* const own_bins = reinterpret_cast<uint4*>(bins) + threadIdx.x;
  uint4 count{};
  uint32_t before = 0;
  if (warp < steps) {
    count = *own_bins;
    const uint32_t own = count.x + count.y + count.z + count.w, so_far = sum_so_far(own);
    before = so_far - own;
    if (lane == 31) warp_sums[warp] = so_far;
  }
  __syncthreads();  // all warps have added up
  if (warp < steps) {
    before += __reduce_add_sync(~0u, lane < warp ? warp_sums[lane] : 0);
    *own_bins = starts_of(count, before);
    if (threadIdx.x == 32 * steps - 1) bins[count_of_bins] = before + count.x + count.y + count.z + count.w;
  }
  __syncthreads();  // all bins have their starts
}

// Adds the comparisons that entries take which have met so many others in their bins before them. By whole
// warps.
__device__ inline void add_met(uint32_t met, uint32_t& comparisons) {
  met = __reduce_add_sync(~0u, met);
  if (threadIdx.x % 32 == 0) atomicAdd(&comparisons, 2 * met);
}

// One digit of a sort from the lowest digit up: brings `count` entries to where their digit has them, in the
// order that they are in. `to` may be `from` where a block holds all of them. digit(bits, index) is below
// kDigits. By all threads of a block.
template <int kItems, class Bits, class Index, class GetDigit>
__device__ void sort_by_digit(int64_t count, const Entries& from, const Entries& to, uint32_t* counters,
                              GetDigit&& digit) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32, warp = thread / 32, warps = threads / 32;
  const unsigned lanes_below = (1u << lane) - 1;
  uint32_t* const next = counters;  // where the next entry of a digit goes
  uint32_t* const of_warp = counters + (1 + warp) * kDigits;

  for (int d = thread; d < kDigits; d += threads) next[d] = 0;
  __syncthreads();
  for (int64_t i = thread; i < count; i += threads) {
    Bits bits;
    Index index;
    read_entry(from, i, bits, index);
    atomicAdd(next + digit(bits, index), 1u);
  }
  __syncthreads();
  if (warp == 0) {
    uint32_t start = 0;
    for (int d = lane; d < kDigits; d += 32) {
      const uint32_t own = next[d];
      uint32_t inclusive = own;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const uint32_t other = __shfl_up_sync(~0u, inclusive, distance);
        if (lane >= distance) inclusive += other;
      }
      next[d] = start + inclusive - own;
      start += __shfl_sync(~0u, inclusive, 31);
    }
  }

  // A tile is what the block holds in registers: a warp has 32 * kItems adjacent entries of it.
  for (int64_t tile = 0; tile < count; tile += int64_t{threads} * kItems) {
    const int64_t first = tile + warp * 32 * kItems + lane;
    Bits bits[kItems];
    Index indices[kItems];
    uint32_t places[kItems];  // the digit, and how many before it in the warp have the same
    for (int d = lane; d < kDigits; d += 32) of_warp[d] = 0;
    __syncwarp();
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      const bool present = first + e * 32 < count;
      uint32_t own = kDigits;
      if (present) {
        read_entry(from, first + e * 32, bits[e], indices[e]);
        own = digit(bits[e], indices[e]);
      }
      const unsigned same = __match_any_sync(~0u, own);
      const uint32_t before = present ? of_warp[own] : 0;
      __syncwarp();
      if (present && (same & lanes_below) == 0) of_warp[own] = before + __popc(same);
      __syncwarp();
      places[e] = own << 16 | (before + __popc(same & lanes_below));
    }
    __syncthreads();
    for (int d = thread; d < kDigits; d += threads) {
      uint32_t start = next[d];
      for (int w = 1; w <= warps; ++w) {
        const uint32_t own = counters[w * kDigits + d];
        counters[w * kDigits + d] = start;
        start += own;
      }
      next[d] = start;
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      if (first + e * 32 < count) {
        write_entry(to, of_warp[places[e] >> 16] + (places[e] & 0xFFFF), bits[e], indices[e]);
      }
    }
    __syncthreads();
  }
}

// Sorts the entries in `from` by all digits that the range leaves, going back and forth between `from` and
// `to`, which may be one where a block holds all entries. Is where the order ends. By all threads of a block.
template <int kItems, class Order, class Index>
__device__ __noinline__ Entries
sort_by_digits(int64_t count, Order order, Entries from, Entries to,
               EntryRange<typename KeyWord<typename Order::Bits>::type, Index> range, uint32_t* counters) {
  using Bits = typename Order::Bits;
  constexpr int kBits = tuning::kSortDigitBits;
  const int index_digits = (range.index_bits + kBits - 1) / kBits;
  const int digits = index_digits + (range.key_bits + kBits - 1) / kBits;
  for (int d = 0; d < digits; ++d) {
    const bool of_index = d < index_digits;
    const int shift = of_index ? d * kBits : (d - index_digits) * kBits + range.trim;
    sort_by_digit<kItems, Bits, Index>(count, from, to, counters, [&](Bits bits, Index index) {
      return of_index ? static_cast<uint32_t>(range.index_distance(index) >> shift) & (kDigits - 1)
                      : static_cast<uint32_t>(range.key_distance(order(bits)) >> shift) & (kDigits - 1);
    });
    const Entries sorted = to;
    to = from;
    from = sorted;
  }
  return from;
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
