// Delegate top-k of rows that the blocks of one cluster keep in registers: one read, and no bound before it.
//
// As one_cluster.cu, for rows so few and short that a sample takes as long to read as all of them:
//   1. Each block loads its share of the row, vectors here and there, and the best of each thread's
//      elements is a delegate. With B blocks, ceil(k / B) delegates of each reach the least of all blocks'
//      delegates of that rank: a bound that k elements reach, whatever the row, and few others; in sorted
//      rows too, as what lies side by side is dealt out to all blocks and threads.
//   2. Each block lists what reaches the bound, from its registers.
//   3. The lists are brought together in the cluster's first block, which puts them in order and writes the
//      k best. Or, where k is large, pivots among the first block's delegates divide the lists into parts,
//      each of which a block of its own puts in order.
// Where more reach the bound than there is room for, most are equals of it as a rule: then the row is read
// once more, what is above the bound is listed, and equals of the lowest indices are written behind it as
// they come. Else the bound is found by AIR's digits.

#include <cuda_runtime_api.h>

#include <atomic>

#include "core/key_order.h"
#include "cuda/delegate/delegate.h"
#include "cuda/delegate/numbers.h"
#include "cuda/delegate/resident.cuh"
#include "cuda/delegate/sampled_row.cuh"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/equals.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/maxima_bound.cuh"
#include "cuda/device/row_numbers.cuh"
#include "cuda/device/shared_memory.cuh"

namespace gputopk::cuda::delegate {
namespace {

template <class Bits>
struct Params {
  Rectangle<Bits> rows;
  int64_t part_cols;  // a block's, where the row is read once more
  int rank;           // of the bound among a block's delegates
  int room;           // for candidates
  int ordered_by;     // blocks, a part of the list each
  WinnerWriter<Bits> output;
};

template <class Word>
struct BoundScratch {
  KeySpan<Word> of_warps[tuning::kClusterMaxThreads / 32];
  Bounds<Word> of_block, of_all;
};

// What the cluster's blocks have listed of each part: all of them, those before this one, and the most of
// any.
struct ListedParts {
  PartCounts all, before;
  uint32_t most;

  // Whether each part's block has room for it behind its own list.
  __device__ bool fit(uint32_t room) const { return most + all.most() <= room; }
};

struct PartScratch {
  PartCounts counts;
  uint32_t sent[kParts];
  ListedParts lists;
};

// Elements above a bound, and equals of it.
struct Reaching {
  uint32_t above, equal;
};

struct EqualsScratch {
  EqualsTable<tuning::kClusterMaxThreads / 32> table;
  uint32_t above;  // the bound, listed by this block
  Reaching of_block, of_all, before;

  // By all threads, a barrier before any counts.
  __device__ void reset() {
    table.reset();
    if (threadIdx.x == 0) above = 0;
  }
};

// The least of the bounds that the cluster's blocks find among their threads' delegates, and the first
// block's pivots; the same in all of them. And all counts of lists are zero.
template <class Word, class Bits>
__device__ __forceinline__ Bounds<Word> bounds_of_cluster(Word delegate, int rank, bool divides, int blocks,
                                                          uint32_t* counters, BoundScratch<Word>& scratch,
                                                          PartScratch& parts, EqualsScratch& equals,
                                                          Shared<Bits>& shared) {
  Bounds<Word> own{};
  own.bound = bound_of_block<Word>([&](auto&& visit) { visit(delegate); }, rank, slack_of_rank(rank), divides,
                                   own.pivots, counters, scratch.of_warps)
                  .key;
  equals.reset();
  if (threadIdx.x == 0) {
    scratch.of_block = own;
    shared.listed = 0;
    parts.counts = {};
    for (uint32_t& sent : parts.sent) sent = 0;
  }
  Cluster::arrive();
  Cluster::wait();  // all blocks have a bound
  // One warp asks the others, as each question is a trip through the GPU.
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < 32) {
    const Word least = warp_min(Cluster::of_block(&scratch.of_block, min(lane, blocks - 1))->bound);
    if (lane == 0) scratch.of_all.bound = least;
    if (lane < kParts - 1) {
      scratch.of_all.pivots[lane] = Cluster::of_block(&scratch.of_block, 0)->pivots[lane];
    }
  }
  __syncthreads();  // the bounds are there
  return scratch.of_all;
}

// By all threads of all blocks, once the lists are whole.
__device__ __forceinline__ ListedParts count_parts(PartScratch& scratch, int blocks, int number) {
  Cluster::arrive();
  Cluster::wait();  // all lists are whole
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < 32) {
    PartCounts of_block{};
    if (lane < blocks) of_block = *Cluster::of_block(&scratch.counts, lane);
    ListedParts lists{};
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      lists.all.of[p] = __reduce_add_sync(~0u, of_block.of[p]);
      lists.before.of[p] = __reduce_add_sync(~0u, lane < number ? of_block.of[p] : 0);
    }
    lists.most = __reduce_max_sync(~0u, of_block.sum());
    if (lane == 0) scratch.lists = lists;
  }
  __syncthreads();  // the counts are there
  return scratch.lists;
}

static_assert(sizeof(Shared<uint64_t>) + sizeof(BoundScratch<uint64_t>) + sizeof(EqualsScratch) +
                  sizeof(PartScratch) <=
              tuning::kClusterStaticBytes);
// Counters that the smallest block has.
static_assert((tuning::kClusterMinThreads / 32 + 1) * kDigits >= kCountsOfBound<uint64_t>);

// Step 2 where more reach the bound than there is room for: what is above it is listed, `own_listed` by this
// block, and its equals, of the lowest indices, are written behind that, k in all. False, and nothing is
// written, where more are above it than there is room for too. The row is loaded anew, a part of it each
// block, so that indices ascend.
template <class Order, int kElements, class Output, class Bits = typename Order::Bits>
__device__ __noinline__ bool write_equals(Row<Bits> row, Part<Bits> part, int64_t part_cols, int blocks,
                                          int number, Order order, typename Numbers<Order>::Number bound,
                                          uint32_t room, BlockMemory<Bits, Index> memory,
                                          EqualsScratch& scratch, Output output, Listed& listed,
                                          uint32_t& own_listed) {
  using Compared = Numbers<Order>;
  using Share = RowNumbers<Order, kElements>;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32;
  const int shift = Share::shift_of(part.begin);  // of all blocks
  if (shift + part_cols > int64_t{threads} * kElements) return false;
  const Share share(part.begin, static_cast<int>(max(part.cols, int64_t{0})), thread, threads,
                    Compared(order), shift);
  const auto index_of = [&](int i) { return static_cast<Index>(part.first + share.index(i)); };
  list_elements(choose<kElements>([&](int i) { return Compared::is_above(share.number[i], bound); }), room,
                memory.indices, scratch.above, index_of);
  const Equals<Share> equals(
      choose<kElements>([&](int i) { return Compared::is_equal(share.number[i], bound); }), scratch.table);
  __syncthreads();  // all warps have counted
  const uint32_t equals_of_block = equals.count(scratch.table);
  own_listed = scratch.above;
  if (thread == 0) scratch.of_block = {own_listed, equals_of_block};
  Cluster::arrive();
  Cluster::wait();  // all blocks have counted
  // One warp asks the others, as each question is a trip through the GPU.
  if (thread < 32) {
    const auto add_up = [](const Reaching& x) {
      return Reaching{__reduce_add_sync(~0u, x.above), __reduce_add_sync(~0u, x.equal)};
    };
    const Reaching of_other = lane < blocks ? *Cluster::of_block(&scratch.of_block, lane) : Reaching{};
    const Reaching all = add_up(of_other), before = add_up(lane < number ? of_other : Reaching{});
    if (lane == 0) {
      scratch.of_all = all;
      scratch.before = before;
    }
  }
  __syncthreads();  // the counts are there
  const Reaching all = scratch.of_all, before = scratch.before;
  const uint32_t k = static_cast<uint32_t>(row.k);
  if (all.above > room || all.above + all.equal < k) return false;
  if (all.above < k && before.equal < k - all.above) {
    const uint32_t first = all.above + before.equal;
    equals.visit_lowest(static_cast<int>(k - first), scratch.table, [&](int place, int i) {
      const Index index = index_of(i);
      output.write(static_cast<int>(first) + place, row.begin[index], index);
    });
  }
  for (uint32_t i = threadIdx.x; i < own_listed; i += blockDim.x) {
    memory.values[i] = row.begin[memory.indices[i]];
  }
  listed = {all.above, before.above};
  return true;
}

// Step 3 by parts: each is sent to a block of its own, which puts it in order and writes it behind the better
// ones. By all threads of all blocks.
template <class Order, class PartOf, class Output, class Bits = typename Order::Bits>
__device__ __forceinline__ void write_in_parts(const ListedParts& listed, uint32_t own_listed, int number,
                                               int k, const Order& order, PartOf&& part_of, int room,
                                               const BlockMemory<Bits, Index>& memory, uint32_t* sent,
                                               BlockScratch<typename KeyWord<Bits>::type, Index>& scratch,
                                               const Output& output) {
  for (uint32_t i = threadIdx.x; i < own_listed; i += blockDim.x) {
    const Bits bits = memory.values[i];
    const int part = part_of(bits);
    // At the end of the room there.
    const uint32_t at = static_cast<uint32_t>(room) - listed.all.of_part(part) + listed.before.of_part(part) +
                        atomicAdd(sent + part, 1u);
    Cluster::of_block(memory.values, part)[at] = bits;
    Cluster::of_block(memory.indices, part)[at] = memory.indices[i];
  }
  const int own = number < kParts ? static_cast<int>(listed.all.of_part(number)) : 0;
  if (number < kParts) prepare_sort(own, memory, scratch);
  Cluster::arrive();
  Cluster::wait();  // the parts are where they belong
  const int better = static_cast<int>(listed.all.before(number));
  if (number >= kParts || better >= k) return;
  const int first = room - own;
  sort_prepared<tuning::kResidentClusterItems>(
      own, min(own, k - better), order, memory, scratch,
      [&](int i, Bits& bits, Index& index) {
        bits = memory.values[first + i];
        index = memory.indices[first + i];
      },
      [&](int rank, Bits bits, Index index) { output.write(better + rank, bits, index); });
}

template <class Order, int kElements>
__global__ void __launch_bounds__(tuning::kClusterMaxThreads)
    select_row(const __grid_constant__ Params<typename Order::Bits> params, Order order, int blocks) {
  using Bits = typename Order::Bits;
  using Compared = Numbers<Order>;
  using Number = typename Compared::Number;
  using Share = RowNumbers<Order, kElements>;
  using Word = typename KeyWord<Bits>::type;
  __shared__ Shared<Bits> shared;
  __shared__ BoundScratch<Word> of_bound;
  __shared__ PartScratch parts;
  __shared__ EqualsScratch equals;
  const BlockMemory<Bits, Index> memory(dynamic_shared(), params.room);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int number = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks));
  const int64_t row_number = blockIdx.x / static_cast<unsigned>(blocks);
  const Row<Bits> row = params.rows.of(row_number);
  const uint64_t k = static_cast<uint64_t>(row.k), room = static_cast<uint64_t>(params.room);

  const int64_t first = min(number * params.part_cols, row.cols);
  const Part<Bits> part{row.begin + first, min(params.part_cols, row.cols - first), first,
                        static_cast<Index>(row.cols - 1) - static_cast<Index>(first)};

  const auto output = params.output.row(row_number, row.k);
  Listed listed{};
  uint32_t own_listed = 0;
  int wanted = row.k;  // of the list
  if (Share::shift_of(row.begin) + row.cols <= int64_t{blocks} * threads * kElements) {
    // Vectors side by side go to a few lanes, and the next ones to the next block's, and so on.
    constexpr int kLanes = tuning::kResidentLanes;
    const int lane = thread % 32, warp = thread / 32;
    const int place = ((lane / kLanes * (threads / 32) + warp) * blocks + number) * kLanes + lane % kLanes;
    const Compared numbers(order);
    const Share own(row.begin, static_cast<int>(row.cols), place, blocks * threads, numbers,
                    Share::shift_of(row.begin));
    const Word delegate = Compared::rank_key_of(Maxima<Compared, Number>(own.number).one());
    const Bounds<Word> bounds = bounds_of_cluster(delegate, params.rank, params.ordered_by > 1, blocks,
                                                  memory.counters, of_bound, parts, equals, shared);
    const Number bound = Compared::number_of(bounds.bound);
    if (numbers.is_bound(bound)) {
      list_elements(choose<kElements>([&](int i) { return Compared::reaches(own.number[i], bound); }),
                    static_cast<uint32_t>(room), memory.indices, shared.listed,
                    [&](int i) { return own.index(i); });
      __syncthreads();  // all are listed that there is room for
      own_listed = shared.listed;
      if (own_listed > room) {  // then no list is whole, and all know it by the count
        if (thread == 0) parts.counts.of[0] = own_listed;
        own_listed = 0;
      }
      const auto part_of = [&](Bits bits) {
        return params.ordered_by > 1 ? bounds.part_of(numbers.rank_key(bits)) : 0;
      };
      for (uint32_t i = threadIdx.x; i < own_listed; i += blockDim.x) {
        const Bits bits = row.begin[memory.indices[i]];
        memory.values[i] = bits;
        atomicAdd(&parts.counts.of[part_of(bits)], 1u);
      }
      const ListedParts in_parts = count_parts(parts, blocks, number);
      listed = {in_parts.all.sum(), in_parts.before.sum()};
      if (params.ordered_by > 1 && listed.all >= k && in_parts.fit(static_cast<uint32_t>(room))) {
        write_in_parts<Order>(in_parts, own_listed, number, row.k, order, part_of, params.room, memory,
                              parts.sent, shared.sort, output);
        return;
      }
      if (listed.all > room && write_equals<Order, kElements>(row, part, params.part_cols, blocks, number,
                                                              order, bound, static_cast<uint32_t>(room),
                                                              memory, equals, output, listed, own_listed)) {
        wanted = static_cast<int>(min(k, listed.all));
      }
    }
  }
  if (listed.all < static_cast<uint64_t>(wanted) || listed.all > room) {
    const Extended<Bits> bound = bound_of_row(row, part, ClusterSums{blocks}, order, AllCandidates{},
                                              row.cols, params.room, memory.counters, shared);
    listed = list_row(part, bound, blocks, number, order, AllCandidates{}, static_cast<uint32_t>(params.room),
                      memory, shared);
    own_listed = shared.listed;
  }
  if (!bring_together(listed, own_listed, blocks, number, memory, shared.sort)) return;
  sort_prepared<tuning::kResidentClusterItems>(
      static_cast<int>(listed.all), wanted, order, memory, shared.sort,
      [&](int i, Bits& bits, Index& index) {
        bits = memory.values[i];
        index = memory.indices[i];
      },
      [&](int rank, Bits bits, Index index) { output.write(rank, bits, index); });
}

template <class Order, int kElements>
ErrorCode launch(const ResidentCluster& config, const Problem& problem, const Buffers& buffers, Order order,
                 Stream stream) {
  using Bits = typename Order::Bits;
  Params<Bits> params{};
  params.rows = {first_row<Bits>(problem, buffers), problem.row_stride, /*sample=*/{}};
  params.part_cols = part_of_cluster(problem.cols, config.blocks, sizeof(Bits));
  params.rank = config.rank;
  params.room = config.room;
  params.ordered_by = config.ordered_by;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};

  const size_t shared_bytes =
      static_cast<size_t>(block_bytes(BlockMemory<Bits, Index>::kEntryBytes, config.room, config.threads));
  static std::atomic<uint64_t> allowed, allowed_clusters;
  return launch_cluster_a_row(/*ahead=*/false, config, problem.rows, select_row<Order, kElements>,
                              shared_bytes, allowed, allowed_clusters, stream, params, order);
}

}  // namespace

ErrorCode ResidentCluster::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Order = decltype(order);
    return launch_with_room(*this, [&](const ResidentCluster& fitting) {
      if constexpr (Order::kBits < 64) {
        if (fitting.elements == tuning::kResidentMostElements) {
          return launch<Order, tuning::kResidentMostElements>(fitting, problem, buffers, order, stream);
        }
      }
      return launch<Order, tuning::kResidentElements>(fitting, problem, buffers, order, stream);
    });
  });
}

}  // namespace gputopk::cuda::delegate
