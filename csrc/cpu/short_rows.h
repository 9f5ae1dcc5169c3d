// Exact top-k of short rows, for small k: all that a row does not need by itself is done once for many.
//
//  1. All keys of the row, and its delegates. The k-th best of those is a floor.
//  2. What reaches the floor is collected. Where it is much, what equals the floor loses after k elements.
//     Where none exceeds the floor, as in a row of zeros, the first k are the winners.
//     A row of one strip that is in order already needs no floor.
//  3. The place of each is the number of better ones. It is counted for a few rows at a time, so that the
//     processor, which works ahead, need not wait for each row's list.
//
// No step has a branch that depends on the elements, but for whether they are in order, how many reach the
// floor, and in which strips.
// For k = 1 the best delegate is the winner's key, and the first element that has it the winner.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cpu/candidates.h"
#include "cpu/delegates.h"
#include "cpu/lanes.h"
#include "cpu/outputs.h"
#include "cpu/select_rows.h"

namespace gputopk::cpu::GPUTOPK_CPU_LEVEL {

// Ranking takes the square of that: rows with more elements that reach the floor are left to select_rows.cpp.
constexpr int64_t kMaxRanked = 64;

// With more than so many, ties are looked for.
constexpr int64_t kFewRanked = 32;

// Rows collected before they are ranked: one after the other, 64 elements and k = 8 take a quarter longer.
constexpr int64_t kRankedTogether = 16;

// 16 bits: of wider places the compiler makes scatters and gathers, which are slow.
static_assert(kMaxShortCols <= 65536);

template <class Bits>
void write_ranked(const Batch& batch, int64_t i, const uint16_t* ranked, const Output& output) {
  const Bits* const row = static_cast<const Bits*>(batch.rows[i]);
  visit_outputs<Bits>(output, batch.places[i], [&](Bits* __restrict values, auto* __restrict indices) {
    for (int64_t winner = 0; winner < batch.k; ++winner) {
      values[winner * output.stride] = row[ranked[winner]];
      indices[winner * output.stride] = ranked[winner];
    }
  });
}

// A row's keys, zeros behind them to the end of the strip, and the best of each strip by lanes.
template <class Bits>
struct ShortRow {
  Bits* keys;
  int64_t cols;
  int64_t strips;
  Bits best[kMaxShortCols / kStrip][kLanes<Bits>];
};

template <class Order, class Bits>
void read_row(const Order& order, const Bits* row, ShortRow<Bits>& read) {
  find_keys(order, row, read.cols, read.keys);
  for (int64_t strip = 0; strip < read.strips; ++strip) {
    Bits best[kLanes<Bits>] = {};
    raise_lanes(Identity<Bits>{}, read.keys + strip * kStrip, kStrip / kLanes<Bits>, kLanes<Bits>, best);
    __builtin_memcpy(read.best[strip], best, sizeof(best));
  }
}

// The first key that is at least `floor`; there is one.
template <class Bits>
int64_t first_at_least(const ShortRow<Bits>& row, Bits floor) {
  int64_t strip = 0;
  while (strip < row.strips - 1 && !any_at_least(row.best[strip], floor)) ++strip;
  return strip * kStrip + __builtin_ctzll(mask_at_least(row.keys + strip * kStrip, floor));
}

// Strips that hold elements that reach the floor, and which.
struct Hits {
  int64_t strips = 0;
  int64_t count = 0;
  int32_t strip[kMaxShortCols / kStrip + 1];
  uint64_t mask[kMaxShortCols / kStrip + 1];

  // Without a branch: whether there are any in a strip cannot be foreseen.
  void add(int64_t at, uint64_t found) {
    strip[strips] = static_cast<int32_t>(at);
    mask[strips] = found;
    strips += found != 0;
    count += __builtin_popcountll(found);
  }
};

template <class Bits>
Hits find_hits(const ShortRow<Bits>& row, Bits floor) {
  Hits hits;
  const int64_t last = row.strips - 1;
  for (int64_t strip = 0; strip < last; ++strip) {
#ifndef GPUTOPK_MASK_COMPARES  // a mask takes longer than a wrong guess
    if (!any_at_least(row.best[strip], floor)) continue;
#endif
    hits.add(strip, mask_at_least(row.keys + strip * kStrip, floor));
  }
  const uint64_t inside = ~uint64_t{0} >> (row.strips * kStrip - row.cols);
  hits.add(last, mask_at_least(row.keys + last * kStrip, floor) & inside);
  return hits;
}

// Those equal to the floor lose when k elements that reach it were met.
template <class Bits>
void drop_late_ties(const ShortRow<Bits>& row, int64_t k, Bits floor, Hits& hits) {
  const Bits next = static_cast<Bits>(floor + 1);
  const int64_t strips = hits.strips;
  hits.strips = 0;
  hits.count = 0;
  for (int64_t i = 0; i < strips; ++i) {
    const int64_t strip = hits.strip[i];
    const uint64_t found = hits.mask[i];
    uint64_t late = found;
    for (int64_t met = hits.count; met < k; ++met) late &= late - 1;
    const uint64_t above = next == 0 ? 0 : mask_at_least(row.keys + strip * kStrip, next);
    hits.add(strip, found & (~late | above));  // at place i or before
  }
}

// Collects what reaches the floor, in order. Returns how many, or 0 where they are too many to rank.
template <class Candidate, class Bits>
int64_t collect(const ShortRow<Bits>& row, int64_t k, Bits floor, Candidate* candidates) {
  Hits hits = find_hits(row, floor);
  if (hits.count > kFewRanked) drop_late_ties(row, k, floor, hits);
  if (hits.count > kMaxRanked) return 0;
  for (int64_t i = 0; i < hits.strips; ++i) {
    const int64_t begin = hits.strip[i] * kStrip;
    candidates += append_masked(row.keys + begin, begin, hits.mask[i], candidates);
  }
  return hits.count;
}

// A key that k elements reach, and few more: half as many delegates again as winners leave up to twice k of
// random elements. `is_best`: no element exceeds it.
template <class Bits>
Bits find_floor(const ShortRow<Bits>& row, int64_t k, Bits* delegates, bool& is_best) {
  int64_t count = kLanes<Bits>;
  while (count < k + k / 2) count *= 2;
  if (count == kLanes<Bits>) {
    find_delegates(Identity<Bits>{}, row.best[0], count, row.strips, delegates);
  } else {
    find_delegates(Identity<Bits>{}, row.keys, count, row.strips * kStrip / count, delegates);
  }
  const Bits floor = kth_delegate(delegates, count, k, 0);
  const Bits next = static_cast<Bits>(floor + 1);
  is_best = next == 0 || count_at_least(delegates, count, next) == 0;
  return floor;
}

// Where no element exceeds the floor: the first k that reach it are the winners, and in order.
template <class Bits>
void write_equals(const Batch& batch, int64_t row, const ShortRow<Bits>& read, Bits floor,
                  const Output& output) {
  const int64_t k = batch.k;
  uint16_t ranked[kMaxShortK];
  int64_t found = 0;
  for (int64_t begin = 0; found < k; begin += kStrip) {
    uint64_t mask = mask_at_least(read.keys + begin, floor);
    for (; mask != 0 && found < k; mask &= mask - 1) {
      ranked[found++] = static_cast<uint16_t>(begin + __builtin_ctzll(mask));
    }
  }
  write_ranked<Bits>(batch, row, ranked, output);
}

// Ranks the candidates and writes the first k.
template <class Bits, class Candidate>
void write_best_ranked(const Batch& batch, int64_t row, const Candidate* candidates, int64_t count,
                       const Output& output) {
  uint64_t rank_keys[kMaxRanked];
  uint64_t places[kMaxRanked];
  uint16_t ranked[kMaxRanked];
  const int64_t blocks_end = (count + kPlacedAtOnce - 1) / kPlacedAtOnce * kPlacedAtOnce;
  for (int64_t i = 0; i < blocks_end; i += kPlacedAtOnce) {
    for (int j = 0; j < kPlacedAtOnce; ++j) rank_keys[i + j] = rank_key(candidates[i + j]);
  }
  find_places<Candidate>(rank_keys, count, places);
  // Whole blocks, as nobody can foresee the count: what is behind it shares the place behind the last. Not so
  // where a key may be as low as the padding's.
  const int64_t end = sizeof(Candidate) == sizeof(uint64_t) ? blocks_end : count;
  for (int64_t i = 0; i < end; ++i) ranked[places[i]] = static_cast<uint16_t>(candidates[i].index());
  write_ranked<Bits>(batch, row, ranked, output);
}

// Whether a row of one strip descends, or each key is greater than the one before: then its winners are its
// first, or its last.
enum class RowOrder { kNone, kDescends, kAscends };
template <class Bits>
RowOrder order_of(const ShortRow<Bits>& row) {
  static_assert(kStrip <= 127, "a count fits any key");
  row.keys[kStrip] = 0;  // no pair ends there
  Bits ascents = 0;
  for (int64_t i = 0; i < kStrip; ++i) ascents += row.keys[i] < row.keys[i + 1];
  if (ascents == 0) return RowOrder::kDescends;
  return ascents == static_cast<Bits>(row.cols - 1) ? RowOrder::kAscends : RowOrder::kNone;
}

template <class Bits>
void write_in_order(const Batch& batch, int64_t row, RowOrder order, const Output& output) {
  uint16_t ranked[kMaxShortK];
  for (int64_t i = 0; i < kMaxShortK; ++i) {
    ranked[i] = static_cast<uint16_t>(order == RowOrder::kDescends ? i : batch.cols - 1 - i);
  }
  write_ranked<Bits>(batch, row, ranked, output);
}

// For k = 1.
template <class Bits>
void write_first_best(const Batch& batch, int64_t row, const ShortRow<Bits>& read, Bits* delegates,
                      const Output& output) {
  find_delegates(Identity<Bits>{}, read.best[0], kLanes<Bits>, read.strips, delegates);
  Bits best = 0;
  for (int lane = 0; lane < kLanes<Bits>; ++lane) best = larger(best, delegates[lane]);
  const uint16_t index = static_cast<uint16_t>(first_at_least(read, best));
  write_ranked<Bits>(batch, row, &index, output);
}

// `select_row` does row i of the batch where it has too much to rank. The rows are dense.
template <class Order, class SelectRow>
void select_short_rows(const Order& order, const Batch& batch, const Scratch& scratch, const Output& output,
                       SelectRow&& select_row) {
  using Bits = typename Order::Bits;
  using Candidate = std::conditional_t<sizeof(Bits) < 8, NarrowCandidate<Bits>, WideCandidate<Bits>>;
  const int64_t k = batch.k;
  Bits* const delegates = reinterpret_cast<Bits*>(scratch.delegates);
  const auto row_at = [&](int64_t row) { return static_cast<const Bits*>(batch.rows[row]); };
  ShortRow<Bits> read;
  read.keys = reinterpret_cast<Bits*>(scratch.keys);
  read.cols = batch.cols;
  read.strips = (batch.cols + kStrip - 1) / kStrip;
  if (k == 1) {
    for (int64_t row = 0; row < batch.count; ++row) {
      read_row(order, row_at(row), read);
      write_first_best(batch, row, read, delegates, output);
    }
    return;
  }
  Candidate candidates[kRankedTogether][kMaxRanked + kAppendSlack];
  int64_t counts[kRankedTogether];
  for (int64_t begin = 0; begin < batch.count; begin += kRankedTogether) {
    const int64_t together = smaller(kRankedTogether, batch.count - begin);
    for (int64_t i = 0; i < together; ++i) {
      read_row(order, row_at(begin + i), read);
      const RowOrder row_order = read.strips == 1 ? order_of(read) : RowOrder::kNone;
      if (row_order != RowOrder::kNone) {
        counts[i] = 0;
        write_in_order<Bits>(batch, begin + i, row_order, output);
        continue;
      }
      bool is_best;
      const Bits floor = find_floor(read, k, delegates, is_best);
      counts[i] = is_best ? 0 : collect(read, k, floor, candidates[i]);
      if (is_best) {
        write_equals(batch, begin + i, read, floor, output);
      } else if (counts[i] == 0) {
        select_row(begin + i);
      }
    }
    for (int64_t i = 0; i < together; ++i) {
      if (counts[i] == 0) continue;  // written already
      write_best_ranked<Bits>(batch, begin + i, candidates[i], counts[i], output);
    }
  }
}

}  // namespace gputopk::cpu::GPUTOPK_CPU_LEVEL
