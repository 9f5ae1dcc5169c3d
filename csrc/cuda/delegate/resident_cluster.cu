// Delegate top-k of rows that one cluster of blocks keeps in registers: one read, one launch, and winners in
// order.
//
//   1. The blocks load the row, each its share. Elements fall into groups, one to eight a thread, whose
//   maxima
//      are their delegates: each warp of the cluster sorts its own, and with W warps, ceil(k / W) of each
//      reach the least of all warps' delegates of that rank. So that many a warp make k that reach it.
//   2. Each block lists what reaches that bound.
//   3. The lists are brought together in the first block, which puts them in order and writes the k best.
// Lines of memory go to the cluster's warps in turn, so that each has some of what lies side by side, and
// rows in order have no worse a bound than others.
//
// Where more reach the bound than there is room for, which is known by counting, the bound is found by AIR's
// digits from the row itself, as in one_cluster.cu, and what reaches that is listed. So the result is exact
// for every row.

#include <cuda_runtime_api.h>

#include <atomic>

#include "core/key_order.h"
#include "cuda/delegate/cluster_lists.cuh"
#include "cuda/delegate/delegate.h"
#include "cuda/delegate/numbers.h"
#include "cuda/device/block_sort.cuh"
#include "cuda/device/cluster.cuh"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/launch.h"
#include "cuda/device/maxima_bound.cuh"
#include "cuda/device/row_numbers.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/winner_writer.cuh"

namespace gputopk::cuda::delegate {
namespace {

constexpr int kMostWarps = tuning::kClusterMaxThreads / 32;

template <class Bits>
struct Params {
  Row<Bits> row;  // the first
  int64_t row_stride;
  int maxima;
  int rank;
  int room;  // candidates
  WinnerWriter<Bits> output;
};

template <class Order>
struct Bounds {
  using Bound = WarpBound<typename Numbers<Order>::Number>;
  Bound of_warps[kMostWarps];
  Bound of_blocks[tuning::kClusterMostBlocks];  // written by each block of the cluster
};

// Steps 1 and 2: lists what reaches the bound of this block's share, as far as there is room. False: the row
// has no such bound. The first barrier of the cluster has been arrived at.
template <class Order, int kElements>
__device__ __forceinline__ bool list_share(const Params<typename Order::Bits>& params,
                                           const Row<typename Order::Bits>& row, int number,
                                           const Order& order,
                                           const BlockMemory<typename Order::Bits, Index>& memory,
                                           Bounds<Order>& bounds, Shared<typename Order::Bits>& shared) {
  using Bits = typename Order::Bits;
  using Compared = Numbers<Order>;
  using Share = RowNumbers<Order, kElements>;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32, warp = thread / 32, warps = threads / 32;
  const Compared numbers(order);
  constexpr int kOfLine = 8;
  const int line = (lane / kOfLine * warps + warp) * row.blocks + number;
  const Share own(row.begin, static_cast<int>(row.cols), line * kOfLine + lane % kOfLine,
                  threads * row.blocks, numbers);
  const auto of_warp = bound_of_warp<Compared>(own.number, params.maxima, params.rank);
  if (lane == 0) bounds.of_warps[warp] = of_warp;
  if (thread == 0) shared.listed = 0;
  __syncthreads();  // all warps have a bound
  Cluster::wait();  // all blocks have begun
  if (warp == 0) {
    const auto of_block = bound_of_all<Compared>(bounds.of_warps, warps);
    if (lane < row.blocks) Cluster::of_block(bounds.of_blocks, lane)[number] = of_block;
  }
  Cluster::arrive();
  Cluster::wait();  // all blocks have told their bound
  const auto bound = bound_of_all<Compared>(bounds.of_blocks, row.blocks).bound;
  if (!numbers.is_bound(bound)) return false;
  list_elements(choose<kElements>([&](int i) { return Compared::reaches(own.number[i], bound); }),
                static_cast<uint32_t>(params.room), memory.indices, shared.listed,
                [&](int i) { return own.index(i); });
  __syncthreads();  // the list is whole
  const int listed = min(static_cast<int>(shared.listed), params.room);
  for (int i = thread; i < listed; i += threads) memory.values[i] = row.begin[memory.indices[i]];
  return true;
}

template <class Order, int kElements, int kItems>
__global__ void __launch_bounds__(tuning::kClusterMaxThreads)
    select_resident_row(const __grid_constant__ Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  __shared__ Shared<Bits> shared;
  __shared__ Bounds<Order> bounds;
  Cluster::arrive();  // no block writes to another that has yet to begin
  const BlockMemory<Bits, Index> memory(dynamic_shared(), params.room);
  Row<Bits> row = params.row;
  const int number = static_cast<int>(blockIdx.x % static_cast<unsigned>(row.blocks));
  const int64_t row_number = blockIdx.x / static_cast<unsigned>(row.blocks);
  row.begin += row_number * params.row_stride;
  const WinnerWriter<Bits> output = params.output.row(row_number, row.k);
  const uint64_t k = static_cast<uint64_t>(row.k), room = static_cast<uint64_t>(params.room);
  const int64_t places = int64_t{kElements} * blockDim.x * row.blocks;

  Listed listed{};
  if (RowNumbers<Order, kElements>::shift_of(row.begin) + row.cols > places) {
    Cluster::wait();  // all blocks have begun
  } else if (list_share<Order, kElements>(params, row, number, order, memory, bounds, shared)) {
    listed = count_lists(row.blocks, number, shared);
  }
  if (listed.all < k || listed.all > room) {
    Cluster::arrive();
    Cluster::wait();  // all know it, before a count is reset
    const int64_t first = min(number * row.part_cols, row.cols);
    const Part<Bits> part{row.begin + first, min(row.part_cols, row.cols - first), first,
                          static_cast<Index>(row.cols - 1) - static_cast<Index>(first)};
    const Extended<Bits> bound =
        bound_of_row(row, part, order, AllCandidates{}, row.cols, params.room, memory.counters, shared);
    __syncthreads();  // nothing of the list's memory is in use
    if (threadIdx.x == 0) shared.listed = 0;
    __syncthreads();  // the count is zero
    list_part(part, bound, order, AllCandidates{}, static_cast<uint32_t>(params.room), memory, shared.listed);
    listed = count_lists(row.blocks, number, shared);
  }

  // Step 3.
  if (!gather_lists(row.blocks, number, listed, memory, shared)) return;
  sort_in_block<kItems>(
      static_cast<int>(listed.all), order, memory, shared.sort,
      [&](int i, Bits& bits, Index& index) {
        bits = memory.values[i];
        index = memory.indices[i];
      },
      [&](int rank, Bits bits, Index index) {
        if (rank < row.k) output.write(rank, bits, index);
      });
}

template <int kElements, int kItems, class Order>
ErrorCode launch(const ResidentCluster& config, const Problem& problem, const Buffers& buffers, Order order,
                 Stream stream) {
  using Bits = typename Order::Bits;
  Params<Bits> params{};
  params.row.begin = static_cast<const Bits*>(buffers.input);
  params.row.cols = problem.cols;
  params.row.part_cols = part_of_cluster(problem.cols, config.blocks, sizeof(Bits));
  params.row.k = static_cast<int>(problem.k);
  params.row.blocks = config.blocks;
  params.row.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
  params.row_stride = problem.row_stride;
  params.maxima = config.maxima;
  params.rank = config.rank;
  params.room = config.room;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};

  constexpr int64_t kMostBlocksOfGrid = 0x7FFFFFFF;
  if (problem.rows > kMostBlocksOfGrid / config.blocks) return cudaErrorInvalidConfiguration;
  const unsigned blocks = static_cast<unsigned>(problem.rows * config.blocks);
  const size_t shared_bytes =
      static_cast<size_t>(block_bytes(BlockMemory<Bits, Index>::kEntryBytes, config.room, config.threads));
  const auto kernel = select_resident_row<Order, kElements, kItems>;
  static std::atomic<uint64_t> allowed, allowed_clusters;
  cudaError_t error = allow_shared_memory(kernel, shared_bytes, allowed);
  if (error != cudaSuccess) return error;
  if (config.blocks == 1) {
    return launch_kernel(/*ahead=*/false, kernel, blocks, static_cast<unsigned>(config.threads), shared_bytes,
                         stream, params, order);
  }
  error = allow_large_clusters(kernel, allowed_clusters);
  if (error != cudaSuccess) return error;
  return launch_clusters(static_cast<unsigned>(config.blocks), kernel, blocks,
                         static_cast<unsigned>(config.threads), shared_bytes, stream, params, order);
}

}  // namespace

ErrorCode ResidentCluster::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    constexpr int kElements =
        decltype(order)::kBits == 64 ? tuning::kResidentWideElements : tuning::kResidentElements;
    // A smaller cluster does not hold the row, but finds its bound in memory.
    return launch_with_room(*this, [&](const ResidentCluster& config) {
      constexpr int kFew = tuning::kClusterFewItems;
      return config.room <= kFew * config.threads
                 ? launch<kElements, kFew>(config, problem, buffers, order, stream)
                 : launch<kElements, tuning::kClusterItems>(config, problem, buffers, order, stream);
    });
  });
}

}  // namespace gputopk::cuda::delegate
