// Numbers of reranking. Each with its reason, measured on one NVIDIA H200 but where it says that it is not.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

// The largest list that fits a warp's registers: 8 entries a lane.
inline constexpr int64_t kRerankMaxListK = 256;
// Warps of a block, at most, and of an SM: 128 registers a thread hold the sums, and 13 KB of shared memory a
// warp what is copied ahead of it, three steps of 4 KB. So 128 KB are on their way to an SM, twice what the
// memory's latency asks for. Of short rows there are more steps.
inline constexpr int kRerankMaxWarps = 16;
inline constexpr int kRerankAheadBytes = 13 * 1024;
inline constexpr int kRerankMostSteps = 6;
// Of so many bytes, where a tile takes tile_bytes, and there is one tile more than steps.
constexpr int rerank_steps(int step_bytes, int tile_bytes) {
  const int steps = (kRerankAheadBytes - tile_bytes) / (step_bytes + tile_bytes);
  return steps < kRerankMostSteps ? steps : kRerankMostSteps;
}
// A warp's share of the lists that are merged at the end.
inline constexpr int kRerankListBytes = 1024;
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
// Warps an SM, each with eight rows at once, from which on rows go by one piece at a time. With fewer, a step
// of eight rows would be of few that there are: not measured.
inline constexpr int64_t kRerankBusyWarpsPerSm = 8;
// Of queries that fill the GPU with a block each, keys are stored in place of lists from so many winners on.
// Of more queries they are for short rows, of 16-byte words or of others, where a list has more than an entry
// a lane, for the shortest of so many queries an SM, and for all that are not even of four bytes. 10,000 x
// 1000 x 32 int8, k = 64, takes 213 us for 339, k = 10 184 for 214, x 129 float16, k = 10, 1112 for 1199; but
// x 100 float16 612 for 557, x 129 float32 1856 for 1650, and 300 x 100, k = 100, 13 for 7: of fewer keys in
// all the launches are what takes long.
inline constexpr int64_t kRerankStoredK = 129;
inline constexpr int64_t kRerankStoredRowBytes = 256;
inline constexpr int64_t kRerankStoredOtherBytes = 512;
inline constexpr int64_t kRerankShortestBytes = 128;
inline constexpr int64_t kRerankStoredQueriesPerSm = 32;
inline constexpr int64_t kRerankStoredKeys = 1 << 18;
inline constexpr int64_t kRerankSmallestListK = 32;
// The block that finishes a query has its keys in shared memory; few threads would wait longer for each of
// its steps. Of more keys, or of queries that take more than one block an SM, a top-k of its own is as quick
// or quicker, by up to five times, though it takes two launches more.
inline constexpr int kRerankFinishMaxWarps = 32;
inline constexpr int64_t kRerankFinishKeysPerThread = 2;
inline constexpr int64_t kRerankMostFinished = 4096;
// A few winners are found by lists in so many warps.
inline constexpr int64_t kRerankListedWarps = 8;
// Winners that it puts in order, and entries beside them: up to 256 in all are ranked at once, and beyond
// that so few more are no work to speak of. Of what it puts in order, a thread has so many.
inline constexpr int64_t kRerankFinishSlack = 128;
inline constexpr int64_t kRerankFinishLeastRoom = 256;
inline constexpr int kRerankFinishItems = 5;
// Beside its dynamic shared memory.
inline constexpr int kRerankFinishStaticBytes = 4 * 1024;
// Digits of so many keys a bin leave that few.
inline constexpr int kRerankFinishMaxDigitBits = 11;

}  // namespace gputopk::cuda::tuning
