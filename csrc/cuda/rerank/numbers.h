// Numbers of reranking. Each with its reason, measured on one NVIDIA H200.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

// Vectors in flight a group of lanes: 4 KB a warp in 16-byte loads, so a few warps an SM cover the memory's
// latency, in 32 registers a thread.
inline constexpr int kRerankVectorsInFlight = 8;
// Blocks of the largest size that an SM holds: 128 registers a thread.
inline constexpr int kRerankResident = 2;
// The largest list that fits a warp's registers: 8 entries a lane.
inline constexpr int64_t kRerankMaxListK = 256;
// Warps of a block, at most. A warp has so many times 32 candidates: each warp's list fills anew and is
// merged with the others', so the fewer the warps the better, where queries alone fill the GPU.
inline constexpr int kRerankMaxWarps = 8;
inline constexpr int kRerankTilesPerWarp = 8;
// With fewer queries than SMs a block a query leaves SMs idle: with more candidates than this, many blocks
// share a query and its keys are stored, at the price of two or three launches.
inline constexpr int64_t kRerankFewQueriesCandidates = 1024;
// Blocks an SM when keys are stored.
inline constexpr int kRerankStoringBlocksPerSm = 4;

}  // namespace gputopk::cuda::tuning
