// Candidates, and choosing and sorting among them.
//
// A candidate is a key and an index. Candidates are always kept in the order of their indices, so among equal
// keys the earlier candidate is the better: ties need no comparison of indices.
//
//   find_cut          a key that at least k reach, and where ties allow it at most k + slack
//   keep_best         drops what a cut leaves behind
//   sort_candidates   best first
//
// No std algorithm is used: they branch on every comparison, which costs more here than counting does, and
// their instances would be shared between levels.
#pragma once

#include <cstdint>

#include "cpu/lanes.h"

namespace gputopk::cpu::GPUTOPK_CPU_LEVEL {

// Counting is vectorised, so bisection costs a few passes; above this size the passes no longer run in the
// cache, and three or four passes of histograms are the cheaper.
constexpr int64_t kBisectBytes = 256 * 1024;

// Sorting by ranks does count^2 comparisons, vectors at a time and without a branch; radix sort pays for its
// counters first.
constexpr int64_t kRankSortMax = 128;

// Above this many candidates, orders that need no sorting are looked for first: rows that rise, fall or hold
// one value mostly are common, and costly to sort for all that they look easy.
constexpr int64_t kCheckOrderMin = 16;

// Key above and index below, in one integer: selecting by it is selecting by key. The index is complemented
// so that the integers of equal keys fall with the index, and ties need no rule at all.
template <class Bits>
struct NarrowCandidate {
  static constexpr int kIndexBits = 64 - 8 * sizeof(Bits);
  static constexpr uint64_t kIndexMask = ~uint64_t{0} >> (64 - kIndexBits);

  uint64_t packed;

  static NarrowCandidate make(Bits key, int64_t index) {
    return {(static_cast<uint64_t>(key) << kIndexBits) + (kIndexMask - static_cast<uint64_t>(index))};
  }
  static Bits key_of(uint64_t rank_key) { return static_cast<Bits>(rank_key >> kIndexBits); }
  Bits key() const { return key_of(packed); }
  int64_t index() const { return static_cast<int64_t>(~packed & kIndexMask); }
};

// For keys of 8 bytes, and for rows too long for the narrow index.
template <class Bits>
struct WideCandidate {
  uint64_t wide_key;
  int64_t wide_index;

  static WideCandidate make(Bits key, int64_t index) { return {key, index}; }
  static Bits key_of(uint64_t rank_key) { return static_cast<Bits>(rank_key); }
  Bits key() const { return key_of(wide_key); }
  int64_t index() const { return wide_index; }
};

// What candidates, or bare keys, are selected by.
template <class Bits>
uint64_t rank_key(NarrowCandidate<Bits> candidate) {
  return candidate.packed;
}
template <class Bits>
uint64_t rank_key(WideCandidate<Bits> candidate) {
  return candidate.wide_key;
}
inline uint8_t rank_key(uint8_t key) { return key; }
inline uint16_t rank_key(uint16_t key) { return key; }
inline uint32_t rank_key(uint32_t key) { return key; }
inline uint64_t rank_key(uint64_t key) { return key; }

template <class Item>
using RankKey = decltype(rank_key(Item{}));

// The bits of a rank key that only settle ties.
template <class Item>
constexpr RankKey<Item> kTieMask = 0;
template <class Bits>
constexpr uint64_t kTieMask<NarrowCandidate<Bits>> = NarrowCandidate<Bits>::kIndexMask;

// Past the last candidate, so many of no meaning may be written.
constexpr int kAppendSlack = 7;

// Appends the elements whose bit is set, in order; returns how many. `keys` are those of kStrip elements from
// `first_index`. Writes up to kAppendSlack more.
template <class Candidate, class Bits>
int64_t append_masked(const Bits* keys, int64_t first_index, uint64_t mask, Candidate* out) {
  int64_t count = 0;
#ifdef GPUTOPK_MASK_COMPARES
  // With fewer hits, taking them one by one is faster than packing the strip.
  constexpr int kManyHits = 8;
  if (sizeof(Candidate) == sizeof(uint64_t) && __builtin_popcountll(mask) >= kManyHits) {
    Candidate all[kStrip];
    for (int i = 0; i < kStrip; ++i) all[i] = Candidate::make(keys[i], first_index + i);
    for (int i = 0; i < kStrip; i += 8) {
      const __mmask8 bits = static_cast<__mmask8>(mask >> i);
      // Compressed in a register and stored whole: a compressing store is slow on some processors.
      _mm512_storeu_si512(out + count, _mm512_maskz_compress_epi64(bits, _mm512_loadu_si512(all + i)));
      count += __builtin_popcount(bits);
    }
    return count;
  }
#endif
  for (; mask != 0; mask &= mask - 1) {
    const int i = __builtin_ctzll(mask);
    out[count++] = Candidate::make(keys[i], first_index + i);
  }
  return count;
}

// How many items reach `floor`.
template <class Item>
int64_t count_reaching(const Item* items, int64_t count, RankKey<Item> floor) {
  if constexpr (sizeof(Item) == sizeof(RankKey<Item>)) {
    return count_at_least(reinterpret_cast<const RankKey<Item>*>(items), count, floor);
  } else {
    int64_t reaching = 0;
    for (int64_t i = 0; i < count; ++i) reaching += rank_key(items[i]) >= floor;
    return reaching;
  }
}

template <class Item>
int64_t count_exceeding(const Item* items, int64_t count, RankKey<Item> bound) {
  const RankKey<Item> next = static_cast<RankKey<Item>>(bound + 1);
  return next == 0 ? 0 : count_reaching(items, count, next);
}

// Moves the ends of a range that holds an item to the items next to them.
template <class Item, class Key = RankKey<Item>>
void close_in(const Item* items, int64_t count, Key& low, Key& high) {
  Key least = high;
  Key greatest = low;
  for (int64_t i = 0; i < count; ++i) {
    const Key key = rank_key(items[i]);
    least = smaller(least, key < low ? high : key);
    greatest = larger(greatest, key > high ? low : key);
  }
  low = least;
  high = greatest;
}

// At least k items reach `low`, and fewer than k exceed `high`.
template <class Item, class Key = RankKey<Item>>
Key cut_by_bisection(const Item* items, int64_t count, int64_t k, int64_t slack, Key low, Key high) {
  // Among equal items only the last of a key's bits ends it: where items have few values, closing in does so
  // sooner. Short keys end as soon without.
  constexpr int kStepsToCloseIn = sizeof(Key) >= 4 ? 8 : 8 * sizeof(Key) + 1;
  for (int step = 1; low < high; ++step) {
    if (step % kStepsToCloseIn == 0) close_in(items, count, low, high);
    const Key middle = static_cast<Key>(high - (high - low) / 2);
    const int64_t reaching = count_reaching(items, count, middle);
    if (reaching < k) {
      high = static_cast<Key>(middle - 1);
      continue;
    }
    low = middle;
    if (reaching <= k + slack) break;
  }
  return low;
}

// Narrows the range digit by digit: low <= high. At least k items reach `low`, and fewer than k exceed
// `high`.
template <class Item, class Key = RankKey<Item>>
Key cut_by_digits(const Item* items, int64_t count, int64_t k, int64_t slack, Key low, Key high) {
  constexpr int kDigitBits = 11;
  int64_t above = count_exceeding(items, count, high);
  while (low < high) {
    const Key range = static_cast<Key>(high - low);
    int shift = 0;
    while (range >> shift >> kDigitBits != 0) ++shift;
    int64_t counters[1 << kDigitBits] = {};
    for (int64_t i = 0; i < count; ++i) {
      const Key distance = static_cast<Key>(rank_key(items[i]) - low);
      if (distance <= range) ++counters[distance >> shift];
    }
    int digit = static_cast<int>(range >> shift);
    while (above + counters[digit] < k) above += counters[digit--];
    low = static_cast<Key>(low + static_cast<Key>(static_cast<Key>(digit) << shift));
    // By distance: low + digit_end may lie beyond the greatest key.
    const Key digit_end = static_cast<Key>((Key{1} << shift) - 1);
    high = static_cast<Key>(low + smaller(static_cast<Key>(high - low), digit_end));
    if (above + counters[digit] <= k + slack) break;
    // Where most are equal, that may end it.
    if (shift > 0 && counters[digit] > count / 8) close_in(items, count, low, high);
  }
  return low;
}

// A key that at least k items reach, and at most k + slack, unless the items equal to it are too many.
template <class Item, class Key = RankKey<Item>>
Key find_cut(const Item* items, int64_t count, int64_t k, int64_t slack) {
  Key low = rank_key(items[0]);
  Key high = low;
  for (int64_t i = 0; i < count; ++i) {
    low = smaller(low, rank_key(items[i]));
    high = larger(high, rank_key(items[i]));
  }
  // Where most items have the least key, as in a row of zeros, that leaves few steps of many.
  const Key least_end = static_cast<Key>(low | kTieMask<Item>);
  if (least_end < high && count_exceeding(items, count, least_end) < k) high = least_end;
  return count * static_cast<int64_t>(sizeof(Item)) <= kBisectBytes
             ? cut_by_bisection(items, count, k, slack, low, high)
             : cut_by_digits(items, count, k, slack, low, high);
}

// Keeps the candidates that reach the cut of find_cut, at most k + slack of them: of those equal to the cut,
// the first. Returns how many.
template <class Candidate>
int64_t keep_best(Candidate* candidates, int64_t count, int64_t k, int64_t slack, RankKey<Candidate> cut) {
  int64_t ties = k + slack - count_exceeding(candidates, count, cut);
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Candidate candidate = candidates[i];
    const bool equal = rank_key(candidate) == cut;
    candidates[kept] = candidate;
    kept += (rank_key(candidate) > cut) | (equal & (ties > 0));
    ties -= equal;
  }
  return kept;
}

// The same by a cut of the bare keys, written to `keys`: more of them fit a vector, and no bits of indices
// are searched.
template <class Bits, class Candidate>
int64_t keep_best_by_keys(Candidate* candidates, int64_t count, int64_t k, int64_t slack, Bits* keys) {
  for (int64_t i = 0; i < count; ++i) keys[i] = candidates[i].key();
  const Bits cut = find_cut(keys, count, k, slack);
  int64_t ties = k + slack - count_exceeding(keys, count, cut);
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    const bool equal = keys[i] == cut;
    candidates[kept] = candidates[i];
    kept += (keys[i] > cut) | (equal & (ties > 0));
    ties -= equal;
  }
  return kept;
}

// Keys are placed by blocks of two vectors.
constexpr int kPlacedAtOnce = 2 * kVectorLanes<uint64_t>;

// The place of each of `count` rank keys, at most kRankSortMax, best first: the number of better ones. Both
// arrays hold whole blocks, and keys behind the last are set to 0.
template <class Candidate>
void find_places(uint64_t* keys, int64_t count, uint64_t* places) {
  constexpr int kVector = kVectorLanes<uint64_t>;
  static_assert(kRankSortMax % kPlacedAtOnce == 0, "the arrays hold whole blocks");
  Vector<uint64_t> lanes;
  for (int lane = 0; lane < kVector; ++lane) lanes[lane] = lane;
  const int64_t end = (count + kPlacedAtOnce - 1) / kPlacedAtOnce * kPlacedAtOnce;
  // By a mask: a loop over the rest would branch on its length.
  for (int64_t i = end - kPlacedAtOnce; i < end; i += kVector) {
    Vector<uint64_t> last = load_vector(keys + i);
    last = lanes + i < static_cast<uint64_t>(count) ? last : Vector<uint64_t>{};
    __builtin_memcpy(keys + i, &last, sizeof(last));
  }
  for (int64_t block = 0; block < end; block += kPlacedAtOnce) {
    const Vector<uint64_t> first = load_vector(keys + block);
    const Vector<uint64_t> second = load_vector(keys + block + kVector);
    Vector<uint64_t> better_than_first = {};
    Vector<uint64_t> better_than_second = {};
    // Earlier candidates are better where equal. Within the block that is settled below.
    for (int64_t i = 0; i < block; ++i) {
      better_than_first = keys[i] >= first ? better_than_first + 1 : better_than_first;
      better_than_second = keys[i] >= second ? better_than_second + 1 : better_than_second;
    }
    for (int64_t i = block; i < end; i += kPlacedAtOnce) {
      for (int lane = 0; lane < kPlacedAtOnce; ++lane) {
        better_than_first = keys[i + lane] > first ? better_than_first + 1 : better_than_first;
        better_than_second = keys[i + lane] > second ? better_than_second + 1 : better_than_second;
      }
    }
    __builtin_memcpy(places + block, &better_than_first, sizeof(better_than_first));
    __builtin_memcpy(places + block + kVector, &better_than_second, sizeof(better_than_second));
  }
  if constexpr (sizeof(Candidate) > sizeof(uint64_t)) {  // narrow candidates are never equal
    // Of every two one is the better, unless they are equal and of one block.
    uint64_t better = 0;
    for (int64_t i = 0; i < count; ++i) better += places[i];
    if (better == static_cast<uint64_t>(count * (count - 1) / 2)) return;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = i - i % kPlacedAtOnce; j < i; ++j) places[i] += keys[j] == keys[i];
    }
  }
}

// Sorts up to kRankSortMax candidates, by their places.
template <class Candidate>
void sort_by_rank(Candidate* candidates, int64_t count) {
  Candidate copies[kRankSortMax];
  uint64_t keys[kRankSortMax];
  uint64_t places[kRankSortMax];
  for (int64_t i = 0; i < count; ++i) copies[i] = candidates[i];
  for (int64_t i = 0; i < count; ++i) keys[i] = rank_key(candidates[i]);
  find_places<Candidate>(keys, count, places);
  for (int64_t i = 0; i < count; ++i) candidates[places[i]] = copies[i];
}

template <class Bits, class Candidate>
void sort_candidates(Candidate* candidates, int64_t count, Candidate* scratch);

template <class Bits, class Candidate>
Bits least_key(const Candidate* candidates, int64_t count) {
  Bits least = candidates[0].key();
  for (int64_t i = 0; i < count; ++i) least = smaller(least, candidates[i].key());
  return least;
}

template <class Bits, class Candidate>
Bits greatest_key(const Candidate* candidates, int64_t count) {
  Bits greatest = candidates[0].key();
  for (int64_t i = 0; i < count; ++i) greatest = larger(greatest, candidates[i].key());
  return greatest;
}

// Sorts by key, stably. `scratch` has room for as many candidates. Keys count from the least, which leaves
// keys that lie close together few digits. Of long keys the first 32 bits are sorted by: few that agree in
// them are to be put in order after that.
template <class Bits, class Candidate>
void sort_by_radix(Candidate* candidates, int64_t count, Candidate* scratch) {
  constexpr int kDigits = sizeof(Bits) < 4 ? sizeof(Bits) : 4;
  const Bits least = least_key<Bits>(candidates, count);
  int dropped = 0;  // bits
  if constexpr (sizeof(Bits) > kDigits) {
    const Bits range = static_cast<Bits>(greatest_key<Bits>(candidates, count) - least);
    while (range >> dropped >> (8 * kDigits) != 0) ++dropped;
  }
  const auto first_bits = [least, dropped](const Candidate& candidate) {
    return static_cast<Bits>(static_cast<Bits>(candidate.key() - least) >> dropped);
  };
  const auto digit_of = [first_bits](const Candidate& candidate, int digit) {
    return static_cast<int>(first_bits(candidate) >> (8 * digit)) & 255;
  };
  int64_t counters[kDigits][256] = {};
  for (int64_t i = 0; i < count; ++i) {
    for (int digit = 0; digit < kDigits; ++digit) ++counters[digit][digit_of(candidates[i], digit)];
  }
  Candidate* from = candidates;
  Candidate* to = scratch;
  for (int digit = 0; digit < kDigits; ++digit) {
    int64_t* const places = counters[digit];
    if (places[digit_of(from[0], digit)] == count) continue;  // the digit is the same in all
    int64_t place = 0;
    for (int value = 255; value >= 0; --value) {
      const int64_t members = places[value];
      places[value] = place;
      place += members;
    }
    for (int64_t i = 0; i < count; ++i) to[places[digit_of(from[i], digit)]++] = from[i];
    Candidate* const other = from;
    from = to;
    to = other;
  }
  if (from != candidates) __builtin_memcpy(candidates, from, count * sizeof(Candidate));
  if (dropped == 0) return;
  for (int64_t begin = 0, end; begin < count; begin = end) {
    end = begin + 1;
    while (end < count && first_bits(candidates[end]) == first_bits(candidates[begin])) ++end;
    if (end - begin > 1) sort_candidates<Bits>(candidates + begin, end - begin, scratch);
  }
}

// Whether the candidates are sorted already.
template <class Candidate>
bool is_falling(const Candidate* candidates, int64_t count) {
  int64_t i = 1;
  while (i < count && rank_key(candidates[i]) <= rank_key(candidates[i - 1])) ++i;
  return i >= count;
}

// Whether the candidates are sorted when reversed.
template <class Candidate>
bool is_rising(const Candidate* candidates, int64_t count) {
  int64_t i = 1;
  while (i < count && rank_key(candidates[i]) > rank_key(candidates[i - 1])) ++i;
  return i >= count;
}

template <class Candidate>
void reverse(Candidate* candidates, int64_t count) {
  for (int64_t i = 0; i < count / 2; ++i) {
    const Candidate candidate = candidates[i];
    candidates[i] = candidates[count - 1 - i];
    candidates[count - 1 - i] = candidate;
  }
}

// Moves the candidates of the least key behind the others where they are many, both in their order. Returns
// how many others there are.
template <class Bits, class Candidate>
int64_t move_least_back(Candidate* candidates, int64_t count, Candidate* scratch) {
  const Bits least = least_key<Bits>(candidates, count);
  int64_t least_count = 0;
  for (int64_t i = 0; i < count; ++i) least_count += candidates[i].key() == least;
  if (least_count < count / 4) return count;
  int64_t others = 0;
  int64_t moved = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Candidate candidate = candidates[i];
    const bool other = candidate.key() != least;
    candidates[others] = candidate;
    scratch[moved] = candidate;
    others += other;
    moved += !other;
  }
  __builtin_memcpy(candidates + others, scratch, moved * sizeof(Candidate));
  return others;
}

// Best first. `scratch` has room for as many candidates.
template <class Bits, class Candidate>
void sort_candidates(Candidate* candidates, int64_t count, Candidate* scratch) {
  if (count == 1) return;
  if (count > kCheckOrderMin) {
    if (is_falling(candidates, count)) return;
    if (is_rising(candidates, count)) return reverse(candidates, count);
    count = move_least_back<Bits>(candidates, count, scratch);
  }
  if (count <= (sizeof(Bits) < 4 ? kRankSortMax / 2 : kRankSortMax)) {  // radix sort has few digits there
    sort_by_rank(candidates, count);
  } else {
    sort_by_radix<Bits>(candidates, count, scratch);
  }
}

}  // namespace gputopk::cpu::GPUTOPK_CPU_LEVEL
