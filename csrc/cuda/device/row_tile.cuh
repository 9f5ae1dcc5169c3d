// Tiles of rows that lie side by side, which a cluster of blocks reads together, whole sectors of memory at a
// time, so that each block ends with rows of its own in its shared memory.
#pragma once

#include <cstdint>

#include "core/strided_problem.h"
#include "cuda/device/cluster.cuh"
#include "cuda/device/square_block.cuh"

namespace gputopk::cuda {

struct RowTiles {
  RowLayout layout;
  bool whole;         // lies_in_squares, and so do tiles
  int block_bits;     // of the number of a cluster's blocks
  int rows_of_block;  // a power of two; a block's are as many rows of the tile apart as there are blocks
  int cols;
  int pitch;  // of rows in shared memory, in elements: whole vectors

  __host__ __device__ int blocks() const { return 1 << block_bits; }
  __host__ __device__ int rows() const { return rows_of_block << block_bits; }
};

// Bytes that a thread has on their way.
inline constexpr int kTileBytesInFlight = 128;

// The rows from first_row on, `rows` of which there are, to `own` of the blocks that they belong to: that of
// number `block` takes part. By all threads of the cluster's blocks; none of them touches another's memory
// before or behind this.
template <class Bits>
__device__ __forceinline__ void gather_tile(const Bits* input, const RowTiles& tiles, int64_t first_row,
                                            int rows, int block, Bits* own) {
  using Square = SquareBlock<Bits>;
  constexpr int kSide = Square::kSide;
  constexpr int kSquares = kTileBytesInFlight / (kSide * kSide * static_cast<int>(sizeof(Bits)));
  const int threads = static_cast<int>(blockDim.x), thread = block * threads + static_cast<int>(threadIdx.x);
  // Lanes side by side read a column's squares, which lie in a sector, and then the next column's.
  const int across = (tiles.rows() + kSide - 1) / kSide;
  const int row = thread % across * kSide, step = (threads << tiles.block_bits) / across * kSide;
  int col = thread / across * kSide;
  const int64_t stride = tiles.layout.col_stride;
  const Bits* const first = input + tiles.layout.row(first_row + row);

  Cluster::arrive();
  bool waits = true;
  do {
    Square squares[kSquares];
#pragma unroll
    for (int s = 0; s < kSquares; ++s) {
      const int at = col + s * step;
      if (row < rows && at < tiles.cols) {
        squares[s] = tiles.whole ? Square(first + at * stride, stride, tiles.cols - at)
                                 : Square(input, tiles.layout, /*whole=*/false, first_row + row, rows - row,
                                          at, tiles.cols - at);
      }
    }
    if (waits) Cluster::wait();  // all blocks have begun, and have memory
    waits = false;
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      if (row + r >= rows) break;
      const int owner = (row + r) & (tiles.blocks() - 1), place = (row + r) >> tiles.block_bits;
      Bits* const to = Cluster::of_block(own, owner) + place * tiles.pitch;
#pragma unroll
      for (int s = 0; s < kSquares; ++s) {
        const int at = col + s * step;
        if (at < tiles.cols) *reinterpret_cast<typename Square::Words*>(to + at) = squares[s].row(r);
      }
    }
    col += kSquares * step;
  } while (col < tiles.cols);
  Cluster::arrive();
  Cluster::wait();  // all rows are whole
}

}  // namespace gputopk::cuda
