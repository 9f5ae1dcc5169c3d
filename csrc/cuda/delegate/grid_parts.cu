// Delegate top-k of many winners, by blocks that run together: one read of a long row, one launch, and the
// winners in order.
//
// As one_grid.cu, but the winners are more than a block could put in order, or each block compare with all:
//   1. Each block finds the bound for itself, in a sample of the row's elements, the same in all blocks. Its
//      first tiles are fetched into L2 meanwhile.
//   2. The row is read. What reaches the bound is stored, and counted by a digit of its range.
//   3. The counts say where in the output each bin of the digit begins, and which bin has the last winner.
//      Adjacent bins are a part; each block brings its share of what is stored to its parts.
//   4. A block puts a part in order, whose place in the output is known. In any order there are two parts:
//      what is better than the last winner's bin, which is written at once, and that bin.
// Where candidates crowd in a few bins (ties, say, or values far from the others), a sample of what is stored
// gives splitters in place of bins: extended keys, which no two elements share. A bound that fewer than k
// elements reach, or more than can be stored, and a last winner's bin of which more than can be dealt out,
// are found out by counting. Then digits of the row, as in AIR, give a bound that is right, and the row is
// read once more. So the result is exact for every row.

#include <cooperative_groups.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>

#include "core/key_order.h"
#include "core/visit_bits.h"
#include "cuda/delegate/delegate.h"
#include "cuda/delegate/grid.cuh"
#include "cuda/delegate/grid_candidates.cuh"
#include "cuda/delegate/numbers.h"
#include "cuda/device/block_sort.cuh"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/dealt_entries.cuh"
#include "cuda/device/large_part.cuh"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/list_selection.cuh"
#include "cuda/device/row_digits.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/sample.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/stored_candidates.cuh"
#include "cuda/device/winner_writer.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda::delegate {
namespace {

using Index = uint32_t;
template <class Bits>
using Extended = ExtendedKey<typename KeyWord<Bits>::type, Index>;

using tuning::kGridPartsMost;
using tuning::kGridSampled;
using tuning::kPassThreads;
constexpr int kWarps = kPassThreads / 32;

// Candidates have a place, the best the first: 0 beyond the digit, then its bins from the greatest down. Or,
// by splitters, that of the last one that is not worse.
constexpr int kBins = 1 << tuning::kGridPartsDigitBits;
constexpr int kPlaces = kBins + 1;

// Of one reading of the row.
struct Round {
  unsigned long long stored;    // candidates, or so many would be if there were room
  unsigned long long greatest;  // key that was seen
  uint32_t counts[kPlaces];     // of candidates, by their places
};

// What the blocks of a row tell each other. All zero at first.
struct RowState {
  Round rounds[2], by_splitters[2];
  uint32_t arrived;  // at the row's barrier
  uint32_t done;     // blocks, with the last step of many
  GridCounts digits;
  uint32_t dealt[kGridPartsMost];  // entries of a part
};
static_assert(sizeof(RowState) <= tuning::kGridPartsStateBytes, "what the plan leaves room for");

template <class Bits>
struct Params {
  const Bits* input;
  int64_t row_stride, cols;
  uint32_t k;
  int index_bits;
  bool sorted, last_alone;
  int blocks_per_row, rank, prefetched_tiles;
  Strata strata;                        // of the sample
  RowState* states;                     // rows
  CandidateBuffer<Bits, Index> stored;  // rows x stored_room
  Bits* dealt_values;                   // rows x dealt_room
  Index* dealt_indices;
  uint32_t stored_room, dealt_room;
  WinnerWriter<Bits> output;
};

// Candidates of a part are a range of places.
struct Parts {
  int count;
  uint32_t last;      // place, which has the last winner
  uint32_t reaching;  // candidates down to that place
  uint32_t most;      // of a part that is put in order
};

template <class Bits>
struct Shared {
  using Word = typename KeyWord<Bits>::type;

  CandidateRange<Word, Index> range;
  ListSelectionScratch<Word> of_sample;
  TargetDigitScratch<uint32_t> search;
  BlockScratch<Word, Index> sort;
  LargePartScratch<Word> large;
  KeyRange<Word> seen;
  unsigned long long staged[kWarps + 1];
  Parts parts;
  int splitters;
};

template <class Bits>
using Store = StagedWriter<Bits, Index, BoundedBuffer<Bits, Index>>;

__device__ constexpr uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

// What a block sorts at once: of more entries a thread, registers are spilled.
constexpr int kSortedItems = tuning::kSortWideItems, kSorted = kPassThreads * kSortedItems;

// Dynamic shared memory: where parts begin, splitters, and behind them what each step needs.
constexpr size_t kPartStartBytes = (kGridPartsMost + 4) * sizeof(uint32_t);
template <class Bits>
constexpr size_t kSplitterBytes = kGridPartsMost * sizeof(Extended<Bits>);
template <class Bits>
constexpr size_t kSampleBytes = kListBins * sizeof(uint32_t) + kGridSampled * sizeof(Extended<Bits>);
constexpr size_t kCountsBytes = (kBins + 4) * sizeof(uint32_t);
template <class Bits>
constexpr size_t kStoreBytes = kCountsBytes + kWarps * Store<Bits>::bytes(tuning::kGridPartsStaged);
constexpr size_t kDealBytes = kCountsBytes + 2 * kPartStartBytes + (kPlaces + 7) / 8 * 8 * sizeof(uint16_t);
template <class Bits>
constexpr size_t kSortBytes =
    static_cast<size_t>(block_bytes(BlockMemory<Bits, Index>::kEntryBytes, kSorted, kPassThreads));

// What step 3 has there.
struct DealMemory {
  uint32_t* starts;            // of places: kBins and one more
  uint32_t *counts, *offsets;  // of parts
  uint16_t* table;             // the part of a place that has winners

  __device__ explicit DealMemory(unsigned char* base)
      : starts(reinterpret_cast<uint32_t*>(base)),
        counts(reinterpret_cast<uint32_t*>(base + kCountsBytes)),
        offsets(reinterpret_cast<uint32_t*>(base + kCountsBytes + kPartStartBytes)),
        table(reinterpret_cast<uint16_t*>(base + kCountsBytes + 2 * kPartStartBytes)) {}
};
template <class Bits>
constexpr size_t kDynamicBytes = kPartStartBytes + kSplitterBytes<Bits> +
                                 std::max({kSampleBytes<Bits>, kStoreBytes<Bits>, kDealBytes,
                                           kSortBytes<Bits>, 2 * kGridBins * sizeof(uint32_t)});

// A row as one of its blocks sees it. Methods are called by all threads of the block.
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
  CandidateBuffer<Bits, Index> stored;
  WinnerWriter<Bits> output;

  __device__ RowOfGrid(const Params<Bits>& params, const Order& order, Shared<Bits>& shared)
      : RowOfGrid(params, order, shared, BlockOfRow::own(params.blocks_per_row)) {}
  __device__ RowOfGrid(const Params<Bits>& params, const Order& order, Shared<Bits>& shared,
                       const BlockOfRow& own)
      : params(params),
        order(order),
        shared(shared),
        row_number(own.row),
        number(own.number),
        blocks(params.blocks_per_row),
        input(params.input + row_number * params.row_stride),
        state(params.states[row_number]),
        stored{params.stored.values + row_number * params.stored_room,
               params.stored.indices + row_number * params.stored_room},
        output(params.output.row(row_number, params.k)) {}

  // Where parts begin, and where the last one ends.
  __device__ static uint32_t* part_starts() { return reinterpret_cast<uint32_t*>(dynamic_shared()); }
  __device__ static Extended<Bits>* splitters() {
    return reinterpret_cast<Extended<Bits>*>(dynamic_shared() + kPartStartBytes);
  }
  // Of each step.
  __device__ static unsigned char* memory() {
    return dynamic_shared() + kPartStartBytes + kSplitterBytes<Bits>;
  }

  __device__ Extended<Bits> extended(Bits bits, Index index) const {
    return {order(bits), static_cast<Index>(static_cast<Index>(params.cols - 1) - index)};
  }

  // From number `first` of the row's on.
  __device__ DealtEntries<Bits, Index> dealt(uint32_t first) const {
    return {params.dealt_values, params.dealt_indices, row_number * params.dealt_room + first};
  }

  __device__ static uint32_t place_of(const Extended<Bits>& x, const CandidateRange<Word, Index>& range) {
    return static_cast<uint32_t>(range.bins()) - range.bin(x);
  }

  // The row's winner of that rank, where it is wanted.
  __device__ __forceinline__ void write(uint32_t rank, Bits bits, Index index) const {
    if (!params.last_alone || rank == params.k - 1) output.write(rank, bits, index);
  }

  // A bound which k elements reach, all but surely, and few more. shared.of_sample has the range of the
  // sample's keys.
  __device__ __forceinline__ Extended<Bits> bound_of_sample() const {
    constexpr int kOfThread = kGridSampled / kPassThreads;
    uint32_t* const histogram = reinterpret_cast<uint32_t*>(memory());
    auto* const list = reinterpret_cast<Extended<Bits>*>(histogram + kListBins);
    Index at[kOfThread];
    Bits loaded[kOfThread];
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
      at[i] =
          static_cast<Index>(params.strata.entry_of(static_cast<uint32_t>(i) * kPassThreads + threadIdx.x));
      loaded[i] = input[at[i]];
    }
    prefetch_tiles(input, params.cols, number, blocks, params.prefetched_tiles);
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
      list[i * kPassThreads + static_cast<int>(threadIdx.x)] = extended(loaded[i], at[i]);
    }
    const auto entry = [&](int i) { return list[i]; };
    find_key_range<kOfThread>(kGridSampled, shared.of_sample, [&](int i) { return list[i].key; });
    return bound_in_list<Word, Index>(kGridSampled, static_cast<uint64_t>(params.rank),
                                      static_cast<uint64_t>(params.rank / tuning::kSampleElementsSlack),
                                      params.index_bits, kListDigitBits, histogram, shared.of_sample, entry);
  }

  // Step 2: stores and counts what reaches the bound, in the range up to a key `greatest` and 2^spare_bits
  // times as far.
  __device__ __forceinline__ void store(Round& round, const Extended<Bits>& bound, Word greatest,
                                        int spare_bits) const {
    uint32_t* const counts = reinterpret_cast<uint32_t*>(memory());
    __syncthreads();  // nothing of the memory is in use
    clear_histogram(counts, kPlaces);
    if (threadIdx.x == 0) {
      auto& range = shared.range;
      range = range.of(params, bound, greatest, spare_bits);
      range.digit = digit_of_pass(1, tuning::kGridPartsDigitBits, range.key_bits, range.index_bits);
      shared.seen.reset();
    }
    __syncthreads();  // the range is known, and no place is yet to be cleared
    Store<Bits> store(
        memory() + kCountsBytes + threadIdx.x / 32 * Store<Bits>::bytes(tuning::kGridPartsStaged),
        tuning::kGridPartsStaged, {stored, params.stored_room}, &round.stored);
    const auto range = shared.range;  // else read anew behind every atomic
    const Word seen =
        store_reaching(order, input, params.cols, number, blocks, bound, store,
                       [&](const Extended<Bits>& x) { atomicAdd(counts + place_of(x, range), 1u); });
    store.publish(shared.staged);
    shared.seen.add({seen, seen});
    __syncthreads();  // all warps have told, and counted
    if (threadIdx.x == 0) store.reserve(shared.staged);
    if (threadIdx.x == 32) atomicMax(&round.greatest, static_cast<unsigned long long>(shared.seen.greatest));
    for (int place = static_cast<int>(threadIdx.x); place < kPlaces; place += kPassThreads) {
      if (counts[place] > 0) atomicAdd(round.counts + place, counts[place]);
    }
    __syncthreads();  // the places are known
    store.finish(shared.staged);
  }

  // Whether all that reaches the bound is stored, and the winners are among it.
  __device__ bool has_winners(const Round& round) const {
    const unsigned long long all = __ldcg(&round.stored);
    return params.k <= all && all <= params.stored_room;
  }

  // Step 3: finds the parts, of bins or, each of one place, of splitters.
  __device__ __forceinline__ void find_parts(const Round& round, bool of_bins, const DealMemory& deal) const {
    constexpr int kOfThread = kBins / kPassThreads;
    const int thread = static_cast<int>(threadIdx.x);
    const uint32_t beyond = __ldcg(round.counts);
    uint32_t loaded[kOfThread];
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) loaded[i] = __ldcg(round.counts + 1 + i * kPassThreads + thread);
    __syncthreads();  // nothing of the memory is in use
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) deal.starts[i * kPassThreads + thread] = loaded[i];
    __syncthreads();  // the counts are there
    start_bins(deal.starts, kBins, shared.sort.warp_sums);
    const auto start_of = [&](int place) { return place == 0 ? 0 : beyond + deal.starts[place - 1]; };
    for (int place = thread; place < kPlaces; place += kPassThreads) {
      const uint32_t reaching = start_of(place + 1);
      if (start_of(place) < params.k && params.k <= reaching) {
        const int parts = !params.sorted ? 2 : of_bins ? parts_of(reaching) : place + 1;
        shared.parts = {parts, static_cast<uint32_t>(place), reaching, 0};
      }
    }
    __syncthreads();  // the last winner's place is known
    const Parts parts = shared.parts;
    const int last = static_cast<int>(parts.last);
    const float scale = static_cast<float>(parts.count) / static_cast<float>(parts.reaching);
    const auto part_of = [&](int place) {
      if (!params.sorted) return place == last ? 1 : 0;
      if (!of_bins) return place;
      return min(static_cast<int>(static_cast<float>(start_of(place)) * scale), parts.count - 1);
    };
    for (int place = thread; place <= last; place += kPassThreads) {
      const int part = part_of(place), before = place == 0 ? -1 : part_of(place - 1);
      deal.table[place] = static_cast<uint16_t>(part);
      for (int p = before + 1; p <= part; ++p) part_starts()[p] = start_of(place);
      for (int p = part + 1; place == last && p <= parts.count; ++p) part_starts()[p] = parts.reaching;
    }
    __syncthreads();  // the parts are known
    uint32_t most = 0;
    for (int p = thread + (params.sorted ? 0 : 1); p < parts.count; p += kPassThreads) {
      most = max(most, part_starts()[p + 1] - part_starts()[p]);
    }
    most = __reduce_max_sync(~0u, most);
    if (thread % 32 == 0) atomicMax(&shared.parts.most, most);
    __syncthreads();  // the most of a part is known
  }

  // This block's share of the `count` that are stored.
  __device__ uint32_t first_of_share(uint32_t count) const {
    return min(static_cast<uint32_t>(number) * divide_up(count, static_cast<uint32_t>(blocks)), count);
  }
  __device__ uint32_t end_of_share(uint32_t count) const {
    return min((static_cast<uint32_t>(number) + 1) * divide_up(count, static_cast<uint32_t>(blocks)), count);
  }

  // The last splitter that is not worse.
  __device__ uint32_t place_among_splitters(const Extended<Bits>& x) const {
    uint32_t first = 0, end = static_cast<uint32_t>(shared.splitters);  // number 0 is not worse than any
    while (end - first > 1) {
      const uint32_t middle = (first + end) / 2;
      if (splitters()[middle] < x) {
        end = middle;
      } else {
        first = middle;
      }
    }
    return first;
  }

  // Brings this block's share of what is stored to the parts; but where order is of no account, what is
  // better than the last part to the output. place_of_entry(x) is that of an extended key.
  // kItems at a time by each thread.
  template <int kItems, class PlaceOf>
  __device__ __forceinline__ void deal(uint32_t count, const DealMemory& memory,
                                       PlaceOf&& place_of_entry) const {
    uint32_t *const counts = memory.counts, *const offsets = memory.offsets;
    constexpr int kTile = kItems * kPassThreads;
    constexpr uint32_t kNowhere = ~0u;
    const bool sorted = params.sorted, last_alone = params.last_alone;
    const Parts parts = shared.parts;
    const DealtEntries<Bits, Index> to = dealt(0);
    for (int p = static_cast<int>(threadIdx.x); p < parts.count; p += kPassThreads) counts[p] = 0;
    __syncthreads();  // the counts are zero
    const uint32_t end = end_of_share(count);
    for (uint32_t first = first_of_share(count); first < end; first += kTile) {
      Bits bits[kItems];
      Index indices[kItems];
      uint32_t at[kItems];  // the part, and how many came to it before
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        const uint32_t from = min(first + i * kPassThreads + threadIdx.x, end - 1);
        bits[i] = __ldcg(stored.values + from);
        indices[i] = __ldcg(stored.indices + from);
      }
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        const uint32_t place = place_of_entry(extended(bits[i], indices[i]));
        const bool goes = first + i * kPassThreads + threadIdx.x < end && place <= parts.last;
        const uint32_t part = goes ? memory.table[place] : kNowhere;
        at[i] = goes ? part << 16 : kNowhere;
        if (sorted) {
          if (goes) at[i] |= atomicAdd(counts + part, 1u);
        } else {
          at[i] |= count_of_two(part, counts);
        }
      }
      __syncthreads();  // all have counted
      for (int p = static_cast<int>(threadIdx.x); p < parts.count; p += kPassThreads) {
        if (counts[p] == 0) continue;
        offsets[p] = part_starts()[p] + atomicAdd(state.dealt + p, counts[p]);
        counts[p] = 0;
      }
      __syncthreads();  // the offsets are known
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        if (at[i] == kNowhere) continue;
        const uint32_t part = at[i] >> 16, place = offsets[part] + (at[i] & 0xFFFF);
        if (sorted || part > 0) {
          to.write(place, bits[i], indices[i]);
        } else if (!last_alone) {
          output.write(place, bits[i], indices[i]);
        }
      }
    }
  }

  // Parts of so many: such that a block can sort each, as far as bins have it, and as many for each block.
  __device__ int parts_of(uint32_t reaching) const {
    constexpr uint32_t kFull = static_cast<uint32_t>(tuning::kGridPartsFull * kSorted);
    const uint32_t all = static_cast<uint32_t>(blocks);
    return static_cast<int>(
        min(divide_up(reaching, all * kFull) * all, static_cast<uint32_t>(kGridPartsMost)));
  }

 private:
  // Counts an entry of part 0 or 1, or of none; is how many came to its part before. By whole warps.
  __device__ static uint32_t count_of_two(uint32_t part, uint32_t* counts) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    uint32_t before = 0;
#pragma unroll
    for (uint32_t p = 0; p < 2; ++p) {
      const unsigned of_part = __ballot_sync(~0u, part == p);
      if (of_part == 0) continue;
      uint32_t start = 0;
      if (lane == 0) start = atomicAdd(counts + p, static_cast<uint32_t>(__popc(of_part)));
      start = __shfl_sync(~0u, start, 0);
      if (part == p) before = start + static_cast<uint32_t>(__popc(of_part & ((1u << lane) - 1)));
    }
    return before;
  }
};

// Step 2 again, with a bound from the row's digits, which k elements reach, and no more than there is room
// for. Is the barrier that was waited for. By the row's blocks together.
template <class Order, class Bits = typename Order::Bits>
__device__ __noinline__ RowBarrier read_again(const Params<Bits>& params, Order order, Shared<Bits>& shared,
                                              RowBarrier barrier) {
  using Word = typename KeyWord<Bits>::type;
  const RowOfGrid<Order> row(params, order, shared);
  const uint64_t most = min(params.stored_room, params.dealt_room);
  unsigned long long* const greatest = &row.state.rounds[0].greatest;
  constexpr int kDigitBits = tuning::kClusterDigitBits;
  uint32_t* const own = reinterpret_cast<uint32_t*>(row.memory());
  uint32_t* const sums = own + kGridBins;
  const int64_t part_cols = part_of_cluster(params.cols, row.blocks, sizeof(Bits));
  const int64_t first = min(row.number * part_cols, params.cols);
  const Bits* const part = row.input + first;
  const int64_t cols = min(part_cols, params.cols - first);
  const Index reversed = static_cast<Index>(params.cols - 1) - static_cast<Index>(first);
  GridSums add_up{barrier, row.state.digits, row.number == 0};
  auto selection = Selection<Word, Index>::whole_row(params.k, params.cols);
  for (int pass = 1; params.k - selection.owed + selection.candidates > most; ++pass) {
    const Digit digit = digit_of_pass(pass, kDigitBits, Order::kBits, params.index_bits);
    __syncthreads();  // nothing of the memory is in use
    clear_histogram(own, 1 << digit.width());
    if (threadIdx.x == 0) shared.seen.reset();
    __syncthreads();  // no thread counts into bins that another has yet to clear
    SeenKeys<Word> seen;
    if (pass == 1) {
      count_first_digit(order, part, cols, reversed, digit, own, seen);
    } else {
      count_next_digit(order, part, cols, reversed, selection, digit, own, seen);
    }
    shared.seen.add(seen);
    __syncthreads();  // all warps have added
    if (threadIdx.x == 0) {
      atomicMax(greatest, static_cast<unsigned long long>(shared.seen.greatest));
    }
    add_up(own, sums, 1 << digit.width());
    const auto target = find_target_digit(sums, 1 << digit.width(), selection.owed, shared.search);
    selection.narrow(digit, target.digit, target.above, target.count);
  }
  row.store(row.state.rounds[1], selection.low, static_cast<Word>(__ldcg(greatest)), /*spare_bits=*/0);
  barrier = add_up.barrier;
  barrier.wait();
  return barrier;
}

// Of a sample of the `count` entries that are stored, the same in all blocks, every so manyth is a splitter.
template <class Order, class Bits = typename Order::Bits>
__device__ __noinline__ void find_splitters(const Params<Bits>& params, Order order, Shared<Bits>& shared,
                                            uint32_t count) {
  const RowOfGrid<Order> row(params, order, shared);
  const BlockMemory<Bits, Index> block_memory(row.memory(), kSorted);
  const int sampled = static_cast<int>(min(count, static_cast<uint32_t>(kSorted)));
  const int splitters = min(row.parts_of(count), sampled);
  const Strata strata = Strata::of(count, sampled);
  __syncthreads();  // nothing of the memory is in use
  sort_in_block<kSortedItems, /*kPacks=*/true>(
      sampled, sampled, order, block_memory, shared.sort,
      [&](int i, Bits& bits, Index& index) {
        const int64_t at = strata.entry_of(static_cast<uint32_t>(i));
        bits = __ldcg(row.stored.values + at);
        index = __ldcg(row.stored.indices + at);
      },
      [&](int rank, Bits bits, Index index) {
        // The first of the ranks that stand for a splitter.
        const int splitter = static_cast<int>(int64_t{rank} * splitters / sampled);
        if (rank > 0 && static_cast<int>(int64_t{rank - 1} * splitters / sampled) == splitter) return;
        row.splitters()[splitter] = row.extended(bits, index);
      });
  if (threadIdx.x == 0) shared.splitters = splitters;
  __syncthreads();  // all splitters are there
}

// Counts what is stored by places among splitters, and finds the parts. Is the barrier that was waited for.
// By the row's blocks together.
template <class Order, class Bits = typename Order::Bits>
__device__ __noinline__ RowBarrier part_by_splitters(const Params<Bits>& params, Order order,
                                                     Shared<Bits>& shared, uint32_t count, Round& round,
                                                     RowBarrier barrier) {
  const RowOfGrid<Order> row(params, order, shared);
  find_splitters(params, order, shared, count);
  uint32_t* const counts = DealMemory(row.memory()).counts;
  const int splitters = shared.splitters;
  for (int p = static_cast<int>(threadIdx.x); p < splitters; p += kPassThreads) counts[p] = 0;
  __syncthreads();  // the counts are zero
  const uint32_t end = row.end_of_share(count);
  for (uint32_t i = row.first_of_share(count) + threadIdx.x; i < end; i += kPassThreads) {
    const Extended<Bits> x = row.extended(__ldcg(row.stored.values + i), __ldcg(row.stored.indices + i));
    atomicAdd(counts + row.place_among_splitters(x), 1u);
  }
  __syncthreads();  // all have counted
  for (int p = static_cast<int>(threadIdx.x); p < splitters; p += kPassThreads) {
    if (counts[p] > 0) atomicAdd(round.counts + p, counts[p]);
  }
  barrier.wait();
  row.find_parts(round, /*of_bins=*/false, DealMemory(row.memory()));
  return barrier;
}

// Deals by places of bins, or among splitters. By itself, as write_part.
template <bool kOfBins, int kItems, class Order, class Bits = typename Order::Bits>
__device__ __noinline__ void deal(const Params<Bits>& params, Order order, Shared<Bits>& shared,
                                  uint32_t count) {
  const RowOfGrid<Order> row(params, order, shared);
  const auto range = shared.range;
  row.template deal<kItems>(count, DealMemory(row.memory()), [&](const Extended<Bits>& x) {
    return kOfBins ? row.place_of(x, range) : row.place_among_splitters(x);
  });
}

// Step 4: puts a part in order and writes it. By itself, as in one with the other steps registers are
// spilled.
template <class Order, class Bits = typename Order::Bits>
__device__ __noinline__ void write_part(const Params<Bits>& params, Order order, Shared<Bits>& shared,
                                        int part) {
  const RowOfGrid<Order> row(params, order, shared);
  const uint32_t start = row.part_starts()[part], end = row.part_starts()[part + 1];
  if (start >= min(end, params.k)) return;
  const int64_t count = end - start, kept = min(end, params.k) - start;
  const DealtEntries<Bits, Index> from = row.dealt(start);
  const BlockMemory<Bits, Index> block_memory(row.memory(), kSorted);
  __syncthreads();  // nothing of the memory is in use
  if (count > kSorted) {
    const Entries to =
        entries_from<Bits>({row.output.values, row.output.indices, row.output.wide_indices}, start);
    if (!sort_part_in_chunks<Order, Index>(count, kept, kSorted, order, from, to, block_memory, shared.sort,
                                           shared.large.chunks)) {
      sort_part_in_memory<Order, Index>(count, kept, params.cols, order, from, to, block_memory.counters,
                                        shared.sort, shared.large);
    }
    return;
  }
  sort_in_block<kSortedItems, /*kPacks=*/true>(
      static_cast<int>(count), static_cast<int>(kept), order, block_memory, shared.sort,
      [&](int i, Bits& bits, Index& index) { from.read(i, bits, index); },
      [&](int rank, Bits bits, Index index) { row.write(start + static_cast<uint32_t>(rank), bits, index); });
}

template <class Order>
__global__ void __launch_bounds__(kPassThreads)
    select_row(const __grid_constant__ Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  __shared__ Shared<Bits> shared;
  const RowOfGrid<Order> row(params, order, shared);
  RowState& state = row.state;

  // Step 1. Every block of the row clears a share of its state.
  constexpr int kWords = sizeof(RowState) / sizeof(uint32_t);
  uint32_t* const words = reinterpret_cast<uint32_t*>(&state);
  for (int i = row.number * kPassThreads + static_cast<int>(threadIdx.x); i < kWords;
       i += row.blocks * kPassThreads) {
    words[i] = 0;
  }
  const Extended<Bits> bound = row.bound_of_sample();
  cooperative_groups::this_grid().sync();  // the states are zero

  // Step 2.
  row.store(state.rounds[0], bound, static_cast<Word>(shared.of_sample.range.greatest),
            tuning::kGridPartsSpareBits);
  RowBarrier barrier(&state.arrived, row.blocks, /*waits=*/0);
  barrier.wait();

  // Step 3.
  const DealMemory memory(row.memory());
  bool crowds = false;
  int reading = 0;
  for (;; ++reading) {
    const Round& round = state.rounds[reading];
    bool fits = row.has_winners(round);
    if (fits) {
      row.find_parts(round, /*of_bins=*/true, memory);
      crowds = shared.parts.most > kSorted;
      if (crowds) {
        barrier = part_by_splitters(params, order, shared, static_cast<uint32_t>(__ldcg(&round.stored)),
                                    state.by_splitters[reading], barrier);
      }
      fits = shared.parts.reaching <= params.dealt_room;
    }
    if (fits || reading == 1) break;
    barrier = read_again(params, order, shared, barrier);
  }
  const uint32_t stored = static_cast<uint32_t>(__ldcg(&state.rounds[reading].stored));
  if (crowds) {
    deal</*kOfBins=*/false, tuning::kGridPartsDealt>(params, order, shared, stored);
  } else if (stored <= static_cast<uint32_t>(row.blocks) * kPassThreads) {
    deal</*kOfBins=*/true, /*kItems=*/1>(params, order, shared, stored);
  } else {
    deal</*kOfBins=*/true, tuning::kGridPartsDealt>(params, order, shared, stored);
  }

  // Step 4.
  if (!params.sorted) {
    if (is_last_block(&state.done, static_cast<uint32_t>(row.blocks))) write_part(params, order, shared, 1);
    return;
  }
  barrier.wait();
  for (int part = row.number; part < shared.parts.count; part += row.blocks)
    write_part(params, order, shared, part);
}

template <class Bits>
size_t carve(const GridParts& config, const Problem& problem, void* base, Params<Bits>& params) {
  constexpr bool kPaired = DealtEntries<Bits, Index>::kPaired;
  Workspace workspace(base);
  params.states = workspace.take<RowState>(problem.rows);
  params.stored_room = static_cast<uint32_t>(config.buffer);
  params.stored.values = workspace.take<Bits>(problem.rows * config.buffer);
  params.stored.indices = workspace.take<Index>(problem.rows * config.buffer);
  params.dealt_room = static_cast<uint32_t>(config.dealt);
  params.dealt_values = workspace.take<Bits>(problem.rows * config.dealt * (kPaired ? 2 : 1));
  params.dealt_indices = workspace.take<Index>(kPaired ? 0 : problem.rows * config.dealt);
  return workspace.bytes();
}

template <class Order>
ErrorCode launch(const GridParts& config, const Problem& problem, const Buffers& buffers, Order order,
                 Stream stream) {
  using Bits = typename Order::Bits;
  Params<Bits> params{};
  carve(config, problem, buffers.workspace, params);
  params.input = static_cast<const Bits*>(buffers.input);
  params.row_stride = problem.row_stride;
  params.cols = problem.cols;
  params.k = static_cast<uint32_t>(problem.k);
  params.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
  params.sorted = problem.sorted;
  params.last_alone = problem.last_alone;
  params.blocks_per_row = config.blocks;
  params.rank = config.rank;
  params.prefetched_tiles = config.prefetched_tiles;
  params.strata = Strata::of(problem.cols, kGridSampled);
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};

  static std::atomic<uint64_t> allowed;
  const cudaError_t error = allow_shared_memory(select_row<Order>, kDynamicBytes<Bits>, allowed);
  if (error != cudaSuccess) return error;
  return launch_together(select_row<Order>, static_cast<unsigned>(problem.rows * config.blocks), kPassThreads,
                         kDynamicBytes<Bits>, stream, params, order);
}

}  // namespace

size_t GridParts::workspace_bytes(const Problem& problem) const {
  return visit_bits(dtype_bytes(problem.dtype), [&](auto bits) {
    Params<decltype(bits)> params{};
    return carve(*this, problem, nullptr, params);
  });
}

ErrorCode GridParts::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    // Where this context has only a part of the GPU, again with fewer blocks.
    for (GridParts config = *this;; config.blocks /= 2) {
      const ErrorCode error = launch(config, problem, buffers, order, stream);
      if (config.blocks == 1 || !lacks_room(error)) return error;
    }
  });
}

}  // namespace gputopk::cuda::delegate
