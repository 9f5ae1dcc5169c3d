// AIR top-k with one cluster of blocks a row: one launch, and blocks that exchange digits without leaving it.
#pragma once

#include <cstddef>

#include "core/problem.h"
#include "cuda/stream.h"

namespace gputopk::cuda::air_cluster {

struct Config {
  int blocks;  // a row: a power of two
  int threads;
  int digit_bits;
  int ranked;          // rank so many at most: up to tuning::kAirClusterMostRanked, k with ranks_winners
  bool ranks_winners;  // rank the winners too, so that they are in order: a small k
};

inline size_t workspace_bytes(const Config&, const Problem&) { return 0; }

// Rows are ordered if winners are ranked.
ErrorCode run(const Config& config, const Problem& problem, const Buffers& buffers, Stream stream);

// The most blocks of a cluster that the current device takes; 1 where it has no clusters.
int most_blocks();

}  // namespace gputopk::cuda::air_cluster
