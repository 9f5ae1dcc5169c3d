// Exact top-k of one stretch of a row in about one reading of it.
//
//  1. `floor` is a key below which nothing can win any more. A candidate is an element that reached the floor
//     when it was read; candidates are kept in the order of their indices.
//  2. The row is read in tiles that stay in the first-level cache. For the first tile, lane l of a few dozen
//     lanes takes the maximum of the elements l, l + lanes, l + 2 lanes, ...: its delegate. The k-th largest
//     delegate is a floor, for k elements reach it.
//  3. The tile is read again, 64 elements at a time, and what reaches the floor is appended.
//  4. Elements equal to the floor may win as long as fewer than k elements at or above it were appended. From
//     then on they lose by their index, and the floor rises by one key. (When no key is left above it, the
//     rest of the row need not be read.)
//  5. Later tiles go straight to step 3. Where a tile yields many candidates (a rising input), the next one
//     goes through step 2 again.
//  6. When the candidates' buffer is full, all but little more than the best k are dropped, and the floor rises
//     to just above the least of them. So the buffer is O(k), whatever the input.
//  7. At the end the best k are sorted out and copied, values from the row itself: keys cannot be decoded.
//
// With k near the length no floor can be had from delegates: everything is appended until step 6.
#include "cpu/select_rows.h"

#include <cstring>

#include "cpu/lanes.h"
#include "cpu/rank_candidates.h"
#include "cpu/runs.h"

namespace gputopk::cpu::GPUTOPK_CPU_LEVEL {

// Fewer elements than this behind a delegate make a floor that rejects too little to pay for itself.
constexpr int64_t kMinElementsPerDelegate = 4;

// Tiles double while they yield few candidates, for a tile begins with a search for the floor's runs.
constexpr int64_t kMaxTile = 65536;

// How far ahead the row is asked for, in elements: far enough for the memory's latency. The processor's own
// prefetcher stops at each page.
constexpr int64_t kPrefetch = 1024;

// Up to this many delegates, counting all pairs finds the k-th fastest.
constexpr int64_t kMaxPairedDelegates = 32;

// The most by which a cut may exceed k: an eighth costs less to carry than to avoid.
inline int64_t cut_slack(int64_t k) { return smaller<int64_t>(k / 8, 1024); }

template <class Order, class Candidate>
struct Selection {
  using Bits = typename Order::Bits;

  const Order order;
  const Bits* row;
  int64_t k;
  Candidate* candidates;
  int64_t limit;  // candidates held before the losers among them are dropped
  Bits* delegates;
  Bits* keys;  // of the tile that raise_floor saw, kTile at most

  int64_t count = 0;     // candidates held
  Bits floor = 0;        // elements below it lose
  bool decided = false;  // everything further loses
  int64_t ties_end = 0;  // where count reaches it, elements equal to the floor lose; 0: they lost already
};

// Writes whole strips; what it writes behind the last key is no key.
template <class Order, class Bits>
void find_keys(const Order& order, const Bits* elements, int64_t count, Bits* keys) {
  for (int64_t i = 0; i < count; ++i) keys[i] = order(elements[i]);
  for (int64_t i = count; i % kStrip != 0; ++i) keys[i] = 0;
}

template <class Bits>
struct TileShape {
  int64_t lanes;     // delegates; 0 where k is too large for them
  int64_t elements;  // of a tile
};

// As many lanes as leave the k-th delegate well inside their range.
template <class Bits>
TileShape<Bits> choose_tile(int64_t length, int64_t k) {
  constexpr int64_t kUnit = kLanes<Bits>;
  const int64_t most = length / kMinElementsPerDelegate / kUnit * kUnit;
  const int64_t wanted = (2 * k + kUnit - 1) / kUnit * kUnit;
  const int64_t lanes = smaller(wanted, most);
  if (lanes < k + k / 4) return {0, kTile};
  const int64_t elements = larger(kTile, lanes * kMinElementsPerDelegate);
  return {lanes, (elements + kStrip - 1) / kStrip * kStrip};
}

template <class Bits>
struct Identity {
  Bits operator()(Bits key) const { return key; }
};

// The first lanes * depth elements in order, a vector of lanes after the other: so memory is read in order.
template <class Order, class Bits>
void find_delegates(const Order& order, const Bits* elements, int64_t lanes, int64_t depth, Bits* delegates) {
  constexpr int64_t kUnit = kLanes<Bits>;
  for (int64_t unit = 0; unit < lanes; unit += kUnit, elements += depth * kUnit) {
    Bits best[kUnit] = {};
    raise_lanes(order, elements, depth, best);
    for (int64_t lane = 0; lane < kUnit; ++lane) delegates[unit + lane] = best[lane];
  }
}

// The k-th largest of a few keys, by counting for each the larger ones.
template <class Bits>
Bits kth_by_pairs(const Bits* keys, int64_t count, int64_t k) {
  constexpr Bits kMost = static_cast<Bits>(~Bits{0});
  Vector<Bits> kth = kMost - Vector<Bits>{};
  for (int64_t i = 0; i < count; i += kLanes<Bits>) {
    const Vector<Bits> mine = load_vector(keys + i);
    Vector<Bits> larger_keys = {};
    for (int64_t j = 0; j < count; ++j) {
      larger_keys -= reinterpret_cast<Vector<Bits>>((keys[j] - Vector<Bits>{}) > mine);
    }
    kth = (larger_keys < static_cast<Bits>(k)) & (mine < kth) ? mine : kth;
  }
  Bits smallest = kMost;
  for (int lane = 0; lane < kLanes<Bits>; ++lane) smallest = smaller<Bits>(smallest, kth[lane]);
  return smallest;
}

// Step 2. Returns whether the tile holds so many hits that the next one should come here as well.
template <class Order, class Candidate>
bool raise_floor(Selection<Order, Candidate>& selection, int64_t begin, int64_t end, int64_t lanes,
                 bool have_keys) {
  using Bits = typename Order::Bits;
  const int64_t depth = (end - begin) / lanes;
  if (depth == 0) return false;
  if (have_keys) {
    find_delegates(Identity<Bits>{}, selection.keys, lanes, depth, selection.delegates);
  } else {
    find_delegates(selection.order, selection.row + begin, lanes, depth, selection.delegates);
  }
  const int64_t hits = count_at_least(selection.delegates, lanes, selection.floor);
  if (hits < selection.k) return false;
  const Bits kth = lanes <= kMaxPairedDelegates
                       ? kth_by_pairs(selection.delegates, lanes, selection.k)
                       : find_cut(selection.delegates, lanes, selection.k, cut_slack(selection.k));
  if (kth > selection.floor || (kth == selection.floor && selection.ties_end == 0)) {
    selection.floor = kth;
    selection.ties_end = selection.count + selection.k;
  }
  return true;
}

// k elements that come before all further ones reach `key`.
template <class Order, class Candidate>
void require_above(Selection<Order, Candidate>& selection, typename Order::Bits key) {
  using Bits = typename Order::Bits;
  if (key < selection.floor) return;
  selection.ties_end = 0;
  selection.decided = key == static_cast<Bits>(~Bits{0});
  selection.floor = static_cast<Bits>(key + 1);
}

// Step 6.
template <class Order, class Candidate>
void drop_losers(Selection<Order, Candidate>& selection, int64_t slack) {
  using Bits = typename Order::Bits;
  const Candidate cut = find_cut(selection.candidates, selection.count, selection.k, slack);
  selection.count = keep_at_least(selection.candidates, selection.count, cut);
  require_above(selection, key_of<Bits>(cut));
}

// Step 4 for the strip from `begin`: its hits are the bits of `mask`.
template <class Order, class Candidate>
void append_strip(Selection<Order, Candidate>& selection, const typename Order::Bits* keys, uint64_t mask,
                  int64_t begin) {
  if (selection.count >= selection.limit) {
    drop_losers(selection, cut_slack(selection.k));
    if (selection.decided) return;
    mask &= mask_at_least(keys, selection.floor);
  }
  selection.count += append_masked(keys, begin, mask, selection.candidates + selection.count);
  if (selection.ties_end != 0 && selection.count >= selection.ties_end) require_above(selection, selection.floor);
}

// Step 3 for a tile whose keys are at hand.
template <class Order, class Candidate>
void append_from_keys(Selection<Order, Candidate>& selection, int64_t begin, int64_t end) {
  using Bits = typename Order::Bits;
  const Bits* keys = selection.keys;
  const int64_t length = end - begin;
  for (; begin < end && !selection.decided; begin += kStrip, keys += kStrip) {
    prefetch_strip(selection.row + begin, length);
    uint64_t fresh = ~uint64_t{0};
    if (end - begin < kStrip) fresh >>= kStrip - (end - begin);
    Bits best[kLanes<Bits>] = {};
    raise_lanes(Identity<Bits>{}, keys, kStrip / kLanes<Bits>, best);
    if (!any_at_least(best, selection.floor)) continue;
    append_strip(selection, keys, mask_at_least(keys, selection.floor) & fresh, begin);
  }
}

// Step 3 for any tile.
template <class Order, class Candidate>
void append_from_row(Selection<Order, Candidate>& selection, int64_t begin, int64_t end) {
  using Bits = typename Order::Bits;
  const Order order = selection.order;
  const Bits* const row = selection.row;
  Runs<Bits> runs;
  if (!find_runs(order, selection.floor, runs)) {
    selection.decided = true;
    return;
  }
  Bits keys[kStrip];
  for (; end - begin >= kStrip && !selection.decided; begin += kStrip) {
    prefetch_strip(row + begin, kPrefetch);
    if (!any_in_runs(row + begin, runs)) continue;
    find_keys(order, row + begin, kStrip, keys);
    append_strip(selection, keys, mask_at_least(keys, selection.floor), begin);
  }
  if (begin == end || selection.decided) return;
  const int64_t rest = end - begin;
  find_keys(order, row + begin, rest, keys);
  append_strip(selection, keys, mask_at_least(keys, selection.floor) & (~uint64_t{0} >> (kStrip - rest)), begin);
}

// Steps 2 to 4 for a tile. Returns whether the next tile should come here as well.
template <class Order, class Candidate>
bool read_with_delegates(Selection<Order, Candidate>& selection, int64_t begin, int64_t end, int64_t lanes) {
  const bool have_keys = end - begin <= kTile;
  if (have_keys) find_keys(selection.order, selection.row + begin, end - begin, selection.keys);
  const bool many_hits = raise_floor(selection, begin, end, lanes, have_keys);
  if (have_keys) {
    append_from_keys(selection, begin, end);
  } else {
    append_from_row(selection, begin, end);
  }
  return many_hits;
}

template <class Order, class Candidate>
int64_t select_piece(const Order& order, const Piece& piece, const Scratch& scratch) {
  using Bits = typename Order::Bits;
  const int64_t length = piece.end - piece.begin;
  const int64_t k = smaller(piece.k, length);
  Selection<Order, Candidate> selection{order,
                                        static_cast<const Bits*>(piece.row),
                                        k,
                                        reinterpret_cast<Candidate*>(scratch.candidates),
                                        smaller(2 * k + kStrip, scratch.capacity - 2 * kStrip),
                                        reinterpret_cast<Bits*>(scratch.delegates),
                                        reinterpret_cast<Bits*>(scratch.keys)};
  const TileShape<Bits> tile = choose_tile<Bits>(length, k);
  bool many_hits = tile.lanes != 0;
  int64_t elements = tile.elements;
  for (int64_t begin = piece.begin; begin < piece.end && !selection.decided;) {
    const int64_t end = smaller(begin + elements, piece.end);
    const int64_t before = selection.count;
    if (many_hits) {
      many_hits = read_with_delegates(selection, begin, end, tile.lanes);
      elements = tile.elements;
    } else {
      append_from_row(selection, begin, end);
      many_hits = tile.lanes != 0 && selection.count - before > elements / 8;
      elements = many_hits ? tile.elements : smaller(2 * elements, larger(kMaxTile, tile.elements));
    }
    begin = end;
  }
  return selection.count;
}

template <class Bits, class Candidate, class Index>
void write_winners(const Bits* row, const Candidate* winners, int64_t k, Bits* values, Index* indices) {
  for (int64_t i = 0; i < k; ++i) {
    const int64_t index = index_of<Bits>(winners[i]);
    values[i] = row[index];
    indices[i] = static_cast<Index>(index);
  }
}

// Step 7.
template <class Order, class Candidate>
void write_best(const Order&, const Piece& piece, const Scratch& scratch, int64_t count, const Output& output) {
  using Bits = typename Order::Bits;
  const int64_t k = piece.k;
  Candidate* winners = reinterpret_cast<Candidate*>(scratch.candidates);
  Candidate few[kRankSortMax];
  const int64_t slack = output.sorted ? larger(cut_slack(k), kRankSortMax - k) : 0;
  if (count > k + slack) {
    count = keep_at_least(winners, count, find_cut(winners, count, k, slack));
  }
  if (count <= kRankSortMax && (output.sorted || count > k)) {
    sort_by_rank(winners, count, k, few);
    winners = few;
  } else if (output.sorted || count > k) {
    winners = sort_by_radix<Bits>(winners, count);
  }
  const Bits* const row = static_cast<const Bits*>(piece.row);
  Bits* const values = static_cast<Bits*>(output.values);
  if (output.wide_indices) {
    write_winners(row, winners, k, values, static_cast<int64_t*>(output.indices));
  } else {
    write_winners(row, winners, k, values, static_cast<int32_t*>(output.indices));
  }
}

template <class Order>
Kernel<Order> kernel(bool wide) {
  if constexpr (sizeof(typename Order::Bits) < 8) {
    if (!wide) return {select_piece<Order, NarrowCandidate>, write_best<Order, NarrowCandidate>};
  }
  return {select_piece<Order, WideCandidate>, write_best<Order, WideCandidate>};
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
