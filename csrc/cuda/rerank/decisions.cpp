// Reranking's plan: lists, or stored keys and who selects from them; and how the work is dealt out.

#include <algorithm>

#include "cuda/device/block_sort.h"
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
  int64_t stride_bytes;
  int64_t sm_count;
  int64_t most_warps;  // of an SM
  bool whole_words;    // rows are made of 16-byte words, if the tensors begin with one
  bool words_of_four;  // likewise
  int64_t batch;       // rows that a warp has in flight: see row_layout.cuh

  Work(const RerankProblem& problem, const Device& device)
      : queries(problem.queries),
        candidates(problem.listed > 0 ? divide_up(problem.listed, problem.queries) : problem.candidates),
        row_bytes(problem.dims * dtype_bytes(problem.dtype)),
        stride_bytes(problem.vector_stride * dtype_bytes(problem.dtype)),
        sm_count(device.sm_count),
        whole_words(row_bytes % 16 == 0 && stride_bytes % 16 == 0),
        words_of_four(row_bytes % 4 == 0 && stride_bytes % 4 == 0) {
    // Only whole words are copied ahead.
    const int64_t warp_bytes = tuning::kRerankListBytes + (whole_words ? tuning::kRerankAheadBytes : 0);
    most_warps = std::clamp<int64_t>((device.shared_bytes_per_block - tuning::kRerankListBytes) / warp_bytes,
                                     1, tuning::kRerankMaxWarps);
    const bool has_two_sums = !whole_words && words_of_four && dtype_bytes(problem.dtype) > 1;
    batch = row_bytes <= 128 && words_of_four ? 32 : row_bytes <= 256 || has_two_sums ? 16 : 8;
  }
};

// Candidates that a warp takes at a time, such that warps have as many of them.
int tile_of(const Work& work, int64_t batch, int64_t warps) {
  int64_t tile = 32;
  const auto is_uneven = [&] {
    const int64_t tiles = divide_up(work.candidates, tile);
    return tiles % warps != 0 && tiles < tuning::kRerankTilesPerWarp * warps;
  };
  while (tile > batch && is_uneven()) tile /= 2;
  return static_cast<int>(tile);
}

int list_items(int64_t k) { return k <= tuning::kRerankSmallestListK ? 1 : k <= 128 ? 4 : 8; }

// Whether keys are stored though lists would hold the winners. Not of rows whose lengths only the device
// knows: they would be stored as if each were as long as any may be.
bool prefers_keys(const RerankProblem& problem, const Work& work) {
  if (problem.ragged || work.queries < work.sm_count) return false;
  if (problem.k >= tuning::kRerankStoredK) return true;
  if (work.queries == work.sm_count || work.queries * work.candidates < tuning::kRerankStoredKeys)
    return false;
  const int64_t short_bytes =
      work.whole_words ? tuning::kRerankStoredRowBytes : tuning::kRerankStoredOtherBytes;
  if (work.row_bytes >= short_bytes) return false;
  return !work.words_of_four || problem.k > tuning::kRerankSmallestListK ||
         (work.row_bytes <= tuning::kRerankShortestBytes &&
          work.queries >= tuning::kRerankStoredQueriesPerSm * work.sm_count);
}

// Blocks of so many warps with lists that an SM has shared memory for.
int64_t blocks_of_sm(const Work& work, const Device& device, int64_t warps, int64_t k) {
  constexpr int64_t kReserved = 1024;  // of each
  const int64_t list_bytes = 32 * list_items(k) * static_cast<int64_t>(sizeof(uint64_t));
  const int64_t bytes =
      (work.whole_words ? warps * tuning::kRerankAheadBytes : 0) + (warps + 1) / 2 * list_bytes;
  return std::max<int64_t>(1, (device.shared_bytes_per_block + kReserved) / (bytes + kReserved));
}

// Warps of a query's one block: those that end first, in waves over the GPU.
int64_t list_warps(const Work& work, const Device& device, int64_t k) {
  const int64_t tiles = divide_up(work.candidates, 32);
  const int64_t few =
      std::clamp<int64_t>(divide_up(tiles, tuning::kRerankTilesPerWarp), 1,
                          std::min<int64_t>(tuning::kRerankManyQueriesWarps, work.most_warps));
  if (work.queries >= tuning::kRerankManyQueries * work.sm_count &&
      work.queries * few >= work.sm_count * work.most_warps) {
    return few;
  }
  const int64_t most = std::max<int64_t>(1, divide_up(work.candidates, work.batch));
  int64_t best = 1, least = INT64_MAX;
  for (const int64_t blocks : {16, 8, 5, 4, 3, 2, 1}) {  // of an SM
    const int64_t warps = std::min(work.most_warps / blocks, most);
    if (warps == 0) continue;
    const int64_t at_once = std::min(blocks, blocks_of_sm(work, device, warps, k)) * work.sm_count;
    const int64_t waves = divide_up(work.queries, at_once);
    const int64_t cost = waves * (divide_up(most, warps) + tuning::kRerankListTurns);
    if (cost < least) {
      least = cost;
      best = warps;
    }
  }
  return best;
}

// Warps that share the candidates of a slice, in as many blocks as there are SMs, or fewer; or of each query
// alone.
void share_candidates(const RerankProblem& problem, const Work& work, Config& config) {
  config.row_at_a_time =
      work.whole_words && work.row_bytes > 512 &&
      work.queries * divide_up(work.candidates, 8) < tuning::kRerankBusyWarpsPerSm * work.sm_count;
  const int64_t batch = config.row_at_a_time ? 1 : work.batch;
  const int64_t batches = std::max<int64_t>(1, divide_up(work.candidates, batch)) * config.slice;
  config.warps = static_cast<int>(std::clamp<int64_t>(divide_up(batches, work.sm_count), 1, work.most_warps));
  config.blocks = std::min(divide_up(batches, config.warps), work.sm_count);
  // No larger than a warp's share, whose rows it looks through.
  const int64_t share = divide_up(batches, config.warps * config.blocks) * batch;
  config.tile = 32;
  while (config.tile > batch && config.tile / 2 >= share) config.tile /= 2;
  if (!problem.ragged) return;
  config.blocks_per_query = std::max<int64_t>(1, config.blocks / config.slice);
  config.blocks = config.blocks_per_query * config.slice;
  config.tile = tile_of(work, batch, config.warps * config.blocks_per_query);
}

// Whether a block a query selects from stored keys, and how.
bool finishes(const RerankProblem& problem, const Device& device, Config& config) {
  if (problem.candidates > tuning::kRerankMostFinished || problem.queries > device.sm_count) return false;
  if (problem.k <= tuning::kRerankSmallestListK) {
    config.finish_warps =
        static_cast<int>(std::min(divide_up(problem.candidates, 32), tuning::kRerankListedWarps));
    return true;
  }
  const int64_t warps = divide_up(problem.candidates, 32 * tuning::kRerankFinishKeysPerThread);
  const int64_t least = divide_up(std::min(problem.candidates, tuning::kRerankFinishLeastRoom), 32);
  config.finish_warps = static_cast<int>(
      std::clamp<int64_t>(warps, std::max<int64_t>(least, 2), tuning::kRerankFinishMaxWarps));
  const int64_t room = std::max(problem.k + tuning::kRerankFinishSlack, tuning::kRerankFinishLeastRoom);
  config.finish_room = static_cast<int>(divide_up(std::min(room, problem.candidates), 64) * 64);
  config.finish_digit_bits = std::clamp(bit_width(static_cast<uint64_t>(problem.candidates / 2)), 5,
                                        tuning::kRerankFinishMaxDigitBits);
  constexpr int kEntryBytes = 2 * sizeof(uint32_t);
  config.finish_keys_at = static_cast<int>(
      std::max<int64_t>(block_bytes(kEntryBytes, config.finish_room, 32 * config.finish_warps),
                        int64_t{sizeof(uint32_t)} << config.finish_digit_bits));
  const int64_t keys_bytes = problem.candidates * static_cast<int64_t>(sizeof(uint32_t));
  if (config.finish_keys_at + keys_bytes + tuning::kRerankFinishStaticBytes <=
      device.shared_bytes_per_block) {
    return true;
  }
  config.finish_warps = config.finish_room = config.finish_digit_bits = config.finish_keys_at = 0;
  return false;
}

}  // namespace

bool reads_queries(const RerankProblem& problem) {
  return problem.query_dtype == DType::kFloat32 || problem.query_dtype == problem.dtype;
}

Config plan(const RerankProblem& problem, const Device& device, int64_t most_stored_bytes) {
  const Work work(problem, device);
  const int64_t row_bytes = problem.candidates * static_cast<int64_t>(sizeof(uint32_t));
  const int64_t most_queries = std::max<int64_t>(1, most_stored_bytes / row_bytes);
  // Rows between offsets are as long as all of them where keys are stored, so that is to be one slice.
  const bool fills_gpu =
      work.queries >= work.sm_count || work.candidates * work.row_bytes <= tuning::kRerankOneBlockBytes ||
      (2 * work.queries >= work.sm_count && work.candidates <= tuning::kRerankFewQueriesCandidates) ||
      (problem.listed > 0 && work.queries > most_queries);
  Config config{};
  config.slice = problem.queries;
  if (problem.k <= tuning::kRerankMaxListK && fills_gpu && !prefers_keys(problem, work)) {
    config.way = Way::kLists;
    config.list_items = list_items(problem.k);
    config.warps = static_cast<int>(list_warps(work, device, problem.k));
    config.blocks = problem.queries;
    config.tile = tile_of(work, work.batch, config.warps);
    return config;
  }
  // As many slices as it takes, all of a size but that the last begins early enough to be as long.
  config.slice = divide_up(problem.queries, divide_up(problem.queries, most_queries));
  share_candidates(problem, work, config);
  config.way = finishes(problem, device, config) ? Way::kFinish : Way::kTopK;
  return config;
}

}  // namespace gputopk::cuda::rerank
