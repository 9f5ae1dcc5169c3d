#include "cuda/topk.h"

#include <algorithm>

#include "cuda/order_rows.h"

namespace gputopk::cuda {
namespace {

// The visits below take the step by its config's type, which is the algorithm.
size_t step_bytes(const air::Config& config, const Problem& problem) { return air::workspace_bytes(config, problem); }
size_t step_bytes(const air_block::Config&, const Problem&) { return 0; }

ErrorCode run_step(const air::Config& config, const Problem& problem, const Buffers& buffers, Stream stream) {
  return air::run(config, problem, buffers, stream);
}
ErrorCode run_step(const air_block::Config& config, const Problem& problem, const Buffers& buffers,
                     Stream stream) {
  return air_block::run(config, problem, buffers, stream);
}

}  // namespace

size_t workspace_bytes(const Plan& plan) {
  const size_t select =
      std::visit([&](const auto& config) { return step_bytes(config, plan.problem); }, plan.config);
  // The two steps follow each other on one stream and share the memory.
  return plan.order_rows ? std::max(select, order_rows::workspace_bytes(plan.problem)) : select;
}

ErrorCode run(const Plan& plan, const Buffers& buffers, Stream stream) {
  const ErrorCode error = std::visit(
      [&](const auto& config) { return run_step(config, plan.problem, buffers, stream); }, plan.config);
  if (error != 0 || !plan.order_rows) return error;
  return order_rows::run(plan.problem, buffers, stream);
}

}  // namespace gputopk::cuda
