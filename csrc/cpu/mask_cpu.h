// Writing sets of each row's elements, on the CPU.
#pragma once

#include <cstddef>

#include "core/mask_problem.h"
#include "cpu/workers.h"

namespace gputopk::cpu {

// What is no worse than one element of each row. Neither throws nor allocates, here and below.
void mask(const MaskProblem& problem, const MaskBuffers& buffers, int threads, ParallelFor parallel_for);

// The k best of each row; `problem` as KeepBuffers says.
size_t keep_workspace_bytes(const Problem& problem, int threads);
void keep(const Problem& problem, const KeepBuffers& buffers, int threads, ParallelFor parallel_for);

}  // namespace gputopk::cpu
