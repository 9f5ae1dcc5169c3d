// Delegate's plan: which form serves a request, and with what numbers.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cuda/delegate/delegate.h"
#include "cuda/delegate/numbers.h"
#include "cuda/device/index_width.h"
#include "cuda/device/pass_numbers.h"
#include "cuda/device/split.h"

namespace gputopk::cuda::delegate {
namespace {

// The paper's rule 4: alpha = (log2(cols) - log2(k) + const) / 2.
int delegate_alpha(const Problem& problem, int beta) {
  const double ratio = static_cast<double>(problem.cols) / static_cast<double>(problem.k);
  const double alpha =
      (std::log2(ratio) + (beta == 2 ? tuning::kDelegateConst2 : tuning::kDelegateConst1)) / 2;
  const AlphaRange range = alphas(problem, beta);
  return std::clamp(static_cast<int>(std::lround(alpha)), range.least, range.most);
}

// Passes of a selection from so many stored candidates.
int likely_delegate_passes(const Problem& problem, double candidates) {
  const bool wide = dtype_bytes(problem.dtype) == 8 || !has_narrow_indices(problem.cols);
  if (candidates * (wide ? 16 : 8) <= tuning::kStoredListBytes) return 0;
  return candidates <= tuning::kDelegateOnePassCandidates ? 1 : 2;
}

}  // namespace

AlphaRange alphas(const Problem& problem, int beta) {
  const int per_vector = bit_width(static_cast<uint64_t>(16 / dtype_bytes(problem.dtype))) - 1;
  AlphaRange range{per_vector + tuning::kDelegateMinVectorsLog2,
                   per_vector + tuning::kDelegateMaxVectorsLog2};
  // Positions of delegates are 32-bit indices.
  while (range.least < 62 && (problem.cols >> range.least) * beta >= int64_t{1} << 30) ++range.least;
  // There must be k delegates; the last subrange may have none.
  while (range.most > 0 && ((problem.cols >> range.most) - 1) * beta < problem.k) --range.most;
  return range;
}

bool FromMaxima::serves(const Problem& problem, const Device&) {
  const AlphaRange range = alphas(problem, /*beta=*/1);
  return range.least <= range.most;
}

const char* unsupported_reason(const Problem& problem) {
  if (problem.k == 0) return nullptr;
  const Device any{};  // whether a form serves is a matter of sizes
  if (FromMaxima::serves(problem, any) || OneCluster::serves(problem, any)) return nullptr;
  return "it needs rows of more than 64 bytes for each of the k elements, so that there are as many "
         "subranges";
}

FromMaxima FromMaxima::plan(const Problem& problem, const Device& device, const Study& study) {
  FromMaxima config{};
  config.beta = study.beta > 0 ? study.beta : 1;
  config.alpha = study.alpha > 0 ? study.alpha : delegate_alpha(problem, config.beta);
  config.blocks_per_row = blocks_of_passes(problem, device);

  Problem positions = problem;  // the first selection's
  positions.cols = divide_up(problem.cols, int64_t{1} << config.alpha) * config.beta;
  config.first_digit_bits = std::min(tuning::kDelegateDigitBits, digit_bits_that_fit(positions, device));
  config.first_blocks_per_row = blocks_of_passes(positions, device);
  config.first_buffer = buffer_of_passes(positions.cols);

  // At most k subranges are read again, whole; with two delegates each, half of them whole and of the others
  // what one lane read. And the ragged ends.
  config.second_digit_bits = std::min(tuning::kDelegateDigitBits, digit_bits_that_fit(problem, device));
  const int64_t most = (problem.k << config.alpha) / config.beta + problem.k * 32 + 64;
  config.second_buffer =
      std::min({most, problem.cols, std::max(problem.cols / tuning::kDelegateMinBufferShare, 2 * problem.k)});
  config.likely_passes = likely_delegate_passes(problem, 2.0 * static_cast<double>(problem.k));
  config.launches_ahead = device.compute_capability >= 90;
  return config;
}

FromSample FromSample::plan(const Problem& problem, const Device& device) {
  const int element_bytes = dtype_bytes(problem.dtype);
  const double cols = static_cast<double>(problem.cols), k = static_cast<double>(problem.k);
  FromSample config{};

  // The sample: as large as it takes to have few candidates, but a share of the row at most. Of the k best,
  // `winners` are in it, give or take a few times the square root of that.
  const double per_block = tuning::kPassThreads * tuning::kSampleLines * (16.0 / element_bytes);
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
  const int threads = blocks * tuning::kPassThreads;
  int group = 1;
  while (threads / group > tuning::kSampleMostDelegates) group *= 2;
  config.delegates = threads / group;
  // The best delegates of an equal or a sorted row are those of one line. If what they stand for is less than
  // k, one of another line is asked for, which lies far apart: reaching >= k.
  const int of_line = std::min(group, tuning::kSampleLineVectors);
  const int delegates_per_line = tuning::kSampleLineVectors / of_line;
  const double reaching = (std::floor(rank) - 1) * of_line * (16.0 / element_bytes) + 1;
  if (reaching < k) rank = std::max(rank, delegates_per_line + 1.0);
  config.rank = static_cast<int>(std::min(rank, static_cast<double>(config.delegates)));

  config.blocks_per_row = blocks_of_passes(problem, device);
  config.digit_bits = std::min(tuning::kDelegateDigitBits, digit_bits_that_fit(problem, device));
  config.likely_passes = likely_delegate_passes(problem, candidates);
  // Of a sorted or a smooth row the elements of a line are neighbours in rank, so that a delegate stands for
  // all that lie between a line, or its part of it, and the next one.
  const double parts = double{tuning::kSampleLines} * threads / of_line;
  const double of_neighbours = config.rank * cols / parts;
  const double room = std::min(
      std::max({4 * k, cols / tuning::kSampleBufferShare, 1.25 * of_neighbours}),
      std::min(tuning::kSampleMostNeighbours * of_neighbours, cols / tuning::kSampleMostBufferShare));
  config.buffer = std::min(problem.cols, std::max(static_cast<int64_t>(room), 2 * problem.k));
  config.launches_ahead = device.compute_capability >= 90;
  return config;
}

bool FromSample::serves(const Problem& problem, const Device& device) {
  if (problem.cols < tuning::kSampleMinCols || problem.k > problem.cols / tuning::kSampleMinColsPerK)
    return false;
  // A bound near the least delegate would say little.
  const FromSample config = plan(problem, device);
  return config.rank <= config.delegates * tuning::kSampleMostRank;
}

namespace {

// Windows of rows that no sample tells k of: they are listed whole, or their bound is found from them.
void without_sample(const Problem& problem, OneCluster& config) {
  int threads = tuning::kClusterMinThreads;
  while (threads < tuning::kClusterMaxThreads && threads * tuning::kClusterItems < problem.cols) threads *= 2;
  const int64_t room =
      std::min<int64_t>(divide_up(problem.cols, 64) * 64, int64_t{threads} * tuning::kClusterItems);
  if (problem.k > std::min(room, problem.cols)) return;
  config.threads = threads;
  config.room = static_cast<int>(room);
}

}  // namespace

OneCluster OneCluster::plan(const Problem& problem, const Device& device, bool windows) {
  const int per_vector = 16 / dtype_bytes(problem.dtype);
  const double cols = static_cast<double>(problem.cols), k = static_cast<double>(problem.k);
  const bool few_rows = problem.rows <= tuning::kClusterFewRows * device.sm_count;

  // The least work, of a thread, that a sample's elements and the candidates are: of a larger sample there
  // are fewer of these.
  OneCluster config{};
  double least = 0;
  for (int threads = few_rows ? tuning::kClusterFewRowsThreads : tuning::kClusterMinThreads;
       threads <= tuning::kClusterMaxThreads && config.threads == 0; threads *= 2) {
    for (int vectors = 1; vectors <= tuning::cluster_vectors(dtype_bytes(problem.dtype)); vectors *= 2) {
      const double sample = static_cast<double>(threads) * vectors * per_vector, winners = k * sample / cols;
      const double rank = tuning::sample_rank(winners);
      const double candidates = rank * cols / sample;
      const double most = candidates * (1 + 1.0 / tuning::kClusterRankSlack +
                                        tuning::kClusterRoomDeviations / std::sqrt(rank));
      const int64_t room = divide_up(static_cast<int64_t>(std::min(most, cols)), 64) * 64;
      if (rank > threads || room > threads * tuning::kClusterItems ||
          sample * tuning::kClusterSampleShare > cols) {
        continue;
      }
      if (config.threads > 0 && sample + candidates >= least) continue;
      least = sample + candidates;
      config.threads = threads;
      config.vectors = vectors;
      config.rank = static_cast<int>(rank);
      config.room = static_cast<int>(room);
    }
  }
  if (config.threads == 0 && windows) without_sample(problem, config);
  if (config.threads == 0) return config;

  const int per_sm = tuning::kClusterThreadsPerSm / config.threads;
  const double places = tuning::kClusterReach * device.sm_count * per_sm;
  const int most_blocks = std::min(device.cluster_blocks, tuning::kClusterMostBlocks);
  config.blocks = 1;
  while (2 * config.blocks <= most_blocks &&
         static_cast<double>(2 * config.blocks * problem.rows) <= places &&
         2 * config.blocks * tile_elements(problem, config.threads) <= problem.cols) {
    config.blocks *= 2;
  }
  const double at_once = std::min<double>(static_cast<double>(problem.rows) * config.blocks,
                                          static_cast<double>(device.sm_count) * per_sm);
  const double tile_bytes =
      static_cast<double>(tile_elements(problem, config.threads)) * dtype_bytes(problem.dtype);
  config.prefetched_tiles = static_cast<int>(tuning::kClusterPrefetchBytes / (at_once * tile_bytes));
  return config;
}

bool OneCluster::serves(const Problem& problem, const Device& device) {
  // A plan of no threads: no sample tells k of such a row.
  return problem.cols >= tuning::kClusterMinCols && problem.cols <= tuning::kClusterMaxCols &&
         plan(problem, device).threads > 0;
}

bool OneCluster::serves_windows(const Problem& problem, const Device& device) {
  return problem.cols >= tuning::kClusterMinCols && plan(problem, device, /*windows=*/true).threads > 0;
}

void FromMaxima::describe(const Problem&, char* text, size_t text_bytes) const {
  std::snprintf(text, text_bytes,
                "delegate: subranges of 2^%d, beta %d, %d blocks a row, room for %lld candidates", alpha,
                beta, blocks_per_row, static_cast<long long>(second_buffer));
}

void FromSample::describe(const Problem&, char* text, size_t text_bytes) const {
  std::snprintf(text, text_bytes,
                "delegate: bound is number %d of %d delegates of a sample, %d blocks a row, room for %lld "
                "candidates",
                rank, delegates, blocks_per_row, static_cast<long long>(buffer));
}

void OneCluster::describe(const Problem& problem, char* text, size_t text_bytes) const {
  char bound[80] = "bound from the row";
  if (vectors > 0) {
    std::snprintf(bound, sizeof(bound), "bound is number %d of a sample of %d", rank,
                  threads * vectors * (16 / dtype_bytes(problem.dtype)));
  }
  std::snprintf(text, text_bytes,
                "delegate: a cluster of %d blocks a row, %d threads, %s, room for %d candidates", blocks,
                threads, bound, room);
}

Work FromMaxima::work(const Problem& problem, const Device& device) const {
  // Every subrange that may hold a winner is read again.
  const double again = static_cast<double>(problem.k << alpha) / static_cast<double>(problem.cols);
  return work_of(problem, device, problem.rows * blocks_per_row, tuning::kPassThreads,
                 tuning::kPassBlocksPerSm, 1 + std::min(1.0, again));
}

Work FromSample::work(const Problem& problem, const Device& device) const {
  return work_of(problem, device, problem.rows * blocks_per_row, tuning::kPassThreads,
                 tuning::kPassBlocksPerSm,
                 /*reads=*/1);
}

Work OneCluster::work(const Problem& problem, const Device& device) const {
  const bool is_listed = problem.cols <= room;
  return work_of(problem, device, problem.rows * blocks, threads, tuning::kClusterThreadsPerSm / threads,
                 vectors > 0 || is_listed ? 1 : tuning::kClusterReadsWithoutSample);
}

}  // namespace gputopk::cuda::delegate
