// Numbers of sparsification. Those without a measurement are of copies and reads elsewhere here.
#pragma once

#include <cstdint>

#include "cuda/device/numbers.h"

namespace gputopk::cuda::tuning {

inline constexpr int kSparsifyThreads = 256;
// 16-byte loads of each tensor in flight a thread. As compiled for compute capability 9.0 that takes up to
// 126 registers, so two blocks fit an SM: 64 KB in flight there without momentum, about what the memory's
// latency asks for.
inline constexpr int kSparsifyInFlight = 4;
// Blocks an SM of a grid whose threads take several vectors one after the other.
inline constexpr int kSparsifyBlocksPerSm = 8;

// ---- One read ----

// One block of 512 threads an SM, with 128 registers a thread: with 64, two blocks took 1.6 times as long.
// 16-byte loads of each tensor in flight a thread, beside which the last ones are looked at.
inline constexpr int kStoreBlocksPerSm = 1;
constexpr int store_in_flight(bool momentum) { return momentum ? 2 : 4; }

// Elements whose candidates are stored together, by a warp: powers of two, the one that leaves the fewest
// warps without work at the end, no less than a warp has in flight, and no more than 16 warps' shared memory
// has room for; each costs as much beside as so many elements.
inline constexpr int kLeastChunk = 512;
constexpr int least_chunk(int element_bytes) { return element_bytes == 2 ? 2 * kLeastChunk : kLeastChunk; }
constexpr int most_chunk(int element_bytes) { return element_bytes == 8 ? 1024 : 2048; }
inline constexpr int kChunkOverhead = 64;
// Shared memory of the block beside: counts, and the kernel's own variables.
inline constexpr int kBesideChunksBytes = 12 * 1024;
// Two bounds from so many winners on, each of which then is no access to memory of its own, where they leave
// such a share of them above the upper one. A warp writes out those between them from so many on.
inline constexpr int64_t kTwoSidedMinK = 1 << 18;
inline constexpr double kTwoSidedLeastSure = 0.5;
inline constexpr int kBetweenStaged = 64;
// Warps of a block that writes a span's winners, and the most spans of a row: each adds up what all before it
// have, 8 KB at most.
inline constexpr int kSpanWarps = 8;
inline constexpr int64_t kMostSpans = 2048;
// From so many columns on: on an H200 rows of 200,000 took as long as step by step where 0.01 % win, and 0.6
// to 0.9 times as long where more do; shorter rows lose to it.
inline constexpr int64_t kOneReadMinCols = 1 << 18;
// And up to one winner of so many: of more, the store of candidates is a good part of the row.
inline constexpr int64_t kOneReadMinColsPerK = 8;

// ---- Resident ----

// 16-byte loads of each tensor in flight a thread.
constexpr int held_in_flight(bool momentum) { return momentum ? 1 : 2; }
// What is decided is stored before the bound is known where, of so many vectors, no more than one has a
// chosen element, so that most lines are: half a line written, and half later, takes longer than one after
// the other.
inline constexpr int64_t kHeldUndecided = 4 * kHeldVectorsOfLine;

}  // namespace gputopk::cuda::tuning
