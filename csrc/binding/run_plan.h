// How a plan is run on CUDA: shared by gputopk::topk and the study operators.
#pragma once

#include "binding/canonical.h"
#include "cuda/plan/plan.h"

namespace gputopk::binding {

// Allocates the workspace, launches, and throws where a launch fails.
void run_plan(const cuda::Plan& plan, const Request& request, Buffers buffers);

}  // namespace gputopk::binding
