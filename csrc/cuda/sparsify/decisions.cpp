// How many blocks sparsification's own kernels have.

#include <algorithm>

#include "cuda/device/split.h"
#include "cuda/sparsify/numbers.h"
#include "cuda/sparsify/sparsify.h"

namespace gputopk::cuda::sparsify {

bool is_aligned(const SparsifyProblem& problem, const SparsifyBuffers& buffers) {
  const int bytes = dtype_bytes(problem.dtype), add_bytes = dtype_bytes(problem.add_dtype);
  const int64_t width = 16 / bytes;
  const auto lies_well = [&](const void* first, int64_t stride, int64_t element_bytes) {
    const bool begins_well =
        reinterpret_cast<uintptr_t>(first) % static_cast<size_t>(width * element_bytes) == 0;
    return begins_well && (problem.rows == 1 || is_dense(problem) || stride % width == 0);
  };
  return lies_well(buffers.self, problem.self_stride, bytes) &&
         lies_well(buffers.add, problem.add_stride, add_bytes) &&
         lies_well(buffers.momentum, problem.momentum_stride, bytes);
}

int64_t collected_tiles(const SparsifyProblem& problem) {
  return divide_up(problem.cols, tuning::kCollectTile);
}

bool serves_collect(const SparsifyProblem& problem) {
  return dtype_bytes(problem.dtype) <= 4 && problem.cols <= UINT32_MAX &&
         problem.rows * collected_tiles(problem) <= INT32_MAX;
}

bool collects(const SparsifyProblem& problem) {
  return problem.k > problem.cols / tuning::kCollectColsPerK && problem.cols >= tuning::kCollectMinCols;
}

Config plan(const SparsifyProblem& problem, const Device& device, bool aligned) {
  const int64_t most = int64_t{device.sm_count} * tuning::kSparsifyBlocksPerSm;
  const auto blocks_for = [&](int64_t threads) {
    return static_cast<int>(std::clamp<int64_t>(divide_up(threads, tuning::kSparsifyThreads), 1, most));
  };
  Config config{};
  config.width = aligned ? 16 / dtype_bytes(problem.dtype) : 1;
  if (problem.update != Update::kNone) {
    const int64_t vectors = problem.rows * divide_up(problem.cols, config.width);
    config.accumulate_blocks = blocks_for(divide_up(vectors, tuning::kSparsifyInFlight));
  }
  config.take_blocks = blocks_for(problem.rows * problem.k);
  // A block a row does it, but for one long row of nothing but NaN.
  config.drop_blocks =
      static_cast<int>(std::min(most, problem.rows * divide_up(device.sm_count, problem.rows)));
  return config;
}

}  // namespace gputopk::cuda::sparsify
