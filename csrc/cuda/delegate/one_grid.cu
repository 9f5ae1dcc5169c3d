// Delegate top-k with a bound from a sample, by blocks that run together: one read of a long row, one launch,
// and up to some thousands of winners in order.
//
// As from_sample.cu, whose four or five launches take longer than the read of a row of some millions of
// elements. Here they are steps of one, between which all blocks wait:
//   1. Each block starts to load its first tiles into shared memory, and takes its share of the sample: the
//      best of a group of lanes' elements is a delegate. Memory is not idle while the bound is found, by each
//      block for itself, once all delegates are there. Where the last of many winners is wanted alone, blocks
//      find two bounds, as in two_bounds.cu.
//   2. The row is read through shared memory. What reaches the bound is stored, and counted by a first digit;
//      what is above a second one, counted alone.
//   3. Of few candidates, blocks put a part each in order, a range of that digit, and write it. Of more,
//   digits
//      are counted until what is left to tell apart is so few that one block does.
// A bound that fewer than k elements reach, or more than can be stored, or an upper one that k reach, is
// found out by counting, and digits are of the row then, as in AIR. So the result is exact for every row.

#include <cooperative_groups.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <type_traits>

#include "core/key_order.h"
#include "core/visit_bits.h"
#include "cuda/delegate/delegate.h"
#include "cuda/delegate/grid.cuh"
#include "cuda/delegate/numbers.h"
#include "cuda/device/block_sort.cuh"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/element_bounds.cuh"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/row_digits.cuh"
#include "cuda/device/row_sample.cuh"
#include "cuda/device/row_stream.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/stored_candidates.cuh"
#include "cuda/device/winner_writer.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda::delegate {
namespace {

using Index = uint32_t;
template <class Bits>
using Extended = ExtendedKey<typename KeyWord<Bits>::type, Index>;

using tuning::kGridListed;
using tuning::kPassThreads;
constexpr int kWarps = kPassThreads / 32;
constexpr int kListItems = kGridListed / kPassThreads;  // of a thread that puts a list in order
static_assert(kGridBins == 1 << tuning::kStoredCountBits, "a histogram serves either digit");

// What the blocks of a row tell each other. All zero at first.
struct RowState {
  unsigned long long above;    // the upper bound
  unsigned long long stored;   // candidates, or so many would be if there were room
  unsigned long long written;  // winners, from the first place on, by the last step of many
  unsigned long long listed;   // entries of the list that one block then puts in order
  uint32_t beyond;             // candidates beyond the digit
  uint32_t arrived;            // at the row's barrier
  uint32_t done;               // blocks, with the last step of many
  GridCounts counts;
};

template <class Bits>
struct Params {
  const Bits* input;
  int64_t row_stride, cols;
  uint32_t k;
  int index_bits;
  int blocks;  // of a row
  bool in_order, last_alone, two_sided;
  Sample<Bits, Index> one;
  BoundSample<Bits, Index> two;
  typename KeyWord<Bits>::type* greatest;  // in each of its blocks' parts
  RowState* states;                        // rows
  CandidateBuffer<Bits, Index> stored;     // rows x capacity
  uint32_t capacity;
  CandidateBuffer<Bits, Index> listed;  // rows x kGridListed
  WinnerWriter<Bits> output;
};

template <class Bits>
struct Shared {
  using Word = typename KeyWord<Bits>::type;

  ExtendedKey<Word, Index> low, high;  // the bounds
  CandidateRange<Word, Index> range;   // of what lies between
  ListSelectionScratch<Word> of_sample;
  TargetDigitScratch<uint32_t> search;
  BlockScratch<Word, Index> sort;
  unsigned long long staged[2][kWarps + 1];
  uint32_t listed;
  uint32_t most;  // of a bin
};

template <class Bits>
using Store = StagedWriter<Bits, Index, BoundedBuffer<Bits, Index>>;

// Of a sample of two bounds: a thread's elements, and the block's shared memory.
constexpr int kTwoElements = tuning::kTwoBoundsElements * tuning::kTwoBoundsThreads / kPassThreads;
template <class Bits>
constexpr size_t kTwoBytes =
    sizeof(uint32_t) * kListBins + sizeof(Extended<Bits>) * kTwoElements * kPassThreads;
static_assert(sizeof(PlacedFinds<uint64_t, Index>) <= kTwoBytes<uint64_t>);

// Dynamic shared memory: of the row's stream and, when that is done, of lists; then of a step's own.
template <class Bits>
using Tiles = RowStream<Bits, tuning::kStreamBytes>;

template <class Bits>
constexpr size_t dynamic_bytes(const Params<Bits>& params) {
  constexpr size_t kStoring = kCountBytes<Index> + kWarps * Store<Bits>::bytes(tuning::kGridStaged);
  const size_t sampling = params.two_sided ? kTwoBytes<Bits> : params.one.shared_bytes();
  return tuning::kStreamBytes + std::max(kStoring, sampling);
}
static_assert(block_bytes(sizeof(uint64_t) + sizeof(Index), kGridListed, kPassThreads) <=
              tuning::kStreamBytes);
static_assert(2 * kWarps * Store<uint64_t>::bytes(tuning::kGridStaged) <= tuning::kStreamBytes);

// A row as one of its blocks sees it.
template <class Order>
struct RowOfGrid {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;

  const Params<Bits>& params;
  const Order& order;
  Shared<Bits>& shared;
  int64_t row_number;
  int number, blocks;
  const Bits* input;
  RowState& state;
  CandidateBuffer<Bits, Index> stored, listed;
  BlockMemory<Bits, Index> memory;  // where the stream was

  __device__ RowOfGrid(const Params<Bits>& params, const Order& order, Shared<Bits>& shared)
      : params(params),
        order(order),
        shared(shared),
        row_number(static_cast<int>(blockIdx.x) / params.blocks),
        number(static_cast<int>(blockIdx.x) % params.blocks),
        blocks(params.blocks),
        input(params.input + row_number * params.row_stride),
        state(params.states[row_number]),
        stored(of_row(params.stored, row_number * params.capacity)),
        listed(of_row(params.listed, row_number * kGridListed)),
        memory(dynamic_shared(), kGridListed) {}

  __device__ Extended<Bits> extended(Bits bits, Index index) const {
    return {order(bits), static_cast<Index>(static_cast<Index>(params.cols - 1) - index)};
  }

  // Calls visit(bits, index, is_there) for the first `count` entries of a list, those of the part, by whole
  // warps.
  template <class Visit>
  __device__ __forceinline__ static void visit_list(const CandidateBuffer<Bits, Index>& list, uint32_t count,
                                                    int part, int parts, Visit&& visit) {
    constexpr int kInFlight = 4;
    const uint32_t step = static_cast<uint32_t>(parts) * kPassThreads * kInFlight;
    for (uint32_t first = static_cast<uint32_t>(part) * kPassThreads * kInFlight; first < count;
         first += step) {
      Bits bits[kInFlight];
      Index indices[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const uint32_t at = min(first + i * kPassThreads + threadIdx.x, count - 1);
        bits[i] = __ldcg(list.values + at);
        indices[i] = __ldcg(list.indices + at);
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        visit(bits[i], indices[i], first + i * kPassThreads + threadIdx.x < count);
      }
    }
  }

  // Puts `count` entries that are in `memory` in order and writes the `wanted` best of them, or the last of
  // these alone, behind `better` winners. By all threads of a block, with a barrier before.
  __device__ void write_listed(uint32_t count, uint32_t wanted, uint32_t better) const {
    const WinnerWriter<Bits> output = params.output.row(row_number, params.k);
    prepare_sort(static_cast<int>(count), memory, shared.sort);
    __syncthreads();  // the sort's memory is clear
    sort_prepared<kListItems>(
        static_cast<int>(count), static_cast<int>(wanted), order, memory, shared.sort,
        [&](int i, Bits& bits, Index& index) {
          bits = memory.values[i];
          index = memory.indices[i];
        },
        [&](int rank, Bits bits, Index index) {
          const uint32_t place = better + static_cast<uint32_t>(rank);
          if (!params.last_alone || place == params.k - 1) output.write(place, bits, index);
        });
  }

 private:
  __device__ static CandidateBuffer<Bits, Index> of_row(const CandidateBuffer<Bits, Index>& all, int64_t at) {
    return {all.values + at, all.indices + at};
  }
};

// Where winners are told from others by digits: of the stored candidates, or of the row.
template <class Bits>
struct Digits {
  Selection<typename KeyWord<Bits>::type, Index> selection;
  Digit last{};  // that was resolved; of no width: none was
  bool of_row;
};

// Resolves digits until one block can tell the rest apart, and writes the winners. By all threads of the
// row's blocks, which have waited for each other once.
template <class Order, class Bits = typename Order::Bits>
__device__ __noinline__ void select_by_digits(const RowOfGrid<Order>& row, Digits<Bits> digits,
                                              RowBarrier barrier) {
  constexpr int kDigitBits = tuning::kStoredCountBits;
  const Params<Bits>& params = row.params;
  auto& selection = digits.selection;
  uint32_t* const own = reinterpret_cast<uint32_t*>(dynamic_shared() + tuning::kStreamBytes);
  uint32_t* const sums = own + kGridBins;
  GridSums add_up{barrier, row.state.counts, row.number == 0, /*pass=*/1};
  const uint32_t stored =
      static_cast<uint32_t>(min(__ldcg(&row.state.stored), static_cast<unsigned long long>(params.capacity)));
  const int64_t part_cols = part_of_cluster(params.cols, row.blocks, sizeof(Bits));
  const int64_t first = min(row.number * part_cols, params.cols);
  const Bits* const part = row.input + first;
  const int64_t cols = min(part_cols, params.cols - first);
  const Index reversed = static_cast<Index>(params.cols - 1) - static_cast<Index>(first);

  const auto left = [&] {  // for one block
    return params.in_order ? params.k - selection.owed + selection.candidates : selection.candidates;
  };
  while (left() > kGridListed) {
    const bool is_first = digits.last.width() == 0;
    const Digit digit = is_first ? digit_of_pass(1, kDigitBits, Order::kBits, params.index_bits)
                                 : next_digit(selection, digits.last, kDigitBits, params.index_bits);
    const int bins = 1 << digit.width();
    __syncthreads();  // nothing of the counts is in use
    clear_histogram(own, bins);
    __syncthreads();  // no thread counts into bins that another has yet to clear
    SeesNothing nothing;
    if (!digits.of_row) {
      row.visit_list(row.stored, stored, row.number, row.blocks, [&](Bits bits, Index index, bool there) {
        const Extended<Bits> x = row.extended(bits, index);
        if (!there || x < selection.low || selection.split < x) return;
        atomicAdd(own + digit.of(x.key - selection.low.key, x.reversed - selection.low.reversed), 1u);
      });
    } else if (is_first) {
      count_first_digit(row.order, part, cols, reversed, digit, own, nothing);
    } else {
      count_next_digit(row.order, part, cols, reversed, selection, digit, own, nothing);
    }
    add_up(own, sums, bins);
    const TargetDigit<uint32_t> target = find_target_digit(sums, bins, selection.owed, row.shared.search);
    selection.narrow(digit, target.digit, target.above, target.count);
    digits.last = digit;
  }

  __syncthreads();  // nothing of the stream's memory is in use
  constexpr size_t kStage = Store<Bits>::bytes(tuning::kGridStaged);
  unsigned char* const stages = dynamic_shared() + threadIdx.x / 32 * 2 * kStage;
  Store<Bits> listed(stages, tuning::kGridStaged, {row.listed, kGridListed}, &row.state.listed);
  StagedWriter<Bits, Index, WinnerWriter<Bits>> winners(
      stages + kStage, tuning::kGridStaged, params.output.row(row.row_number, params.k), &row.state.written);
  const auto deal = [&](Bits bits, Index index, bool there) {
    const Extended<Bits> x = row.extended(bits, index);
    const bool reaches = there && !(x < selection.low), wins = reaches && selection.split < x;
    listed.push(reaches && (params.in_order || !wins), bits, index);
    winners.push(wins && !params.in_order && !params.last_alone, bits, index);
  };
  if (!digits.of_row) {
    row.visit_list(row.stored, stored, row.number, row.blocks, deal);
  } else {
    KeyFilter<Order> filter(row.order);
    visit_tiles<Reading::kAgain, BlockTeam, /*kEnds=*/true>(
        part, cols, /*part=*/0, /*parts=*/1, AllTiles{},
        [&](const auto& elements, int64_t, bool valid) { return valid ? filter.probe(elements) : 0; },
        [&](Bits bits, int64_t at, bool chosen) { deal(bits, static_cast<Index>(first + at), chosen); },
        [&](int64_t) { filter.raise(selection.low.key, false); });
  }
  listed.publish(row.shared.staged[0]);
  winners.publish(row.shared.staged[1]);
  __syncthreads();  // all warps have told
  if (threadIdx.x == 0) listed.reserve(row.shared.staged[0]);
  if (threadIdx.x == 32) winners.reserve(row.shared.staged[1]);
  __syncthreads();  // the places are known
  listed.finish(row.shared.staged[0]);
  winners.finish(row.shared.staged[1]);
  if (!is_last_block(&row.state.done, static_cast<uint32_t>(row.blocks))) return;

  const uint32_t count = static_cast<uint32_t>(__ldcg(&row.state.listed));
  for (uint32_t i = threadIdx.x; i < count; i += kPassThreads) {
    row.memory.values[i] = __ldcg(row.listed.values + i);
    row.memory.indices[i] = __ldcg(row.listed.indices + i);
  }
  __syncthreads();  // the list is there
  const uint32_t wanted = params.in_order ? params.k : static_cast<uint32_t>(selection.owed);
  row.write_listed(count, wanted, params.k - wanted);
}

// A place among the bins of all candidates that were stored, the best first: behind so many candidates, the
// next one is in that bin.
struct Place {
  uint32_t bin, behind;
};

// Puts this block's part of the stored candidates in order and writes it: of `parts`, that reach down to the
// `last` bin, behind `above` winners that are not stored. `counts` has those of each bin. By all threads of a
// block.
template <class Order, class Bits = typename Order::Bits>
__device__ void write_part(const RowOfGrid<Order>& row, uint32_t above, uint32_t stored, uint32_t beyond,
                           const uint32_t* counts, int parts, const TargetDigit<uint32_t>& last) {
  auto& shared = row.shared;
  const uint32_t bins = static_cast<uint32_t>(shared.range.bins());  // and that of those beyond
  const uint32_t reaching = beyond + last.above + last.count;
  const auto place_of = [&](int part) -> Place {
    const uint32_t behind = static_cast<uint32_t>(uint64_t{reaching} * static_cast<uint32_t>(part) /
                                                  static_cast<uint32_t>(parts));
    if (behind < beyond || part == 0) return {bins, 0};
    const TargetDigit<uint32_t> found =
        find_target_digit(counts, static_cast<int>(bins), behind - beyond + 1, shared.search);
    return {found.digit, beyond + found.above};
  };
  Place first = row.params.last_alone ? Place{last.digit, beyond + last.above} : place_of(row.number);
  // As a number of bins, those below the part.
  Place end{last.digit, reaching};
  if (row.number + 1 < parts) {
    end = place_of(row.number + 1);
    ++end.bin;
  }
  const uint32_t count = end.behind - first.behind;
  if (count == 0) return;

  if (threadIdx.x == 0) shared.listed = 0;
  __syncthreads();  // the count is zero, and nothing of the list's memory is in use
  row.visit_list(row.stored, stored, /*part=*/0, /*parts=*/1, [&](Bits bits, Index index, bool there) {
    const uint32_t bin = shared.range.bin(row.extended(bits, index));
    if (!there || bin < end.bin || bin > first.bin) return;
    const uint32_t at = atomicAdd(&shared.listed, 1u);
    row.memory.values[at] = bits;
    row.memory.indices[at] = index;
  });
  __syncthreads();  // all are listed
  const uint32_t better = above + first.behind;
  row.write_listed(count, min(count, row.params.k - better), better);
}

// Step 3.
template <class Order, class Bits = typename Order::Bits>
__device__ __forceinline__ void write_winners(const RowOfGrid<Order>& row, RowBarrier barrier) {
  using Word = typename KeyWord<Bits>::type;
  using RowSelection = Selection<Word, Index>;
  const Params<Bits>& params = row.params;
  auto& shared = row.shared;
  uint32_t* const counts = reinterpret_cast<uint32_t*>(dynamic_shared() + tuning::kStreamBytes);
  const auto& range = shared.range;
  const int bins = range.bins();
  const uint32_t beyond = __ldcg(&row.state.beyond);
  const unsigned long long above = __ldcg(&row.state.above), stored = __ldcg(&row.state.stored);
  if (above >= params.k || above + stored < params.k || stored > params.capacity) {
    return select_by_digits(row, {RowSelection::whole_row(params.k, params.cols), {}, /*of_row=*/true},
                            barrier);
  }
  const uint32_t k = params.k - static_cast<uint32_t>(above);  // of those stored
  if (beyond >= k) {
    return select_by_digits(row, {RowSelection::whole_row(k, stored), {}, /*of_row=*/false}, barrier);
  }
  if (threadIdx.x == 0) shared.most = beyond;
  for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += kPassThreads) {
    counts[bin] = __ldcg(row.state.counts.of[0] + bin);
  }
  __syncthreads();  // the counts are there
  const TargetDigit<uint32_t> target = find_target_digit(counts, bins, k - beyond, shared.search);
  uint32_t most = 0;
  for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += kPassThreads) {
    if (bin >= static_cast<int>(target.digit)) most = max(most, counts[bin]);
  }
  most = __reduce_max_sync(~0u, most);
  if (threadIdx.x % 32 == 0) atomicMax(&shared.most, most);
  __syncthreads();  // the most of a bin is known
  const uint32_t reaching = beyond + target.above + target.count;
  const int parts = params.last_alone ? 1
                                      : min(static_cast<int>(reaching / tuning::kGridPart) + 1,
                                            min(tuning::kGridMostParts, row.blocks));
  // A part has what it is to have, and a bin's more.
  const uint32_t most_of_part =
      params.last_alone ? target.count : reaching / static_cast<uint32_t>(parts) + 1 + shared.most;
  if ((params.in_order || params.last_alone) && stored <= tuning::kGridLookedAt &&
      most_of_part <= kGridListed) {
    if (row.number < parts) {
      write_part(row, static_cast<uint32_t>(above), static_cast<uint32_t>(stored), beyond, counts, parts,
                 target);
    }
    return;
  }
  Digits<Bits> digits{RowSelection::whole_row(k - beyond, stored), range.digit, /*of_row=*/false};
  digits.selection.low = range.low;
  digits.selection.narrow(range.digit, target.digit, target.above, target.count);
  select_by_digits(row, digits, barrier);
}

// Step 1, of two bounds: finds them in the block's part of the sample, if it has one.
template <class Order, class Bits = typename Order::Bits>
__device__ __forceinline__ void find_two(const RowOfGrid<Order>& row, const Tiles<Bits>& tiles,
                                         unsigned char* own) {
  using Word = typename KeyWord<Bits>::type;
  const Params<Bits>& params = row.params;
  const int of_row = params.two.places.sample.blocks, thread = static_cast<int>(threadIdx.x);
  if (row.number >= of_row) return tiles.start();
  Index at[kTwoElements];
  Bits loaded[kTwoElements];
#pragma unroll
  for (int i = 0; i < kTwoElements; ++i) {
    at[i] = static_cast<Index>(params.two.places.at(tiles.shape().head, row.number, i));
    loaded[i] = row.input[at[i]];
  }
  tiles.start();
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(own);
  Extended<Bits>* const local = reinterpret_cast<Extended<Bits>*>(histogram + kListBins);
#pragma unroll
  for (int i = 0; i < kTwoElements; ++i) local[i * kPassThreads + thread] = row.extended(loaded[i], at[i]);
  const FoundBounds<Word, Index> found =
      bounds_of_block<Word, Index>(params.two.ranks, kTwoElements * kPassThreads, params.index_bits, local,
                                   histogram, row.shared.of_sample);
  if (thread != 0) return;
  const int64_t place = row.row_number * of_row + row.number;
  params.two.found[place] = found;
  params.greatest[place] = static_cast<Word>(row.shared.of_sample.range.greatest);
}

// And of what all blocks have found, the row's bounds, in `shared`, as is a key near the row's greatest.
template <class Order, class Bits = typename Order::Bits>
__device__ __forceinline__ void place_two(const RowOfGrid<Order>& row, unsigned char* own) {
  using Word = typename KeyWord<Bits>::type;
  const Params<Bits>& params = row.params;
  auto& shared = row.shared;
  const int of_row = params.two.places.sample.blocks;
  const int64_t first = row.row_number * of_row;
  if (threadIdx.x == 0) shared.of_sample.range.reset();
  __syncthreads();  // the range is reset
  if (static_cast<int>(threadIdx.x) < of_row) {
    shared.of_sample.range.add(__ldcg(params.greatest + first + threadIdx.x));
  }
  place_finds(params.two.found + first, of_row, params.two.ranks.place,
              *reinterpret_cast<PlacedFinds<Word, Index>*>(own), shared.low, shared.high);
}

template <class Order>
__global__ void __launch_bounds__(kPassThreads)
    select_row(const __grid_constant__ Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  __shared__ Shared<Bits> shared;
  const RowOfGrid<Order> row(params, order, shared);
  unsigned char* const own = dynamic_shared() + tuning::kStreamBytes;
  const Index last_index = static_cast<Index>(params.cols - 1);

  // Step 1.
  const Tiles<Bits> tiles(row.input, params.cols, row.number, row.blocks, dynamic_shared());
  if (params.two_sided) {
    find_two(row, tiles, own);
  } else {
    const int head = tiles.shape().head;
    const Extended<Bits> best = best_of_lines(
        params.one, row.number, head, last_index, order,
        [&](int64_t vector) {
          return load_vector<Reading::kAgain>(row.input + head + vector * kPerVector<Bits>);
        },
        [&] { tiles.start(); });
    add_delegate(params.one, row.row_number, row.number, best);
  }
  if (row.number == 0) {
    constexpr int kWords = sizeof(RowState) / sizeof(uint32_t);
    uint32_t* const words = reinterpret_cast<uint32_t*>(&row.state);
    for (int i = static_cast<int>(threadIdx.x); i < kWords; i += kPassThreads) words[i] = 0;
  }
  cooperative_groups::this_grid().sync();  // all of the sample is there, and the states are zero
  if (params.two_sided) {
    place_two(row, own);
  } else {
    const Extended<Bits> bound =
        bound_of_delegates(params.one, row.row_number, params.index_bits, own, shared.of_sample);
    if (threadIdx.x == 0) {
      shared.low = bound;
      shared.high = Selection<Word, Index>::highest();
    }
  }

  // Step 2.
  __syncthreads();  // the bounds are there, and nothing of the sample is in use
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(own);
  clear_histogram(histogram, kGridBins + 1);
  const Extended<Bits> low = shared.low, high = shared.high;
  if (threadIdx.x == 0) {
    shared.range =
        shared.range.between(params, low, high, static_cast<Word>(shared.of_sample.range.greatest));
  }
  __syncthreads();  // the range is known, and no bin is yet to be cleared
  const auto& range = shared.range;
  const auto index_of_bound = [&](const Extended<Bits>& bound) {
    return static_cast<int64_t>(static_cast<Index>(last_index - bound.reversed));
  };
  Store<Bits> store(own + kCountBytes<Index> + threadIdx.x / 32 * Store<Bits>::bytes(tuning::kGridStaged),
                    tuning::kGridStaged, {row.stored, params.capacity}, &row.state.stored);
  uint32_t counted = 0;                // above the upper bound
  BoundFilter<Order> reaching(order);  // possibly at or above the lower one
  BoundFilter<Order> above(order);     // surely above the upper one
  constexpr int kLaneSpan = (kUnroll<Bits> - 1) * kPassThreads * kPerVector<Bits> + kPerVector<Bits>;
  tiles.scan([&](const auto& elements, int64_t, bool valid) { return valid ? reaching.probe(elements) : 0; },
             [&](const auto& loaded, int64_t begin, int distance, uint32_t chosen) {
               if (!__any_sync(~0u, chosen != 0)) return;
               if constexpr (std::remove_reference_t<decltype(loaded[0])>::kElements > 1) {
                 if (params.two_sided) {
                   uint32_t sure = 0;
#pragma unroll
                   for (int v = 0; v < kUnroll<Bits>; ++v) {
                     sure |= above.probe(loaded[v]) << (v * kPerVector<Bits>);
                   }
                   counted += __popc(chosen & sure);
                   chosen &= ~sure;
                 }
               }
               while (__any_sync(~0u, chosen != 0)) {
                 const int at = chosen != 0 ? __ffs(static_cast<int>(chosen)) - 1 : 0;
                 const Bits bits = element_of(loaded, at);
                 const Index index = static_cast<Index>(index_of<Bits>(begin, distance, at));
                 const Extended<Bits> x = row.extended(bits, index);
                 const bool reaches = chosen != 0 && !(x < low), is_above = high < x;
                 if (reaches && is_above) ++counted;
                 if (reaches && !is_above) atomicAdd(histogram + range.bin(x), 1u);
                 store.push(reaches && !is_above, bits, index);
                 chosen &= chosen - 1;
               }
             },
             [&](int64_t first) {
               // What lies behind a bound's index does not reach it, or is not above it, by its key alone.
               // The lowest of all bounds, or the highest, has an index beyond the row's.
               reaching.raise(low.key, first > index_of_bound(low));
               if (params.two_sided) {
                 above.raise(high.key,
                             high.reversed > last_index || first + kLaneSpan > index_of_bound(high));
               }
             });
  counted = __reduce_add_sync(~0u, counted);
  if (threadIdx.x % 32 == 0 && counted > 0) {
    atomicAdd(&row.state.above, static_cast<unsigned long long>(counted));
  }
  store.publish(shared.staged[0]);
  __syncthreads();  // all warps have told, and counted
  if (threadIdx.x == 0) store.reserve(shared.staged[0]);
  const int bins = range.bins();
  for (int bin = static_cast<int>(threadIdx.x); bin <= bins; bin += kPassThreads) {
    const uint32_t count = histogram[bin];
    if (count > 0) atomicAdd(bin < bins ? row.state.counts.of[0] + bin : &row.state.beyond, count);
  }
  __syncthreads();  // the places are known
  store.finish(shared.staged[0]);

  RowBarrier barrier(&row.state.arrived, row.blocks, /*waits=*/0);
  barrier.wait();
  write_winners(row, barrier);
}

template <class Bits>
size_t carve(const OneGrid& config, const Problem& problem, void* base, Params<Bits>& params) {
  Workspace workspace(base);
  params.states = workspace.take<RowState>(problem.rows);
  params.two_sided = config.two_sided;
  if (config.two_sided) {
    params.two.set(config.two, config.ranks, problem.cols);
    params.two.carve_found(workspace, problem.rows);
    params.greatest = workspace.take<typename KeyWord<Bits>::type>(problem.rows * config.two.blocks);
  } else {
    params.one.set(config.one, problem.cols);
    params.one.list = workspace.take<Extended<Bits>>(problem.rows * config.one.delegates);
  }
  params.capacity = static_cast<uint32_t>(config.buffer);
  params.stored.values = workspace.take<Bits>(problem.rows * config.buffer);
  params.stored.indices = workspace.take<Index>(problem.rows * config.buffer);
  params.listed.values = workspace.take<Bits>(problem.rows * kGridListed);
  params.listed.indices = workspace.take<Index>(problem.rows * kGridListed);
  return workspace.bytes();
}

template <class Order>
ErrorCode launch(const OneGrid& config, const Problem& problem, const Buffers& buffers, Order order,
                 Stream stream) {
  using Bits = typename Order::Bits;
  Params<Bits> params{};
  carve(config, problem, buffers.workspace, params);
  params.input = static_cast<const Bits*>(buffers.input);
  params.row_stride = problem.row_stride;
  params.cols = problem.cols;
  params.k = static_cast<uint32_t>(problem.k);
  params.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
  params.blocks = config.blocks;
  params.last_alone = problem.last_alone;
  params.in_order = !problem.last_alone && config.in_order(problem);
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};

  static std::atomic<uint64_t> allowed;
  const size_t shared_bytes = dynamic_bytes(params);
  const cudaError_t error = allow_shared_memory(select_row<Order>, shared_bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_together(select_row<Order>, static_cast<unsigned>(problem.rows * config.blocks), kPassThreads,
                         shared_bytes, stream, params, order);
}

// The same by half as many blocks, whose sample is as much smaller.
OneGrid by_half_the_blocks(OneGrid config, const Problem& problem) {
  config.blocks /= 2;
  if (config.two_sided) {
    while (config.two.blocks > config.blocks) config.two.blocks /= 2;
    config.ranks = bound_ranks(config.two, problem);
    return config;
  }
  const DelegateSample& one = config.one;
  const int group = one.blocks * kPassThreads / one.delegates;
  const double elements =
      double{kPassThreads} * config.blocks * one.lines * (16 / dtype_bytes(problem.dtype));
  const double winners = elements * static_cast<double>(problem.k) / static_cast<double>(problem.cols);
  config.one = with_lines(problem, config.blocks, one.lines, group, tuning::sample_rank(winners));
  return config;
}

}  // namespace

size_t OneGrid::workspace_bytes(const Problem& problem) const {
  return visit_bits(dtype_bytes(problem.dtype), [&](auto bits) {
    Params<decltype(bits)> params{};
    return carve(*this, problem, nullptr, params);
  });
}

ErrorCode OneGrid::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    // Where this context has only a part of the GPU, again with fewer blocks.
    for (OneGrid config = *this;; config = by_half_the_blocks(config, problem)) {
      const ErrorCode error = launch(config, problem, buffers, order, stream);
      if (config.blocks == 1 || !lacks_room(error)) return error;
    }
  });
}

}  // namespace gputopk::cuda::delegate
