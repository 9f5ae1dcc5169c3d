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

// The split that ends first when `resident` blocks run at a time, in waves over the GPU, each as long as its
// tiles and an overhead, fixed and for each block of the row. Blocks of one row then differ by one tile at
// most.
int blocks_per_row(const Problem& problem, int64_t tile_elements, int64_t resident, double overhead,
                   double overhead_per_block) {
  const int64_t tiles = divide_up(problem.cols, tile_elements);
  int best = 1;
  double best_cost = 0;
  for (int64_t blocks = 1; blocks <= std::min(tiles, resident); ++blocks) {
    const double waves = static_cast<double>(divide_up(problem.rows * blocks, resident));
    const double cost = waves * (static_cast<double>(divide_up(tiles, blocks)) + overhead +
                                 overhead_per_block * static_cast<double>(blocks));
    if (blocks == 1 || cost < best_cost) {
      best = static_cast<int>(blocks);
      best_cost = cost;
    }
  }
  return best;
}

int air_blocks_per_row(const Problem& problem, const Device& device) {
  return blocks_per_row(problem, air_tile_elements(problem),
                        int64_t{device.sm_count} * tuning::kAirBlocksPerSm, tuning::kAirBlockOverheadTiles,
                        /*overhead_per_block=*/0);
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

// What a warp has in flight, which is also its sample.
int64_t grid_warp_elements(const Problem& problem) {
  const int bytes = dtype_bytes(problem.dtype);
  return int64_t{32} * tuning::loads_in_flight(bytes) * (16 / bytes);
}

bool suits_a_warp_a_row(const Problem& problem, const Device& device) {
  const bool many_rows = problem.rows >= device.sm_count * tuning::kGridWarpManyRowsPerSm;
  return problem.cols <= (many_rows ? tuning::kGridWarpMaxColsManyRows : tuning::kGridWarpMaxCols);
}

int grid_blocks_per_row(const Problem& problem, const Device& device, int threads) {
  const int list_items = static_cast<int>(divide_up(problem.k, 32));
  const int64_t blocks_per_sm =
      int64_t{tuning::grid_blocks_per_sm(list_items)} * tuning::kGridThreads / threads;
  return blocks_per_row(problem, grid_warp_elements(problem) * (threads / 32),
                        device.sm_count * blocks_per_sm, tuning::kGridBlockOverheadTiles,
                        static_cast<double>(problem.k) / tuning::kGridEntriesPerTile);
}

grid_select::Config grid_select_config(const Problem& problem, const Device& device,
                                       const GridSelectStudy& study) {
  grid_select::Config config{};
  config.thread_queues = study.thread_queues;
  config.threads = study.threads > 0 ? study.threads : tuning::kGridThreads;
  config.samplers = 1;
  const bool warp_a_row = study.blocks == GridSelectStudy::kWarpARow ||
                          (study.blocks == 0 && suits_a_warp_a_row(problem, device));
  if (warp_a_row) {
    config.blocks_per_row = 0;
    // Few rows are spread over the GPU.
    const int64_t rows_per_sm = divide_up(problem.rows, device.sm_count);
    if (study.threads == 0) {
      config.threads = static_cast<int>(std::min<int64_t>(32 * rows_per_sm, tuning::kGridThreads));
    }
    return config;
  }
  config.blocks_per_row =
      study.blocks > 0 ? study.blocks : grid_blocks_per_row(problem, device, config.threads);
  const int64_t samples = problem.cols / grid_warp_elements(problem) / tuning::kGridSampleOneIn;
  config.samplers =
      static_cast<int>(std::clamp<int64_t>(samples / config.blocks_per_row, 1, config.threads / 32));
  return config;
}

Plan grid_select_plan(const Problem& problem, const Device& device, const GridSelectStudy& study) {
  return {problem, device, grid_select_config(problem, device, study), /*order_rows=*/false};
}

const char* grid_select_unsupported(const Problem& problem) {
  if (problem.k > 4096) return "its lists have room for k of at most 4096";
  // Lists in registers; the variant with lists in shared memory takes the k beyond.
  static_assert(grid_select::kMaxK == 256, "named below");
  if (problem.k > grid_select::kMaxK) return "k of more than 256 is not implemented in this version";
  return nullptr;
}

}  // namespace

const char* unsupported_reason(const Problem& problem, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kAuto:
    case Algorithm::kAir: return nullptr;
    case Algorithm::kGridSelect: return grid_select_unsupported(problem);
    default: return "it is not implemented in this version";
  }
}

Algorithm choose(const Problem&, const Device&) { return Algorithm::kAir; }

Plan make_plan(const Problem& problem, const Device& device, Algorithm algorithm) {
  if (algorithm == Algorithm::kAuto) algorithm = choose(problem, device);
  if (algorithm == Algorithm::kGridSelect) return grid_select_plan(problem, device, {});
  return suits_one_block(problem, device) ? block_plan(problem, device, {}) : grid_plan(problem, device, {});
}

Plan make_air_study(const Problem& problem, const Device& device, const AirStudy& study) {
  return study.threads > 0 ? block_plan(problem, device, study) : grid_plan(problem, device, study);
}

Plan make_grid_select_study(const Problem& problem, const Device& device, const GridSelectStudy& study) {
  return grid_select_plan(problem, device, study);
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
                 },
                 [&](const grid_select::Config& config) {
                   const char* const queues = config.thread_queues ? ", a queue a thread" : "";
                   if (config.blocks_per_row == 0) {
                     std::snprintf(form, sizeof(form), "grid_select: one warp a row, %d threads%s",
                                   config.threads, queues);
                   } else {
                     std::snprintf(form, sizeof(form),
                                   "grid_select: %d blocks a row, %d threads, %d samples each%s",
                                   config.blocks_per_row, config.threads, config.samplers, queues);
                   }
                 }},
      plan.config);
  std::snprintf(text, text_bytes, "%s; %s; %lld rows x %lld cols, k %lld, %s, %s%s; %d SMs", form,
                plan.order_rows ? "then order_rows" : "no further step", static_cast<long long>(problem.rows),
                static_cast<long long>(problem.cols), static_cast<long long>(problem.k),
                dtype_name(problem.dtype), problem.largest ? "largest" : "smallest",
                problem.magnitude ? " by magnitude" : "", plan.device.sm_count);
}

}  // namespace gputopk::cuda
