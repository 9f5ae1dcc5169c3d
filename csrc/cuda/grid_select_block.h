// GridSelect with a list of candidates a block in shared memory: k up to 4096, one read, one launch.
#pragma once

#include <cstddef>

#include "core/problem.h"
#include "cuda/stream.h"

namespace gputopk::cuda::grid_select_block {

inline constexpr int64_t kMaxK = 4096;

struct Config {
  int threads;
  int blocks_per_row;
  int blocks_per_group;  // whose candidates one block merges
  int capacity;          // entries of a block's list: more than k
  int digit_bits;        // of the digits by which a list is pruned
  int first_review;      // tiles after which a block first prunes its list and publishes its bound...
  int review_growth;     // ...and then after so many times as many; at least 2
  bool in_order;         // winners are ranked: a small k
};

size_t workspace_bytes(const Config& config, const Problem& problem);

// Rows are ordered if config.in_order.
ErrorCode run(const Config& config, const Problem& problem, const Buffers& buffers, Stream stream);

}  // namespace gputopk::cuda::grid_select_block
