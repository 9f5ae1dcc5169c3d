// Delegate top-k with a bound from a sample, of rows that one cluster of blocks, or one block, reads once.
//
// As from_sample.cu, for rows of some thousands to some millions of elements: there the bound and the
// candidates go through memory and three launches, here they stay on chip and it is one.
//   1. Every block looks at a sample of the whole row: sectors, one at random in each of as many strata. All
//      find the same bound in it, the element of a certain rank, without telling each other.
//   2. Each block reads its part of the row, and lists what reaches the bound.
//   3. The lists are brought together in the cluster's first block, which puts them in order and writes the k
//      best.
// The bound is an extended key (key, reversed index), and no two elements share one: how many reach it is a
// matter of ranks, not of values. In shuffled rows, crowded or not, that is little more than k; and so it is
// in sorted rows, as strata are short. Where it is fewer than k, or more than there is room for, which is
// known by counting, the bound is found by AIR's digits from the row itself, and step 2 repeated. So the
// result is exact for every row.
//
// Rows are a rectangle's, or windows: then the blocks find a row's length, candidates and k on the device,
// and from these how many of them are needed and what to ask of the sample. A row of no more candidates than
// there is room for is listed whole, and a row too short for a sample has its bound found from the row
// itself.
//
// It loses to the forms in registers where rows are short, and to from_sample.cu where a row is too long for
// the SMs of one cluster.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "core/key_order.h"
#include "cuda/delegate/delegate.h"
#include "cuda/delegate/numbers.h"
#include "cuda/delegate/sampled_row.cuh"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/launch.h"
#include "cuda/device/shared_memory.cuh"

namespace gputopk::cuda::delegate {
namespace {

template <class Bits, class Rows>
struct Params {
  Rows rows;
  int64_t part_cols;     // of a rectangle's row, a block's
  int64_t places;        // of a row in the outputs
  int room;              // candidates
  int prefetched_tiles;  // while the bound is found
  WinnerWriter<Bits> output;
};

// How the blocks of its cluster share a row.
struct Sharing {
  int blocks;  // that have a tile at least; the others end
  int64_t part_cols;
};

template <class Bits, class Rows>
__device__ Sharing sharing_of(const Params<Bits, Rows>& params, const Row<Bits>& row, int cluster_blocks) {
  if constexpr (!Rows::kWindows) return {cluster_blocks, params.part_cols};
  const int64_t tile = int64_t{blockDim.x} * kUnroll<Bits> * kPerVector<Bits>;
  const int64_t most = min(int64_t{cluster_blocks}, (row.cols + tile - 1) / tile);
  const int blocks = static_cast<int>(max(int64_t{1}, most));
  return {blocks, part_of_cluster(row.cols, blocks, sizeof(Bits))};
}

// Threads have twice the registers where they read ahead: an SM then has one block.
constexpr int most_threads(bool reads_ahead) {
  return reads_ahead ? tuning::kClusterAheadThreads : tuning::kClusterMaxThreads;
}

// A block puts at most kItems entries a thread in order: few of them are less code, and what a block runs but
// once waits for its code.
template <class Order, class Rows, int kItems, bool kAhead>
__global__ void __launch_bounds__(most_threads(kAhead))
    select_row(const __grid_constant__ Params<typename Order::Bits, Rows> params, Order order,
               int cluster_blocks) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  __shared__ Shared<Bits> shared;
  __shared__ TiedSortScratch<Bits> of_sort;
  const BlockMemory<Bits, Index> memory(dynamic_shared(), params.room);
  const int number = Cluster::rank();
  const int64_t row_number = Cluster::number();
  const Row<Bits> row = params.rows.of(row_number);
  const Sharing sharing = sharing_of(params, row, cluster_blocks);
  const int blocks = sharing.blocks;
  if (number >= blocks) return;  // barriers of a cluster are of those that are left
  const int64_t first = min(number * sharing.part_cols, row.cols);
  const Part<Bits> part{row.begin + first, min(sharing.part_cols, row.cols - first), first,
                        static_cast<Index>(row.cols - 1) - static_cast<Index>(first)};
  // Looked up again where it is needed: registers are few while the row is read.
  const auto output_of_row = [&] {
    const int64_t own = Cluster::number();
    return params.rows.writer(own, params.output.row(own, params.places));
  };
  const uint64_t k = static_cast<uint64_t>(row.k), room = static_cast<uint64_t>(params.room);

  // By position where all candidates win, and any order will do: they are listed whole, without a bound.
  bool by_position = false;
  int64_t count = row.cols;
  typename Rows::OfRow candidates{};
  Extended<Bits> bound{};  // that all elements reach
  if constexpr (Rows::kWindows) {
    candidates = {params.rows.rows.candidates.of(row_number)};
    count = params.rows.count_of(row_number, row);
    if (write_unselected(params.rows, row, part, number == 0, count, params.places, output_of_row())) return;
    by_position = params.rows.rows.any_order && row.k == count;
  }
  bool has_bound = false;
  if (!Rows::kWindows || !is_listed_whole(row, count, params.room)) {
    const SectorSample sample = params.rows.sample_of(row);
    has_bound =
        sample.vectors > 0 && find_bound_of_sample(row, sample, part, order, candidates,
                                                   params.prefetched_tiles, memory.counters, shared, bound);
  }
  if (Rows::kWindows && !has_bound && count > static_cast<int64_t>(room)) {
    bound = bound_of_row(row, part, ClusterSums{blocks}, order, candidates, count, params.room,
                         memory.counters, shared);
  }
  constexpr Reading kReading = kAhead ? Reading::kOnceAhead : Reading::kOnce;
  Listed listed{};
  for (;;) {
    listed = list_row<kReading>(part, bound, blocks, number, order, candidates,
                                static_cast<uint32_t>(params.room), memory, shared);
    if (listed.all >= k && listed.all <= room) break;
    bound = bound_of_row(row, part, ClusterSums{blocks}, order, candidates, count, params.room,
                         memory.counters, shared);
  }

  // Step 3.
  if (!bring_together(listed, shared.listed, blocks, number, memory, of_sort)) return;
  const auto output = output_of_row();
  sort_prepared<kItems>(
      static_cast<int>(listed.all), row.k, order, memory, of_sort,
      [&](int i, Bits& bits, Index& index) {
        bits = by_position ? Bits{} : memory.values[i];  // equals go by index
        index = memory.indices[i];
      },
      [&](int rank, Bits bits, Index index) {
        output.write(rank, by_position ? row.begin[index] : bits, index);
      },
      Ties<Word, Index>::at(bound, static_cast<Index>(row.cols - 1)));
}

template <int kItems, bool kAhead, class Order, class Rows>
ErrorCode launch(const OneCluster& config, const Problem& problem, const Buffers& buffers, const Rows& rows,
                 Order order, Stream stream) {
  using Bits = typename Order::Bits;
  Params<Bits, Rows> params{};
  params.rows = rows;
  params.part_cols = part_of_cluster(problem.cols, config.blocks, sizeof(Bits));
  params.places = problem.k;
  params.room = config.room;
  params.prefetched_tiles = config.prefetched_tiles;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};

  const size_t shared_bytes =
      static_cast<size_t>(block_bytes(BlockMemory<Bits, Index>::kEntryBytes, config.room, config.threads));
  static std::atomic<uint64_t> allowed, allowed_clusters;
  return launch_cluster_a_row(/*ahead=*/false, config, problem.rows, select_row<Order, Rows, kItems, kAhead>,
                              shared_bytes, allowed, allowed_clusters, stream, params, order);
}

// rows_of(config, order): the rows as kernels take them.
template <class RowsOf>
ErrorCode run_with(const OneCluster& config, const Problem& problem, const Buffers& buffers, Stream stream,
                   RowsOf&& rows_of) {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    return launch_with_room(config, [&](const OneCluster& fitting) {
      constexpr int kFew = tuning::kClusterFewItems;
      const auto rows = rows_of(fitting, order);
      const auto launch_of = [&](auto ahead) {
        constexpr bool kAhead = decltype(ahead)::value;
        return fitting.room <= kFew * fitting.threads
                   ? launch<kFew, kAhead>(fitting, problem, buffers, rows, order, stream)
                   : launch<tuning::kClusterItems, kAhead>(fitting, problem, buffers, rows, order, stream);
      };
      return fitting.reads_ahead ? launch_of(std::true_type{}) : launch_of(std::false_type{});
    });
  });
}

}  // namespace

ErrorCode OneCluster::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return run_with(*this, problem, buffers, stream, [&](const OneCluster& config, auto order) {
    using Bits = typename decltype(order)::Bits;
    return rectangle_of<Bits>(config, problem, buffers);
  });
}

ErrorCode OneCluster::run_windows(const Problem& problem, const WindowRows& rows, const Buffers& buffers,
                                  Stream stream) const {
  return run_with(*this, problem, buffers, stream, [&](const OneCluster& config, auto order) {
    using Bits = typename decltype(order)::Bits;
    return Ragged<Bits>{rows, static_cast<const Bits*>(buffers.input), config.vectors, config.neighbours};
  });
}

}  // namespace gputopk::cuda::delegate
