// Numbers of masks. Not tuned.
#pragma once

namespace gputopk::cuda::tuning {

inline constexpr int kMaskThreads = 256;
// Elements in flight a thread: 64 KB an SM of 4-byte elements, by 2048 threads.
inline constexpr int kMaskElements = 8;

}  // namespace gputopk::cuda::tuning
