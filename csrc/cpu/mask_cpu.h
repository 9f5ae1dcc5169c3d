// The mask of what is no worse than one element of each row, on the CPU.
#pragma once

#include "core/mask_problem.h"
#include "cpu/workers.h"

namespace gputopk::cpu {

// Neither throws nor allocates.
void mask(const MaskProblem& problem, const MaskBuffers& buffers, int threads, ParallelFor parallel_for);

}  // namespace gputopk::cpu
