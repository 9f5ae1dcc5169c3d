// Reranking's plan: lists, or stored keys for a top-k.

#include <algorithm>

#include "cuda/device/split.h"
#include "cuda/rerank/numbers.h"
#include "cuda/rerank/rerank.h"

namespace gputopk::cuda::rerank {

Config plan(const RerankProblem& problem, const Device& device) {
  Config config{};
  const int64_t tiles = divide_up(problem.candidates, 32);
  const bool few_queries = problem.queries < device.sm_count;
  const bool fills_gpu = !few_queries || problem.candidates <= tuning::kRerankFewQueriesCandidates;
  if (problem.k <= tuning::kRerankMaxListK && fills_gpu) {
    config.list_items = problem.k <= 32 ? 1 : problem.k <= 128 ? 4 : 8;
    const int64_t tiles_per_warp = few_queries ? 1 : tuning::kRerankTilesPerWarp;
    config.warps =
        static_cast<int>(std::clamp<int64_t>(divide_up(tiles, tiles_per_warp), 1, tuning::kRerankMaxWarps));
    config.blocks_per_query = 1;
    return config;
  }
  config.list_items = 0;
  config.warps = static_cast<int>(std::min<int64_t>(tiles, tuning::kRerankMaxWarps));
  const int64_t resident = int64_t{device.sm_count} * tuning::kRerankStoringBlocksPerSm;
  config.blocks_per_query = std::min(divide_up(resident, problem.queries), divide_up(tiles, config.warps));
  return config;
}

}  // namespace gputopk::cuda::rerank
