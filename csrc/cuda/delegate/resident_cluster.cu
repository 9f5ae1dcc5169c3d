// Delegate top-k of rows that the blocks of one cluster keep in registers: one read, and no bound before it.
//
// As one_cluster.cu, for rows so few and short that a sample takes as long to read as all of them:
//   1. Each block loads its share of the row, vectors here and there, and the best of each thread's
//      elements is a delegate. With B blocks, ceil(k / B) delegates of each reach the least of all blocks'
//      delegates of that rank: a bound that k elements reach, whatever the row, and few others; in sorted
//      rows too, as what lies side by side is dealt out to all blocks and threads.
//   2. Each block lists what reaches the bound, from its registers.
//   3. The lists are brought together in the cluster's first block, which puts them in order and writes the
//      k best. Or, where SMs would have nothing to do meanwhile, the first block's delegates tell how to
//      divide what is listed into parts, each of which is sent to a block of its own that puts it in order.
// Where more reach the bound than there is room for, most are equals of it as a rule: then the row is read
// once more, what is above the bound is listed, and equals of the lowest indices are written behind it as
// they come. Else the bound is found by AIR's digits.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>

#include "core/key_order.h"
#include "cuda/delegate/delegate.h"
#include "cuda/delegate/numbers.h"
#include "cuda/delegate/resident.cuh"
#include "cuda/delegate/sampled_row.cuh"
#include "cuda/device/block_loop.cuh"
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
  bool in_parts;      // each block puts a part of what is listed in order
  WinnerWriter<Bits> output;
};

template <class Word>
struct BoundScratch {
  KeySpan<Word> of_warps[tuning::kClusterMaxThreads / 32];
  PartBins<Word> parts_of_block;
  // What blocks have sent: their bounds, and the first of them its parts.
  Mailbox mail;
  Word of_blocks[kMostBlocks];
  PartBins<Word> parts;
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
// block's parts, the same in all of them. By all threads, the barrier of the cluster behind mailboxes'
// opening before.
template <class Word>
__device__ __forceinline__ Word bound_of_cluster(Word delegate, int rank, int blocks, int number,
                                                 uint32_t* counters, BoundScratch<Word>& scratch) {
  const BlockBound<Word> own = bound_of_block(
      KeySpan<Word>{delegate, delegate}, [&](auto&& visit) { visit(delegate); }, rank, slack_of_rank(rank),
      scratch.parts_of_block.divide(blocks, rank), counters, scratch.of_warps);
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < 32) {
    if (lane < blocks) scratch.mail.send(&scratch.of_blocks[number], own.key, lane);
    uint32_t* const parts = reinterpret_cast<uint32_t*>(scratch.parts.part);
    static_assert(sizeof(scratch.parts.part) == 32 * sizeof(uint32_t), "a word a lane");
    if (number == 0) {
      __syncwarp();  // the warp's lanes have divided
      const uint32_t of_four = reinterpret_cast<const uint32_t*>(scratch.parts_of_block.part)[lane];
      for (int block = 0; block < blocks; ++block) scratch.mail.send(parts + lane, of_four, block);
      if (lane < blocks) {
        scratch.mail.send(&scratch.parts.low, scratch.parts_of_block.low, lane);
        scratch.mail.send(&scratch.parts.shift, scratch.parts_of_block.shift, lane);
      }
    }
    if (lane == 0) {
      scratch.mail.expect(static_cast<uint32_t>(blocks) * static_cast<uint32_t>(sizeof(Word)) +
                          static_cast<uint32_t>(sizeof(scratch.parts.part) + sizeof(Word) + sizeof(int)));
    }
  }
  scratch.mail.wait();
  return warp_min(scratch.of_blocks[min(static_cast<int>(threadIdx.x % 32), blocks - 1)]);
}

// Where the first block puts all lists in order: how long they are, and, to it, entries.
struct ListMail {
  Mailbox counts, entries;
  uint32_t listed[kMostBlocks];

  // By all threads, before Cluster::begin().
  __device__ void open() {
    if (threadIdx.x != 0) return;
    counts.open();
    entries.open();
  }
};

// Mail takes words of 32 bits and more.
template <class Bits>
constexpr bool kMailsLists = sizeof(Bits) >= sizeof(uint32_t);

// count_lists, once, behind a barrier of the block.
__device__ __forceinline__ Listed count_by_mail(uint32_t own, int blocks, int number, ListMail& mail) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  if (thread < blocks) mail.counts.send(&mail.listed[number], own, thread);
  if (thread == 0) mail.counts.expect(static_cast<uint32_t>(blocks * sizeof(uint32_t)));
  mail.counts.wait();
  const uint32_t of_block = lane < blocks ? mail.listed[lane] : 0;
  return {__reduce_add_sync(~0u, of_block), __reduce_add_sync(~0u, lane < number ? of_block : 0)};
}

// bring_together of lists that were counted so. What is behind the first block's own has not been in use.
template <class Bits>
__device__ __forceinline__ bool bring_by_mail(const Listed& listed, uint32_t own, int number,
                                              const BlockMemory<Bits, Index>& memory,
                                              SortScratch<Bits>& of_sort, ListMail& mail) {
  if (number > 0) {
    each_in_block(own, [&](uint32_t i) {
      mail.entries.send(memory.values + listed.before + i, memory.values[i], 0);
      mail.entries.send(memory.indices + listed.before + i, memory.indices[i], 0);
    });
    return false;
  }
  prepare_sort(static_cast<int>(listed.all), memory, of_sort);
  if (threadIdx.x == 0) {
    const auto others = static_cast<uint32_t>(listed.all) - own;
    mail.entries.expect(others * static_cast<uint32_t>(BlockMemory<Bits, Index>::kEntryBytes));
  }
  __syncthreads();  // all is clear
  mail.entries.wait();
  return true;
}

static_assert(sizeof(Shared<uint64_t>) + sizeof(SortScratch<uint64_t>) + sizeof(BoundScratch<uint64_t>) +
                  sizeof(EqualsScratch) + sizeof(PartScratch) + sizeof(ListMail) <=
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
  __syncthreads();  // nobody reads what was listed before any more: mail holds a thread up, not the block
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
  each_in_block(own_listed, [&](uint32_t i) { memory.values[i] = row.begin[memory.indices[i]]; });
  listed = {all.above, before.above};
  return true;
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
  __shared__ SortScratch<Bits> of_sort;
  __shared__ BoundScratch<Word> of_bound;
  __shared__ PartScratch parts;
  __shared__ EqualsScratch equals;
  __shared__ ListMail lists;
  const BlockMemory<Bits, Index> memory(dynamic_shared(), params.room);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int number = Cluster::rank();
  const int64_t row_number = Cluster::number();
  const Row<Bits> row = params.rows.of(row_number);
  const uint64_t k = static_cast<uint64_t>(row.k), room = static_cast<uint64_t>(params.room);

  const int64_t first = min(number * params.part_cols, row.cols);
  const Part<Bits> part{row.begin + first, min(params.part_cols, row.cols - first), first,
                        static_cast<Index>(row.cols - 1) - static_cast<Index>(first)};

  const auto output = params.output.row(row_number, row.k);
  const auto begin = [&] {
    if (thread == 0) {
      of_bound.mail.open();
      shared.listed = 0;
    }
    lists.open();
    parts.reset();
    equals.reset();
    Cluster::begin();
  };
  Listed listed{};
  uint32_t own_listed = 0;
  bool by_mail = false;  // lists are brought together so
  int wanted = row.k;    // of the list
  if (Share::shift_of(row.begin) + row.cols <= int64_t{blocks} * threads * kElements) {
    // Vectors side by side go to a few lanes, and the next ones to the next block's, and so on.
    constexpr int kLanes = tuning::kResidentLanes;
    const int lane = thread % 32, warp = thread / 32;
    const int place = ((lane / kLanes * (threads / 32) + warp) * blocks + number) * kLanes + lane % kLanes;
    const Compared numbers(order);
    const typename Share::Loaded loaded(row.begin, static_cast<int>(row.cols), place, blocks * threads,
                                        numbers, Share::shift_of(row.begin));
    begin();  // while the row is under way
    const Share own(loaded, numbers);
    const Word delegate = Compared::rank_key_of(Maxima<Compared, Number>(own.number).one());
    Cluster::wait();  // all blocks have begun
    const Word least = bound_of_cluster(delegate, params.rank, blocks, number, memory.counters, of_bound);
    const Number bound = Compared::number_of(least);
    if (numbers.is_bound(bound)) {
      const uint32_t reaching =
          choose<kElements>([&](int i) { return Compared::reaches(own.number[i], bound); });
      if (params.in_parts) {
        const PartPlaces<Word> places(memory, params.room, blocks);
        if (write_in_parts<Compared>(
                own, reaching, row, numbers, places, blocks, number,
                [&](Word key) { return of_bound.parts.part_of(key); }, parts, of_sort, output)) {
          return;
        }
      }
      list_elements(reaching, static_cast<uint32_t>(room), memory.indices, shared.listed,
                    [&](int i) { return own.index(i); });
      __syncthreads();  // all are listed that there is room for
      own_listed = shared.listed;
      if (own_listed <= room) {
        each_in_block(own_listed, [&](uint32_t i) { memory.values[i] = row.begin[memory.indices[i]]; });
      }
      if constexpr (kMailsLists<Bits>) {
        // Not where parts did not do: others' places in this block's memory have been in use.
        by_mail = !params.in_parts;
      }
      listed =
          by_mail ? count_by_mail(own_listed, blocks, number, lists) : count_lists(shared, blocks, number);
      if (listed.all > room && write_equals<Order, kElements>(row, part, params.part_cols, blocks, number,
                                                              order, bound, static_cast<uint32_t>(room),
                                                              memory, equals, output, listed, own_listed)) {
        wanted = static_cast<int>(min(k, listed.all));
        by_mail = false;
      }
    } else {
      __syncthreads();  // nobody looks at the bound's counts any more
    }
  } else {
    begin();
    Cluster::wait();  // all blocks have begun
  }
  if (listed.all < static_cast<uint64_t>(wanted) || listed.all > room) {
    const Extended<Bits> bound = bound_of_row(row, part, ClusterSums{blocks}, order, AllCandidates{},
                                              row.cols, params.room, memory.counters, shared);
    listed = list_row(part, bound, blocks, number, order, AllCandidates{}, static_cast<uint32_t>(params.room),
                      memory, shared);
    own_listed = shared.listed;
    by_mail = false;
  }
  if (by_mail) {
    if constexpr (kMailsLists<Bits>) {
      if (!bring_by_mail(listed, own_listed, number, memory, of_sort, lists)) return;
    }
  } else if (!bring_together(listed, own_listed, blocks, number, memory, of_sort)) {
    return;
  }
  sort_prepared<tuning::kResidentClusterItems>(
      static_cast<int>(listed.all), wanted, order, memory, of_sort,
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
  params.in_parts = config.ordered_by > 1;
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
    return launch_with_room(*this, [&](ResidentCluster fitting) {
      fitting.rank = std::min(rank * (blocks / fitting.blocks), threads);
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
