// Reranking on the CPU: queries over threads, O(k) memory a thread, each vector read once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rerank_problem.h"
#include "cpu/topk_cpu.h"

namespace gputopk::cpu {

// Bytes of workspace for `rerank` on up to `threads` threads.
size_t rerank_workspace_bytes(const RerankProblem& problem, int threads);

// Fills buffers.distances and buffers.ids. Does not throw or allocate.
void rerank(const RerankProblem& problem, const RerankBuffers& buffers, int threads,
            ParallelFor parallel_for);

// The plan in one line: threads, vector width.
const char* describe_rerank(const RerankProblem& problem, int threads, char* text, size_t text_bytes);

}  // namespace gputopk::cpu
