// The blocks of a row that run together, all over the GPU: which they are, and what they tell each other of
// its digits.
#pragma once

#include <cstdint>

#include "cuda/delegate/numbers.h"
#include "cuda/device/row_barrier.cuh"

namespace gputopk::cuda::delegate {

inline constexpr int kGridBins = 1 << tuning::kClusterDigitBits;
using GridCounts = RowCounts<kGridBins>;
using GridSums = RowSums<kGridBins>;

// Which row a block is of, and which of the row's blocks it is.
struct BlockOfRow {
  int64_t row;
  int number;

  __device__ static BlockOfRow own(int blocks_per_row) {
    const int block = static_cast<int>(blockIdx.x);
    // One row is the commonest, and a division takes as long as some loads.
    if (blocks_per_row == static_cast<int>(gridDim.x)) return {0, block};
    return {block / blocks_per_row, block % blocks_per_row};
  }
};

}  // namespace gputopk::cuda::delegate
