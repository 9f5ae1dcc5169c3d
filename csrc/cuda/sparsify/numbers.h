// Numbers of sparsification. None is measured yet: they are those of copies and reads elsewhere here.
#pragma once

namespace gputopk::cuda::tuning {

inline constexpr int kSparsifyThreads = 256;
// 16-byte loads of each tensor in flight a thread. As compiled for compute capability 9.0 that takes up to
// 126 registers, so two blocks fit an SM: 64 KB in flight there without momentum, about what the memory's
// latency asks for.
inline constexpr int kSparsifyInFlight = 4;
// Blocks an SM of a grid whose threads take several vectors one after the other.
inline constexpr int kSparsifyBlocksPerSm = 8;

// Elements of a row of which a block collects the winners: so many that their places, which one block a row
// finds, are few.
inline constexpr int64_t kCollectTile = 1 << 15;
// On an H200 collecting took 0.87 and 0.85 times as long as ordering where 10 % of 10^6 and 10^7 elements
// win, as long where 10 % of 10^5 or 1 % of 10^6 and 10^7 do, and longer where fewer do.
inline constexpr int64_t kCollectColsPerK = 32;
inline constexpr int64_t kCollectMinCols = 1 << 18;

}  // namespace gputopk::cuda::tuning
