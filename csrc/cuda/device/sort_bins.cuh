// The bins by which a block sorts (block_sort.cuh): each kind tells the bin of an entry, (key, index), and
// bins fall as keys rise, and of equal keys rise with the index.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "core/key_order.h"
#include "cuda/device/block_sort.h"
#include "cuda/device/entries.cuh"
#include "cuda/device/key_range.cuh"
#include "cuda/device/numbers.h"
#include "cuda/device/selection.cuh"
#include "cuda/device/warp.cuh"

namespace gputopk::cuda {

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

}  // namespace gputopk::cuda
