// Exact top-k of one stretch of a row in about one reading of it.
//
//  1. `floor` is a key below which nothing can win any more. A candidate is an element that reached the floor
//     when it was read. Candidates are kept in the order of their indices.
//  2. The row is read in tiles that stay in the first-level cache. In the first tile, a delegate is the best
//     key of a few elements, each element behind one delegate. The k-th best delegate is a floor, for k
//     elements reach it.
//  3. The tile is read again, a strip of 64 elements at a time, and what reaches the floor is appended.
//  4. Elements equal to the floor may win as long as fewer than k elements that reach it were appended. From
//     then on they lose by their index, and the floor rises by one. (When no key is left above it, the rest
//     of the row need not be read.)
//     A long row is not read twice: its floor is first guessed, from a sample of all of it. The k best reach
//     the guess but in rare rows, where fewer than k candidates come out; those are read again without it.
//  5. Later tiles go straight to step 3, and their keys are computed only in strips with a hit (runs.h).
//     Where a tile yields many candidates, as in a rising row, the next one goes through step 2 again.
//  6. When twice k candidates are held, all but little more than the best k are dropped, and the floor rises
//     to just above the least of them. So memory is O(k), whatever the input.
//  7. At the end the best k are sorted out. Values are copied from the row: keys cannot be decoded.
//
// Where k is a large part of the length there are too few delegates. Then all keys are kept, O(k) still, and
// the k-th best of them is the floor of step 3.
#include "cpu/select_rows.h"

#include <type_traits>

#include "cpu/candidates.h"
#include "cpu/delegates.h"
#include "cpu/lanes.h"
#include "cpu/outputs.h"
#include "cpu/panel.h"
#include "cpu/runs.h"
#include "cpu/short_rows.h"
#include "cpu/tiny_rows.h"

namespace gputopk::cpu::GPUTOPK_CPU_LEVEL {

// Up to this many elements a winner, delegates are no cheaper than all keys, unless they are few enough to
// pair.
constexpr int64_t kKeysPerWinner = 16;

// A tile with more than one candidate in so many elements sends the next one through step 2.
constexpr int64_t kFewElementsPerHit = 8;

// A guess of the floor reads so many elements at least and at most, in between one in kElementsPerSample.
constexpr int64_t kMinSample = 2048;
constexpr int64_t kElementsPerSample = 16;
constexpr int64_t kMaxSample = 16384;

// A guess pays where it is expected to leave up to so many candidates a winner, and a strip of them.
constexpr int64_t kGuessedPerWinner = 4;

// Tiles double up to this many elements while they yield few candidates: each begins with find_runs.
constexpr int64_t kMaxTile = 65536;

// How far ahead the row is asked for, in elements: enough for the memory's latency. The processor's own
// prefetcher stops at each page.
constexpr int64_t kPrefetch = 2048;

// Sorting a few more candidates by rank costs less than an exact cut.
constexpr int64_t kSortSlack = 16;

// By how much a cut may exceed k. An eighth more candidates cost less than the steps to an exact cut.
inline int64_t cut_slack(int64_t k) { return smaller(k / 8, kMaxCutSlack); }

template <class Order, class Candidate_>
struct Selection {
  using Bits = typename Order::Bits;
  using Candidate = Candidate_;

  Order order;
  const Bits* elements;  // from index `first` on, as far as they are read next
  int64_t first;
  int64_t k;
  int64_t limit;  // candidates held before the losers among them are dropped
  Candidate* candidates;
  Bits* delegates;
  Bits* keys;  // of the tile last given to find_keys

  int64_t count = 0;       // candidates held
  Bits floor = 0;          // elements below it lose
  bool decided = false;    // all further elements lose
  bool many_hits = false;  // the next tile goes through step 2
  int64_t ties_end = 0;    // where count reaches it, elements equal to the floor lose; 0: they do already

  bool has_runs = false;
  Bits runs_floor =
      0;  // `runs` are of this floor, at the start of a tile; keys are compared to that of the moment
  Runs<Bits> runs{};

  const Bits* at(int64_t index) const { return elements + (index - first); }
};

// How a piece is read: tiles of `elements`, with `delegates` where step 2 is taken, 0 where k is too large.
struct TileShape {
  int64_t elements;
  int64_t delegates;
};

// Two delegates a winner leave the k-th best well inside their range.
template <class Bits>
TileShape choose_tile(int64_t length, int64_t k) {
  constexpr int64_t kUnit = kLanes<Bits>;
  const int64_t most = length / kMinElementsPerDelegate / kUnit * kUnit;
  const int64_t delegates = smaller((2 * k + kUnit - 1) / kUnit * kUnit, most);
  if (delegates < k + k / 4) return {kTile, 0};
  const int64_t strips = (delegates * kMinElementsPerDelegate + kStrip - 1) / kStrip;
  return {larger(kTile, strips * kStrip), delegates};
}

// k elements from here on reach `key`.
template <class Selection>
void expect_at_least(Selection& selection, typename Selection::Bits key) {
  if (key < selection.floor || (key == selection.floor && selection.ties_end != 0)) return;
  selection.floor = key;
  selection.ties_end = selection.count + selection.k;
}

// k elements that were read reach `key`.
template <class Selection>
void require_above(Selection& selection, typename Selection::Bits key) {
  using Bits = typename Selection::Bits;
  if (key < selection.floor) return;
  selection.floor = static_cast<Bits>(key + 1);
  selection.decided = selection.floor == 0;
  selection.ties_end = 0;
}

// Step 2. Returns whether the next tile should come here as well.
template <class Selection>
bool raise_floor(Selection& selection, int64_t begin, int64_t end, int64_t delegates, bool have_keys) {
  using Bits = typename Selection::Bits;
  const int64_t depth = (end - begin) / delegates;
  if (depth == 0) return false;
  if (have_keys) {
    find_delegates(Identity<Bits>{}, selection.keys, delegates, depth, selection.delegates);
  } else {
    find_delegates(selection.order, selection.at(begin), delegates, depth, selection.delegates);
  }
  if (count_at_least(selection.delegates, delegates, selection.floor) < selection.k) return false;
  expect_at_least(selection,
                  kth_delegate(selection.delegates, delegates, selection.k, cut_slack(selection.k)));
  return true;
}

// A rank such that the sample's element of that rank is, hardly ever, among the row's k best: of those a
// sample of one element in `spacing` holds k / spacing, give or take three square roots of that.
inline int64_t guess_rank(int64_t k, int64_t spacing) {
  int64_t deviation = 0;
  while ((deviation + 1) * (deviation + 1) * spacing <= 9 * k) ++deviation;
  return smaller(k, k / spacing + deviation + 2);
}

// Step 2 for a long row: the floor of a sample of all of it, by delegates. Returns false where it would not
// pay.
template <class Selection>
bool guess_floor(Selection& selection, int64_t begin, int64_t end) {
  using Bits = typename Selection::Bits;
  const int64_t length = end - begin;
  if (length <= 2 * kTile) return false;
  const int64_t spacing = larger(smaller(kElementsPerSample, length / kMinSample), length / kMaxSample);
  const int64_t rank = guess_rank(selection.k, spacing);
  if (rank * spacing > kGuessedPerWinner * selection.k + kStrip) return false;
  // Four delegates an element of that rank put few of the better ones behind one.
  const int64_t delegates = (4 * rank + kStrip - 1) / kStrip * kStrip;
  const int64_t stride = delegates * spacing;
  if (delegates > 2 * selection.k + kSpareDelegates || length < 4 * stride) return false;
  for (int64_t i = 0; i < delegates; i += kLanes<Bits>) {
    Bits best[kLanes<Bits>] = {};
    raise_lanes(selection.order, selection.at(begin + i), length / stride, stride, best);
    __builtin_memcpy(selection.delegates + i, best, sizeof(best));
  }
  selection.floor = find_cut(selection.delegates, delegates, rank, rank / 8);
  return true;
}

// Step 6.
template <class Selection>
void drop_losers(Selection& selection) {
  using Candidate = typename Selection::Candidate;
  const int64_t slack = cut_slack(selection.k);
  const auto cut = find_cut(selection.candidates, selection.count, selection.k, slack);
  selection.count = keep_best(selection.candidates, selection.count, selection.k, slack, cut);
  require_above(selection, Candidate::key_of(cut));
}

// Step 4: of the hits, leaves out those that equal the floor and come too late.
template <class Selection>
uint64_t settle_ties(Selection& selection, const typename Selection::Bits* keys, uint64_t hits) {
  uint64_t late = hits;
  for (int64_t i = selection.count; i < selection.ties_end; ++i) late &= late - 1;
  require_above(selection, selection.floor);
  return (hits & ~late) | (selection.decided ? 0 : late & mask_at_least(keys, selection.floor));
}

// Step 3 for the strip from `begin`: `hits` are the elements that reach the floor.
template <class Selection>
void append_strip(Selection& selection, const typename Selection::Bits* keys, uint64_t hits, int64_t begin) {
  if (selection.count >= selection.limit) {
    drop_losers(selection);
    if (selection.decided) return;
    hits &= mask_at_least(keys, selection.floor);
  }
  if (selection.ties_end != 0 && selection.count + __builtin_popcountll(hits) >= selection.ties_end) {
    hits = settle_ties(selection, keys, hits);
  }
  selection.count += append_masked(keys, begin, hits, selection.candidates + selection.count);
}

// Step 3 for a tile whose keys are in selection.keys.
template <class Selection>
void append_from_keys(Selection& selection, int64_t begin, int64_t end) {
  using Bits = typename Selection::Bits;
  const int64_t length = end - begin;
  const Bits* keys = selection.keys;
  for (; begin < end && !selection.decided; begin += kStrip, keys += kStrip) {
    prefetch_strip(selection.at(begin), length);  // the next tile, or the next row
    Bits best[kLanes<Bits>] = {};
    raise_lanes(Identity<Bits>{}, keys, kStrip / kLanes<Bits>, kLanes<Bits>, best);
    if (!any_at_least(best, selection.floor)) continue;
    uint64_t hits = mask_at_least(keys, selection.floor);
    if (end - begin < kStrip) hits &= ~uint64_t{0} >> (kStrip - (end - begin));
    append_strip(selection, keys, hits, begin);
  }
}

// Step 3 for any tile.
template <class Selection>
void append_from_row(Selection& selection, int64_t begin, int64_t end) {
  using Bits = typename Selection::Bits;
  const auto order = selection.order;
  if (!selection.has_runs || selection.runs_floor != selection.floor) {
    selection.has_runs = true;
    selection.runs_floor = selection.floor;
    if (!find_runs(order, selection.floor, selection.runs)) {
      selection.decided = true;
      return;
    }
  }
  const Runs<Bits> runs = selection.runs;
  Bits keys[kStrip];
  for (; end - begin >= kStrip && !selection.decided; begin += kStrip) {
    const Bits* const strip = selection.at(begin);
    prefetch_strip(strip, kPrefetch);
    if (!any_in_runs(strip, runs)) continue;
    find_keys(order, strip, kStrip, keys);
    append_strip(selection, keys, mask_at_least(keys, selection.floor), begin);
  }
  if (begin == end || selection.decided) return;
  const int64_t rest = end - begin;
  find_keys(order, selection.at(begin), rest, keys);
  append_strip(selection, keys, mask_at_least(keys, selection.floor) & (~uint64_t{0} >> (kStrip - rest)),
               begin);
}

// Steps 2 to 4. Returns whether the next tile should come here as well.
template <class Selection>
bool read_twice(Selection& selection, int64_t begin, int64_t end, int64_t delegates) {
  const bool have_keys = end - begin <= kTile;
  if (have_keys) find_keys(selection.order, selection.at(begin), end - begin, selection.keys);
  const bool many_hits = raise_floor(selection, begin, end, delegates, have_keys);
  if (have_keys) {
    append_from_keys(selection, begin, end);
  } else {
    append_from_row(selection, begin, end);
  }
  return many_hits;
}

template <class Selection>
void read_tile(Selection& selection, int64_t begin, int64_t end, int64_t delegates) {
  if (selection.many_hits) {
    selection.many_hits = read_twice(selection, begin, end, delegates);
  } else {
    const int64_t before = selection.count;
    append_from_row(selection, begin, end);
    selection.many_hits = delegates != 0 && selection.count - before > (end - begin) / kFewElementsPerHit;
  }
}

template <class Selection>
void read_by_tiles(Selection& selection, int64_t begin, int64_t end, TileShape tile, bool have_floor) {
  int64_t elements = have_floor ? kMaxTile : tile.elements;
  selection.many_hits = tile.delegates != 0 && !have_floor;
  while (begin < end && !selection.decided) {
    const int64_t tile_end = smaller(begin + elements, end);
    read_tile(selection, begin, tile_end, tile.delegates);
    elements = selection.many_hits ? tile.elements : larger(elements, smaller(2 * elements, kMaxTile));
    begin = tile_end;
  }
}

// All keys first, for k a large part of the length.
template <class Selection>
void read_all_keys(Selection& selection, int64_t begin, int64_t end) {
  find_keys(selection.order, selection.at(begin), end - begin, selection.keys);
  expect_at_least(selection, find_cut(selection.keys, end - begin, selection.k, cut_slack(selection.k)));
  append_from_keys(selection, begin, end);
}

template <class Order, class Candidate>
Selection<Order, Candidate> start_selection(const Order& order, const Batch& batch, int64_t i, int64_t length,
                                            const Scratch& scratch) {
  using Bits = typename Order::Bits;
  const int64_t k = smaller(batch.k, length);
  return {order,
          static_cast<const Bits*>(batch.rows[i]),
          0,
          k,
          2 * k + kStrip,
          reinterpret_cast<Candidate*>(scratch.candidates + i * scratch.candidates_pitch),
          reinterpret_cast<Bits*>(scratch.delegates),
          reinterpret_cast<Bits*>(scratch.keys)};
}

template <class Order, class Candidate>
int64_t select_piece(const Order& order, const Batch& batch, int64_t i, int64_t begin, int64_t end,
                     const Scratch& scratch) {
  using Bits = typename Order::Bits;
  const int64_t length = end - begin;
  auto selection = start_selection<Order, Candidate>(order, batch, i, length, scratch);
  const int64_t k = selection.k;
  const TileShape tile = choose_tile<Bits>(length, k);
  const bool few_delegates = tile.delegates != 0 && tile.delegates <= kMaxPairedDelegates;
  const bool many_winners = k > length / kKeysPerWinner && k < length;
  if (many_winners && !few_delegates && length <= scratch.keys_capacity) {
    read_all_keys(selection, begin, end);
  } else {
    const bool guessed = guess_floor(selection, begin, end);
    read_by_tiles(selection, begin, end, tile, guessed);
    if (selection.count < k) {  // the guess was too high
      selection.count = 0;
      selection.floor = 0;
      read_by_tiles(selection, begin, end, tile, false);
    }
  }
  return selection.count;
}

// Rows side by side are read together, as many elements of each at a time as a panel holds. So no floor is
// guessed.
template <class Order, class Candidate>
void select_columns(const Order& order, const Batch& batch, int64_t begin, int64_t end,
                    const Scratch& scratch, int64_t* counts, int64_t counts_pitch) {
  using Bits = typename Order::Bits;
  const int64_t elements = panel_cols<Bits>(batch.count);
  const int64_t pitch = panel_pitch(elements, sizeof(Bits));
  Bits* const panel = reinterpret_cast<Bits*>(scratch.panel);
  TileShape tile = choose_tile<Bits>(end - begin, smaller(batch.k, end - begin));
  if (tile.delegates * kMinElementsPerDelegate > elements) tile.delegates = 0;
  Selection<Order, Candidate> selections[kBatchRows];
  for (int64_t i = 0; i < batch.count; ++i) {
    selections[i] = start_selection<Order, Candidate>(order, batch, i, end - begin, scratch);
    selections[i].elements = panel + i * pitch;
    selections[i].many_hits = tile.delegates != 0;
  }
  for (int64_t tile_begin = begin; tile_begin < end; tile_begin += elements) {
    const int64_t tile_end = smaller(tile_begin + elements, end);
    gather_panel(batch, tile_begin, tile_end, panel, pitch);
    for (int64_t i = 0; i < batch.count; ++i) {
      if (selections[i].decided) continue;
      selections[i].first = tile_begin;
      read_tile(selections[i], tile_begin, tile_end, tile.delegates);
    }
  }
  for (int64_t i = 0; i < batch.count; ++i) counts[i * counts_pitch] = selections[i].count;
}

// Step 7.
template <class Bits, class Candidate>
void write_best(const Batch& batch, int64_t i, const Scratch& scratch, int64_t count, const Output& output) {
  const int64_t k = batch.k;
  Candidate* const winners = reinterpret_cast<Candidate*>(scratch.candidates + i * scratch.candidates_pitch);
  const int64_t slack = output.sorted ? larger(cut_slack(k), smaller(kRankSortMax - k, kSortSlack)) : 0;
  if (count > k + slack) {
    count = count <= scratch.keys_capacity
                ? keep_best_by_keys(winners, count, k, slack, reinterpret_cast<Bits*>(scratch.keys))
                : keep_best(winners, count, k, slack, find_cut(winners, count, k, slack));
  }
  if (output.sorted) sort_candidates<Bits>(winners, count, winners + count);
  const Bits* const row = static_cast<const Bits*>(batch.rows[i]);
  visit_outputs<Bits>(output, batch.places[i], [&](Bits* __restrict values, auto* __restrict indices) {
    for (int64_t winner = 0; winner < k; ++winner) {
      const int64_t index = winners[winner].index();
      values[winner * output.stride] = row[index * batch.col_stride];
      indices[winner * output.stride] = static_cast<std::decay_t<decltype(*indices)>>(index);
    }
  });
}

template <class Order, class Candidate>
void select_short(const Order& order, const Batch& batch, const Scratch& scratch, const Output& output) {
  select_short_rows(order, batch, scratch, output, [&](int64_t i) {
    const int64_t count = select_piece<Order, Candidate>(order, batch, i, 0, batch.cols, scratch);
    write_best<typename Order::Bits, Candidate>(batch, i, scratch, count, output);
  });
}

template <class Order>
Kernel<Order> kernel(bool wide) {
  using Bits = typename Order::Bits;
  const auto with = [](auto candidate) {
    using Candidate = decltype(candidate);
    return Kernel<Order>{copy_rows<Bits>,
                         select_tiny_rows<Order>,
                         select_columns<Order, Candidate>,
                         gather_rows<Bits>,
                         select_short<Order, Candidate>,
                         select_piece<Order, Candidate>,
                         write_best<Bits, Candidate>};
  };
  using Wide = WideCandidate<Bits>;
  static_assert(sizeof(Wide) == kWideCandidateBytes);
  if constexpr (sizeof(Bits) < 8) {
    using Narrow = NarrowCandidate<Bits>;
    static_assert(sizeof(Narrow) == kNarrowCandidateBytes);
    if (!wide) return with(Narrow{});
  }
  return with(Wide{});
}

template Kernel<KeyOrder<uint8_t, false>> kernel(bool);
template Kernel<KeyOrder<uint8_t, true>> kernel(bool);
template Kernel<KeyOrder<uint16_t, false>> kernel(bool);
template Kernel<KeyOrder<uint16_t, true>> kernel(bool);
template Kernel<KeyOrder<uint32_t, false>> kernel(bool);
template Kernel<KeyOrder<uint32_t, true>> kernel(bool);
template Kernel<KeyOrder<uint64_t, false>> kernel(bool);
template Kernel<KeyOrder<uint64_t, true>> kernel(bool);

}  // namespace gputopk::cpu::GPUTOPK_CPU_LEVEL
