// AIR top-k of rows that lie side by side: one read, one launch, and winners in order where they belong. A
// cluster of blocks reads a tile of rows in whole sectors of memory (device/row_tile.cuh), and each block
// selects from its own, in shared memory, as resident_selection.cuh has it.

#include <cuda_runtime_api.h>

#include <atomic>

#include "core/key_order.h"
#include "cuda/air/air.h"
#include "cuda/air/numbers.h"
#include "cuda/air/resident_selection.cuh"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/launch.h"
#include "cuda/device/row_tile.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/winner_writer.cuh"

namespace gputopk::cuda::air {
namespace {

template <class Bits>
struct Params : ResidentParams {
  const Bits* input;
  RowTiles tiles;
  int64_t rows;
  RowLayout rows_out;
  WinnerWriter<Bits> output;
};

template <class Bits>
struct WriteApart {
  const Bits* input;
  int k;
  int64_t step;
  WinnerWriter<Bits> output;

  __device__ __forceinline__ void operator()(int rank, Index index) const {
    if (rank < k) output.write(rank * step, input[index], index);
  }
};

template <class Order, int kElements>
__global__ void __launch_bounds__(tuning::kAirResidentMaxThreads, tuning::kAirResidentBlocks)
    select_resident_tile(const __grid_constant__ Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  __shared__ Shared<Order> shared;
  const RowTiles& tiles = params.tiles;
  Bits* const own = reinterpret_cast<Bits*>(dynamic_shared());
  const int block = static_cast<int>(blockIdx.x) & (tiles.blocks() - 1);
  const int64_t first_row = static_cast<int64_t>(blockIdx.x >> tiles.block_bits) * tiles.rows();
  const int rows = static_cast<int>(min(params.rows - first_row, static_cast<int64_t>(tiles.rows())));
  gather_tile(params.input, tiles, first_row, rows, block, own);

  const BlockMemory<Bits, Index> memory =
      memory_of<Bits>(reinterpret_cast<unsigned char*>(own + tiles.rows_of_block * tiles.pitch), params.room);
#pragma unroll 1
  for (int row = block; row < rows; row += tiles.blocks()) {
    const Bits* const input = own + (row >> tiles.block_bits) * tiles.pitch;
    const int64_t place = params.rows_out.row(first_row + row);
    const WriteApart<Bits> write{input, params.k, params.rows_out.col_stride, params.output.row(place, 1)};
    select_in_block<kElements>(params, input, order, memory, shared, write);
    // As a loop it would keep in registers what its turns have in common.
    if constexpr (tuning::air_tile_rows_of_block(sizeof(Bits)) == 1) return;
    __syncthreads();  // nothing of the row's memory is in use
  }
}

template <class Order, int kElements>
cudaError_t launch(const ResidentTile& config, const StridedProblem& strided, const Buffers& buffers,
                   Order order, cudaStream_t stream) {
  using Bits = typename Order::Bits;
  const Problem& problem = strided.problem;
  Params<Bits> params{};
  static_cast<ResidentParams&>(params) = ResidentParams::of(config.row, problem);
  params.input = static_cast<const Bits*>(buffers.input);
  params.rows = problem.rows;
  params.rows_out = strided.outputs;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  RowTiles& tiles = params.tiles;
  tiles.layout = strided.input;
  tiles.whole = lies_in_squares(strided.input, buffers.input, sizeof(Bits)) &&
                config.rows_of_tile() % square_side(sizeof(Bits)) == 0;
  while (tiles.blocks() < config.blocks) ++tiles.block_bits;
  tiles.rows_of_block = config.rows_of_block;
  tiles.cols = params.cols;
  tiles.pitch = (params.cols + kPerVector<Bits> - 1) / kPerVector<Bits> * kPerVector<Bits>;

  const int64_t blocks = (problem.rows + tiles.rows() - 1) / tiles.rows() * config.blocks;
  if (blocks > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
  const size_t bytes =
      sizeof(Bits) * tiles.rows_of_block * tiles.pitch + static_cast<size_t>(config.row.list_bytes(problem));
  static std::atomic<uint64_t> allowed{0};
  const auto kernel = select_resident_tile<Order, kElements>;
  const cudaError_t error = allow_shared_memory(kernel, bytes, allowed);
  if (error != cudaSuccess) return error;
  const unsigned threads = static_cast<unsigned>(config.row.threads);
  if (config.blocks == 1) {
    return launch_kernel(/*ahead=*/false, kernel, static_cast<unsigned>(blocks), threads, bytes, stream,
                         params, order);
  }
  return launch_clusters(static_cast<unsigned>(config.blocks), kernel, static_cast<unsigned>(blocks), threads,
                         bytes, stream, params, order);
}

}  // namespace

ErrorCode ResidentTile::run(const StridedProblem& strided, const Buffers& buffers, Stream stream) const {
  const Problem& problem = strided.problem;
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Order = decltype(order);
    return launch_with_room(*this, [&](const ResidentTile& fitting) -> ErrorCode {
      if constexpr (Order::kBits < 64) {
        if (row.elements == 32) return launch<Order, 32>(fitting, strided, buffers, order, stream);
      }
      return launch<Order, 16>(fitting, strided, buffers, order, stream);
    });
  });
}

}  // namespace gputopk::cuda::air
