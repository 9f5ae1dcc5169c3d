// AIR top-k over many blocks a row: any dtype, rows, cols and k.
#pragma once

#include <cstddef>

#include "core/problem.h"
#include "cuda/stream.h"

namespace gputopk::cuda::air {

struct Config {
  int blocks_per_row;
  int digit_bits;       // of every digit but the last
  int64_t buffer;       // candidates a row that can be stored between passes
  bool adaptive;        // store them only where that saves reading; off only for the paper's ablation
  bool launches_ahead;  // a pass's blocks may start while the pass before ends
  bool early_stop;      // stop when all candidates are winners; off only for the paper's ablation
};

size_t workspace_bytes(const Config& config, const Problem& problem);

// Leaves rows unordered.
ErrorCode run(const Config& config, const Problem& problem, const Buffers& buffers, Stream stream);

}  // namespace gputopk::cuda::air
