// Puts each row's k winners in order: best first, equal values by index.
#pragma once

#include <cstddef>

#include "core/problem.h"
#include "cuda/stream.h"

namespace gputopk::cuda::order_rows {

size_t workspace_bytes(const Problem& problem);

// Reorders buffers.values and buffers.indices in place.
ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream);

}  // namespace gputopk::cuda::order_rows
