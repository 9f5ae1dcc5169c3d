// Numbers of masks. Each with its reason, measured on one NVIDIA H200.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

inline constexpr int kMaskThreads = 256;
// Pieces in flight a thread: vectors of 16 bytes, or single elements where rows are not so aligned.
inline constexpr int kMaskVectors = 4;
inline constexpr int kMaskElements = 8;

// A block's part of a row that is filled: so many bytes, and what is listed is marked by the same block where
// reading the row's list takes no longer than filling.
inline constexpr int kFilledBytes = 16 * 1024;
inline constexpr int64_t kMarkedByAllK = kFilledBytes / 8;

}  // namespace gputopk::cuda::tuning
