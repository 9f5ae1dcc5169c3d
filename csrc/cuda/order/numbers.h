// Numbers of order_rows. Each with its reason, measured on one NVIDIA H200.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

// Up to this k one block sorts a row; beyond it, CUB's device sort.
inline constexpr int64_t kOrderBlockMaxK = 4096;
// Every winner is compared with every other of its row while that is a few microseconds of the GPU, and the
// rows are long enough to be worth more than a block.
inline constexpr int64_t kOrderRankMaxComparisons = 1 << 24;
inline constexpr int64_t kOrderRankMinK = 256;

}  // namespace gputopk::cuda::tuning
