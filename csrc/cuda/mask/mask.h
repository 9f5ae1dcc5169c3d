// Writing sets of each row's elements.
#pragma once

#include "core/mask_problem.h"
#include "cuda/gpu.h"
#include "cuda/stream.h"

namespace gputopk::cuda::mask {

// What is no worse than one element of each row. One launch.
ErrorCode run(const MaskProblem& problem, const MaskBuffers& buffers, Stream stream);

// Winners of each row, in any order, as a form of top-k writes them.
struct ListedWinners {
  const void* values;  // rows x k
  const void* indices;
};

// Rows of nothing but these. One launch where k is small, otherwise two.
ErrorCode run_listed(const Problem& problem, const ListedWinners& winners, const KeptOutput& output,
                     Stream stream);

}  // namespace gputopk::cuda::mask
