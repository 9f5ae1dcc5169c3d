#include "cuda/topk.h"

#include <algorithm>

namespace gputopk::cuda {

namespace {

template <class Visitor>
auto visit_form(const Config& config, Visitor&& visitor) {
  return std::visit(visitor, config);
}
template <class Visitor>
auto visit_form(const air::ManyBlocks& form, Visitor&& visitor) {
  return visitor(form);
}

// One after the other, the selection and the step behind it work in the same memory.
template <class Selection>
size_t workspace_bytes(const Steps<Selection>& steps, const Problem& problem) {
  const size_t selection =
      visit_form(steps.config, [&](const auto& form) { return form.workspace_bytes(problem); });
  size_t step = 0;
  if (steps.order_rows) step = steps.order_rows->workspace_bytes(problem);
  if (steps.last_in_place) step = steps.last_in_place->workspace_bytes(problem);
  return std::max(selection, step);
}

template <class Selection>
ErrorCode run(const Steps<Selection>& steps, const Problem& problem, const Buffers& buffers, Stream stream) {
  const ErrorCode error =
      visit_form(steps.config, [&](const auto& form) { return form.run(problem, buffers, stream); });
  if (error != 0) return error;
  if (steps.order_rows) return steps.order_rows->run(problem, buffers, stream);
  if (steps.last_in_place) return steps.last_in_place->run(problem, buffers, stream);
  return error;
}

}  // namespace

size_t workspace_bytes(const Plan& plan) {
  const size_t bytes = workspace_bytes(plan, plan.problem);
  return plan.without_room ? std::max(bytes, workspace_bytes(*plan.without_room, plan.problem)) : bytes;
}

ErrorCode run(const Plan& plan, const Buffers& buffers, Stream stream) {
  const ErrorCode error = run(plan, plan.problem, buffers, stream);
  if (!plan.without_room || !air::ResidentGrid::lacked_room(error)) return error;
  return run(*plan.without_room, plan.problem, buffers, stream);
}

int most_cluster_blocks() { return air::OneCluster::most_blocks(); }

}  // namespace gputopk::cuda
