#include "cuda/topk.h"

#include <algorithm>

namespace gputopk::cuda {

// One after the other, the selection and the step behind it work in the same memory.
size_t workspace_bytes(const Plan& plan) {
  const size_t selection =
      std::visit([&](const auto& config) { return config.workspace_bytes(plan.problem); }, plan.config);
  size_t step = 0;
  if (plan.order_rows) step = plan.order_rows->workspace_bytes(plan.problem);
  if (plan.last_in_place) step = plan.last_in_place->workspace_bytes(plan.problem);
  return std::max(selection, step);
}

ErrorCode run(const Plan& plan, const Buffers& buffers, Stream stream) {
  const ErrorCode error =
      std::visit([&](const auto& config) { return config.run(plan.problem, buffers, stream); }, plan.config);
  if (error != 0) return error;
  if (plan.order_rows) return plan.order_rows->run(plan.problem, buffers, stream);
  if (plan.last_in_place) return plan.last_in_place->run(plan.problem, buffers, stream);
  return error;
}

int most_cluster_blocks() { return air::OneCluster::most_blocks(); }

}  // namespace gputopk::cuda
