// Reranking's plan: lists, or stored keys for a top-k.

#include <algorithm>

#include "cuda/device/split.h"
#include "cuda/rerank/numbers.h"
#include "cuda/rerank/rerank.h"

namespace gputopk::cuda::rerank {

bool reads_queries(const RerankProblem& problem) {
  return problem.query_dtype == DType::kFloat32 || problem.query_dtype == problem.dtype;
}

Config plan(const RerankProblem& problem, const Device& device, int64_t most_stored_bytes) {
  Config config{};
  const int64_t row_bytes = problem.candidates * static_cast<int64_t>(sizeof(uint32_t));
  const int64_t most_queries = std::max<int64_t>(1, most_stored_bytes / row_bytes);
  // Of rows between offsets only the sum of their lengths is known here: rows are as long as all of it where
  // keys are stored, so that is to be one slice; otherwise the mean says how much work there is.
  const bool ragged = problem.listed > 0;
  const int64_t candidates = ragged ? divide_up(problem.listed, problem.queries) : problem.candidates;
  const int64_t tiles = divide_up(candidates, 32);
  const bool few_queries = problem.queries < device.sm_count;
  const bool fills_gpu = !few_queries || candidates <= tuning::kRerankFewQueriesCandidates ||
                         (ragged && problem.queries > most_queries);
  config.slice = problem.queries;
  if (problem.k <= tuning::kRerankMaxListK && fills_gpu) {
    config.list_items = problem.k <= 32 ? 1 : problem.k <= 128 ? 4 : 8;
    const int64_t tiles_per_warp = few_queries ? 1 : tuning::kRerankTilesPerWarp;
    config.warps =
        static_cast<int>(std::clamp<int64_t>(divide_up(tiles, tiles_per_warp), 1, tuning::kRerankMaxWarps));
    config.blocks_per_query = 1;
    return config;
  }
  // As many slices as it takes, all of a size but that the last begins early enough to be as long.
  config.slice = divide_up(problem.queries, divide_up(problem.queries, most_queries));
  config.list_items = 0;
  config.warps = static_cast<int>(std::min<int64_t>(tiles, tuning::kRerankMaxWarps));
  const int64_t resident = int64_t{device.sm_count} * tuning::kRerankStoringBlocksPerSm;
  config.blocks_per_query = std::min(divide_up(resident, config.slice), divide_up(tiles, config.warps));
  return config;
}

}  // namespace gputopk::cuda::rerank
