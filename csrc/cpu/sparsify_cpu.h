// Sparsification on the CPU: rows over threads, long rows split; each element read once, O(k) memory a
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/sparsify_problem.h"
#include "cpu/topk_cpu.h"

namespace gputopk::cpu {

// Bytes of workspace for `sparsify` on up to `threads` threads.
size_t sparsify_workspace_bytes(const SparsifyProblem& problem, int threads);

// Updates buffers.self and buffers.momentum, and fills buffers.values and buffers.indices. Does not throw or
// allocate. rows >= 1, cols >= 1; with k = 0 it accumulates alone.
void sparsify(const SparsifyProblem& problem, const SparsifyBuffers& buffers, int threads,
              ParallelFor parallel_for);

}  // namespace gputopk::cpu
