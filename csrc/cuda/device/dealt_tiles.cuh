// The last tiles of a long row, dealt to its blocks as they are done with others.
#pragma once

#include <cstdint>

#include "cuda/device/row_reader.cuh"

namespace gputopk::cuda {

// The `wanted` of a reader that reads all tiles. Memory serves some SMs sooner than others: where each of a
// row's blocks has as many tiles, they end up to 6 % apart, and memory is idle meanwhile. So the blocks take
// the last tiles in turn, as they come to them.
struct DealtTiles {
  // Of a block.
  struct Turn {
    int64_t first;        // tile that is dealt
    uint32_t tickets[2];  // in turn: which tile from there on
  };

  Turn* turn;       // in shared memory
  uint32_t* taken;  // tickets of the row; zero at first

  // Where one in `share` tiles is dealt, or, that being 0, none.
  template <class Bits>
  __device__ static Turn turn_of(const Bits* row, int64_t cols, int parts, int share) {
    const int64_t tile_vectors = int64_t{blockDim.x} * kUnroll<Bits>;
    const int64_t tiles = (RowShape<Bits>(row, cols).vectors + tile_vectors - 1) / tile_vectors;
    return {share == 0 ? tiles : (tiles - tiles / share) / parts * parts, {}};
  }
};

template <>
inline constexpr bool kDealsTiles<DealtTiles> = true;

// By all threads of a block together, once the tiles of its own are done.
template <>
class TileWalk<DealtTiles> {
 public:
  __device__ TileWalk(int64_t tiles, int part, int parts, DealtTiles dealt)
      : tiles_(tiles), parts_(parts), next_(part), dealt_(dealt) {}

  __device__ bool next(int64_t& tile) {
    if (next_ < dealt_.turn->first) {
      tile = next_;
      next_ += parts_;
      return true;
    }
    if (dealt_.turn->first >= tiles_) return false;
    if (threadIdx.x == 0) {
      if (turns_ == 0) ticket_ = atomicAdd(dealt_.taken, 1u);
      dealt_.turn->tickets[turns_ % 2] = ticket_;
    }
    __syncthreads();  // the ticket is there, and that of the turn before has been read
    tile = dealt_.turn->first + dealt_.turn->tickets[turns_ % 2];
    ++turns_;
    if (tile >= tiles_) return false;
    if (threadIdx.x == 0) ticket_ = atomicAdd(dealt_.taken, 1u);  // while the tile is read
    return true;
  }

 private:
  int64_t tiles_;
  int parts_;
  int64_t next_;
  DealtTiles dealt_;
  uint32_t turns_ = 0, ticket_ = 0;
};

}  // namespace gputopk::cuda
