// Sparsification beside its selection: what comes before it and after it.
#pragma once

#include <cstdint>

#include "core/sparsify_problem.h"
#include "cuda/gpu.h"
#include "cuda/stream.h"

namespace gputopk::cuda::sparsify {

// Whether the rows of all tensors lie one behind the other, so that they are accumulated as one.
constexpr bool is_dense(const SparsifyProblem& problem) {
  return problem.self_stride == problem.cols && problem.add_stride == problem.cols &&
         (problem.update != Update::kMomentum || problem.momentum_stride == problem.cols);
}

struct Config {
  int width;              // elements that a thread accumulates at a time: 16 bytes, or one
  int accumulate_blocks;  // 0: nothing is added
  int take_blocks;
  int drop_blocks;
};

// `aligned`: rows of all tensors begin where vectors of 16 bytes may.
Config plan(const SparsifyProblem& problem, const Device& device, bool aligned);

// Whether they do in these buffers.
bool is_aligned(const SparsifyProblem& problem, const SparsifyBuffers& buffers);

// Self, and momentum, with what is added.
ErrorCode accumulate(const Config& config, const SparsifyProblem& problem, const SparsifyBuffers& buffers,
                     Stream stream);

// Copies the values at buffers.indices, and clears their places in self and momentum.
ErrorCode take(const Config& config, const SparsifyProblem& problem, const SparsifyBuffers& buffers,
               Stream stream);

// Where `collect` works.
struct Collecting {
  int64_t tiles;               // a row: collected_tiles
  unsigned long long* bounds;  // rows
  int64_t* places;             // rows x tiles
};

// Whether `collect` serves the request, as a winner's key and index fit 64 bits, and whether it pays.
bool serves_collect(const SparsifyProblem& problem);
bool collects(const SparsifyProblem& problem);

int64_t collected_tiles(const SparsifyProblem& problem);

// In place of ascending indices and `take`: `found` are the winners' indices, and buffers.values their
// values, in any order.
ErrorCode collect(const Config& config, const SparsifyProblem& problem, const SparsifyBuffers& buffers,
                  const void* found, const Collecting& collecting, Stream stream);

// After `take`: clears what is infinite or NaN in rows of which all winners are.
ErrorCode drop_what_is_not_finite(const Config& config, const SparsifyProblem& problem,
                                  const SparsifyBuffers& buffers, Stream stream);

}  // namespace gputopk::cuda::sparsify
