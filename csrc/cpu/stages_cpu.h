// Selection by several keys on the CPU: what is done between the selections and behind the last one.
#pragma once

#include <cstddef>

#include "core/stages.h"
#include "cpu/workers.h"

namespace gputopk::cpu {

// None of the three throws or allocates.
void settle(const Stage& stage, const StageBuffers& buffers, int threads, ParallelFor parallel_for);

// Bytes of workspace for `join` on up to `threads` threads.
size_t join_workspace_bytes(const JoinProblem& problem, int threads);
void join(const JoinProblem& problem, const JoinBuffers& buffers, int threads, ParallelFor parallel_for);

}  // namespace gputopk::cpu
