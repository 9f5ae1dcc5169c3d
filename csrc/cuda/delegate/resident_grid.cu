// Delegate top-k of a few rows that the whole GPU keeps in registers: one read, one launch, the winners in
// order.
//
// As resident_cluster.cu, for rows of up to some millions of elements, which more blocks hold than a cluster
// has; they are launched together, and what they tell each other goes through memory:
//   1. Each block loads its share of the row, vectors here and there. The best element of each warp, or of
//      some of its lanes, is a delegate. The k-th best of all delegates is a bound that k elements reach,
//      whatever the row, and few others, as there are a few times k delegates. Each block finds it.
//   2. What reaches the bound is listed, from registers.
//   3. The delegates tell how to divide what is listed into parts: some blocks look at all of it, for a part
//      that each puts in order and writes.
// Where more delegates reach the bound than were to, they are equals of it: then what is above it is listed,
// and of its equals those of the lowest indices, which digits of the index tell, from registers too. Where
// more reach it than the row's list has room for (in a sorted row, what lies beside a delegate is as good),
// blocks that have room for theirs find another bound among these. Where that is not enough, it is found by
// AIR's digits, in the row. So all blocks wait for what all have listed.

#include <cooperative_groups.h>
#include <cuda_runtime_api.h>

#include <atomic>

#include "core/key_order.h"
#include "core/visit_bits.h"
#include "cuda/delegate/delegate.h"
#include "cuda/delegate/grid.cuh"
#include "cuda/delegate/numbers.h"
#include "cuda/delegate/resident.cuh"
#include "cuda/delegate/sampled_row.cuh"
#include "cuda/device/block_loop.cuh"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/launch.h"
#include "cuda/device/maxima_bound.cuh"
#include "cuda/device/row_numbers.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda::delegate {
namespace {

// What the blocks of a row tell each other. All zero, but for the histograms, of which the first is.
struct alignas(16) RowState {
  uint32_t listed[2];    // entries of the row's lists
  uint32_t listed_anew;  // and of the one that is made where those are of no use
  uint32_t overflows;    // blocks that had no room for what they would have listed
  uint32_t arrived;      // at the row's barrier
  GridCounts counts;
};

template <class Bits>
struct Lists {
  using Word = typename KeyWord<Bits>::type;

  RowState* states;  // rows
  Word* delegates;   // rows x blocks x warps x of_warp
  Bits* values;      // rows x 2 x room; the second list is of equals
  Index* indices;

  void carve(Workspace& workspace, int64_t rows, int64_t delegates_of_row, int room) {
    states = workspace.take<RowState>(rows);
    delegates = workspace.take<Word>(rows * delegates_of_row);
    values = workspace.take<Bits>(rows * 2 * room);
    indices = workspace.take<Index>(rows * 2 * room);
  }
};

template <class Bits>
struct Params {
  Rectangle<Bits> rows;
  int64_t part_cols;  // a block's, where the row is read once more
  int blocks;         // of a row
  int of_warp;        // delegates
  int room;           // of a list
  int parts;          // of the first
  Lists<Bits> lists;
  WinnerWriter<Bits> output;
};

template <class Word>
struct Scratch {
  KeySpan<Word> of_warps[tuning::kClusterMaxThreads / 32];
  PartBins<Word> parts;
  uint32_t place;        // of the block's entries in a list
  uint32_t own, better;  // entries of the block's part, and of better ones
  BlockScratch<Word, Index> sort;
};
static_assert(sizeof(Shared<uint64_t>) + sizeof(Scratch<uint64_t>) <= tuning::kClusterStaticBytes);

// Of the row's delegates, the bound that k of them reach, and the greatest, and scratch.parts; the same in
// all blocks. `keys` is shared memory for all of them. `are_equals`: so many reach it that most are equals.
template <class Word>
__device__ __forceinline__ KeySpan<Word> bound_of_row_delegates(const Word* delegates, int count, int k,
                                                                int parts, Word* keys, uint32_t* counters,
                                                                Scratch<Word>& scratch, bool& are_equals) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  constexpr int kInFlight = 4;
  KeySpan<Word> own = KeySpan<Word>::none();
#pragma unroll 1
  for (int first = thread; first < count; first += kInFlight * threads) {
    Word loaded[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) loaded[i] = __ldcg(delegates + min(first + i * threads, count - 1));
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i * threads >= count) break;
      keys[first + i * threads] = loaded[i];
      own.see(loaded[i]);
    }
  }
  const BlockBound<Word> bound = bound_of_block(
      own,
      [&](auto&& visit) {
        each_in_block(count, [&](int i) { visit(keys[i]); });  // its own
      },
      k, slack_of_rank(k), scratch.parts.divide(parts, k), counters, scratch.of_warps);
  are_equals = bound.reaching > k + slack_of_rank(k);
  return {bound.key, bound.greatest};
}

// A row as one of its blocks sees it.
template <class Bits>
struct RowOfGrid {
  using Word = typename KeyWord<Bits>::type;

  Row<Bits> row;
  int number, blocks;  // of them
  int room;
  RowState& state;
  Bits* values;  // the row's lists
  Index* indices;
  WinnerWriter<Bits> output;
  BlockMemory<Bits, Index> memory;

  __device__ RowOfGrid(const Params<Bits>& params, int64_t row_number, int block)
      : row(params.rows.of(row_number)),
        number(block),
        blocks(params.blocks),
        room(params.room),
        state(params.lists.states[row_number]),
        values(params.lists.values + row_number * 2 * params.room),
        indices(params.lists.indices + row_number * 2 * params.room),
        output(params.output.row(row_number, row.k)),
        memory(dynamic_shared(), params.room) {}

  // Adds the block's list to one of the row's, which has `listed` entries; an entry of which there is the
  // index alone has its value fetched. Of more entries than there is room for, none. By all threads of a
  // block, with a barrier before.
  __device__ void add_list(uint32_t count, bool fetches, int list, uint32_t& listed,
                           Scratch<Word>& scratch) const {
    if (count > static_cast<uint32_t>(room)) {
      if (threadIdx.x == 0) atomicAdd(&state.overflows, 1u);
      return;
    }
    if (threadIdx.x == 0) scratch.place = count > 0 ? atomicAdd(&listed, count) : 0;
    if (fetches) {
      each_in_block(count, [&](uint32_t i) { memory.values[i] = row.begin[memory.indices[i]]; });
    }
    __syncthreads();  // the list has its place
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
      const uint32_t at = scratch.place + i;
      if (at >= static_cast<uint32_t>(room)) break;
      values[list * room + at] = memory.values[i];
      indices[list * room + at] = memory.indices[i];
    }
  }

  // Writes a list, or what a block holds of it, in order, behind `better` entries. read(i, bits, index) gives
  // entry number i. By all threads of a block, with a barrier before.
  template <class Order, class Read>
  __device__ __forceinline__ void write_list(uint32_t count, uint32_t better, const Order& order,
                                             BlockScratch<Word, Index>& scratch, Read&& read) const {
    prepare_sort(static_cast<int>(count), memory, scratch);
    __syncthreads();  // the sort's memory is clear
    sort_prepared<tuning::kResidentClusterItems>(
        static_cast<int>(count), min(static_cast<int>(count), row.k - static_cast<int>(better)), order,
        memory, scratch, read, [&](int rank, Bits bits, Index index) {
          output.write(static_cast<int>(better) + rank, bits, index);
        });
  }
  template <class Order>
  __device__ __forceinline__ void write_list(int list, uint32_t count, uint32_t better, const Order& order,
                                             BlockScratch<Word, Index>& scratch) const {
    write_list(count, better, order, scratch, [&](int i, Bits& bits, Index& index) {
      bits = __ldcg(values + list * room + i);
      index = __ldcg(indices + list * room + i);
    });
  }

  // Writes the part number `number` of a list, of `count` entries, by scratch.parts. By all threads of a
  // block, with a barrier before; scratch.own and scratch.better are zero.
  template <class Order>
  __device__ __forceinline__ void write_part(int list, uint32_t count, const Order& order,
                                             Scratch<Word>& scratch) const {
    constexpr uint32_t kInFlight = 4;
    const Numbers<Order> numbers(order);
    uint32_t better = 0;
    for (uint32_t first = threadIdx.x; first < count; first += kInFlight * blockDim.x) {
      Bits bits[kInFlight];
      Index index[kInFlight];
#pragma unroll
      for (uint32_t i = 0; i < kInFlight; ++i) {
        const uint32_t at = list * room + min(first + i * blockDim.x, count - 1);
        bits[i] = __ldcg(values + at);
        index[i] = __ldcg(indices + at);
      }
#pragma unroll
      for (uint32_t i = 0; i < kInFlight; ++i) {
        if (first + i * blockDim.x >= count) break;
        const int part = scratch.parts.part_of(numbers.rank_key(bits[i]));
        better += part < number;
        if (part != number) continue;
        const uint32_t at = atomicAdd(&scratch.own, 1u);
        memory.values[at] = bits[i];
        memory.indices[at] = index[i];
      }
    }
    better = __reduce_add_sync(~0u, better);
    if (threadIdx.x % 32 == 0) atomicAdd(&scratch.better, better);
    __syncthreads();  // the part is there
    if (scratch.better >= static_cast<uint32_t>(row.k)) return;
    write_list(scratch.own, scratch.better, order, scratch.sort, [&](int i, Bits& bits, Index& index) {
      bits = memory.values[i];
      index = memory.indices[i];
    });
  }
};

// Where equals of the bound are many: what is above it, and, if that is less than k, of its equals those of
// the lowest indices. The block has listed those above; `equal` has a bit for each of the thread's that
// equals it. False, and nothing is written, where there is no room for those above. By all threads of the
// row's blocks.
template <class Order, class Share, class Bits = typename Order::Bits>
__device__ __noinline__ bool select_among_equals(const Params<Bits>& params, int64_t row_number, int number,
                                                 uint32_t equal, typename Share::Places places, Order order,
                                                 Shared<Bits>& shared,
                                                 Scratch<typename KeyWord<Bits>::type>& scratch) {
  constexpr int kBits = tuning::kClusterDigitBits;
  const RowOfGrid<Bits> own(params, row_number, number);
  const Row<Bits>& row = own.row;
  const uint32_t k = static_cast<uint32_t>(row.k), room = static_cast<uint32_t>(own.room);
  uint32_t* const counters = own.memory.counters;
  GridSums sums{RowBarrier(&own.state.arrived, own.blocks, /*waits=*/0), own.state.counts, number == 0};
  const auto reversed_of = [&](int i) {
    return static_cast<Index>(row.cols - 1) - static_cast<Index>(places.index(static_cast<unsigned>(i)));
  };
  own.add_list(shared.listed, /*fetches=*/true, /*list=*/0, own.state.listed[0], scratch);

  uint32_t better = 0;  // than the bound
  auto selection = Selection<uint32_t, Index>::whole_row(k, 0);
  selection.split.key = 0;
  Digit digit = digit_of_pass(1, kBits, /*key_bits=*/0, row.index_bits);
  for (bool first = true;; first = false) {
    const int bins = 1 << digit.width();
    clear_histogram(counters, bins);
    __syncthreads();  // no thread counts into bins that another has yet to clear
    for (uint32_t left = equal; left != 0; left &= left - 1) {
      const Index reversed = reversed_of(__ffs(static_cast<int>(left)) - 1);
      if (reversed < selection.low.reversed || selection.split.reversed < reversed) continue;
      atomicAdd(counters + digit.of(0u, reversed - selection.low.reversed), 1u);
    }
    sums(counters, counters + kGridBins, bins);
    if (first) {
      better = __ldcg(&own.state.listed[0]);
      if (__ldcg(&own.state.overflows) > 0) return false;
      if (better >= k) {  // delegates have fewer of a value than the row has
        if (better > room) return false;
        if (number < params.parts) own.write_part(/*list=*/0, better, order, scratch);
        return true;
      }
      selection.owed = k - better;  // of its equals, of which there are as many: k reach the bound
    }
    const TargetDigit<uint32_t> target =
        find_target_digit(counters + kGridBins, bins, selection.owed, shared.search);
    selection.narrow(digit, target.digit, target.above, target.count);
    if (k - better - selection.owed + selection.candidates <= room) break;
    digit = next_digit(selection, digit, kBits, row.index_bits);
  }
  for (uint32_t left = equal; left != 0; left &= left - 1) {
    const int i = __ffs(static_cast<int>(left)) - 1;
    if (reversed_of(i) < selection.low.reversed) equal &= ~(1u << i);
  }
  if (threadIdx.x == 0) shared.listed = 0;
  __syncthreads();  // the count is zero
  list_elements(equal, room, own.memory.indices, shared.listed,
                [&](int i) { return places.index(static_cast<unsigned>(i)); });
  __syncthreads();  // all are listed
  // To a list of their own: of the first there may be blocks that have yet to look how many it has.
  own.add_list(shared.listed, /*fetches=*/true, /*list=*/1, own.state.listed[1], scratch);
  sums.barrier.wait();
  if (number == 0 && better > 0) own.write_list(/*list=*/0, better, /*better=*/0, order, scratch.sort);
  if (number == 1) {
    own.write_list(/*list=*/1, __ldcg(&own.state.listed[1]), better, order, scratch.sort);
  }
  return true;
}

// Counts of keys in several blocks' lists.
struct OfLists {
  static constexpr bool kOneBlock = false;
  GridSums& sums;

  __device__ void operator()(uint32_t* counts, int bins) const { sums(counts, counts, bins); }
};

// Where the row's list has no room for what reaches the bound, but each block's for its own: what reaches a
// bound among these. `span` is of the delegates that reach the first. False, and nothing is written, where
// too many are its equals; histograms are so many that were used, each with a wait. By all threads of the
// row's blocks, which have waited for each other once.
template <class Order, class Bits = typename Order::Bits, class Word = typename KeyWord<Bits>::type>
__device__ __noinline__ bool select_among_listed(const Params<Bits>& params, int64_t row_number, int number,
                                                 KeySpan<Word> span, Order order, Shared<Bits>& shared,
                                                 Scratch<Word>& scratch, int& histograms) {
  const RowOfGrid<Bits> own(params, row_number, number);
  const Numbers<Order> numbers(order);
  const int k = own.row.k;
  const uint32_t count = shared.listed;
  // Of numbers and a NaN, delegates tell of the numbers: all that is better is as good as the best of them.
  const auto each = [&](auto&& visit) {
    each_in_block(count,
                  [&](uint32_t i) { visit(i, min(numbers.rank_key(own.memory.values[i]), span.greatest)); });
  };
  clear_histogram(own.memory.counters, kCountsOfBound<Word>);
  __syncthreads();  // the counts are zero, and all know how many are listed
  if (threadIdx.x == 0) shared.listed = 0;
  GridSums sums{RowBarrier(&own.state.arrived, own.blocks, /*waits=*/1), own.state.counts, number == 0};
  const BlockBound<Word> bound = bound_within<Word>(
      span, [&](auto&& visit) { each([&](uint32_t, Word key) { visit(key); }); }, k, own.room - k,
      scratch.parts.divide(params.parts, k), own.memory.counters, scratch.of_warps, OfLists{sums});
  histograms = sums.pass;
  if (bound.reaching > own.room) return false;

  uint32_t reaching = 0;
  each([&](uint32_t, Word key) { reaching += key >= bound.key; });
  reaching = __reduce_add_sync(~0u, reaching);
  if (threadIdx.x % 32 == 0) atomicAdd(&shared.listed, reaching);
  __syncthreads();  // all are counted
  if (threadIdx.x == 0 && shared.listed > 0) {
    scratch.place = atomicAdd(&own.state.listed[1], shared.listed);
  }
  __syncthreads();  // they have their place
  each([&](uint32_t i, Word key) {
    if (key < bound.key) return;
    const uint32_t at = own.room + atomicAdd(&scratch.place, 1u);
    own.values[at] = own.memory.values[i];
    own.indices[at] = own.memory.indices[i];
  });
  sums.barrier.wait();
  if (number < params.parts) {
    own.write_part(/*list=*/1, static_cast<uint32_t>(bound.reaching), order, scratch);
  }
  return true;
}

// Where there is no room for what reaches the bound, or there is none. By all threads of the row's blocks,
// which have waited for each other so often, and used as many histograms.
template <class Order, class Bits = typename Order::Bits>
__device__ __noinline__ void select_anew(const Params<Bits>& params, int64_t row_number, int number,
                                         Order order, int waits, int histograms, Shared<Bits>& shared,
                                         Scratch<typename KeyWord<Bits>::type>& scratch) {
  const RowOfGrid<Bits> own(params, row_number, number);
  GridSums sums{RowBarrier(&own.state.arrived, own.blocks, waits), own.state.counts, number == 0, histograms};
  const Row<Bits>& row = own.row;
  const int64_t first = min(number * params.part_cols, row.cols);
  const Part<Bits> part{row.begin + first, min(params.part_cols, row.cols - first), first,
                        static_cast<Index>(row.cols - 1) - static_cast<Index>(first)};
  __syncthreads();  // no thread looks at counts any more
  const Extended<Bits> bound = bound_of_row<Order, AllCandidates, GridSums&>(
      row, part, sums, order, AllCandidates{}, row.cols, own.room, own.memory.counters, shared);
  __syncthreads();  // nothing of the list's memory is in use
  if (threadIdx.x == 0) shared.listed = 0;
  __syncthreads();  // the count is zero
  list_part(part, bound, order, AllCandidates{}, static_cast<uint32_t>(own.room), own.memory, shared.listed);
  __syncthreads();  // all are listed
  own.add_list(shared.listed, /*fetches=*/false, /*list=*/0, own.state.listed_anew, scratch);
  sums.barrier.wait();
  if (own.number == 0) {
    own.write_list(/*list=*/0, __ldcg(&own.state.listed_anew), /*better=*/0, order, scratch.sort);
  }
}

template <class Order, int kElements>
__global__ void __launch_bounds__(tuning::kClusterMaxThreads)
    select_row(const __grid_constant__ Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Compared = Numbers<Order>;
  using Number = typename Compared::Number;
  using Share = RowNumbers<Order, kElements>;
  using Word = typename KeyWord<Bits>::type;
  __shared__ Shared<Bits> shared;
  __shared__ Scratch<Word> scratch;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32, warp = thread / 32, warps = threads / 32;
  const BlockOfRow block = BlockOfRow::own(params.blocks);
  const int64_t row_number = block.row;
  const int number = block.number;
  RowState& state = params.lists.states[row_number];

  // Step 1. Vectors side by side go to a few lanes, and the next ones to the next block's, and so on.
  constexpr int kLanes = tuning::kResidentLanes;
  const int place = ((lane / kLanes * warps + warp) * params.blocks + number) * kLanes + lane % kLanes;
  const Compared numbers(order);
  const auto begin = params.rows.of(row_number).begin;
  const Share own(begin, static_cast<int>(params.rows.row.cols), place, params.blocks * threads, numbers,
                  Share::shift_of(begin));
  Word delegate = Compared::rank_key_of(Maxima<Compared, Number>(own.number).one());
  const int lanes_log2 = 6 - bits_of(static_cast<uint32_t>(params.of_warp));  // lanes that share a delegate
  for (int step = (1 << lanes_log2) / 2; step > 0; step /= 2) {
    delegate = max(delegate, __shfl_xor_sync(~0u, delegate, step));
  }
  const int delegates_of_row = params.blocks * warps * params.of_warp;
  Word* const delegates = params.lists.delegates + row_number * delegates_of_row;
  if ((lane & ((1 << lanes_log2) - 1)) == 0) {
    delegates[(number * warps + warp) * params.of_warp + (lane >> lanes_log2)] = delegate;
  }
  if (number == 0) {
    uint32_t* const words = reinterpret_cast<uint32_t*>(&state);
    constexpr int kWords = static_cast<int>(offsetof(RowState, counts) / sizeof(uint32_t)) + kGridBins;
    each_in_block(kWords, [&](int i) { words[i] = 0; });
  }
  if (thread == 0) shared.listed = scratch.own = scratch.better = 0;
  cooperative_groups::this_grid().sync();  // all delegates are there, and the states are clear
  const BlockMemory<Bits, Index> memory(dynamic_shared(), params.room);
  bool are_equals = false;
  const KeySpan<Word> span =
      bound_of_row_delegates(delegates, delegates_of_row, params.rows.row.k, params.parts,
                             reinterpret_cast<Word*>(dynamic_shared()), memory.counters, scratch, are_equals);
  const Number bound = Compared::number_of(span.least);
  const bool is_bound = numbers.is_bound(bound);

  // Step 2.
  uint32_t equal = 0;  // a bit for each of the thread's elements
  if (is_bound) {
    uint32_t listed = 0;
    if (are_equals) {
      listed = choose<kElements>([&](int i) { return Compared::is_above(own.number[i], bound); });
      equal = choose<kElements>([&](int i) { return Compared::is_equal(own.number[i], bound); });
    } else {
      listed = choose<kElements>([&](int i) { return Compared::reaches(own.number[i], bound); });
    }
    list_elements(listed, static_cast<uint32_t>(params.room), memory.indices, shared.listed,
                  [&](int i) { return own.index(static_cast<unsigned>(i)); });
  }
  __syncthreads();  // all are listed that there is room for

  int histograms = 0;
  if (is_bound && !are_equals) {
    const RowOfGrid<Bits> of_grid(params, row_number, number);
    of_grid.add_list(shared.listed, /*fetches=*/true, /*list=*/0, state.listed[0], scratch);
    RowBarrier(&state.arrived, params.blocks, /*waits=*/0).wait();
    // Step 3.
    const uint4 counts = __ldcg(reinterpret_cast<const uint4*>(&state));  // its first four, in one read
    const uint32_t listed = counts.x, overflows = counts.w;
    if (overflows == 0 && listed <= static_cast<uint32_t>(params.room)) {
      if (number < params.parts) of_grid.write_part(/*list=*/0, listed, order, scratch);
      return;
    }
    if (overflows == 0 &&
        select_among_listed<Order>(params, row_number, number, span, order, shared, scratch, histograms)) {
      return;
    }
  }
  if (is_bound && are_equals) {
    if (select_among_equals<Order, Share>(params, row_number, number, equal, own.places, order, shared,
                                          scratch)) {
      return;
    }
    histograms = 1;
  }
  const bool listed_before = is_bound && !are_equals;
  select_anew(params, row_number, number, order, /*waits=*/listed_before + histograms, histograms, shared,
              scratch);
}

template <class Order, int kElements>
ErrorCode launch(const ResidentGrid& config, const Problem& problem, const Buffers& buffers, Order order,
                 Stream stream) {
  using Bits = typename Order::Bits;
  Params<Bits> params{};
  params.rows = {first_row<Bits>(problem, buffers), problem.row_stride, /*sample=*/{}};
  params.part_cols = part_of_cluster(problem.cols, config.blocks, sizeof(Bits));
  params.blocks = config.blocks;
  params.of_warp = config.of_warp;
  params.room = config.room;
  params.parts = config.ordered_by;
  Workspace workspace(buffers.workspace);
  params.lists.carve(workspace, problem.rows, config.delegates(), config.room);
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};

  const auto kernel = select_row<Order, kElements>;
  const size_t shared_bytes =
      static_cast<size_t>(block_bytes(BlockMemory<Bits, Index>::kEntryBytes, config.room, config.threads));
  static std::atomic<uint64_t> allowed;
  const cudaError_t error = allow_shared_memory(kernel, shared_bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_together(kernel, static_cast<unsigned>(problem.rows * config.blocks),
                         static_cast<unsigned>(config.threads), shared_bytes, stream, params, order);
}

}  // namespace

size_t ResidentGrid::workspace_bytes(const Problem& problem) const {
  const size_t own = visit_bits(dtype_bytes(problem.dtype), [&](auto bits) {
    Workspace workspace;
    Lists<decltype(bits)>{}.carve(workspace, problem.rows, delegates(), room);
    return workspace.bytes();
  });
  return std::max(own, without_room.workspace_bytes(problem));
}

ErrorCode ResidentGrid::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  const ErrorCode error = visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Order = decltype(order);
    if constexpr (Order::kBits < 64) {
      if (elements == tuning::kResidentMostElements) {
        return launch<Order, tuning::kResidentMostElements>(*this, problem, buffers, order, stream);
      }
    }
    return launch<Order, tuning::kResidentElements>(*this, problem, buffers, order, stream);
  });
  return lacks_room(error) ? without_room.run(problem, buffers, stream) : error;
}

}  // namespace gputopk::cuda::delegate
