// Moves rows from one layout to another. Those that lie side by side are turned in squares, which threads
// hold in registers: 16 bytes at a time are read along the rows and written along the columns. Any others go
// by way of shared memory, a tile at a time: memory is read along the rows or the columns, whichever lie side
// by side there, and written along those that do so in their new place.

#include <algorithm>

#include "core/visit_bits.h"
#include "cuda/device/launch.h"
#include "cuda/device/split.h"
#include "cuda/device/square_block.cuh"
#include "cuda/strided/numbers.h"
#include "cuda/strided/strided.h"

namespace gputopk::cuda::strided {
namespace {

constexpr int kThreads = tuning::kMoveThreads;

// How a tile's elements are numbered.
struct Tile {
  int row_bits, col_bits;  // of the numbers of its rows and columns
  int64_t tiles_of_rows;

  __host__ __device__ int rows() const { return 1 << row_bits; }
  __host__ __device__ int cols() const { return 1 << col_bits; }
};

// From one place to another: rows [first, first + rows) where numbers are a layout's.
struct Walk {
  RowLayout layout;
  int64_t first_row;
  bool along_rows;  // adjacent rows lie side by side, not adjacent columns
};

struct Params {
  Tile tile;
  Walk from, to;
  int64_t rows;
  int64_t cols;
};

// Elements that a tile of so many may take in shared memory. Both ways of walking it go from bank to bank:
// a column's elements are side by side, and a row's an odd number apart.
constexpr int tile_room(int elements) { return elements + elements / 4; }
__device__ int tile_place(const Tile& tile, int row, int col) { return col * (tile.rows() | 1) + row; }

// A thread's elements of the tile, several in flight: store(row, col, load(row, col)) of those that there
// are.
template <int kInFlight, class Load, class Store>
__device__ __forceinline__ void walk_tile(const Tile& tile, bool along_rows, int rows, int cols, Load&& load,
                                          Store&& store) {
  const int fast_bits = along_rows ? tile.row_bits : tile.col_bits;
  const int elements = 1 << (tile.row_bits + tile.col_bits), mask = (1 << fast_bits) - 1;
  for (int first = static_cast<int>(threadIdx.x); first < elements; first += kInFlight * kThreads) {
    decltype(load(0, 0)) loaded[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = first + i * kThreads, fast = at & mask, slow = at >> fast_bits;
      const int row = along_rows ? fast : slow, col = along_rows ? slow : fast;
      if (row < rows && col < cols) loaded[i] = load(row, col);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = first + i * kThreads, fast = at & mask, slow = at >> fast_bits;
      const int row = along_rows ? fast : slow, col = along_rows ? slow : fast;
      if (row < rows && col < cols) store(row, col, loaded[i]);
    }
  }
}

// Where the rows of this block's tile begin.
struct RowPlaces {
  int64_t from[tuning::kMoveMostRows];
  int64_t to[tuning::kMoveMostRows];
};

// By all threads, a barrier before `places` and `shared` are used otherwise.
template <class Bits>
__device__ void move_tile(const Params& params, const RowPlaces& places, const Bits* from, Bits* to, int rows,
                          int64_t first_col, Bits* shared) {
  const Tile& tile = params.tile;
  const int cols = static_cast<int>(min(params.cols - first_col, static_cast<int64_t>(tile.cols())));
  const int64_t from_step = params.from.layout.col_stride, to_step = params.to.layout.col_stride;
  from += first_col * from_step;
  to += first_col * to_step;
  walk_tile<8>(
      tile, params.from.along_rows, rows, cols,
      [&](int row, int col) { return from[places.from[row] + col * from_step]; },
      [&](int row, int col, Bits bits) { shared[tile_place(tile, row, col)] = bits; });
  __syncthreads();  // the tile is there
  walk_tile<4>(
      tile, params.to.along_rows, rows, cols,
      [&](int row, int col) { return shared[tile_place(tile, row, col)]; },
      [&](int row, int col, Bits bits) { to[places.to[row] + col * to_step] = bits; });
}

// This block's tile: finds the places of its rows, and returns how many there are.
__device__ int find_rows(const Params& params, RowPlaces& places, int64_t& first_col) {
  const Tile& tile = params.tile;
  const int64_t first_row = blockIdx.x % tile.tiles_of_rows << tile.row_bits;
  first_col = blockIdx.x / tile.tiles_of_rows << tile.col_bits;
  const int rows = static_cast<int>(min(params.rows - first_row, static_cast<int64_t>(tile.rows())));
  for (int row = static_cast<int>(threadIdx.x); row < rows; row += kThreads) {
    places.from[row] = params.from.layout.row(params.from.first_row + first_row + row);
    places.to[row] = params.to.layout.row(params.to.first_row + first_row + row);
  }
  __syncthreads();  // all places are there
  return rows;
}

template <class Bits>
__global__ void __launch_bounds__(kThreads) move_rows(Params params, const Bits* from, Bits* to) {
  __shared__ RowPlaces places;
  __shared__ Bits shared[tile_room(tuning::move_tile(sizeof(Bits)))];
  follow_kernel_before();
  int64_t first_col;
  const int rows = find_rows(params, places, first_col);
  move_tile(params, places, from, to, rows, first_col, shared);
}

struct TurnParams {
  RowLayout layout;
  bool whole;  // lies_in_squares
  int64_t first_row;
  int64_t rows;
  int64_t cols;
  int64_t pitch;
  int row_bits;           // of the number of a warp's lanes that have rows of their own
  int64_t tiles_of_rows;  // a tile is a block's
};

// A warp has as many rows as lie side by side in a line of memory, or as there are; a block's warps have
// columns side by side, and then some that follow.
template <class Bits>
__global__ void __launch_bounds__(kThreads) turn_rows(TurnParams params, const Bits* from, Bits* to) {
  using Square = SquareBlock<Bits>;
  constexpr int kSide = Square::kSide;
  follow_kernel_before();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row_lane = lane & ((1 << params.row_bits) - 1), col_lane = lane >> params.row_bits;
  const int warp_cols = kSide * (32 >> params.row_bits);
  const int64_t row = ((blockIdx.x % params.tiles_of_rows << params.row_bits) + row_lane) * kSide;
  int64_t col = blockIdx.x / params.tiles_of_rows * (tuning::kTurnSquares * (kThreads / 32) * warp_cols) +
                warp * warp_cols + col_lane * kSide;
  if (row >= params.rows) return;
  const int rows = static_cast<int>(min(params.rows - row, int64_t{kSide}));
#pragma unroll 1
  for (int i = 0; i < tuning::kTurnSquares; ++i) {
    if (col >= params.cols) return;
    const int cols = static_cast<int>(min(params.cols - col, int64_t{kSide}));
    const Square square(from, params.layout, params.whole, params.first_row + row, rows, col, cols);
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      if (r >= rows) break;
      *reinterpret_cast<typename Square::Words*>(to + (row + r) * params.pitch + col) = square.row(r);
    }
    col += kThreads / 32 * warp_cols;
  }
}

template <class Bits, class Index>
struct Winners {
  Bits* values;
  Index* indices;
};

template <class Bits, class Index>
__global__ void __launch_bounds__(kThreads)
    move_winners(Params params, Winners<const Bits, const Index> from, Winners<Bits, Index> to) {
  constexpr int kElements = tuning::move_tile(8);
  __shared__ RowPlaces places;
  __shared__ Bits values[tile_room(kElements)];
  __shared__ Index indices[tile_room(kElements)];
  follow_kernel_before();
  int64_t first_col;
  const int rows = find_rows(params, places, first_col);
  move_tile(params, places, from.values, to.values, rows, first_col, values);
  move_tile(params, places, from.indices, to.indices, rows, first_col, indices);
}

// Tiles of up to so many elements: as many rows as lie side by side, up to a line of memory, or more where
// columns are few.
Params params_of(int64_t rows, int64_t cols, const Walk& from, const Walk& to, int elements) {
  const auto bits_for = [](int64_t count) { return bit_width(static_cast<uint64_t>(count - 1)); };
  const int bits = bits_for(elements), most_row_bits = bits_for(tuning::kMoveMostRows);
  const int64_t side_by_side =
      std::max(from.along_rows ? from.layout.inner : 1, to.along_rows ? to.layout.inner : 1);
  Params params{};
  params.from = from;
  params.to = to;
  params.rows = rows;
  params.cols = cols;
  const int64_t line = std::min<int64_t>(side_by_side, tuning::kMoveLineRows);
  const int row_bits = bits_for(std::min(line, rows));
  params.tile.col_bits = std::min(bits_for(cols), bits - row_bits);
  params.tile.row_bits = std::min({bits - params.tile.col_bits, most_row_bits, bits_for(rows)});
  // Of two rows a tile would need more room: (rows | 1) * cols <= tile_room
  if (params.tile.row_bits == 1 && params.tile.col_bits == bits - 1) params.tile.col_bits = bits - 2;
  params.tile.tiles_of_rows = divide_up(rows, params.tile.rows());
  return params;
}

int64_t blocks_of(const Params& params) {
  return params.tile.tiles_of_rows * divide_up(params.cols, params.tile.cols());
}

Walk walk_of(const RowLayout& layout, int64_t first_row) {
  return {layout, first_row, layout.inner > 1 && layout.inner_stride < layout.col_stride};
}

RowLayout dense_rows(int64_t stride) { return {1, stride, 0, 1}; }

}  // namespace

ErrorCode gather(const StridedProblem& strided, const Panels& panels, int64_t first, int64_t rows,
                 const void* input, void* panel, Stream stream) {
  const Problem& problem = strided.problem;
  const int bytes = dtype_bytes(problem.dtype);
  if (strided.input.inner_stride == 1 && strided.input.inner >= square_side(bytes)) {
    const int side = square_side(bytes);
    TurnParams params{};
    params.layout = strided.input;
    params.whole = lies_in_squares(strided.input, input, bytes);
    params.first_row = first;
    params.rows = rows;
    params.cols = problem.cols;
    params.pitch = panels.pitch;
    const int64_t wanted = std::min({strided.input.inner, rows, int64_t{tuning::kMoveLineRows}});
    params.row_bits = std::min(5, bit_width(static_cast<uint64_t>(divide_up(wanted, side) - 1)));
    params.tiles_of_rows = divide_up(rows, int64_t{side} << params.row_bits);
    const int64_t block_cols = int64_t{tuning::kTurnSquares} * kThreads * side >> params.row_bits;
    const int64_t blocks = params.tiles_of_rows * divide_up(problem.cols, block_cols);
    if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
    return visit_bits(bytes, [&](auto bits) -> ErrorCode {
      using Bits = decltype(bits);
      return launch_kernel(/*ahead=*/true, turn_rows<Bits>, static_cast<unsigned>(blocks), kThreads, 0,
                           stream, params, static_cast<const Bits*>(input), static_cast<Bits*>(panel));
    });
  }
  const Params params = params_of(rows, problem.cols, walk_of(strided.input, first),
                                  walk_of(dense_rows(panels.pitch), 0), tuning::move_tile(bytes));
  const int64_t blocks = blocks_of(params);
  if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
  return visit_bits(bytes, [&](auto bits) -> ErrorCode {
    using Bits = decltype(bits);
    return launch_kernel(/*ahead=*/true, move_rows<Bits>, static_cast<unsigned>(blocks), kThreads, 0, stream,
                         params, static_cast<const Bits*>(input), static_cast<Bits*>(panel));
  });
}

ErrorCode scatter(const StridedProblem& strided, int64_t first, int64_t rows, int64_t first_winner,
                  const Buffers& winners, const Buffers& outputs, Stream stream) {
  const Problem& problem = strided.problem;
  const int64_t count = problem.k - first_winner, skipped = first_winner * strided.outputs.col_stride;
  const int elements =
      rows * count <= tuning::kMoveFewElements ? tuning::kMoveSmallTile : tuning::move_tile(8);
  const Params params =
      params_of(rows, count, walk_of(dense_rows(problem.k), 0), walk_of(strided.outputs, first), elements);
  const int64_t blocks = blocks_of(params);
  if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
  return visit_bits(dtype_bytes(problem.dtype), [&](auto bits) {
    return visit_bits(problem.wide_indices ? 8 : 4, [&](auto index) -> ErrorCode {
      using Bits = decltype(bits);
      using Index = decltype(index);
      if constexpr (sizeof(Index) < 4) {
        return cudaErrorInvalidValue;  // never: indices have 4 or 8 bytes
      } else {
        const Winners<const Bits, const Index> from{
            static_cast<const Bits*>(winners.values) + first_winner,
            static_cast<const Index*>(winners.indices) + first_winner};
        const Winners<Bits, Index> to{static_cast<Bits*>(outputs.values) + skipped,
                                      static_cast<Index*>(outputs.indices) + skipped};
        return launch_kernel(/*ahead=*/true, move_winners<Bits, Index>, static_cast<unsigned>(blocks),
                             kThreads, 0, stream, params, from, to);
      }
    });
  });
}

}  // namespace gputopk::cuda::strided
