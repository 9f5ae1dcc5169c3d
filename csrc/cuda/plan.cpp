#include "cuda/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cuda/tuning.h"

namespace gputopk::cuda {
namespace {

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// What so many threads have in flight, which is a tile.
int64_t tile_elements(const Problem& problem, int threads) {
  const int bytes = dtype_bytes(problem.dtype);
  return int64_t{threads} * tuning::loads_in_flight(bytes) * (16 / bytes);
}

struct Split {
  int blocks_per_row;
  double cost;  // in tiles
};

// The split that ends first when `resident` blocks run at a time, in waves over the GPU, each as long as its
// tiles and overhead(blocks), in tiles. Of at most `most` blocks a row, which then differ by one tile at
// most, and in a few waves: more would be no more even.
template <class Overhead>
Split best_split(const Problem& problem, int64_t tile, int64_t most, int64_t resident,
                 const Overhead& overhead) {
  const int64_t tiles = divide_up(problem.cols, tile);
  most = std::min({most, resident, tuning::kMostWaves * resident / std::max<int64_t>(1, problem.rows)});
  Split best{1, 0};
  for (int64_t blocks = 1; blocks <= std::max<int64_t>(1, most); ++blocks) {
    const double waves = static_cast<double>(divide_up(problem.rows * blocks, resident));
    const double cost = waves * (static_cast<double>(divide_up(tiles, blocks)) + overhead(blocks));
    if (blocks == 1 || cost < best.cost) best = {static_cast<int>(blocks), cost};
  }
  return best;
}

// A block counts in 32 bits.
int least_air_blocks_per_row(const Problem& problem) { return static_cast<int>(problem.cols >> 31) + 1; }

int air_blocks_per_row(const Problem& problem, const Device& device) {
  const int64_t tile = tile_elements(problem, tuning::kAirThreads);
  const Split split = best_split(problem, tile, divide_up(problem.cols, tile),
                                 int64_t{device.sm_count} * tuning::kAirBlocksPerSm,
                                 [](int64_t) { return tuning::kAirBlockOverheadTiles; });
  return std::max(split.blocks_per_row, least_air_blocks_per_row(problem));
}

// Candidates that AIR can store between passes.
int64_t air_buffer(int64_t cols) {
  return std::min(cols, std::max(cols / tuning::kAirAlpha, tuning::kAirMinBuffer));
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
  config.blocks_per_row = study.blocks > 0 ? std::max(study.blocks, least_air_blocks_per_row(problem))
                                           : air_blocks_per_row(problem, device);
  config.digit_bits = study.digit_bits > 0 ? study.digit_bits
                                           : std::min(air_digit_bits(problem.cols / config.blocks_per_row),
                                                      air_digit_bits_that_fit(problem, device));
  config.buffer = study.adaptive ? air_buffer(problem.cols) : problem.cols;
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

Plan air_block_plan(const Problem& problem, const Device& device, const AirStudy& study) {
  const air_block::Config config = air_block_config(problem, device, study);
  const bool in_order = config.lists_row || config.lists_winners;
  return {problem, device, config, problem.sorted && !in_order};
}

// Blocks of a row's cluster, a power of two: as many as can run at once with those of all rows, an SM each.
int air_cluster_blocks(const Problem& problem, const Device& device) {
  const bool long_rows = problem.cols >= tuning::kAirClusterLongCols;
  const int most = std::min(device.cluster_blocks, problem.cols > tuning::kAirClusterLongCols ? 16 : 8);
  const double reach = tuning::kAirClusterReach * device.sm_count;
  // Long rows are worth two blocks an SM.
  const int rows_of_two = long_rows ? device.sm_count : device.sm_count / 2;
  int blocks = problem.rows <= rows_of_two ? std::min(2, most) : 1;
  while (2 * blocks <= most && static_cast<double>(2 * blocks * problem.rows) <= reach) blocks *= 2;
  return blocks;
}

air_cluster::Config air_cluster_config(const Problem& problem, const Device& device, const AirStudy& study) {
  air_cluster::Config config{};
  config.blocks = study.cluster > 0 ? study.cluster : air_cluster_blocks(problem, device);
  const int64_t blocks = problem.rows * config.blocks;
  const bool long_part = problem.cols / config.blocks >= tuning::kAirClusterLongPart;
  config.threads =
      long_part && blocks <= device.sm_count ? tuning::kAirClusterMaxThreads : tuning::kAirClusterThreads;
  // Where clusters of two leave SMs idle, and rows are long enough, four times as many smaller blocks do not.
  const bool leaves_sms = static_cast<double>(blocks) < device.sm_count * tuning::kAirClusterFewSms;
  if (study.cluster == 0 && config.blocks == 2 && leaves_sms && problem.cols >= tuning::kAirClusterLongCols &&
      device.cluster_blocks >= 8) {
    config.blocks = 8;
    config.threads = tuning::kAirClusterThreads / 2;
  }
  if (study.threads > 0) config.threads = study.threads;
  config.digit_bits = study.digit_bits > 0 ? study.digit_bits : tuning::kAirClusterDigitBits;
  const double comparisons = static_cast<double>(tuning::kAirClusterComparisons) * config.blocks;
  const int64_t most = std::min(tuning::kAirClusterMostRanked, static_cast<int>(std::sqrt(comparisons)));
  config.ranks_winners = problem.k <= (problem.sorted ? most / 2 : tuning::kAirClusterRankedUnsorted);
  config.ranked =
      static_cast<int>(std::min(most, tuning::kAirClusterRanked + (config.ranks_winners ? problem.k : 0)));
  return config;
}

Plan air_cluster_plan(const Problem& problem, const Device& device, const AirStudy& study) {
  const air_cluster::Config config = air_cluster_config(problem, device, study);
  return {problem, device, config, problem.sorted && !config.ranks_winners};
}

Plan air_plan(const Problem& problem, const Device& device, const AirStudy& study) {
  return {problem, device, air_config(problem, device, study), problem.sorted && problem.k > 1};
}

// The paper's rule 4: alpha = (log2(cols) - log2(k) + const) / 2.
int delegate_alpha(const Problem& problem, int beta) {
  const double ratio = static_cast<double>(problem.cols) / static_cast<double>(problem.k);
  const double alpha =
      (std::log2(ratio) + (beta == 2 ? tuning::kDelegateConst2 : tuning::kDelegateConst1)) / 2;
  const AlphaRange range = delegate_alphas(problem, beta);
  return std::clamp(static_cast<int>(std::lround(alpha)), range.least, range.most);
}

// Passes of a selection from so many stored candidates.
int likely_delegate_passes(const Problem& problem, double candidates) {
  const bool wide = dtype_bytes(problem.dtype) == 8 || problem.cols > int64_t{0xFFFFFFFF};
  if (candidates * (wide ? 16 : 8) <= tuning::kDelegateListBytes) return 0;
  return candidates <= tuning::kDelegateOnePassCandidates ? 1 : 2;
}

delegate::Config delegate_config(const Problem& problem, const Device& device, const DelegateStudy& study) {
  delegate::Config config{};
  config.beta = study.beta > 0 ? study.beta : problem.k >= tuning::kDelegateMinKBeta2 ? 2 : 1;
  config.alpha = study.alpha > 0 ? study.alpha : delegate_alpha(problem, config.beta);
  config.blocks_per_row = air_blocks_per_row(problem, device);

  Problem positions = problem;  // the first selection's
  positions.cols = divide_up(problem.cols, int64_t{1} << config.alpha) * config.beta;
  config.first_digit_bits = std::min(tuning::kDelegateDigitBits, air_digit_bits_that_fit(positions, device));
  config.first_blocks_per_row = air_blocks_per_row(positions, device);
  config.first_buffer = air_buffer(positions.cols);

  // At most k subranges are read again, whole; with two delegates each, half of them whole and of the others
  // what one lane read. And the ragged ends.
  config.second_digit_bits = std::min(tuning::kDelegateDigitBits, air_digit_bits_that_fit(problem, device));
  const int64_t most = (problem.k << config.alpha) / config.beta + problem.k * 32 + 64;
  config.second_buffer =
      std::min({most, problem.cols, std::max(problem.cols / tuning::kDelegateMinBufferShare, 2 * problem.k)});
  config.likely_passes = likely_delegate_passes(problem, 2.0 * static_cast<double>(problem.k));
  config.launches_ahead = device.compute_capability >= 90;
  return config;
}

delegate_sample::Config delegate_sample_config(const Problem& problem, const Device& device) {
  const int element_bytes = dtype_bytes(problem.dtype);
  const double cols = static_cast<double>(problem.cols), k = static_cast<double>(problem.k);
  delegate_sample::Config config{};

  // The sample: as large as it takes to have few candidates, but a share of the row at most. Of the k best,
  // `winners` are in it, give or take a few times the square root of that.
  const double per_block = tuning::kAirThreads * tuning::kSampleLines * (16.0 / element_bytes);
  const double most_blocks =
      std::clamp(cols / tuning::kSampleShare / per_block, 1.0,
                 std::max(1.0, double{tuning::kSampleMostBlocks} / static_cast<double>(problem.rows)));
  double rank = 0, candidates = 0;
  int blocks = tuning::kSampleMinBlocks;
  for (;; blocks *= 2) {
    blocks = std::min(blocks, static_cast<int>(most_blocks));
    const double winners = blocks * per_block * k / cols;
    rank = winners + tuning::kSampleDeviations * std::sqrt(winners) + tuning::kSampleExtraRank;
    candidates = rank * cols / (blocks * per_block);
    const bool enough = candidates <= std::max(tuning::kSampleFewCandidates, tuning::kSampleFewTimesK * k);
    if (enough || 2 * blocks > most_blocks) break;
  }
  config.sample_blocks_per_row = blocks;
  const int threads = blocks * tuning::kAirThreads;
  int group = 1;
  while (threads / group > tuning::kSampleMostDelegates) group *= 2;
  config.delegates = threads / group;
  config.rank = static_cast<int>(std::min(rank, static_cast<double>(config.delegates)));

  config.blocks_per_row = air_blocks_per_row(problem, device);
  config.digit_bits = std::min(tuning::kDelegateDigitBits, air_digit_bits_that_fit(problem, device));
  config.likely_passes = likely_delegate_passes(problem, candidates);
  // Of a sorted or a smooth row the elements of a line are neighbours in rank, so that a delegate stands for
  // all that lie between a line, or its part of it, and the next one.
  const double parts = double{tuning::kSampleLines} * threads / std::min(group, tuning::kSampleLineVectors);
  const double of_neighbours = config.rank * cols / parts;
  const double room = std::min(
      std::max({4 * k, cols / tuning::kSampleBufferShare, 1.25 * of_neighbours}),
      std::min(tuning::kSampleMostNeighbours * of_neighbours, cols / tuning::kSampleMostBufferShare));
  config.buffer = std::min(problem.cols, std::max(static_cast<int64_t>(room), 2 * problem.k));
  config.launches_ahead = device.compute_capability >= 90;
  return config;
}

Plan delegate_plan(const Problem& problem, const Device& device, const DelegateStudy& study) {
  const bool order_rows = problem.sorted && problem.k > 1;
  const bool from_sample = study.alpha == 0 && study.beta == 0 && problem.cols >= tuning::kSampleMinCols &&
                           problem.k <= problem.cols / tuning::kSampleMinColsPerK;
  if (from_sample) {
    const delegate_sample::Config config = delegate_sample_config(problem, device);
    // A bound near the least delegate would say little.
    if (config.rank <= config.delegates * tuning::kSampleMostRank)
      return {problem, device, config, order_rows};
  }
  return {problem, device, delegate_config(problem, device, study), order_rows};
}

int grid_list_blocks_per_row(const Problem& problem, const Device& device) {
  const int64_t tile = tile_elements(problem, tuning::kGridListMaxThreads);
  // A block with less than a tile might have nothing to publish, and no bound would be shared. Up to a vector
  // at either end of a row is in no tile.
  const int64_t whole_tiles = (problem.cols - 2 * 16) / tile;
  return best_split(problem, tile, whole_tiles, int64_t{device.sm_count} * tuning::kGridListBlocksPerSm,
                    [](int64_t blocks) {
                      return blocks == 1 ? tuning::kGridListBlockOverheadTiles
                                         : tuning::kGridListSharedRowOverheadTiles;
                    })
      .blocks_per_row;
}

grid_select_block::Config grid_select_block_config(const Problem& problem, const Device& device,
                                                   const GridSelectStudy& study) {
  grid_select_block::Config config{};
  config.blocks_per_row = study.blocks > 0 ? study.blocks : grid_list_blocks_per_row(problem, device);
  const bool few_rows = problem.rows <= device.sm_count;
  const int per_thread =
      few_rows ? tuning::kGridListFewRowsElementsPerThread : tuning::kGridListElementsPerThread;
  config.threads = config.blocks_per_row > 1 ? tuning::kGridListMaxThreads : tuning::kGridListMinThreads;
  while (config.threads < tuning::kGridListMaxThreads && config.threads * per_thread < problem.cols) {
    config.threads *= 2;
  }
  if (study.threads > 0) config.threads = study.threads;
  // Of a few groups none need wait for another.
  const int group = tuning::kGridListGroup;
  config.blocks_per_group = config.blocks_per_row <= 2 * group ? config.blocks_per_row : group;
  const bool short_rows = problem.cols <= tuning::kGridListShortCols;
  config.digit_bits = short_rows ? tuning::kGridListShortDigitBits : tuning::kGridListDigitBits;
  // The threads' maxima of a tile give a first bound for a k of theirs at most; else the whole tile is
  // listed.
  const bool starts_bounded = problem.k <= config.threads;
  const int bytes = dtype_bytes(problem.dtype);
  const int64_t tile = tile_elements(problem, config.threads);
  const int64_t room = std::max(problem.k, starts_bounded ? tuning::kGridListMinRoom : tile);
  const int64_t wanted = std::min(problem.cols, problem.k + room);  // a list as long as the row is never full
  constexpr int kStatic = 4 * 1024;                                 // the kernel's own variables
  const int shared_bytes = std::min(tuning::kGridListSharedBytes, device.shared_bytes_per_block) -
                           (4 << config.digit_bits) - kStatic;
  const int entry_bytes = std::max(4, bytes) + (problem.cols <= int64_t{0xFFFFFFFF} ? 4 : 8);
  config.capacity = static_cast<int>(std::min<int64_t>(wanted, shared_bytes / entry_bytes));
  config.first_review = starts_bounded ? tuning::kGridListFirstReview : tuning::kGridListFirstReviewUnbounded;
  config.review_growth = tuning::kGridListReviewGrowth;
  config.in_order =
      problem.k <= (problem.sorted ? tuning::kGridListRankedWinners : tuning::kGridListRankedUnsorted);
  return config;
}

// Whether AIR is at its best with a cluster a row: between rows that one block is enough for and rows that
// want the whole GPU.
bool suits_cluster(const Problem& problem, const Device& device) {
  const int blocks = air_cluster_blocks(problem, device);
  if (blocks == 1 || problem.rows > tuning::kAirClusterMostElements / problem.cols) return false;
  // Of so many rows, lists on the fly are as quick for few winners.
  if (problem.rows > device.sm_count / 2 && problem.k <= tuning::kAutoSmallK) return false;
  const int64_t least = blocks == 2 ? tuning::kAirClusterMinColsOfTwo : tuning::kAirClusterMinCols;
  const int64_t cols_per_k = problem.cols <= tuning::kAirClusterLongCols ? tuning::kAirClusterMinColsPerK
                                                                         : tuning::kAirClusterLongMinColsPerK;
  return problem.cols >= least && problem.cols <= tuning::kAirClusterMaxCols &&
         problem.k <= problem.cols / cols_per_k;
}

// Whether a row is better off with one block than with many.
bool suits_one_block(const Problem& problem, const Device& device) {
  const bool many_rows = problem.rows >= 2 * device.sm_count;
  return problem.cols <= (many_rows ? tuning::kAirBlockMaxColsManyRows : tuning::kAirBlockMaxCols);
}

bool suits_a_warp_a_row(const Problem& problem, const Device& device) {
  const bool many_rows = problem.rows >= device.sm_count * tuning::kGridWarpManyRowsPerSm;
  return problem.cols <= (many_rows ? tuning::kGridWarpMaxColsManyRows : tuning::kGridWarpMaxCols);
}

// Blocks of so many threads that an SM has registers for.
int grid_blocks_per_sm(const Problem& problem, int threads) {
  const int list_items = static_cast<int>(divide_up(problem.k, 32));
  return tuning::grid_blocks_per_sm(list_items) * tuning::kGridThreads / threads;
}

Split grid_split(const Problem& problem, const Device& device, int threads) {
  const int64_t resident = int64_t{device.sm_count} * grid_blocks_per_sm(problem, threads);
  const int64_t tile = tile_elements(problem, threads);
  const double merging = static_cast<double>(problem.k) / tuning::kGridEntriesPerTile;  // a block's list
  return best_split(problem, tile, divide_up(problem.cols, tile), resident, [&](int64_t blocks) {
    return blocks == 1 ? tuning::kGridBlockOverheadTiles
                       : tuning::kGridSharedRowOverheadTiles + merging * static_cast<double>(blocks);
  });
}

grid_select::Config grid_select_config(const Problem& problem, const Device& device,
                                       const GridSelectStudy& study) {
  grid_select::Config config{};
  config.thread_queues = study.thread_queues;
  config.launches_ahead = device.compute_capability >= 90;
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
  // Where a row has few blocks, smaller ones may divide rows more evenly. With as many warps an SM, a tile
  // takes as long.
  Split split = grid_split(problem, device, config.threads);
  const int per_sm = grid_blocks_per_sm(problem, tuning::kGridThreads) * tuning::kGridThreads;
  const bool few_blocks = problem.rows >= device.sm_count / tuning::kGridEvenSmsPerRow;
  for (int threads : tuning::kGridSmallerThreads) {
    if (study.threads > 0 || !few_blocks || per_sm % threads != 0) continue;
    const Split other = grid_split(problem, device, threads);
    if (other.cost >= split.cost) continue;
    config.threads = threads;
    split = other;
  }
  config.blocks_per_row = study.blocks > 0 ? study.blocks : split.blocks_per_row;
  // A warp's tile is its sample.
  const int64_t samples = problem.cols / tile_elements(problem, 32) / tuning::kGridSampleOneIn;
  config.samplers =
      static_cast<int>(std::clamp<int64_t>(samples / config.blocks_per_row, 1, config.threads / 32));
  return config;
}

// Lists in registers, for a small k, or a list a block.
Plan grid_select_plan(const Problem& problem, const Device& device, const GridSelectStudy& study) {
  using Form = GridSelectStudy::Form;
  const bool suits_registers =
      problem.k <= tuning::kGridRegistersMaxK ||
      (problem.k <= grid_select::kMaxK && problem.cols <= tuning::kGridRegistersShortCols);
  const bool in_registers = study.form == Form::kPlan ? suits_registers : study.form == Form::kRegisters;
  if (in_registers)
    return {problem, device, grid_select_config(problem, device, study), /*order_rows=*/false};
  const grid_select_block::Config config = grid_select_block_config(problem, device, study);
  return {problem, device, config, problem.sorted && !config.in_order};
}

// What `auto` goes by, behind AIR with clusters: GridSelect where it is ahead of both others, delegate where
// it is ahead of AIR.

bool delegate_is_ahead(const Problem& problem) {
  const bool many_winners = problem.k >= tuning::kAutoManyWinners;
  const int64_t elements =
      many_winners ? tuning::kAutoManyWinnersMinElements : tuning::kAutoDelegateMinElements;
  return problem.cols >= tuning::kAutoDelegateMinCols && problem.rows >= elements / problem.cols &&
         problem.k <= problem.cols / tuning::kAutoDelegateMinColsPerK;
}

bool grid_select_is_ahead(const Problem& problem, const Device& device) {
  const int64_t rows = problem.rows, cols = problem.cols, k = problem.k;
  const bool tiny = k <= tuning::kAutoTinyK, small = k <= tuning::kAutoSmallK;
  const bool a_row_an_sm = rows >= device.sm_count;
  const bool a_row_a_warp = rows >= int64_t{device.sm_count} * tuning::kGridWarpManyRowsPerSm;
  const int bytes = dtype_bytes(problem.dtype);
  if (bytes > 4) return false;  // its lists take twice the registers
  if (cols >= tuning::kAutoVeryLongCols) {
    if (!delegate_is_ahead(problem)) return tiny || (small && cols <= 2 * tuning::kAutoVeryLongCols);
    if (bytes < 4) return tiny && rows <= tuning::kAutoFewNarrowElements / cols;
    const bool many = rows >= tuning::kAutoManyRows && rows >= tuning::kAutoManyRowsElements / cols;
    return tiny || (small && many);
  }
  if (cols >= tuning::kAutoLongCols) {
    // With more winners, ascending rows are slow in a list a block.
    if (a_row_an_sm) return k <= 2 * tuning::kAutoMostK;
    return small && (rows <= tuning::kAutoFewRows || cols >= 2 * tuning::kAutoLongCols);
  }
  if (k > tuning::kAutoMostK) return false;
  if (cols >= tuning::kAutoMiddleCols) return a_row_a_warp || (a_row_an_sm && small);
  if (a_row_a_warp) {
    if (k <= tuning::kAutoMostK / 2) return problem.sorted || small || cols > tuning::kAutoShortCols / 4;
    return problem.sorted && (cols <= tuning::kAutoShortCols || cols >= tuning::kAutoFewWarpsCols);
  }
  if (cols > tuning::kAutoShortCols) return false;
  // AIR does not put these in order itself.
  if (a_row_an_sm) return problem.sorted || (cols > tuning::kAutoShortCols / 4 ? small : tiny);
  return tiny && cols > tuning::kAutoShortCols / 8 && cols <= tuning::kAutoShortCols / 2;
}

// The configs in words, for describe().

void print(const air::Config& config, const Problem& problem, char* text, size_t bytes) {
  const int bits = 8 * dtype_bytes(problem.dtype) + bit_width(static_cast<uint64_t>(problem.cols - 1));
  std::snprintf(text, bytes, "air: %d blocks a row, %d passes of %d-bit digits, buffer of %lld",
                config.blocks_per_row, static_cast<int>(divide_up(bits, config.digit_bits)),
                config.digit_bits, static_cast<long long>(config.buffer));
}

void print(const air_block::Config& config, const Problem&, char* text, size_t bytes) {
  std::snprintf(text, bytes, "air: one block a row, %d threads, %d-bit digits%s", config.threads,
                config.digit_bits,
                config.lists_row       ? ", rows ranked whole"
                : config.lists_winners ? ", winners ranked"
                                       : "");
}

void print(const air_cluster::Config& config, const Problem&, char* text, size_t bytes) {
  std::snprintf(text, bytes, "air: one cluster of %d blocks a row, %d threads, %d-bit digits%s",
                config.blocks, config.threads, config.digit_bits,
                config.ranks_winners ? ", winners ranked" : "");
}

void print(const delegate::Config& config, const Problem&, char* text, size_t bytes) {
  std::snprintf(
      text, bytes, "delegate: subranges of 2^%d, beta %d, %d blocks a row, room for %lld candidates",
      config.alpha, config.beta, config.blocks_per_row, static_cast<long long>(config.second_buffer));
}

void print(const delegate_sample::Config& config, const Problem&, char* text, size_t bytes) {
  std::snprintf(text, bytes,
                "delegate: bound is number %d of %d delegates of a sample, %d blocks a row, room for %lld "
                "candidates",
                config.rank, config.delegates, config.blocks_per_row, static_cast<long long>(config.buffer));
}

void print(const grid_select_block::Config& config, const Problem&, char* text, size_t bytes) {
  std::snprintf(text, bytes, "grid_select: %d blocks a row, %d threads, lists of %d entries%s",
                config.blocks_per_row, config.threads, config.capacity,
                config.in_order ? ", winners ranked" : "");
}

void print(const grid_select::Config& config, const Problem&, char* text, size_t bytes) {
  const char* const queues = config.thread_queues ? ", a queue a thread" : "";
  if (config.blocks_per_row == 0) {
    std::snprintf(text, bytes, "grid_select: one warp a row, %d threads%s", config.threads, queues);
  } else {
    std::snprintf(text, bytes, "grid_select: %d blocks a row, %d threads, %d samples each%s",
                  config.blocks_per_row, config.threads, config.samplers, queues);
  }
}

}  // namespace

AlphaRange delegate_alphas(const Problem& problem, int beta) {
  const int per_vector = bit_width(static_cast<uint64_t>(16 / dtype_bytes(problem.dtype))) - 1;
  AlphaRange range{per_vector + tuning::kDelegateMinVectorsLog2,
                   per_vector + tuning::kDelegateMaxVectorsLog2};
  // Positions of delegates are 32-bit indices.
  while (range.least < 62 && (problem.cols >> range.least) * beta >= int64_t{1} << 30) ++range.least;
  // There must be k delegates; the last subrange may have none.
  while (range.most > 0 && ((problem.cols >> range.most) - 1) * beta < problem.k) --range.most;
  return range;
}

const char* unsupported_reason(const Problem& problem, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kAuto:
    case Algorithm::kAir: return nullptr;
    case Algorithm::kDelegate: {
      if (problem.k == 0) return nullptr;
      const AlphaRange range = delegate_alphas(problem, /*beta=*/1);
      if (range.least <= range.most) return nullptr;
      return "it needs rows of more than 64 bytes for each of the k elements, so that there are as many "
             "subranges";
    }
    case Algorithm::kGridSelect:
      static_assert(grid_select_block::kMaxK == 4096, "the text says so");
      return problem.k <= grid_select_block::kMaxK ? nullptr
                                                   : "k is larger than 4096, the most that its lists hold";
    default: return "it is not implemented in this version";
  }
}

Algorithm choose(const Problem& problem, const Device& device) {
  if (problem.k == 0 || problem.rows == 0) return Algorithm::kAir;
  if (suits_cluster(problem, device) && !delegate_is_ahead(problem)) return Algorithm::kAir;
  if (grid_select_is_ahead(problem, device)) return Algorithm::kGridSelect;
  return delegate_is_ahead(problem) ? Algorithm::kDelegate : Algorithm::kAir;
}

Plan make_plan(const Problem& problem, const Device& device, Algorithm algorithm) {
  if (algorithm == Algorithm::kAuto) algorithm = choose(problem, device);
  if (algorithm == Algorithm::kDelegate) return delegate_plan(problem, device, {});
  if (algorithm == Algorithm::kGridSelect) return grid_select_plan(problem, device, {});
  if (suits_cluster(problem, device)) return air_cluster_plan(problem, device, {});
  return suits_one_block(problem, device) ? air_block_plan(problem, device, {})
                                          : air_plan(problem, device, {});
}

Plan make_air_study(const Problem& problem, const Device& device, const AirStudy& study) {
  if (study.cluster > 0) return air_cluster_plan(problem, device, study);
  return study.threads > 0 ? air_block_plan(problem, device, study) : air_plan(problem, device, study);
}

Plan make_delegate_study(const Problem& problem, const Device& device, const DelegateStudy& study) {
  return delegate_plan(problem, device, study);
}

Plan make_grid_select_study(const Problem& problem, const Device& device, const GridSelectStudy& study) {
  return grid_select_plan(problem, device, study);
}

void describe(const Plan& plan, char* text, size_t text_bytes) {
  const Problem& problem = plan.problem;
  char form[200];
  std::visit([&](const auto& config) { print(config, problem, form, sizeof(form)); }, plan.config);
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
