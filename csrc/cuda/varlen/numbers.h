// Numbers of ragged top-k's steps. Not tuned.
#pragma once

namespace gputopk::cuda::tuning {

// Warps find bits on their own; eight loads of each of 2048 threads keep an SM's memory busy.
inline constexpr int kVarlenFindThreads = 256;
inline constexpr int kVarlenFindBlocksPerSm = 8;
// Of a block that moves a row's candidates together: a whole number of warps, 32 at most.
inline constexpr int kVarlenMoveThreads = 512;
inline constexpr int kVarlenFinishThreads = 256;
inline constexpr int kVarlenFinishBlocksPerSm = 8;

}  // namespace gputopk::cuda::tuning
