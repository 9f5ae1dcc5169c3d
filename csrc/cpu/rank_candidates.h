// Choosing and sorting among candidates, all distinct integers of which the larger is the better:
//   cut       a value that at least k, and at most k + slack, of the integers reach
//   keep      drop those below a cut
//   sort      best first
// No std algorithm is used: they branch on every comparison, which costs more here than counting does, and
// their instances would be shared between levels.
#pragma once

#include <cstdint>

#include "cpu/lanes.h"

namespace gputopk::cpu::GPUTOPK_CPU_LEVEL {

// Counting is vectorised, so bisection costs a few passes; from here on the passes no longer run in the
// cache, and three or four passes of histograms are the cheaper.
constexpr int64_t kBisectBytes = 256 * 1024;

// Sorting by ranks does count^2 comparisons, a vector at a time, without a branch; radix sort pays for
// counters first.
constexpr int64_t kRankSortMax = 128;
constexpr int kRankSortPadding = 16;  // zeros behind the candidates, so that vectors may run over their end

template <class Integer>
Integer cut_by_bisection(const Integer* values, int64_t count, int64_t k, int64_t slack) {
  Integer low = values[0];  // at least k reach it
  Integer high = low;       // too high, or unknown, only above it
  for (int64_t i = 0; i < count; ++i) {
    low = smaller(low, values[i]);
    high = larger(high, values[i]);
  }
  while (low < high) {
    const Integer middle = static_cast<Integer>(high - (high - low) / 2);
    const int64_t reached = count_at_least(values, count, middle);
    if (reached < k) {
      high = static_cast<Integer>(middle - 1);
      continue;
    }
    low = middle;
    if (reached <= k + slack) break;
  }
  return low;
}

template <class Integer>
int bit_width(Integer value) {
  int width = 0;
  for (; value != 0; value = static_cast<Integer>(value >> 1)) ++width;
  return width;
}

// Fixes the cut digit by digit, from the first bit in which the values differ.
template <class Integer>
Integer cut_by_digits(const Integer* values, int64_t count, int64_t k, int64_t slack) {
  constexpr int kDigitBits = 11;
  Integer low = values[0];
  Integer high = low;
  for (int64_t i = 0; i < count; ++i) {
    low = smaller(low, values[i]);
    high = larger(high, values[i]);
  }
  int shift = bit_width(static_cast<Integer>(low ^ high));  // bits not yet fixed
  if (shift == 0) return low;
  Integer cut = static_cast<Integer>(high - (high & static_cast<Integer>((Integer{2} << (shift - 1)) - 1)));
  int64_t above = 0;  // values known to lie above the bucket that holds the cut
  while (shift > 0) {
    const int bits = static_cast<int>(smaller(shift, kDigitBits));
    shift -= bits;
    const Integer digits = (Integer{1} << bits) - 1;
    const Integer bucket = static_cast<Integer>(cut >> shift) & static_cast<Integer>(~digits);
    int64_t counters[1 << kDigitBits] = {};
    for (int64_t i = 0; i < count; ++i) {
      // Outside the bucket the difference exceeds every digit.
      const Integer digit = static_cast<Integer>(static_cast<Integer>(values[i] >> shift) - bucket);
      if (digit <= digits) ++counters[static_cast<int>(digit)];
    }
    int digit = static_cast<int>(digits);
    while (above + counters[digit] < k) above += counters[digit--];
    cut |= static_cast<Integer>(digit) << shift;
    if (above + counters[digit] <= k + slack) break;
  }
  return cut;
}

// A value that at least k of the values reach and, where ties allow it, at most k + slack.
template <class Integer>
Integer find_cut(const Integer* values, int64_t count, int64_t k, int64_t slack) {
  const bool cached = count * static_cast<int64_t>(sizeof(Integer)) <= kBisectBytes;
  return sizeof(Integer) <= 8 && cached ? cut_by_bisection(values, count, k, slack)
                                        : cut_by_digits(values, count, k, slack);
}

// Drops the candidates below the cut and keeps the order of the others; returns how many those are.
template <class Candidate>
int64_t keep_at_least(Candidate* candidates, int64_t count, Candidate cut) {
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Candidate candidate = candidates[i];
    candidates[kept] = candidate;
    kept += candidate >= cut;
  }
  return kept;
}

// For each of a few candidates, how many of all are better. `candidates` are padded to whole vectors.
template <class Candidate>
void count_better(const Candidate* candidates, int64_t count, Candidate* ranks) {
  if constexpr (sizeof(Candidate) == 8) {
    constexpr int kVector = kLanes<Candidate>;
    for (int64_t i = 0; i < count; i += 2 * kVector) {
      const Vector<Candidate> mine = load_vector(candidates + i);
      const Vector<Candidate> also_mine = load_vector(candidates + i + kVector);
      Vector<Candidate> rank = {};
      Vector<Candidate> also_rank = {};
      for (int64_t j = 0; j < count; ++j) {
        const Vector<Candidate> other = candidates[j] - Vector<Candidate>{};
        rank -= reinterpret_cast<Vector<Candidate>>(other > mine);
        also_rank -= reinterpret_cast<Vector<Candidate>>(other > also_mine);
      }
      __builtin_memcpy(ranks + i, &rank, sizeof(rank));
      __builtin_memcpy(ranks + i + kVector, &also_rank, sizeof(also_rank));
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      Candidate rank = 0;
      for (int64_t j = 0; j < count; ++j) rank += candidates[j] > candidates[i];
      ranks[i] = rank;
    }
  }
}

// Writes the best k of `count` <= kRankSortMax candidates to `sorted`: a candidate's place is the number of
// better ones.
template <class Candidate>
void sort_by_rank(Candidate* candidates, int64_t count, int64_t k, Candidate* sorted) {
  Candidate ranks[kRankSortMax];
  for (int i = 0; i < kRankSortPadding; ++i) candidates[count + i] = 0;
  count_better(candidates, count, ranks);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t rank = static_cast<int64_t>(ranks[i]);
    if (rank < k) sorted[rank] = candidates[i];
  }
}

// Sorts by key alone, stably: the candidates come in the order of their indices, so equal keys stay so.
// Needs `count` places after the candidates; returns where the sorted ones are.
template <class Bits, class Candidate>
Candidate* sort_by_radix(Candidate* candidates, int64_t count) {
  constexpr int kDigits = sizeof(Bits);
  int64_t counters[kDigits][256] = {};
  for (int64_t i = 0; i < count; ++i) {
    const Bits key = key_of<Bits>(candidates[i]);
    for (int digit = 0; digit < kDigits; ++digit) ++counters[digit][(key >> (8 * digit)) & 255];
  }
  Candidate* from = candidates;
  Candidate* to = candidates + count;
  for (int digit = 0; digit < kDigits; ++digit) {
    int64_t* places = counters[digit];
    const int first = static_cast<int>((key_of<Bits>(from[0]) >> (8 * digit)) & 255);
    if (places[first] == count) continue;  // the digit is the same in all
    int64_t place = 0;
    for (int value = 255; value >= 0; --value) {
      const int64_t members = places[value];
      places[value] = place;
      place += members;
    }
    for (int64_t i = 0; i < count; ++i) {
      const Candidate candidate = from[i];
      to[places[(key_of<Bits>(candidate) >> (8 * digit)) & 255]++] = candidate;
    }
    Candidate* const other = from;
    from = to;
    to = other;
  }
  return from;
}

}  // namespace gputopk::cpu::GPUTOPK_CPU_LEVEL
