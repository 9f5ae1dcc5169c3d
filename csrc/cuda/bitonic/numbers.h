// Numbers of bitonic top-k. Each with its reason.
#pragma once

namespace gputopk::cuda::tuning {

// ---- A row in a warp ----

// Small blocks: warps have nothing to do with each other, and a block's place is free again when its last
// warp is done.
inline constexpr int kOneWarpThreads = 128;
// Entries of a row's list, for each of its lanes: twice the most winners.
inline constexpr int kOneWarpListPerLane = 4;
inline constexpr int kOneWarpMostKPerLane = 2;

}  // namespace gputopk::cuda::tuning
