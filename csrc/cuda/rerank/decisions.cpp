// Reranking's plan: lists, or stored keys and who selects from them; and how the work is dealt out.

#include <algorithm>

#include "cuda/device/split.h"
#include "cuda/rerank/numbers.h"
#include "cuda/rerank/rerank.h"

namespace gputopk::cuda::rerank {
namespace {

// A request in the numbers that decide.
struct Work {
  int64_t queries;
  int64_t candidates;  // of a query: the mean of rows between offsets, of which only the sum is known
  int64_t row_bytes;
  int64_t resident_warps;  // of the GPU
  int64_t sm_count;
  bool whole_words;  // rows are made of 16-byte words, if the tensors begin with one
  int64_t batch;     // rows that a warp has in flight: see row_layout.cuh

  Work(const RerankProblem& problem, const Device& device)
      : queries(problem.queries),
        candidates(problem.listed > 0 ? divide_up(problem.listed, problem.queries) : problem.candidates),
        row_bytes(problem.dims * dtype_bytes(problem.dtype)),
        resident_warps(int64_t{device.sm_count} * tuning::kRerankMaxWarps),
        sm_count(device.sm_count),
        whole_words(row_bytes % 16 == 0 && problem.vector_stride * dtype_bytes(problem.dtype) % 16 == 0) {
    const bool shares_warp =
        whole_words ? row_bytes <= 256 : dtype_bytes(problem.dtype) < 4 && row_bytes % 4 == 0;
    batch = shares_warp ? 16 : 8;
  }
};

int tile_of(const Work& work, int64_t batch, int64_t warps) {
  int64_t tile = 32;
  const auto is_uneven = [&] {
    const int64_t tiles = divide_up(work.candidates, tile);
    return tiles % warps != 0 && tiles < tuning::kRerankTilesPerWarp * warps;
  };
  while (tile > batch && is_uneven()) tile /= 2;
  return static_cast<int>(tile);
}

int list_items(int64_t k) { return k <= 32 ? 1 : k <= 128 ? 4 : 8; }

// Warps of a query's one block: those that end first, in waves over the GPU.
int64_t list_warps(const Work& work) {
  const int64_t tiles = divide_up(work.candidates, 32);
  const int64_t few =
      std::clamp<int64_t>(divide_up(tiles, tuning::kRerankTilesPerWarp), 1, tuning::kRerankManyQueriesWarps);
  if (work.queries >= tuning::kRerankManyQueries * work.sm_count &&
      work.queries * few >= work.resident_warps) {
    return few;
  }
  const int64_t most = std::max<int64_t>(1, divide_up(work.candidates, work.batch));
  int64_t best = 1, least = INT64_MAX;
  for (const int64_t blocks : {16, 8, 5, 4, 3, 2, 1}) {  // of an SM
    const int64_t warps = std::min(tuning::kRerankMaxWarps / blocks, most);
    const int64_t waves = divide_up(work.queries, blocks * work.sm_count);
    const int64_t cost = waves * (divide_up(most, warps) + tuning::kRerankListTurns);
    if (cost < least) {
      least = cost;
      best = warps;
    }
  }
  return best;
}

// Blocks and warps that share a query where queries are fewer than SMs: those that end first.
void share_queries(const Work& work, Config& config) {
  config.row_at_a_time =
      work.whole_words && work.row_bytes > 512 &&
      work.queries * divide_up(work.candidates, 8) < tuning::kRerankBusyWarpsPerSm * work.sm_count;
  const int64_t batch = config.row_at_a_time ? 1 : work.batch;
  const int64_t turns = std::max<int64_t>(1, divide_up(work.candidates, batch));
  int64_t least = INT64_MAX;
  for (int64_t waves = 1; waves <= tuning::kRerankMostWaves; ++waves) {
    const int64_t most = std::max<int64_t>(1, waves * work.sm_count / work.queries);
    const int64_t warps = std::min<int64_t>(divide_up(turns, most), tuning::kRerankMaxWarps);
    const int64_t blocks = std::min(most, divide_up(turns, warps));
    const int64_t cost = waves * (divide_up(turns, warps * blocks) + 1);
    if (cost >= least) continue;
    least = cost;
    config.warps = static_cast<int>(warps);
    config.blocks_per_query = blocks;
  }
  config.tile = tile_of(work, batch, config.warps * config.blocks_per_query);
}

}  // namespace

bool reads_queries(const RerankProblem& problem) {
  return problem.query_dtype == DType::kFloat32 || problem.query_dtype == problem.dtype;
}

Config plan(const RerankProblem& problem, const Device& device, int64_t most_stored_bytes) {
  const Work work(problem, device);
  const int64_t row_bytes = problem.candidates * static_cast<int64_t>(sizeof(uint32_t));
  const int64_t most_queries = std::max<int64_t>(1, most_stored_bytes / row_bytes);
  const bool has_lists = problem.k <= tuning::kRerankMaxListK;
  const bool few_queries = work.queries < work.sm_count;
  // Rows between offsets are as long as all of them where keys are stored, so that is to be one slice.
  const bool fills_gpu =
      !few_queries || work.candidates * work.row_bytes <= tuning::kRerankOneBlockBytes ||
      (2 * work.queries >= work.sm_count && work.candidates <= tuning::kRerankFewQueriesCandidates) ||
      (problem.listed > 0 && work.queries > most_queries);
  Config config{};
  config.slice = problem.queries;
  config.list_items = has_lists ? list_items(problem.k) : 0;
  config.blocks_per_query = 1;
  if (has_lists && fills_gpu) {
    config.way = Way::kLists;
    config.warps = static_cast<int>(list_warps(work));
    config.tile = tile_of(work, work.batch, config.warps);
    return config;
  }
  const int64_t most_finished = has_lists ? tuning::kRerankMostFinished : tuning::kRerankMostSorted;
  if (few_queries && problem.candidates <= most_finished && work.queries <= most_queries) {
    config.way = Way::kFinish;
    share_queries(work, config);
    const int64_t warps = has_lists ? divide_up(work.candidates, 32 * tuning::kRerankFinishTilesPerWarp)
                                    : divide_up(sorted_entries(problem.candidates), 8 * 32);
    config.finish_warps = static_cast<int>(std::clamp<int64_t>(
        warps, 1, has_lists ? tuning::kRerankFinishMaxWarps : tuning::kRerankSortMaxWarps));
    return config;
  }
  config.way = Way::kTopK;
  config.list_items = 0;
  // As many slices as it takes, all of a size but that the last begins early enough to be as long.
  config.slice = divide_up(problem.queries, divide_up(problem.queries, most_queries));
  const int64_t tiles = std::max<int64_t>(1, divide_up(work.candidates, 32));
  config.warps = static_cast<int>(std::min<int64_t>(tiles, tuning::kRerankManyQueriesWarps));
  const int64_t resident = int64_t{device.sm_count} * tuning::kRerankStoringBlocksPerSm;
  config.blocks_per_query = std::min(divide_up(resident, config.slice), divide_up(tiles, config.warps));
  config.tile = 32;
  return config;
}

}  // namespace gputopk::cuda::rerank
