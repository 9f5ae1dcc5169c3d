// Numbers of reranking. Each with its reason, measured on one NVIDIA H200 but where it says that it is not.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

// The largest list that fits a warp's registers: 8 entries a lane.
inline constexpr int64_t kRerankMaxListK = 256;
// Warps of a block, at most, and of an SM: 128 registers a thread hold eight vectors in flight, 4 KB a warp,
// and the sums. Few of them cover the memory's latency.
inline constexpr int kRerankMaxWarps = 16;
// A warp has so many times 32 candidates where queries alone fill the GPU, and a block then no more warps
// than this: each warp's list fills anew and is merged with the others', so the fewer the better.
inline constexpr int kRerankTilesPerWarp = 8;
inline constexpr int kRerankManyQueriesWarps = 8;
// From so many times as many queries as SMs on they do, at half of the warps above.
inline constexpr int64_t kRerankManyQueries = 4;
// What filling and merging lists adds to a block's work, in turns of its warps: some 1 us. Not measured.
inline constexpr int64_t kRerankListTurns = 2;
// A query of fewer bytes is one block's, whatever the number of queries: all of it is in flight at once
// there.
inline constexpr int64_t kRerankOneBlockBytes = 16 * 4096;
// Queries for more than half of the SMs have a block each for so many candidates at most: beyond, the SMs
// left idle cost more than a second launch.
inline constexpr int64_t kRerankFewQueriesCandidates = 1024;
// Warps an SM, each with eight rows at once, from which on rows go by one piece at a time. With fewer, a
// row's pieces would be waited for one after the other, while most of the SM's registers hold nothing: not
// measured.
inline constexpr int64_t kRerankBusyWarpsPerSm = 8;
// Blocks that share a query make so many waves at most: more would be no more even.
inline constexpr int64_t kRerankMostWaves = 4;
// Blocks an SM where a top-k follows and queries are many.
inline constexpr int kRerankStoringBlocksPerSm = 4;

// The block that finishes a query has 64 registers a thread, and 4 tiles a warp: then half of them have a
// threshold to go by. Not measured.
inline constexpr int kRerankFinishMaxWarps = 32;
inline constexpr int64_t kRerankFinishTilesPerWarp = 4;
// Keys of a query that one block goes through in less time, some 5 us, than a top-k takes with its launches,
// 12 us. Not measured.
inline constexpr int64_t kRerankMostFinished = 128 * 1024;
// Keys of a query that are sorted in shared memory: 34 KB with the padding.
inline constexpr int64_t kRerankMostSorted = 4096;
inline constexpr int kRerankSortMaxWarps = 16;

}  // namespace gputopk::cuda::tuning
