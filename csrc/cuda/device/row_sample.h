// How large a sample of a row is that gives a bound which k of its elements reach, all but surely, and few
// more: host code that delegate and sparsification share. row_sample.cuh takes it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/key_order.h"  // GPUTOPK_HOST_DEVICE
#include "core/problem.h"
#include "cuda/device/index_width.h"
#include "cuda/device/numbers.h"
#include "cuda/device/split.h"
#include "cuda/sampled_bounds.h"

namespace gputopk::cuda {

namespace tuning {

// Of the bound, where so many winners are expected in a sample.
template <class Real>
GPUTOPK_HOST_DEVICE Real sample_rank(Real winners) {
  return ceil(winners + static_cast<Real>(kSampleDeviations) * sqrt(winners) +
              static_cast<Real>(kSampleExtraRank));
}

// The same of a sample of so many elements side by side in each of its strata; 0: of single ones. The best of
// an equal, a sorted or a smooth row are neighbours, those of a stratum's sample among them; of such a row an
// element of another stratum is reached by about as many as a stratum has, >= k.
template <class Real>
GPUTOPK_HOST_DEVICE Real sample_rank_of_neighbours(Real winners, int64_t k, int neighbours) {
  const Real rank = sample_rank(winners);
  const Real of_others = static_cast<Real>(neighbours + 1);
  return rank < of_others && rank < static_cast<Real>(k) ? of_others : rank;
}

}  // namespace tuning

struct RowSample : DelegateSample {
  double candidates;  // that reach the bound, as far as can be expected
  int64_t room;       // for candidates a row
};

// Of lines of memory in so many blocks of a row, of which groups of lanes have the best element for a
// delegate: the bound is the delegate of that rank, and there is room for what it may let in.
inline RowSample with_lines(const Problem& problem, int blocks, int lines, int group, double rank) {
  const int vector = 16 / dtype_bytes(problem.dtype);
  const double cols = static_cast<double>(problem.cols), k = static_cast<double>(problem.k);
  const int threads = blocks * tuning::kPassThreads;
  RowSample sample{{blocks, lines, threads / group, 0, 0}, 0, 0};
  sample.candidates = rank * cols / (static_cast<double>(lines) * threads * vector);
  // The best delegates of an equal or a sorted row are those of one line. If what they stand for is less than
  // k, one of another line is asked for, which lies far apart: reaching >= k.
  const int of_line = std::min(group, tuning::kSampleLineVectors);
  const int delegates_per_line = tuning::kSampleLineVectors / of_line;
  const double reaching = (std::floor(rank) - 1) * of_line * vector + 1;
  if (reaching < k) rank = std::max(rank, delegates_per_line + 1.0);
  sample.rank = static_cast<int>(std::min(rank, static_cast<double>(sample.delegates)));

  // Of a sorted or a smooth row the elements of a line are neighbours in rank, so that a delegate stands for
  // all that lie between a line, or its part of it, and the next one.
  const double parts = static_cast<double>(lines) * threads / of_line;
  const double of_neighbours = sample.rank * cols / parts;
  const double room = std::min(
      std::max({4 * k, cols / tuning::kSampleBufferShare, 1.25 * of_neighbours}),
      std::min(tuning::kSampleMostNeighbours * of_neighbours, cols / tuning::kSampleMostBufferShare));
  sample.room = std::min(problem.cols, std::max(static_cast<int64_t>(room), 2 * problem.k));
  return sample;
}

// The same of the rank that tells k, as far as can be expected.
inline RowSample with_lines(const Problem& problem, int blocks, int lines, int group) {
  const double elements = double{tuning::kPassThreads} * blocks * lines * (16 / dtype_bytes(problem.dtype));
  const double winners = elements * static_cast<double>(problem.k) / static_cast<double>(problem.cols);
  return with_lines(problem, blocks, lines, group, tuning::sample_rank(winners));
}

inline RowSample sample_of_lines(const Problem& problem) {
  const int element_bytes = dtype_bytes(problem.dtype);
  const double cols = static_cast<double>(problem.cols), k = static_cast<double>(problem.k);

  // As large as it takes to have few candidates, but a share of the row at most. Of the k best, `winners` are
  // in it, give or take a few times the square root of that.
  const double per_block = tuning::kPassThreads * tuning::kSampleLines * (16.0 / element_bytes);
  const double most_blocks =
      std::clamp(cols / tuning::kSampleShare / per_block, 1.0,
                 std::max(1.0, double{tuning::kSampleMostBlocks} / static_cast<double>(problem.rows)));
  double rank = 0;
  int blocks = tuning::kSampleMinBlocks;
  for (;; blocks *= 2) {
    blocks = std::min(blocks, static_cast<int>(most_blocks));
    const double winners = blocks * per_block * k / cols;
    rank = winners + tuning::kSampleDeviations * std::sqrt(winners) + tuning::kSampleExtraRank;
    const double candidates = rank * cols / (blocks * per_block);
    const bool enough = candidates <= std::max(tuning::kSampleFewCandidates, tuning::kSampleFewTimesK * k);
    if (enough || 2 * blocks > most_blocks) break;
  }
  const int threads = blocks * tuning::kPassThreads;
  int group = 1;
  while (threads / group > tuning::kSampleMostDelegates) group *= 2;
  return with_lines(problem, blocks, tuning::kSampleLines, group, rank);
}

// The rank of a delegate that fewer than k elements reach, all but surely; 0 where none tells.
inline int upper_rank(const Problem& problem, const RowSample& sample) {
  const double elements =
      double{tuning::kPassThreads} * sample.blocks * sample.lines * (16 / dtype_bytes(problem.dtype));
  const double winners = elements * static_cast<double>(problem.k) / static_cast<double>(problem.cols);
  // Some delegates stand for more winners than one.
  const double reached = sample.delegates * (1 - std::exp(-winners / sample.delegates));
  const double rank = reached - tuning::kSampleDeviations * std::sqrt(winners) - tuning::kSampleExtraRank;
  return static_cast<int>(std::max(rank, 0.0));
}

// Whether such a bound says much: near the least delegate it would not.
inline bool sample_of_lines_tells(const Problem& problem) {
  if (problem.cols < tuning::kSampleMinCols || problem.k > problem.cols / tuning::kSampleMinColsPerK)
    return false;
  const RowSample sample = sample_of_lines(problem);
  return sample.rank <= sample.delegates * tuning::kSampleMostRank;
}

// Of elements far apart, each a delegate: where a good part of the row wins, so that few tell how many do.
inline RowSample sample_of_elements(const Problem& problem) {
  const double cols = static_cast<double>(problem.cols);
  RowSample sample{};
  sample.delegates = tuning::kSampleMostDelegates;
  sample.blocks = sample.delegates / tuning::kPassThreads;
  const double winners = sample.delegates * static_cast<double>(problem.k) / cols;
  sample.rank = std::min(static_cast<int>(tuning::sample_rank(winners)), sample.delegates);
  sample.candidates = sample.rank * cols / sample.delegates;
  const double most = 1 + 1.0 / tuning::kSampleElementsSlack +
                      tuning::kSampleDeviations / std::sqrt(static_cast<double>(sample.rank));
  sample.room = std::min(problem.cols, static_cast<int64_t>(most * sample.candidates));
  return sample;
}

}  // namespace gputopk::cuda
