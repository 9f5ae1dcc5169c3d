// How large a sample of a row's elements is that gives two bounds between which the row's k-th best lies, all
// but surely: host code that delegate and sparsification share. element_bounds.cuh takes it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/problem.h"
#include "cuda/device/index_width.h"
#include "cuda/device/numbers.h"
#include "cuda/gpu.h"
#include "cuda/sampled_bounds.h"

namespace gputopk::cuda {

constexpr int elements_of_block(const ElementSample& sample) {
  return sample.threads * tuning::kTwoBoundsElements;
}
constexpr int64_t elements_of(const ElementSample& sample) {
  return int64_t{sample.blocks} * elements_of_block(sample);
}
// Whether they come in sectors of memory, else one by one; and how many a sector has.
constexpr bool in_sectors(const ElementSample& sample) {
  return sample.blocks >= tuning::kTwoBoundsSectorBlocks;
}
inline int side_by_side(const ElementSample& sample, const Problem& problem) {
  return in_sectors(sample) ? 2 * std::min(16 / dtype_bytes(problem.dtype), tuning::kTwoBoundsElements) : 1;
}

// Of the winners in a block's part of the sample, a binomial variable.
struct SampledWinners {
  double mean, deviation;

  SampledWinners(const ElementSample& sample, const Problem& problem) {
    const double share = static_cast<double>(problem.k) / static_cast<double>(problem.cols);
    mean = elements_of_block(sample) * share;
    deviation = std::sqrt(mean * (1 - share));
  }
};

inline const tuning::Confidence& confidence_of(const ElementSample& sample) {
  return tuning::kTwoBoundsConfidence[bit_width(static_cast<uint64_t>(sample.blocks)) - 1];
}

// As many blocks as the GPU has SMs for with those of all rows.
inline ElementSample element_sample(const Problem& problem, const Device& device) {
  const int64_t most = problem.cols / tuning::kTwoBoundsShare;
  const auto of_threads = [&](int threads) {
    ElementSample sample{1, threads};
    while (2 * sample.blocks <= tuning::kTwoBoundsMostBlocks && 2 * elements_of(sample) <= most &&
           2 * sample.blocks * problem.rows <= device.sm_count) {
      sample.blocks *= 2;
    }
    return sample;
  };
  const ElementSample large = of_threads(tuning::kTwoBoundsThreads);
  const ElementSample small = of_threads(tuning::kTwoBoundsMinThreads);
  return elements_of(large) > most || large.blocks < small.blocks ? small : large;
}

// Such that the last winner lies between the bounds, all but surely.
inline BoundRanks bound_ranks(const ElementSample& sample, const Problem& problem) {
  const SampledWinners winners(sample, problem);
  const tuning::Confidence& confidence = confidence_of(sample);
  // Of a sorted or an equal row a block's part has as many winners as are to be expected, but for what it
  // takes of one stratum. Most blocks are off by less than half of that, and the bounds' places leave the
  // others out.
  const double of_stratum = in_sectors(sample) ? side_by_side(sample, problem) / 2.0 : 0;
  const double spread = confidence.deviations * winners.deviation + confidence.ranks + of_stratum;
  const double lower = std::ceil(winners.mean + spread), upper = std::floor(winners.mean - spread + 1);
  return {static_cast<int>(std::min(lower, elements_of_block(sample) + 1.0)),
          static_cast<int>(std::max(upper, 0.0)), confidence.place};
}

struct ElementBounds {
  ElementSample sample;
  BoundRanks ranks;
  double candidates;      // between the bounds, as far as can be expected
  int64_t room;           // for them
  int64_t reaching_room;  // for all that reach the lower one
};

inline ElementBounds bounds_of_elements(const Problem& problem, const Device& device) {
  ElementBounds bounds{};
  bounds.sample = element_sample(problem, device);
  bounds.ranks = bound_ranks(bounds.sample, problem);
  const SampledWinners winners(bounds.sample, problem);
  const tuning::Confidence& confidence = confidence_of(bounds.sample);
  const double cols = static_cast<double>(problem.cols);
  const double per_rank = cols / elements_of_block(bounds.sample);
  const auto room_for = [&](double ranks, double spread) {
    const double spare = confidence.spare * winners.deviation + tuning::kSampleDeviations * std::sqrt(ranks);
    return std::min(problem.cols,
                    static_cast<int64_t>((ranks + spread * winners.deviation + spare) * per_rank));
  };
  const double ranked = bounds.ranks.lower - bounds.ranks.upper;
  bounds.candidates = std::min(cols, (ranked + confidence.spread * winners.deviation) * per_rank);
  bounds.room = room_for(ranked, confidence.spread);
  bounds.reaching_room = room_for(bounds.ranks.lower, confidence.spread / 2);
  return bounds;
}

}  // namespace gputopk::cuda
