// Delegate top-k with a bound from a sample, by blocks that run together: one read of a long row, one launch,
// and up to some thousands of winners in order.
//
// As from_sample.cu, whose four or five launches take longer than the read of a row of some millions of
// elements. Here they are steps of one, between which all blocks wait:
//   1. Each block takes its share of the sample: the best of a group of lanes' elements is a delegate. Once
//      all delegates are there, each block finds the bound for itself; its first tiles are fetched into L2
//      meanwhile.
//   2. The row is read. What reaches the bound is stored, and counted by a first digit where it is much.
//   3. Of some hundreds of candidates, or a few thousand, each block ranks a share of them by comparing it
//      with all, and writes it. Of more, blocks put a part each in order, a range of the digit; or, of more
//      still, digits are counted until what is left to tell apart is so few that one block does.
// A bound that fewer than k elements reach, or more than can be stored, is found out by counting, and digits
// are of the row then, as in AIR. So the result is exact for every row.

#include <cooperative_groups.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <type_traits>

#include "core/key_order.h"
#include "core/visit_bits.h"
#include "cuda/delegate/delegate.h"
#include "cuda/delegate/grid.cuh"
#include "cuda/delegate/grid_candidates.cuh"
#include "cuda/delegate/numbers.h"
#include "cuda/device/block_sort.cuh"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/row_digits.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/row_sample.cuh"
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

// Digits of the widest keys and indices, and one more.
constexpr int kMostPasses = (64 + 32) / tuning::kStoredCountBits + 2;

// What the blocks of a row tell each other. All zero at first.
struct RowState {
  unsigned long long stored;    // candidates, or so many would be if there were room
  unsigned long long listed;    // entries of the list that one block then puts in order
  unsigned long long greatest;  // key that is stored
  uint32_t beyond;              // candidates beyond the digit
  uint32_t arrived;             // at the row's barrier
  uint32_t done;                // blocks, with the last step of many
  GridCounts counts;
  // Of what each pass over digits has counted: the greatest complement of a key, and the greatest key.
  unsigned long long not_least[kMostPasses], most[kMostPasses];
};

template <class Bits>
struct Params {
  const Bits* input;
  int64_t row_stride, cols;
  uint32_t k;
  int index_bits;
  bool last_alone;
  bool counts;  // candidates, as they are stored
  int prefetched_tiles;
  Sample<Bits, Index> sample;
  RowState* states;                     // rows
  CandidateBuffer<Bits, Index> stored;  // rows x capacity
  uint32_t capacity;
  CandidateBuffer<Bits, Index> listed;  // rows x kGridListed
  WinnerWriter<Bits> output;
};

template <class Bits>
struct Shared {
  using Word = typename KeyWord<Bits>::type;

  CandidateRange<Word, Index> range;
  ListSelectionScratch<Word> of_sample;
  TargetDigitScratch<uint32_t> search;
  BlockScratch<Word, Index> sort;
  KeyRange<Word> seen;
  unsigned long long staged[kWarps + 1];
  uint32_t listed;
  uint32_t most;  // of a bin
};

template <class Bits>
using Store = StagedWriter<Bits, Index, BoundedBuffer<Bits, Index>>;

// Dynamic shared memory: of a list, and counts behind it; before, of the sample, and of what is stored.
template <class Bits>
constexpr size_t kListBytes =
    std::max<size_t>(block_bytes(BlockMemory<Bits, Index>::kEntryBytes, kGridListed, kPassThreads),
                     kGridListed * sizeof(typename EntryOf<Bits, Index>::type));
template <class Bits>
constexpr size_t kStageBytes = kWarps * Store<Bits>::bytes(tuning::kGridStaged);

template <class Bits>
size_t dynamic_bytes(const Sample<Bits, Index>& sample) {
  static_assert(kStageBytes<Bits> <= kListBytes<Bits>);
  const size_t listing = kListBytes<Bits> + 2 * kGridBins * sizeof(uint32_t);
  return std::max({listing, kCountBytes<Index> + kStageBytes<Bits>, sample.shared_bytes()});
}

// A row as one of its blocks sees it.
template <class Order>
struct RowOfGrid {
  using Bits = typename Order::Bits;

  const Params<Bits>& params;
  const Order& order;
  Shared<Bits>& shared;
  int64_t row_number;
  int number, blocks;
  const Bits* input;
  RowState& state;
  CandidateBuffer<Bits, Index> stored, listed;
  WinnerWriter<Bits> output;
  BlockMemory<Bits, Index> memory;
  uint32_t* counts;  // two histograms

  __device__ RowOfGrid(const Params<Bits>& params, const Order& order, Shared<Bits>& shared)
      : RowOfGrid(params, order, shared, BlockOfRow::own(params.sample.blocks_per_row)) {}
  __device__ RowOfGrid(const Params<Bits>& params, const Order& order, Shared<Bits>& shared,
                       const BlockOfRow& own)
      : params(params),
        order(order),
        shared(shared),
        row_number(own.row),
        number(own.number),
        blocks(params.sample.blocks_per_row),
        input(params.input + row_number * params.row_stride),
        state(params.states[row_number]),
        stored(of_row(params.stored, row_number * params.capacity)),
        listed(of_row(params.listed, row_number * kGridListed)),
        output(params.output.row(row_number, params.k)),
        memory(dynamic_shared(), kGridListed),
        counts(reinterpret_cast<uint32_t*>(dynamic_shared() + kListBytes<Bits>)) {}

  __device__ Extended<Bits> extended(Bits bits, Index index) const {
    return {order(bits), static_cast<Index>(static_cast<Index>(params.cols - 1) - index)};
  }

  // The row's winner of that rank, where it is wanted.
  __device__ void write(uint32_t rank, Bits bits, Index index) const {
    if (params.last_alone ? rank == params.k - 1 : rank < params.k) output.write(rank, bits, index);
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

  // Puts `count` entries that are in `memory` in order, and writes those of them that are wanted: the first
  // is the row's winner number `better`. By all threads of a block, with a barrier before.
  __device__ void write_listed(uint32_t count, uint32_t better) const {
    prepare_sort(static_cast<int>(count), memory, shared.sort);
    __syncthreads();  // the sort's memory is clear
    sort_prepared<kListItems>(
        static_cast<int>(count), static_cast<int>(min(count, params.k - better)), order, memory, shared.sort,
        [&](int i, Bits& bits, Index& index) {
          bits = memory.values[i];
          index = memory.indices[i];
        },
        [&](int rank, Bits bits, Index index) { write(better + static_cast<uint32_t>(rank), bits, index); });
  }

 private:
  __device__ static CandidateBuffer<Bits, Index> of_row(const CandidateBuffer<Bits, Index>& all, int64_t at) {
    return {all.values + at, all.indices + at};
  }
};

// Where winners are told from others by digits: of what is stored, or of the row.
template <class Bits>
struct Digits {
  Selection<typename KeyWord<Bits>::type, Index> selection;
  Digit next;
  bool of_row;
};

// Resolves digits until one block can put in order what may win, and writes the winners. By all threads of
// the row's blocks, which have waited for each other once.
template <class Order, class Bits = typename Order::Bits>
__device__ __noinline__ void select_by_digits(const RowOfGrid<Order>& row, Digits<Bits> digits,
                                              RowBarrier barrier) {
  constexpr int kDigitBits = tuning::kStoredCountBits;
  using Word = typename KeyWord<Bits>::type;
  const Params<Bits>& params = row.params;
  auto& selection = digits.selection;
  auto& in_block = row.shared.seen;
  uint32_t* const own = row.counts;
  uint32_t* const sums = own + kGridBins;
  GridSums add_up{barrier, row.state.counts, row.number == 0, /*pass=*/1};
  const uint32_t stored =
      static_cast<uint32_t>(min(__ldcg(&row.state.stored), static_cast<unsigned long long>(params.capacity)));
  const int64_t part_cols = part_of_cluster(params.cols, row.blocks, sizeof(Bits));
  const int64_t first = min(row.number * part_cols, params.cols);
  const Bits* const part = row.input + first;
  const int64_t cols = min(part_cols, params.cols - first);
  const Index reversed = static_cast<Index>(params.cols - 1) - static_cast<Index>(first);

  const auto reaching = [&] { return params.k - selection.owed + selection.candidates; };
  for (int pass = 0; reaching() > kGridListed; ++pass) {
    const Digit digit = digits.next;
    const int bins = 1 << digit.width();
    __syncthreads();  // nothing of the counts is in use
    clear_histogram(own, bins);
    if (threadIdx.x == 0) in_block.reset();
    __syncthreads();  // no thread counts into bins that another has yet to clear
    SeenKeys<Word> seen;
    if (!digits.of_row) {
      row.visit_list(row.stored, stored, row.number, row.blocks, [&](Bits bits, Index index, bool there) {
        const Extended<Bits> x = row.extended(bits, index);
        if (!there || x < selection.low || selection.split < x) return;
        seen.see(x.key);
        atomicAdd(own + digit.of(x.key - selection.low.key, x.reversed - selection.low.reversed), 1u);
      });
    } else if (pass == 0) {
      count_first_digit(row.order, part, cols, reversed, digit, own, seen);
    } else {
      count_next_digit(row.order, part, cols, reversed, selection, digit, own, seen);
    }
    in_block.add(seen);
    __syncthreads();  // all warps have added
    if (threadIdx.x == 0) {
      atomicMax(&row.state.not_least[pass],
                static_cast<unsigned long long>(static_cast<Word>(~in_block.least)));
      atomicMax(&row.state.most[pass], static_cast<unsigned long long>(in_block.greatest));
    }
    add_up(own, sums, bins);
    const TargetDigit<uint32_t> target = find_target_digit(sums, bins, selection.owed, row.shared.search);
    selection.narrow(digit, target.digit, target.above, target.count);
    selection.tighten(static_cast<Word>(~static_cast<Word>(__ldcg(&row.state.not_least[pass]))),
                      static_cast<Word>(__ldcg(&row.state.most[pass])));
    digits.next = next_digit(selection, digit, kDigitBits, params.index_bits);
  }

  __syncthreads();  // nothing of the list's memory is in use
  Store<Bits> listed(dynamic_shared() + threadIdx.x / 32 * Store<Bits>::bytes(tuning::kGridStaged),
                     tuning::kGridStaged, {row.listed, kGridListed}, &row.state.listed);
  const auto list = [&](Bits bits, Index index, bool there) {
    listed.push(there && !(row.extended(bits, index) < selection.low), bits, index);
  };
  if (!digits.of_row) {
    row.visit_list(row.stored, stored, row.number, row.blocks, list);
  } else {
    KeyFilter<Order> filter(row.order);
    visit_tiles<Reading::kAgain, BlockTeam, /*kEnds=*/true>(
        part, cols, /*part=*/0, /*parts=*/1, AllTiles{},
        [&](const auto& elements, int64_t, bool valid) { return valid ? filter.probe(elements) : 0; },
        [&](Bits bits, int64_t at, bool chosen) { list(bits, static_cast<Index>(first + at), chosen); },
        [&](int64_t) { filter.raise(selection.low.key, false); });
  }
  listed.publish(row.shared.staged);
  __syncthreads();  // all warps have told
  if (threadIdx.x == 0) listed.reserve(row.shared.staged);
  __syncthreads();  // the places are known
  listed.finish(row.shared.staged);
  if (!is_last_block(&row.state.done, static_cast<uint32_t>(row.blocks))) return;

  const uint32_t count = static_cast<uint32_t>(__ldcg(&row.state.listed));
  for (uint32_t i = threadIdx.x; i < count; i += kPassThreads) {
    row.memory.values[i] = __ldcg(row.listed.values + i);
    row.memory.indices[i] = __ldcg(row.listed.indices + i);
  }
  __syncthreads();  // the list is there
  row.write_listed(count, /*better=*/0);
}

// Ranks this block's share of the stored candidates by comparing each with all of them. By all threads of a
// block.
template <class Order, class Bits = typename Order::Bits>
__device__ void write_share(const RowOfGrid<Order>& row, uint32_t stored) {
  using Entry = EntryOf<Bits, Index>;
  const uint32_t share = (stored + row.blocks - 1) / static_cast<uint32_t>(row.blocks);
  const uint32_t first = static_cast<uint32_t>(row.number) * share;
  if (first >= stored) return;
  auto* const entries = reinterpret_cast<typename Entry::type*>(dynamic_shared());
  for (uint32_t i = threadIdx.x; i < stored; i += kPassThreads) {
    entries[i] = Entry::pack(row.order(__ldcg(row.stored.values + i)), __ldcg(row.stored.indices + i));
  }
  __syncthreads();  // all are there
  // As many lanes compare an entry as there are for each.
  uint32_t lanes = 1;
  while (lanes < 32 && 2 * lanes * share <= kPassThreads) lanes *= 2;
  const uint32_t end = min(first + share, stored);
  for (uint32_t some = first; some < end; some += kPassThreads / lanes) {
    const uint32_t own = min(some + threadIdx.x / lanes, stored - 1);
    const typename Entry::type entry = entries[own];
    int rank = 0;
    for (uint32_t i = threadIdx.x % lanes; i < stored; i += lanes) rank += entries[i] > entry;
    for (uint32_t step = lanes / 2; step > 0; step /= 2) rank += __shfl_xor_sync(~0u, rank, step);
    if (threadIdx.x % lanes == 0 && some + threadIdx.x / lanes < end) {
      row.write(static_cast<uint32_t>(rank), __ldcg(row.stored.values + own), Entry::index(entry));
    }
  }
}

// A place among the bins of all candidates that were stored, the best first: behind so many candidates, the
// next one is in that bin.
struct Place {
  uint32_t bin, behind;
};

// Puts this block's part of the stored candidates in order and writes it: of `parts`, that reach down to the
// `last` bin. `counts` has those of each bin. By all threads of a block.
template <class Order, class Bits = typename Order::Bits>
__device__ void write_part(const RowOfGrid<Order>& row, uint32_t stored, uint32_t beyond,
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
  const Place first = place_of(row.number);
  Place end{last.digit, reaching};  // down to that bin
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
  row.write_listed(count, first.behind);
}

// Step 3.
template <class Order, class Bits = typename Order::Bits>
__device__ __forceinline__ void write_winners(const RowOfGrid<Order>& row, const Extended<Bits>& bound,
                                              RowBarrier barrier) {
  using Word = typename KeyWord<Bits>::type;
  using RowSelection = Selection<Word, Index>;
  const Params<Bits>& params = row.params;
  auto& shared = row.shared;
  const auto& range = shared.range;
  const int bins = range.bins();
  const uint32_t k = params.k, beyond = __ldcg(&row.state.beyond);
  const unsigned long long all_stored = __ldcg(&row.state.stored);
  if (all_stored < k || all_stored > params.capacity) {
    const Digit first = digit_of_pass(1, tuning::kStoredCountBits, Order::kBits, params.index_bits);
    return select_by_digits(row, {RowSelection::whole_row(k, params.cols), first, /*of_row=*/true}, barrier);
  }
  const uint32_t stored = static_cast<uint32_t>(all_stored);
  if (stored <= kGridListed) return write_share(row, stored);
  if (!params.counts || beyond >= k) {
    __syncthreads();  // the range is not looked at
    if (threadIdx.x == 0) {
      shared.range =
          range.of(params, bound, static_cast<Word>(__ldcg(&row.state.greatest)), /*spare_bits=*/0);
    }
    __syncthreads();  // the range is known
    Digits<Bits> digits{RowSelection::whole_row(k, stored), range.digit, /*of_row=*/false};
    digits.selection.low = range.low;
    return select_by_digits(row, digits, barrier);
  }
  if (threadIdx.x == 0) shared.most = beyond;
  for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += kPassThreads) {
    row.counts[bin] = __ldcg(row.state.counts.of[0] + bin);
  }
  __syncthreads();  // the counts are there
  const TargetDigit<uint32_t> target = find_target_digit(row.counts, bins, k - beyond, shared.search);
  uint32_t most = 0;
  for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += kPassThreads) {
    if (bin >= static_cast<int>(target.digit)) most = max(most, row.counts[bin]);
  }
  most = __reduce_max_sync(~0u, most);
  if (threadIdx.x % 32 == 0) atomicMax(&shared.most, most);
  __syncthreads();  // the most of a bin is known
  const uint32_t reaching = beyond + target.above + target.count;
  const int parts =
      min(static_cast<int>(reaching / tuning::kGridPart) + 1, min(tuning::kGridMostParts, row.blocks));
  // A part has what it is to have, and a bin's more.
  const uint32_t most_of_part = reaching / static_cast<uint32_t>(parts) + 1 + shared.most;
  if (stored <= tuning::kGridLookedAt && most_of_part <= kGridListed) {
    if (row.number < parts) write_part(row, stored, beyond, row.counts, parts, target);
    return;
  }
  Digits<Bits> digits{RowSelection::whole_row(k - beyond, stored), {}, /*of_row=*/false};
  digits.selection.low = range.low;
  digits.selection.narrow(range.digit, target.digit, target.above, target.count);
  digits.next = next_digit(digits.selection, range.digit, tuning::kStoredCountBits, params.index_bits);
  select_by_digits(row, digits, barrier);
}

template <class Order>
__global__ void __launch_bounds__(kPassThreads)
    select_row(const __grid_constant__ Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  __shared__ Shared<Bits> shared;
  const RowOfGrid<Order> row(params, order, shared);
  unsigned char* const dynamic = dynamic_shared();
  const Index last_index = static_cast<Index>(params.cols - 1);

  // Step 1.
  const int head = RowShape<Bits>(row.input, params.cols).head;
  const Extended<Bits> best =
      best_of_lines(params.sample, row.number, head, last_index, order, [&](int64_t vector) {
        return load_vector<Reading::kAgain>(row.input + head + vector * kPerVector<Bits>);
      });
  prefetch_tiles(row.input, params.cols, row.number, row.blocks, params.prefetched_tiles);
  add_delegate(params.sample, row.row_number, row.number, best);
  if (row.number == 0) {
    constexpr int kWords = sizeof(RowState) / sizeof(uint32_t);
    uint32_t* const words = reinterpret_cast<uint32_t*>(&row.state);
    for (int i = static_cast<int>(threadIdx.x); i < kWords; i += kPassThreads) words[i] = 0;
  }
  cooperative_groups::this_grid().sync();  // all delegates are there, and the states are zero
  const Extended<Bits> bound =
      bound_of_delegates(params.sample, row.row_number, params.index_bits, dynamic, shared.of_sample);

  // Step 2.
  __syncthreads();  // nothing of the sample is in use
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic);
  clear_histogram(histogram, kGridBins + 1);
  if (threadIdx.x == 0) {
    shared.range = shared.range.of(params, bound, static_cast<Word>(shared.of_sample.range.greatest),
                                   tuning::kSampleSpareBits);
    shared.seen.reset();
  }
  __syncthreads();  // the range is known, and no bin is yet to be cleared
  const auto& range = shared.range;
  Store<Bits> store(dynamic + kCountBytes<Index> + threadIdx.x / 32 * Store<Bits>::bytes(tuning::kGridStaged),
                    tuning::kGridStaged, {row.stored, params.capacity}, &row.state.stored);
  const Word greatest = store_reaching(order, row.input, params.cols, row.number, row.blocks, bound, store,
                                       [&](const Extended<Bits>& x) {
                                         if (params.counts) atomicAdd(histogram + range.bin(x), 1u);
                                       });
  store.publish(shared.staged);
  shared.seen.add({greatest, greatest});
  __syncthreads();  // all warps have told, and counted
  if (threadIdx.x == 0) store.reserve(shared.staged);
  if (threadIdx.x == 32) {
    atomicMax(&row.state.greatest, static_cast<unsigned long long>(shared.seen.greatest));
  }
  if (params.counts) {
    const int bins = range.bins();
    for (int bin = static_cast<int>(threadIdx.x); bin <= bins; bin += kPassThreads) {
      const uint32_t count = histogram[bin];
      if (count > 0) atomicAdd(bin < bins ? row.state.counts.of[0] + bin : &row.state.beyond, count);
    }
  }
  __syncthreads();  // the places are known
  store.finish(shared.staged);

  RowBarrier barrier(&row.state.arrived, row.blocks, /*waits=*/0);
  barrier.wait();
  write_winners(row, bound, barrier);
}

template <class Bits>
size_t carve(const OneGrid& config, const Problem& problem, void* base, Params<Bits>& params) {
  Workspace workspace(base);
  params.states = workspace.take<RowState>(problem.rows);
  params.sample.set(config.sample, problem.cols);
  params.sample.list = workspace.take<Extended<Bits>>(problem.rows * config.sample.delegates);
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
  params.last_alone = problem.last_alone;
  params.counts = config.counts;
  params.prefetched_tiles = config.prefetched_tiles;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};

  static std::atomic<uint64_t> allowed;
  const size_t shared_bytes = dynamic_bytes(params.sample);
  const cudaError_t error = allow_shared_memory(select_row<Order>, shared_bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_together(select_row<Order>, static_cast<unsigned>(problem.rows * config.sample.blocks),
                         kPassThreads, shared_bytes, stream, params, order);
}

// The same by half as many blocks, whose sample is as much smaller.
OneGrid by_half_the_blocks(OneGrid config, const Problem& problem) {
  const DelegateSample& sample = config.sample;
  const int group = sample.blocks * kPassThreads / sample.delegates;
  config.sample = with_lines(problem, sample.blocks / 2, sample.lines, group);
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
      if (config.sample.blocks == 1 || !lacks_room(error)) return error;
    }
  });
}

}  // namespace gputopk::cuda::delegate
