// Selection by several keys: what is done between the selections and behind the last one.
#pragma once

#include <cstdint>

#include "core/stages.h"
#include "cuda/stream.h"

namespace gputopk::cuda::stages {

// The most winners of a row that `join` puts in order.
int64_t most_ordered();

ErrorCode settle(const Stage& stage, const StageBuffers& buffers, Stream stream);

// In order where problem.most <= most_ordered(), or order is `any`. Needs no workspace.
ErrorCode join(const JoinProblem& problem, const JoinBuffers& buffers, Stream stream);

}  // namespace gputopk::cuda::stages
