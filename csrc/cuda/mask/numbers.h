// Numbers of masks. Each with its reason, measured on one NVIDIA H200.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

inline constexpr int kMaskThreads = 256;
inline constexpr int kMaskBlocksPerSm = 4;  // of five, registers are spilled
// Pieces in flight a thread: vectors of 16 bytes, or single elements where rows are not so aligned.
inline constexpr int kMaskVectors = 4;
inline constexpr int kMaskElements = 8;
// Tiles of a group, where as many blocks are left as an H200 holds: what a row costs beside its elements is
// then shared by as many.
inline constexpr int kMaskTiles = 4;
inline constexpr int64_t kMaskLeastBlocks = 528;

// Places of a row that a block fills; and winners up to which each such block looks through the row's list,
// so many a thread: to read one takes as long as to fill some.
inline constexpr int kFilledPlaces = 16 * 1024;
inline constexpr int kListedPerThread = 8;
inline constexpr int64_t kMarkedByAllK = kListedPerThread * kMaskThreads;

}  // namespace gputopk::cuda::tuning
