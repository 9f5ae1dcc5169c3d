// Numbers of masks. Each with its reason, measured on one NVIDIA H200.
#pragma once

namespace gputopk::cuda::tuning {

inline constexpr int kMaskThreads = 256;
// Pieces in flight a thread: vectors of 16 bytes, or single elements where rows are not so aligned.
inline constexpr int kMaskVectors = 4;
inline constexpr int kMaskElements = 8;

}  // namespace gputopk::cuda::tuning
