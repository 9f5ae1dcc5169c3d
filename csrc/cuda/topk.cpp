#include "cuda/topk.h"

#include <algorithm>

namespace gputopk::cuda {

// One after the other, the selection and the step that orders work in the same memory.
size_t workspace_bytes(const Plan& plan) {
  const size_t selection =
      std::visit([&](const auto& config) { return config.workspace_bytes(plan.problem); }, plan.config);
  return std::max(selection, plan.order_rows ? plan.order_rows->workspace_bytes(plan.problem) : 0);
}

ErrorCode run(const Plan& plan, const Buffers& buffers, Stream stream) {
  const ErrorCode error =
      std::visit([&](const auto& config) { return config.run(plan.problem, buffers, stream); }, plan.config);
  if (error != 0 || !plan.order_rows) return error;
  return plan.order_rows->run(plan.problem, buffers, stream);
}

int most_cluster_blocks() { return air::OneCluster::most_blocks(); }

}  // namespace gputopk::cuda
