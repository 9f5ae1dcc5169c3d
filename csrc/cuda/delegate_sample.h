// Delegate top-k with a bound from a sample: one read of a long row, whatever it holds.
#pragma once

#include <cstddef>

#include "core/problem.h"
#include "cuda/stream.h"

namespace gputopk::cuda::delegate_sample {

struct Config {
  int sample_blocks_per_row;
  int delegates;  // a row, each of a group of lanes: a power of two up to 32
  int rank;       // the delegate that is the bound
  int blocks_per_row;
  int digit_bits;       // of the passes over candidates, or over the row
  int64_t buffer;       // candidates a row
  int likely_passes;    // 0 where few candidates are expected
  bool launches_ahead;  // a kernel's blocks may start while the one before ends
};

size_t workspace_bytes(const Config& config, const Problem& problem);

// Leaves rows unordered.
ErrorCode run(const Config& config, const Problem& problem, const Buffers& buffers, Stream stream);

}  // namespace gputopk::cuda::delegate_sample
