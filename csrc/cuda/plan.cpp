#include "cuda/plan.h"

#include <algorithm>
#include <cstdio>

#include "cuda/tuning.h"

namespace gputopk::cuda {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t air_tile_elements(const Problem& problem) {
  const int bytes = dtype_bytes(problem.dtype);
  return int64_t{tuning::kAirThreads} * tuning::loads_in_flight(bytes) * (16 / bytes);
}

// The split that ends first when blocks run in waves over the GPU, each as long as its tiles and a fixed
// overhead. Blocks of one row then differ by one tile at most.
int air_blocks_per_row(const Problem& problem, const Device& device) {
  const int64_t resident = int64_t{device.sm_count} * tuning::kAirBlocksPerSm;
  const int64_t tiles = divide_up(problem.cols, air_tile_elements(problem));
  int best = 1;
  double best_cost = 0;
  for (int64_t blocks = 1; blocks <= std::min(tiles, resident); ++blocks) {
    const double waves = static_cast<double>(divide_up(problem.rows * blocks, resident));
    const double cost =
        waves * (static_cast<double>(divide_up(tiles, blocks)) + tuning::kAirBlockOverheadTiles);
    if (blocks == 1 || cost < best_cost) {
      best = static_cast<int>(blocks);
      best_cost = cost;
    }
  }
  return best;
}

// As many bins as the elements of a block can pay for.
int air_digit_bits(int64_t elements_per_block) {
  return std::clamp(bit_width(static_cast<uint64_t>(elements_per_block / tuning::kAirElementsPerBin)),
                    tuning::kAirMinDigitBits, tuning::kAirMaxDigitBits);
}

// The widest digits whose bins fit the GPU's shared memory beside the stages of a block's warps.
int air_digit_bits_that_fit(const Problem& problem, const Device& device) {
  const int index_bytes = problem.cols <= int64_t{0xFFFFFFFF} ? 4 : 8;
  const int staged = tuning::kAirStagedWinners + tuning::kAirStagedCandidates + 2 * 32;
  const int stages = tuning::kAirThreads / 32 * staged * (dtype_bytes(problem.dtype) + index_bytes);
  constexpr int kStatic = 4 * 1024;  // the kernels' own variables
  int bits = tuning::kAirMaxDigitBits;
  while (bits > 1 && stages + (index_bytes << bits) + kStatic > device.shared_bytes_per_block) --bits;
  return bits;
}

air::Config air_config(const Problem& problem, const Device& device, const AirStudy& study) {
  air::Config config{};
  config.blocks_per_row = study.blocks > 0 ? study.blocks : air_blocks_per_row(problem, device);
  // A block counts in 32 bits.
  config.blocks_per_row = std::max(config.blocks_per_row, static_cast<int>(problem.cols >> 31) + 1);
  config.digit_bits = study.digit_bits > 0 ? study.digit_bits
                                           : std::min(air_digit_bits(problem.cols / config.blocks_per_row),
                                                      air_digit_bits_that_fit(problem, device));
  config.buffer = study.adaptive ? std::min(problem.cols,
                                            std::max(problem.cols / tuning::kAirAlpha, tuning::kAirMinBuffer))
                                 : problem.cols;
  config.adaptive = study.adaptive;
  config.launches_ahead = device.compute_capability >= 90;
  config.early_stop = study.early_stop;
  return config;
}

air_block::Config air_block_config(const Problem& problem, const Device& device, const AirStudy& study) {
  const bool few_rows = problem.rows <= device.sm_count;
  int per_thread = few_rows ? tuning::kAirBlockFewRowsElementsPerThread : tuning::kAirBlockElementsPerThread;
  if (few_rows && problem.cols <= tuning::kAirBlockList) per_thread = 1;
  air_block::Config config{};
  config.threads = tuning::kAirBlockMinThreads;
  while (config.threads < tuning::kAirBlockMaxThreads && config.threads * per_thread < problem.cols) {
    config.threads *= 2;
  }
  if (study.threads > 0) config.threads = study.threads;
  // A thread scans 32 bins at most.
  const int most_bits = bit_width(static_cast<uint64_t>(config.threads) * 32 - 1);
  const bool short_rows = problem.cols <= tuning::kAirBlockShortCols;
  config.digit_bits =
      std::min(most_bits, short_rows ? tuning::kAirBlockShortDigitBits : tuning::kAirBlockDigitBits);
  if (study.digit_bits > 0) config.digit_bits = study.digit_bits;
  config.lists_row = few_rows && problem.cols <= tuning::kAirBlockList;
  config.lists_winners = problem.sorted && problem.k <= (few_rows ? tuning::kAirBlockRankedWinnersFewRows
                                                                  : tuning::kAirBlockRankedWinners);
  return config;
}

Plan block_plan(const Problem& problem, const Device& device, const AirStudy& study) {
  const air_block::Config config = air_block_config(problem, device, study);
  const bool in_order = config.lists_row || config.lists_winners;
  return {problem, device, config, problem.sorted && !in_order};
}

Plan grid_plan(const Problem& problem, const Device& device, const AirStudy& study) {
  return {problem, device, air_config(problem, device, study), problem.sorted && problem.k > 1};
}

// Whether a row is better off with one block than with many.
bool suits_one_block(const Problem& problem, const Device& device) {
  const bool many_rows = problem.rows >= 2 * device.sm_count;
  return problem.cols <= (many_rows ? tuning::kAirBlockMaxColsManyRows : tuning::kAirBlockMaxCols);
}

}  // namespace

const char* unsupported_reason(const Problem&, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kAuto:
    case Algorithm::kAir: return nullptr;
    default: return "it is not implemented in this version";
  }
}

Algorithm choose(const Problem&, const Device&) { return Algorithm::kAir; }

Plan make_plan(const Problem& problem, const Device& device, Algorithm algorithm) {
  if (algorithm == Algorithm::kAuto) algorithm = choose(problem, device);
  return suits_one_block(problem, device) ? block_plan(problem, device, {}) : grid_plan(problem, device, {});
}

Plan make_air_study(const Problem& problem, const Device& device, const AirStudy& study) {
  return study.threads > 0 ? block_plan(problem, device, study) : grid_plan(problem, device, study);
}

void describe(const Plan& plan, char* text, size_t text_bytes) {
  const Problem& problem = plan.problem;
  char form[160];
  std::visit(
      Overloaded{[&](const air::Config& config) {
                   const int bits =
                       8 * dtype_bytes(problem.dtype) + bit_width(static_cast<uint64_t>(problem.cols - 1));
                   std::snprintf(form, sizeof(form),
                                 "air: %d blocks a row, %d passes of %d-bit digits, buffer of %lld",
                                 config.blocks_per_row, static_cast<int>(divide_up(bits, config.digit_bits)),
                                 config.digit_bits, static_cast<long long>(config.buffer));
                 },
                 [&](const air_block::Config& config) {
                   std::snprintf(form, sizeof(form), "air: one block a row, %d threads, %d-bit digits%s",
                                 config.threads, config.digit_bits,
                                 config.lists_row       ? ", rows ranked whole"
                                 : config.lists_winners ? ", winners ranked"
                                                        : "");
                 }},
      plan.config);
  std::snprintf(text, text_bytes, "%s; %s; %lld rows x %lld cols, k %lld, %s, %s%s; %d SMs", form,
                plan.order_rows ? "then order_rows" : "no further step", static_cast<long long>(problem.rows),
                static_cast<long long>(problem.cols), static_cast<long long>(problem.k),
                dtype_name(problem.dtype), problem.largest ? "largest" : "smallest",
                problem.magnitude ? " by magnitude" : "", plan.device.sm_count);
}

RerankPlan make_rerank_plan(const RerankProblem& problem, const Device& device) {
  RerankPlan plan{problem, device, {}, std::nullopt};
  const int64_t tiles = divide_up(problem.candidates, 32);
  const bool few_queries = problem.queries < device.sm_count;
  const bool fills_gpu = !few_queries || problem.candidates <= tuning::kRerankFewQueriesCandidates;
  if (problem.k <= tuning::kRerankMaxListK && fills_gpu) {
    plan.config.list_items = problem.k <= 32 ? 1 : problem.k <= 128 ? 4 : 8;
    const int64_t tiles_per_warp = few_queries ? 1 : tuning::kRerankTilesPerWarp;
    plan.config.warps =
        static_cast<int>(std::clamp<int64_t>(divide_up(tiles, tiles_per_warp), 1, tuning::kRerankMaxWarps));
    plan.config.blocks_per_query = 1;
    return plan;
  }
  plan.config.list_items = 0;
  plan.config.warps = static_cast<int>(std::min<int64_t>(tiles, tuning::kRerankMaxWarps));
  const int64_t resident = int64_t{device.sm_count} * tuning::kRerankStoringBlocksPerSm;
  plan.config.blocks_per_query =
      std::min(divide_up(resident, problem.queries), divide_up(tiles, plan.config.warps));
  Problem selection;
  selection.dtype = DType::kUInt32;
  selection.rows = problem.queries;
  selection.cols = problem.candidates;
  selection.row_stride = problem.candidates;
  selection.k = problem.k;
  selection.wide_indices = false;
  plan.selection = make_plan(selection, device, Algorithm::kAuto);
  return plan;
}

void describe(const RerankPlan& plan, char* text, size_t text_bytes) {
  const RerankProblem& problem = plan.problem;
  const rerank::Config& config = plan.config;
  char form[512];
  if (plan.selection) {
    const int length = std::snprintf(form, sizeof(form), "keys stored by %lld blocks a query, then ",
                                     static_cast<long long>(config.blocks_per_query));
    describe(*plan.selection, form + length, sizeof(form) - length);
  } else {
    std::snprintf(form, sizeof(form), "lists of %d, %d warps a query", 32 * config.list_items, config.warps);
  }
  std::snprintf(text, text_bytes,
                "rerank: %s; %lld queries x %lld candidates x %lld dims, k %lld, %s, %s; %d SMs", form,
                static_cast<long long>(problem.queries), static_cast<long long>(problem.candidates),
                static_cast<long long>(problem.dims), static_cast<long long>(problem.k),
                metric_name(problem.metric), dtype_name(problem.dtype), plan.device.sm_count);
}

}  // namespace gputopk::cuda
