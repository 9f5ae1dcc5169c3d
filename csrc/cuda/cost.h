// What a form's time is estimated from: the work that its plan makes, in the manner of the cost model of
// Shanbhag, Pirk, Madden (SIGMOD '18, section 7). What a unit of each costs is measured: plan/costs_h200.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/problem.h"
#include "cuda/gpu.h"

namespace gputopk::cuda {

// Ways that a form may go, each of which takes what costs of its own say.
inline constexpr int kMostWays = 3;

struct Work {
  double bytes;     // that the memory moves, each once
  double elements;  // that the busiest SM handles
  double depth;     // elements that one of its threads handles, one after another
  double waves;     // of blocks, one after another: each starts and ends
  double blocks;    // of the busiest SM
  double winners;   // that the busiest SM writes
  double entries;   // that it takes into lists, of rows in random order
  int way = 0;      // of the form's, below kMostWays
};

// Of a form that reads each row `reads` times, in `blocks` blocks of `threads` threads, `per_sm` of which an
// SM holds at once.
inline Work work_of(const Problem& problem, const Device& device, int64_t blocks, int threads, int per_sm,
                    double reads) {
  const auto divide_up = [](int64_t a, int64_t b) { return static_cast<double>((a + b - 1) / b); };
  const double rows = static_cast<double>(problem.rows), cols = static_cast<double>(problem.cols);
  const double k = static_cast<double>(problem.k);
  const double per_block = rows * cols / static_cast<double>(blocks);
  Work work{};
  work.bytes = rows * cols * dtype_bytes(problem.dtype) * reads;
  work.blocks = divide_up(blocks, device.sm_count);
  work.elements = reads * per_block * work.blocks;
  work.waves = divide_up(blocks, int64_t{device.sm_count} * per_sm);
  work.depth = reads * work.waves * per_block / threads;
  work.winners = k * std::max(1.0, rows / device.sm_count);
  work.entries = work.winners * std::log2(1 + cols / k);
  return work;
}

}  // namespace gputopk::cuda
