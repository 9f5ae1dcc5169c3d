// Ragged top-k on the CPU: each row's window by topk_cpu.h's selection.
#pragma once

#include <cstddef>

#include "core/varlen_problem.h"
#include "cpu/topk_cpu.h"

namespace gputopk::cpu {

// Bytes of workspace for `topk_varlen` on up to `threads` threads. Reads starts and lengths, which are the
// host's.
size_t varlen_workspace_bytes(const VarlenProblem& problem, int threads);

// rows >= 1 and k >= 1. Does not throw or allocate.
void topk_varlen(const VarlenProblem& problem, const VarlenBuffers& buffers, int threads,
                 ParallelFor parallel_for);

}  // namespace gputopk::cpu
