// GridSelect: each warp keeps the k best entries that it has read, in registers. For k up to kMaxK.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/problem.h"
#include "cuda/stream.h"

namespace gputopk::cuda::grid_select {

inline constexpr int64_t kMaxK = 256;

struct Config {
  int blocks_per_row;   // 0: a warp takes a row
  int threads;          // a block
  int samplers;         // warps of a block that look at a sample first, 1 at least
  bool thread_queues;   // a queue a lane instead of one a warp: float32 only, for the paper's ablation
  bool launches_ahead;  // the GPU can start a kernel while the one before ends
};

size_t workspace_bytes(const Config& config, const Problem& problem);

// Leaves rows in order.
ErrorCode run(const Config& config, const Problem& problem, const Buffers& buffers, Stream stream);

}  // namespace gputopk::cuda::grid_select
