// The CPU algorithm: a running threshold, a vectorised compare in front of it, rows over threads, and one
// long row split over threads. Same key order and tie rule as CUDA, so the same answers to the bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/problem.h"
#include "cpu/layout.h"
#include "cpu/workers.h"

namespace gputopk::cpu {

// Rows lie as `layout` says, here and below; problem.row_stride is not read.
// Bytes of workspace for `topk` on up to `threads` threads: O(k) a thread and a small buffer.
size_t workspace_bytes(const Problem& problem, const Layout& layout, int threads);

// Enough for `topk` on one thread of one dense row of up to so many elements and winners.
size_t row_workspace_bytes(DType dtype, int64_t cols, int64_t k);

// Fills buffers.values and buffers.indices. 1 <= k <= cols, rows >= 1. Does not throw or allocate.
void topk(const Problem& problem, const Layout& layout, const Buffers& buffers, int threads,
          ParallelFor parallel_for);

// The plan in one line: split by rows or within rows, threads, vector width.
const char* describe(const Problem& problem, const Layout& layout, int threads, char* text,
                     size_t text_bytes);

}  // namespace gputopk::cpu
