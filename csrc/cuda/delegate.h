// Delegate top-k (Dr. Top-k) for long rows: one read, then only what can hold winners is read again.
#pragma once

#include <cstddef>

#include "core/problem.h"
#include "cuda/stream.h"

namespace gputopk::cuda::delegate {

struct Config {
  int alpha;           // a subrange has 2^alpha elements
  int beta;            // delegates of a subrange: its best element, or its best two
  int blocks_per_row;  // that read the row
  // Of the first selection, from the delegates, and of the second, from the candidates.
  int first_digit_bits;
  int second_digit_bits;
  int first_blocks_per_row;
  int64_t first_buffer;   // delegates a row that can be stored between passes
  int64_t second_buffer;  // candidates a row; if there are more, the second selection is from the row
  int likely_passes;      // of the second selection: 0 where few candidates are expected
  bool launches_ahead;    // a kernel's blocks may start while the one before ends
};

size_t workspace_bytes(const Config& config, const Problem& problem);

// Leaves rows unordered.
ErrorCode run(const Config& config, const Problem& problem, const Buffers& buffers, Stream stream);

}  // namespace gputopk::cuda::delegate
