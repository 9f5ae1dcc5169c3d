// Numbers of ragged top-k's steps. Not tuned.
#pragma once

namespace gputopk::cuda::tuning {

// Warps find bits on their own: eight loads of each of 1536 threads keep an SM's memory busy. Each has so
// many chunks that its count of candidates costs little.
inline constexpr int kVarlenFindThreads = 256;
inline constexpr int kVarlenFindBlocksPerSm = 6;
inline constexpr int kVarlenFindChunks = 4;
// Of a block that moves a row's candidates together: a whole number of warps, 32 at most.
inline constexpr int kVarlenMoveThreads = 512;
inline constexpr int kVarlenFinishThreads = 256;
inline constexpr int kVarlenFinishBlocksPerSm = 8;

}  // namespace gputopk::cuda::tuning
