// Sparsification beside its selection: what comes before it and after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/sparsify_problem.h"
#include "cuda/gpu.h"
#include "cuda/sampled_bounds.h"
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

// `aligned`: rows of all tensors begin where vectors of 16 bytes may; dense ones, taken as one, need it of
// the first alone.
Config plan(const SparsifyProblem& problem, const Device& device, bool aligned);

// Whether they do in these buffers.
bool is_aligned(const SparsifyProblem& problem, const SparsifyBuffers& buffers);

// Self, and momentum, with what is added.
ErrorCode accumulate(const Config& config, const SparsifyProblem& problem, const SparsifyBuffers& buffers,
                     Stream stream);

// Copies the values at buffers.indices, and clears their places in self and momentum.
ErrorCode take(const Config& config, const SparsifyProblem& problem, const SparsifyBuffers& buffers,
               Stream stream);

// After `take`: clears what is infinite or NaN in rows of which all winners are.
ErrorCode drop_what_is_not_finite(const Config& config, const SparsifyProblem& problem,
                                  const SparsifyBuffers& buffers, Stream stream);

// All of it with one read, where a sample of a long row tells the bound before the accumulation.
struct OneRead {
  bool two_sided;        // two bounds, else one
  DelegateSample one;    // of the one
  ElementSample sample;  // of the two
  BoundRanks ranks;

  int store_blocks_per_row;
  int blocks_per_row;   // of the passes
  int digit_bits;       // of the passes over candidates, or over the row
  int64_t store;        // for candidates a row
  int64_t buffer;       // for those of them that passes look at: between two bounds
  int likely_passes;    // 0 where few candidates are expected
  int chunk;            // elements whose candidates are stored together
  int chunks_per_warp;  // side by side, whose winners are put in order
  int64_t spans;        // a row, a block each
  bool launches_ahead;  // a kernel's blocks may start while the one before ends

  // `aligned` as above.
  static bool serves(const SparsifyProblem& problem, bool aligned);
  static bool pays(const SparsifyProblem& problem);
  // `two_sided`: a test's choice.
  static OneRead plan(const SparsifyProblem& problem, const Problem& selection, const Device& device,
                      std::optional<bool> two_sided = std::nullopt);
  void describe(char* text, size_t text_bytes) const;
  size_t workspace_bytes(const SparsifyProblem& problem) const;
  ErrorCode run(const SparsifyProblem& problem, const SparsifyBuffers& buffers, Stream stream) const;
};

// All of it in one launch, of rows that the SMs' shared memory holds.
struct Resident {
  int blocks;        // of a row, which all run at once
  int part_vectors;  // of 16 bytes, that a block holds

  // `aligned` as above.
  static bool serves(const SparsifyProblem& problem, const Device& device, bool aligned);
  static Resident plan(const SparsifyProblem& problem, const Device& device);
  void describe(char* text, size_t text_bytes) const;
  size_t workspace_bytes(const SparsifyProblem& problem) const;
  ErrorCode run(const SparsifyProblem& problem, const SparsifyBuffers& buffers, Stream stream) const;
  // Whether that failed as this context, of a part of the GPU perhaps, has no room for so many blocks at
  // once: nothing is changed then, and nothing is left of the error.
  static bool lacked_room(ErrorCode error);
};

}  // namespace gputopk::cuda::sparsify
