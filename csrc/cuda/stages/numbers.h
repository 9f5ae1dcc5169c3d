// Numbers of selection by several keys. Not tuned.
#pragma once

namespace gputopk::cuda::tuning {

inline constexpr int kSettleThreads = 128;
// Winners of a row that a block puts in order: 76 KB of four keys, indices and places.
inline constexpr int kJoinMostOrdered = 2048;
inline constexpr int kJoinMostThreads = 512;

}  // namespace gputopk::cuda::tuning
