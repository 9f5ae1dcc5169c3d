// Numbers of ragged top-k's steps. Not tuned: no GPU has timed them yet.
#pragma once

namespace gputopk::cuda::tuning {

// Of a block that moves a row's candidates together: a whole number of warps, 32 at most.
inline constexpr int kVarlenMoveThreads = 512;
inline constexpr int kVarlenFinishThreads = 256;
inline constexpr int kVarlenFinishBlocksPerSm = 8;

}  // namespace gputopk::cuda::tuning
