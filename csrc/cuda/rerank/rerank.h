// Reranking: the distances of each query's candidates and the best k of them, with no distance stored where
// the k best fit a warp's registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rerank_problem.h"
#include "cuda/gpu.h"
#include "cuda/stream.h"

namespace gputopk::cuda::rerank {

struct Config {
  int list_items;  // entries a lane of the lists, 32 of them k at least; 0: distances are stored as keys
  int warps;       // of a block
  int64_t blocks_per_query;  // 1 with lists
  int64_t slice;             // queries whose keys are stored at a time; with lists all
};

// Keys stored at a time, in bytes: queries are taken in slices of no more, or one by one.
inline constexpr int64_t kMostStoredBytes = int64_t{256} << 20;

Config plan(const RerankProblem& problem, const Device& device, int64_t most_stored_bytes);

// Whether kernels read the queries as they are: float32, or of the vectors' own type.
bool reads_queries(const RerankProblem& problem);

// The whole work, in one launch. Needs no workspace. config.list_items > 0.
ErrorCode select(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                 Stream stream);

// Otherwise, a slice of config.slice queries after another: the distances as queries x candidates keys, for a
// selection of the largest...
ErrorCode score(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                uint32_t* keys, Stream stream);

// ...and the outputs from that selection's queries x k keys and positions, in order.
ErrorCode look_up(const RerankProblem& problem, const uint32_t* keys, const int32_t* positions,
                  const RerankBuffers& buffers, Stream stream);

}  // namespace gputopk::cuda::rerank
