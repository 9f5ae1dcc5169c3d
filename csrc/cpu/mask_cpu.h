// Writing sets of each row's elements, on the CPU.
#pragma once

#include "core/mask_problem.h"
#include "cpu/workers.h"

namespace gputopk::cpu {

// What is no worse than one element of each row. Neither throws nor allocates, here and below.
void mask(const MaskProblem& problem, const MaskBuffers& buffers, int threads, ParallelFor parallel_for);

// Rows of nothing but these winners: values, where elements are kept, and indices of int64, rows x k, in any
// order.
void mask_listed(const Problem& problem, const void* values, const int64_t* indices, const KeptOutput& output,
                 int threads, ParallelFor parallel_for);

}  // namespace gputopk::cpu
