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
};

Config plan(const RerankProblem& problem, const Device& device);

// The whole work, in one launch. Needs no workspace. config.list_items > 0.
ErrorCode select(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                 Stream stream);

// Otherwise: the distances as queries x candidates keys, for a selection of the largest...
ErrorCode score(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                uint32_t* keys, Stream stream);

// ...and the outputs from that selection's queries x k keys and positions, in order.
ErrorCode look_up(const RerankProblem& problem, const uint32_t* keys, const int32_t* positions,
                  const RerankBuffers& buffers, Stream stream);

}  // namespace gputopk::cuda::rerank
