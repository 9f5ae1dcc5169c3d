// Bitonic top-k of short rows that do not lie side by side, as those of a dimension other than the last: a
// tile of them in shared memory, of which a warp has a row at a time as one_warp.cu has it.

#include <atomic>

#include "cuda/bitonic/one_warp.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/square_block.cuh"

namespace gputopk::cuda::bitonic {
namespace {

template <class Bits>
struct TileParams : Params<Bits> {
  RowLayout rows_in, rows_out;
  bool whole;    // lies_in_squares
  int row_bits;  // of a tile's rows
  int pitch;     // of its rows, in elements
};

// By all threads: the tile's rows from memory, to rows of adjacent elements. Lanes side by side have squares
// of a row side by side: those of eight of them then lie in different banks, as `pitch` is an odd number of
// vectors.
template <class Bits>
__device__ __forceinline__ void load_tile(const TileParams<Bits>& params, int64_t first_row, int rows,
                                          Bits* tile) {
  using Square = SquareBlock<Bits>;
  constexpr int kSide = Square::kSide;
  const int side_bits = bit_width(kSide) - 1;
  const int col_bits = 5 - (params.row_bits - side_bits);  // of the number of lanes along a row
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row = (lane >> col_bits) << side_bits;
  if (row >= rows) return;
  const int step = (tuning::kOneWarpThreads / 32) << (col_bits + side_bits);
  // A square at a time: two on their way take registers for which fewer blocks would have room.
#pragma unroll 1
  for (int col = ((warp << col_bits) + (lane & ((1 << col_bits) - 1))) << side_bits; col < params.cols;
       col += step) {
    const Square square(params.input, params.rows_in, params.whole, first_row + row, rows - row, col,
                        params.cols - col);
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      *reinterpret_cast<typename Square::Words*>(tile + (row + r) * params.pitch + col) = square.row(r);
    }
  }
}

template <class Order, int kLanes, int kElements>
__global__ void __launch_bounds__(tuning::kOneWarpThreads,
                                  tuning::one_warp_blocks(sizeof(typename Order::Bits), kElements))
    select_tiles(TileParams<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Share = RowNumbers<Order, kElements>;
  constexpr int kTeams = tuning::kOneWarpThreads / kLanes;
  __shared__ List<Bits, kLanes> lists[kTeams];

  const int k = params.k;
  Bits* const tile = reinterpret_cast<Bits*>(dynamic_shared());
  // Winners of the tile, rank by rank: their indices.
  uint16_t* const winners = reinterpret_cast<uint16_t*>(tile + (params.pitch << params.row_bits));
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) << params.row_bits;
  const int rows = static_cast<int>(min(params.rows - first_row, int64_t{1} << params.row_bits));
  load_tile(params, first_row, rows, tile);
  __syncthreads();  // the tile is there

  const int team = static_cast<int>(threadIdx.x / kLanes);
  // All teams of a warp take as many turns: those without a row do another's work again.
  for (int first = 0; first < rows; first += kTeams) {
    const int row = min(first + team, rows - 1);
    const Bits* const input = tile + row * params.pitch;
    const Share share(input, params.cols, Team<kLanes>::member(), kLanes, Numbers<Order>(order));
    select_row<kLanes>(input, params.cols, order, share, kAllPresent, params.maxima, k, lists[team],
                       first + team < rows, [&](int rank, Bits, uint32_t index) {
                         winners[(rank << params.row_bits) + row] = static_cast<uint16_t>(index);
                       });
    __syncwarp();  // the list has been read
  }
  __syncthreads();  // all winners are there

  const int own = static_cast<int>(threadIdx.x);
  const auto write = [&](int row, int rank, int64_t place) {
    const int index = winners[(rank << params.row_bits) + row];
    params.output.write(place, tile[row * params.pitch + index], index);
  };
  if (params.rows_out.is_plain()) {
    for (int i = own; i < rows * k; i += tuning::kOneWarpThreads) write(i / k, i % k, first_row * k + i);
    return;
  }
  // Along the rows, which lie side by side in the outputs.
  const int row = own & ((1 << params.row_bits) - 1);
  if (row >= rows) return;
  const int64_t place = params.rows_out.row(first_row + row);
  for (int rank = own >> params.row_bits; rank < k; rank += tuning::kOneWarpThreads >> params.row_bits) {
    write(row, rank, place + rank * params.rows_out.col_stride);
  }
}

}  // namespace

ErrorCode OneWarp::run_strided(const StridedProblem& strided, const Buffers& buffers, Stream stream) const {
  const Problem& problem = strided.problem;
  return visit_shape(*this, problem, [&](auto lanes, auto elements, auto order) -> ErrorCode {
    using Bits = typename decltype(order)::Bits;
    TileParams<Bits> params{};
    static_cast<Params<Bits>&>(params) = params_of<Bits>(*this, problem, buffers);
    params.rows_in = strided.input;
    params.rows_out = strided.outputs;
    params.whole = lies_in_squares(strided.input, buffers.input, sizeof(Bits));
    params.row_bits = tile_row_bits;
    const int vectors = (params.cols + kPerVector<Bits> - 1) / kPerVector<Bits>;
    params.pitch = (vectors | 1) * kPerVector<Bits>;
    const int64_t blocks = (problem.rows + (1 << params.row_bits) - 1) >> params.row_bits;
    if (blocks > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
    const size_t shared = (static_cast<size_t>(params.pitch) * sizeof(Bits) + problem.k * sizeof(uint16_t))
                          << params.row_bits;
    const auto kernel = select_tiles<decltype(order), lanes, elements>;
    static std::atomic<uint64_t> allowed{0};
    const cudaError_t error = allow_shared_memory(kernel, shared, allowed);
    if (error != cudaSuccess) return error;
    return launch_kernel(/*ahead=*/false, kernel, static_cast<unsigned>(blocks), tuning::kOneWarpThreads,
                         shared, stream, params, order);
  });
}

}  // namespace gputopk::cuda::bitonic
