// AIR top-k with one block a row: one launch, and reads after the first mostly from cache.
#pragma once

#include <cstddef>

#include "core/problem.h"
#include "cuda/stream.h"

namespace gputopk::cuda::air_block {

struct Config {
  int digit_bits;
  int threads;
  bool lists_row;      // rank the whole row: cols <= tuning::kAirBlockList
  bool lists_winners;  // rank the winners too, so that they are in order: a small k
};

inline size_t workspace_bytes(const Config&, const Problem&) { return 0; }

// Rows are ordered if winners, or whole rows, are listed.
ErrorCode run(const Config& config, const Problem& problem, const Buffers& buffers, Stream stream);

}  // namespace gputopk::cuda::air_block
