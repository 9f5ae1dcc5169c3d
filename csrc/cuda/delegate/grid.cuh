// What the blocks of a row that run together, all over the GPU, tell each other of its digits.
#pragma once

#include <cstdint>

#include "cuda/delegate/numbers.h"
#include "cuda/device/row_barrier.cuh"

namespace gputopk::cuda::delegate {

inline constexpr int kGridBins = 1 << tuning::kClusterDigitBits;
using GridCounts = RowCounts<kGridBins>;
using GridSums = RowSums<kGridBins>;

}  // namespace gputopk::cuda::delegate
