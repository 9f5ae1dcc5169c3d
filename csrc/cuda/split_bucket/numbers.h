// Numbers of split-bucket top-k. Each with its reason.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

// 64 registers a thread: half of them hold the tile, and four blocks of 256 threads are in an SM, whose loads
// are twice what the memory's latency asks for.
inline constexpr int kSplitMostThreads = 512;
inline constexpr int kSplitThreadsPerSm = 1024;
inline constexpr int kSplitLeastThreads = 128;
inline constexpr int kSplitUsualThreads = 256;
// Tiles of entries are few, and the fewer the better: they have the most threads.
inline constexpr int kSplitEntryThreads = kSplitMostThreads;
// Elements of a row, a thread: 32 words.
constexpr int split_elements(int element_bytes) { return element_bytes == 8 ? 16 : 32; }
// Entries, which have an index beside the key.
constexpr int split_entries(int entry_bytes) { return entry_bytes == 16 ? 8 : 16; }

// Entries that a tile hands on at least: those of 2^20 elements then fit one tile of the next level. A larger
// part of a tile than this is handed on by none whose k leaves a choice of threads.
inline constexpr int kSplitLeastCutoff = 64;
inline constexpr int kSplitMostCutoff = 2048;
inline constexpr int kSplitTilePerCutoff = 32;

// Bins of a digit: eight for each entry that a small tile hands on.
inline constexpr int kSplitDigitBits = 9;

// The paper finds three nodes best (section 3.3.2). A sample for them, of a row and of a tile.
inline constexpr int kSplitNodes = 3;
inline constexpr int kSplitRowSample = 2048;
inline constexpr int kSplitTileSample = 128;
// A node is so many times as far down as the one before.
inline constexpr int kSplitNodeStep = 4;

}  // namespace gputopk::cuda::tuning
