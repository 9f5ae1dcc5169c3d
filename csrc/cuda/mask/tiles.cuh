// Tiles of rows, numbered row by row.
#pragma once

#include <cstdint>

namespace gputopk::cuda::mask {

// Most numbers are small, which a GPU divides in a third of the time; and rows of one tile need none.
__device__ inline int64_t row_of_tile(int64_t tile, int64_t tiles_per_row) {
  if (tiles_per_row == 1) return tile;
  const bool small = (tile | tiles_per_row) >> 32 == 0;
  return small ? static_cast<uint32_t>(tile) / static_cast<uint32_t>(tiles_per_row) : tile / tiles_per_row;
}

}  // namespace gputopk::cuda::mask
