// The mask of what is no worse than one element of each row.
#pragma once

#include "core/mask_problem.h"
#include "cuda/stream.h"

namespace gputopk::cuda::mask {

// One read of the input and one write of the mask. Needs no workspace.
ErrorCode run(const MaskProblem& problem, const MaskBuffers& buffers, Stream stream);

}  // namespace gputopk::cuda::mask
