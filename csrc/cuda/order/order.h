// Puts each row's k winners in order: best first, equal values by index.
#pragma once

#include <cstddef>

#include "core/problem.h"
#include "cuda/stream.h"

namespace gputopk::cuda::order_rows {

size_t workspace_bytes(const Problem& problem);

// Reads rows x k unordered winners, `values` and `indices` in the dtypes of the outputs, and fills
// buffers.values and buffers.indices.
ErrorCode run(const Problem& problem, const void* values, const void* indices, const Buffers& buffers,
              Stream stream);

}  // namespace gputopk::cuda::order_rows
