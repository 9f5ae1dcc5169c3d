// Delegate top-k with a bound from a sample, of rows whose elements the GPU's blocks share equally.
//
// As one_cluster.cu, where a row has as many blocks as any other, whatever its length: where one row is long
// and the others are short, most of the GPU waits for the blocks of the one. Here, in three launches,
//   1. A block a row finds the row's bound in a sample of it.
//   2. The elements of all rows, one row behind the other, are shared out to as many blocks as the GPU holds,
//      to each as many. A block lists what reaches the bound of the row at hand on chip, and adds that to the
//      row's list in memory.
//   3. A block a row, the first of a cluster, puts the list in order and writes the k best.
// So a row's bound and order, which take long however short the row is, wait for no other row's. A list of
// fewer than k entries, or of more than there is room for, is found out by counting: the cluster then finds
// a bound by AIR's digits, and lists the row anew. So the result is exact for every row.
//
// It loses to one_cluster.cu where rows are alike and clusters fill the GPU.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>

#include "core/key_order.h"
#include "core/visit_bits.h"
#include "cuda/delegate/delegate.h"
#include "cuda/delegate/numbers.h"
#include "cuda/delegate/sampled_row.cuh"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/launch.h"
#include "cuda/device/shared_memory.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda::delegate {
namespace {

// Shares are whole units of a row, the last of which may be short.
template <class Bits>
constexpr int64_t kUnit = tuning::kShareUnitBytes / static_cast<int64_t>(sizeof(Bits));

template <class Bits>
GPUTOPK_HOST_DEVICE int64_t units_of(int64_t cols) {
  return (cols + kUnit<Bits> - 1) / kUnit<Bits>;
}

// Candidates of all rows, in memory.
template <class Bits>
struct Lists {
  Extended<Bits>* bounds;  // rows
  uint32_t* counts;        // rows; of more than `room` the list is of no use
  Bits* values;            // rows x room
  Index* indices;          // the same

  void carve(Workspace& workspace, int64_t rows, int room) {
    bounds = workspace.take<Extended<Bits>>(rows);
    counts = workspace.take<uint32_t>(rows);
    values = workspace.take<Bits>(rows * room);
    indices = workspace.take<Index>(rows * room);
  }
};

template <class Bits, class Rows>
struct Params {
  Rows rows;
  int64_t row_count;
  int64_t places;        // of a row in the outputs
  int room;              // candidates of a row
  int prefetched_tiles;  // while bounds are found
  Lists<Bits> lists;
  WinnerWriter<Bits> output;
};

template <class Bits>
__device__ Part<Bits> part_of(const Row<Bits>& row, int64_t first, int64_t cols) {
  return {row.begin + first, cols, first, static_cast<Index>(row.cols - 1) - static_cast<Index>(first)};
}

// A row's candidates: which elements, how many, and whether they are selected from.
template <class Rows>
struct RowState {
  typename Rows::OfRow candidates{};
  int64_t count;
  bool is_selected = true;

  template <class Bits>
  __device__ RowState(const Rows& rows, int64_t number, const Row<Bits>& row) : count(row.cols) {
    if constexpr (Rows::kWindows) {
      candidates = {rows.rows.candidates.of(number)};
      count = rows.count_of(number, row);
      is_selected = rows.needs_selection(row, count);
    }
  }
};

// A bound that no element reaches, for rows that only step 3 can tell more of: no row has 2^32 elements.
template <class Bits>
__device__ Extended<Bits> beyond_all() {
  return {static_cast<typename KeyWord<Bits>::type>(-1), static_cast<Index>(-1)};
}

// Step 1.
template <class Order, class Rows>
__global__ void __launch_bounds__(tuning::kClusterMaxThreads)
    find_bounds(const __grid_constant__ Params<typename Order::Bits, Rows> params, Order order) {
  using Bits = typename Order::Bits;
  __shared__ Shared<Bits> shared;
  let_next_kernel_start();
  uint32_t* const counters = reinterpret_cast<uint32_t*>(dynamic_shared());
  const int64_t number = blockIdx.x;
  const Row<Bits> row = params.rows.of(number);
  const RowState<Rows> state(params.rows, number, row);
  const Part<Bits> whole = part_of(row, 0, row.cols);
  if (!state.is_selected) return;
  Extended<Bits> bound{};  // that all elements reach
  bool has_bound = false;
  if (!Rows::kWindows || !is_listed_whole(row, state.count, params.room)) {
    const SectorSample sample = params.rows.sample_of(row);
    has_bound = sample.vectors > 0 && find_bound_of_sample(row, sample, whole, order, state.candidates,
                                                           /*prefetched_tiles=*/0, counters, shared, bound);
  }
  if (Rows::kWindows && !has_bound && state.count > params.room) {
    bound = beyond_all<Bits>();
  }
  if (threadIdx.x == 0) {
    params.lists.bounds[number] = bound;
    params.lists.counts[number] = 0;
  }
}

// Where a block's share begins, and how many units it has.
struct Share {
  int64_t row;
  int64_t first;  // unit of that row
  int64_t units;
};

struct ShareSearch {
  int64_t warp_sums[32];
  int64_t row, first;
};

// The units of a row that are read.
template <class Bits, class Rows>
__device__ int64_t read_units(const Rows& rows, int64_t number) {
  const Row<Bits> row = rows.of(number);
  return RowState<Rows>(rows, number, row).is_selected ? units_of<Bits>(row.cols) : 0;
}

// Of so many units in all, the number of a block's first, and how many it has.
__device__ inline Share share_of_all(int64_t all) {
  const int64_t blocks = gridDim.x;
  const int64_t each = max(tuning::kShareLeastUnits, (all + blocks - 1) / blocks);
  const int64_t first = min(blockIdx.x * each, all);
  return {0, first, min(each, all - first)};
}

template <class Bits>
__device__ Share share_of(const Rectangle<Bits>& rows, int64_t row_count, ShareSearch&) {
  const int64_t units = units_of<Bits>(rows.row.cols);
  Share share = share_of_all(units * row_count);
  share.row = share.first / units;
  share.first %= units;
  return share;
}

// By all threads of a block, each of which looks at rows side by side.
template <class Bits>
__device__ Share share_of(const Ragged<Bits>& rows, int64_t row_count, ShareSearch& search) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int64_t rows_a_thread = (row_count + blockDim.x - 1) / blockDim.x;
  const int64_t begin = min(thread * rows_a_thread, row_count);
  const int64_t end = min(begin + rows_a_thread, row_count);
  int64_t own = 0;
  for (int64_t row = begin; row < end; ++row) own += read_units<Bits>(rows, row);
  int64_t through = own;  // the units up to this thread's last row
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int64_t other = __shfl_up_sync(~0u, through, step);
    if (lane >= step) through += other;
  }
  if (lane == 31) search.warp_sums[warp] = through;
  __syncthreads();
  int64_t all = 0;
  for (int w = 0; w < warps; ++w) {
    if (w < warp) through += search.warp_sums[w];
    all += search.warp_sums[w];
  }
  Share share = share_of_all(all);
  if (share.units == 0) return share;
  int64_t before = through - own;
  if (before <= share.first && share.first < through) {
    int64_t row = begin;
    for (; row + 1 < end; ++row) {
      const int64_t units = read_units<Bits>(rows, row);
      if (share.first < before + units) break;
      before += units;
    }
    search.row = row;
    search.first = share.first - before;
  }
  __syncthreads();
  share.row = search.row;
  share.first = search.first;
  return share;
}

// The first row from `row` on of which something is read: there is one. By whole warps.
template <class Bits>
__device__ int64_t next_read_row(const Rectangle<Bits>&, int64_t, int64_t row) {
  return row;
}
template <class Bits>
__device__ int64_t next_read_row(const Ragged<Bits>& rows, int64_t row_count, int64_t row) {
  for (;; row += 32) {
    const int64_t own = row + threadIdx.x % 32;
    const unsigned read = __ballot_sync(~0u, own < row_count && read_units<Bits>(rows, own) > 0);
    if (read != 0) return row + __ffs(static_cast<int>(read)) - 1;
  }
}

// Adds the block's list, which is whole, to the row's. By all threads of the block, with a barrier before the
// next call.
template <class Bits, class Rows>
__device__ void add_to_row(const Params<Bits, Rows>& params, int64_t number, const uint32_t& listed,
                           uint32_t& place, const BlockMemory<Bits, Index>& memory) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const uint32_t own = listed;
  if (thread == 0) place = own > 0 ? atomicAdd(params.lists.counts + number, own) : 0;
  __syncthreads();  // it has its place, and all have read how long it is
  const int64_t at = number * params.room + place, fitting = min(int64_t{own}, params.room - int64_t{place});
  for (int64_t i = thread; i < fitting; i += threads) {
    params.lists.values[at + i] = memory.values[i];
    params.lists.indices[at + i] = memory.indices[i];
  }
}

// Step 2.
template <class Order, class Rows>
__global__ void __launch_bounds__(tuning::kClusterMaxThreads)
    list_shares(const __grid_constant__ Params<typename Order::Bits, Rows> params, Order order) {
  using Bits = typename Order::Bits;
  __shared__ ShareSearch search;
  __shared__ uint32_t listed, place;
  let_next_kernel_start();
  const BlockMemory<Bits, Index> memory(dynamic_shared(), params.room);
  const Share share = share_of(params.rows, params.row_count, search);
  int64_t number = share.row, first = share.first * kUnit<Bits>, left = share.units;
  if (left > 0) {
    const Row<Bits> row = params.rows.of(number);
    prefetch_tiles(row.begin + first, min(row.cols - first, left * kUnit<Bits>), /*part=*/0, /*parts=*/1,
                   params.prefetched_tiles);
  }
  follow_kernel_before();
  while (left > 0) {
    const Row<Bits> row = params.rows.of(number);
    const RowState<Rows> state(params.rows, number, row);
    const Part<Bits> part = part_of(row, first, min(row.cols - first, left * kUnit<Bits>));
    const Extended<Bits> bound = params.lists.bounds[number];
    if (!Rows::kWindows || bound < beyond_all<Bits>()) {
      if (threadIdx.x == 0) listed = 0;
      __syncthreads();  // the count is zero, and nothing of the list's memory is in use
      list_part(part, bound, order, state.candidates, static_cast<uint32_t>(params.room), memory, listed);
      __syncthreads();  // the list is whole
      add_to_row(params, number, listed, place, memory);
    }
    first = 0;
    left -= units_of<Bits>(part.cols);
    if (left > 0) number = next_read_row(params.rows, params.row_count, number + 1);
  }
}

// Step 3, by the first block of each row's cluster; the others only help where a bound misled. A block puts
// at most kItems entries a thread in order: few of them are less code, and what a block runs but once waits
// for its code.
template <class Order, class Rows, int kItems>
__global__ void __launch_bounds__(tuning::kClusterMaxThreads)
    order_lists(const __grid_constant__ Params<typename Order::Bits, Rows> params, Order order,
                int cluster_blocks) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  __shared__ Shared<Bits> shared;
  __shared__ TiedSortScratch<Bits> of_sort;
  __shared__ uint32_t place;
  const BlockMemory<Bits, Index> memory(dynamic_shared(), params.room);
  const uint32_t room = static_cast<uint32_t>(params.room);
  const int64_t number = Cluster::number();
  const int number_in_cluster = Cluster::rank();
  const bool is_first = number_in_cluster == 0;
  const Row<Bits> row = params.rows.of(number);
  const RowState<Rows> state(params.rows, number, row);
  const auto output = params.rows.writer(number, params.output.row(number, params.places));
  const int64_t part_cols = part_of_cluster(row.cols, cluster_blocks, sizeof(Bits));
  const int64_t first = min(number_in_cluster * part_cols, row.cols);
  const Part<Bits> part = part_of(row, first, min(part_cols, row.cols - first));
  bool is_selected = true, by_position = false;  // where all candidates win, and any order will do
  if constexpr (Rows::kWindows) {
    is_selected = !write_unselected(params.rows, row, part, is_first, state.count, params.places, output);
    by_position = params.rows.rows.any_order && row.k == state.count;
  }
  follow_kernel_before();  // all wait: the launch behind may write to the lists once this kernel has ended
  if (!is_selected) return;
  uint32_t* const counts = params.lists.counts + number;
  Extended<Bits> bound = params.lists.bounds[number];
  uint32_t count = *counts;
  const bool is_misled = count < static_cast<uint32_t>(row.k) || count > room;
  if (!is_misled && !is_first) return;
  if (is_misled) {
    bound = bound_of_row(row, part, ClusterSums{cluster_blocks}, order, state.candidates, state.count,
                         params.room, memory.counters, shared);
    if (threadIdx.x == 0) shared.listed = 0;
    if (threadIdx.x == 0 && is_first) *counts = 0;
    Cluster::arrive();
    Cluster::wait();  // no block adds to a count that is yet to be zeroed
    list_part(part, bound, order, state.candidates, room, memory, shared.listed);
    __syncthreads();  // the list is whole
    add_to_row(params, number, shared.listed, place, memory);
    Cluster::arrive();
    Cluster::wait();  // the row's list is whole
    if (!is_first) return;
    count = __ldcg(counts);
  }
  const Bits* const values = params.lists.values + number * params.room;
  const Index* const indices = params.lists.indices + number * params.room;
  sort_in_block<kItems>(
      static_cast<int>(count), row.k, order, memory, of_sort,
      [&](int i, Bits& bits, Index& index) {
        bits = by_position ? Bits{} : values[i];  // equals go by index
        index = indices[i];
      },
      [&](int rank, Bits bits, Index index) {
        output.write(rank, by_position ? row.begin[index] : bits, index);
      },
      Ties<Word, Index>::at(bound, static_cast<Index>(row.cols - 1)));
}

template <int kItems, class Order, class Rows>
ErrorCode launch(const EqualShares& config, const Problem& problem, const Buffers& buffers, const Rows& rows,
                 Order order, Stream stream) {
  using Bits = typename Order::Bits;
  constexpr int kEntryBytes = BlockMemory<Bits, Index>::kEntryBytes;
  Params<Bits, Rows> params{};
  params.rows = rows;
  params.row_count = problem.rows;
  params.places = problem.k;
  params.room = config.room;
  params.prefetched_tiles = config.prefetched_tiles;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  Workspace workspace(buffers.workspace);
  params.lists.carve(workspace, problem.rows, config.room);

  constexpr int64_t kMostBlocksOfGrid = 0x7FFFFFFF;
  if (problem.rows > kMostBlocksOfGrid / config.order_blocks) return cudaErrorInvalidConfiguration;
  const unsigned row_blocks = static_cast<unsigned>(problem.rows);
  const unsigned threads = static_cast<unsigned>(config.threads);
  constexpr size_t kCounterBytes = sizeof(uint32_t) * kCountsOfBound<typename KeyWord<Bits>::type>;
  cudaError_t error = launch_kernel(/*ahead=*/false, find_bounds<Order, Rows>, row_blocks, threads,
                                    kCounterBytes, stream, params, order);
  if (error != cudaSuccess) return error;
  const size_t list_bytes = block_bytes(kEntryBytes, config.room, config.threads);
  static std::atomic<uint64_t> lists_allowed, order_allowed, clusters_allowed;
  error = allow_shared_memory(list_shares<Order, Rows>, list_bytes, lists_allowed);
  if (error != cudaSuccess) return error;
  error = launch_kernel(config.launches_ahead, list_shares<Order, Rows>, static_cast<unsigned>(config.blocks),
                        threads, list_bytes, stream, params, order);
  if (error != cudaSuccess) return error;
  const auto order_kernel = order_lists<Order, Rows, kItems>;
  const size_t order_bytes = block_bytes(kEntryBytes, config.room, config.order_threads);
  struct Clusters {
    int blocks, threads;  // of each, and of a block
  };
  return launch_with_room(Clusters{config.order_blocks, config.order_threads}, [&](const Clusters& clusters) {
    return launch_cluster_a_row(config.launches_ahead, clusters, problem.rows, order_kernel, order_bytes,
                                order_allowed, clusters_allowed, stream, params, order);
  });
}

// rows_of(order): the rows as kernels take them.
template <class RowsOf>
ErrorCode run_with(const EqualShares& config, const Problem& problem, const Buffers& buffers, Stream stream,
                   RowsOf&& rows_of) {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    constexpr int kFew = tuning::kClusterFewItems;
    const auto rows = rows_of(order);
    return config.room <= kFew * config.order_threads
               ? launch<kFew>(config, problem, buffers, rows, order, stream)
               : launch<tuning::kClusterItems>(config, problem, buffers, rows, order, stream);
  });
}

}  // namespace

size_t EqualShares::workspace_bytes(const Problem& problem) const {
  const auto bytes_of = [&](auto bits) {
    Workspace workspace;
    Lists<decltype(bits)>{}.carve(workspace, problem.rows, room);
    return workspace.bytes();
  };
  return visit_bits(dtype_bytes(problem.dtype), bytes_of);
}

ErrorCode EqualShares::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return run_with(*this, problem, buffers, stream, [&](auto order) {
    return rectangle_of<typename decltype(order)::Bits>(*this, problem, buffers);
  });
}

ErrorCode EqualShares::run_windows(const Problem& problem, const WindowRows& rows, const Buffers& buffers,
                                   Stream stream) const {
  return run_with(*this, problem, buffers, stream, [&](auto order) {
    using Bits = typename decltype(order)::Bits;
    return Ragged<Bits>{rows, static_cast<const Bits*>(buffers.input), vectors, neighbours};
  });
}

}  // namespace gputopk::cuda::delegate
