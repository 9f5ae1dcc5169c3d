// The plan of a request: which form of which algorithm, with which numbers. Pure host code, a function of the
// request and the device alone, so it is tested without a GPU. A form is a type: what it may be asked is in
// air/air.h, delegate/delegate.h and so on; how it decides, in that folder's decisions.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <variant>

#include "core/problem.h"
#include "core/rerank_problem.h"
#include "cuda/air/air.h"
#include "cuda/bitonic/bitonic.h"
#include "cuda/delegate/delegate.h"
#include "cuda/gpu.h"
#include "cuda/grid_select/grid_select.h"
#include "cuda/rerank/rerank.h"

namespace gputopk::cuda {

// Every form there is. Of one algorithm's, the first that serves a request takes it.
using Config =
    std::variant<air::OneCluster, air::ResidentRow, air::OneBlock, air::ManyBlocks, bitonic::OneWarp,
                 grid_select::Registers, grid_select::SharedList, delegate::FromSample, delegate::FromMaxima>;

struct Plan {
  Problem problem;
  Device device;
  Config config;
  bool order_rows;  // a step of its own follows
};

// Why `algorithm` cannot serve the request, or nullptr.
const char* unsupported_reason(const Problem& problem, Algorithm algorithm);

// `algorithm` must be supported.
Plan make_plan(const Problem& problem, const Device& device, Algorithm algorithm);

// The plan that runs the request with a config of the caller's.
Plan plan_of(const Problem& problem, const Device& device, const Config& config);

// The plan in one line, "air: ...".
void describe(const Plan& plan, char* text, size_t text_bytes);

struct RerankPlan {
  RerankProblem problem;
  Device device;
  rerank::Config config;
  std::optional<Plan> selection;  // of stored keys
};

RerankPlan make_rerank_plan(const RerankProblem& problem, const Device& device);

// "rerank: ..."
void describe(const RerankPlan& plan, char* text, size_t text_bytes);

}  // namespace gputopk::cuda
