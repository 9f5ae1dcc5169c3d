#include "cuda/topk.h"

#include <algorithm>

#include "cuda/order_rows.h"
#include "cuda/workspace.h"

namespace gputopk::cuda {
namespace {

// The visits below take the step by its config's type, which is the algorithm.
size_t step_bytes(const air::Config& config, const Problem& problem) {
  return air::workspace_bytes(config, problem);
}
size_t step_bytes(const air_block::Config&, const Problem&) { return 0; }
size_t step_bytes(const grid_select::Config& config, const Problem& problem) {
  return grid_select::workspace_bytes(config, problem);
}

ErrorCode run_step(const air::Config& config, const Problem& problem, const Buffers& buffers, Stream stream) {
  return air::run(config, problem, buffers, stream);
}
ErrorCode run_step(const air_block::Config& config, const Problem& problem, const Buffers& buffers,
                   Stream stream) {
  return air_block::run(config, problem, buffers, stream);
}
ErrorCode run_step(const grid_select::Config& config, const Problem& problem, const Buffers& buffers,
                   Stream stream) {
  return grid_select::run(config, problem, buffers, stream);
}

// The selection's own memory and, where rows are to be ordered, its unordered winners; order_rows works in
// the memory that the selection no longer needs.
struct Memory {
  char* step;
  Buffers winners;
  size_t bytes;

  Memory(const Plan& plan, void* base) {
    const Problem& problem = plan.problem;
    const int64_t count = problem.rows * problem.k;
    Workspace workspace(base);
    if (plan.order_rows) {
      winners.values = workspace.take<char>(count * dtype_bytes(problem.dtype));
      winners.indices = workspace.take<char>(count * (problem.wide_indices ? 8 : 4));
    }
    size_t step_bytes_needed =
        std::visit([&](const auto& config) { return step_bytes(config, problem); }, plan.config);
    if (plan.order_rows)
      step_bytes_needed = std::max(step_bytes_needed, order_rows::workspace_bytes(problem));
    step = workspace.take<char>(static_cast<int64_t>(step_bytes_needed));
    bytes = workspace.bytes();
  }
};

}  // namespace

size_t workspace_bytes(const Plan& plan) { return Memory(plan, nullptr).bytes; }

ErrorCode run(const Plan& plan, const Buffers& buffers, Stream stream) {
  const Memory memory(plan, buffers.workspace);
  Buffers selected = buffers;
  selected.workspace = memory.step;
  if (plan.order_rows) {
    selected.values = memory.winners.values;
    selected.indices = memory.winners.indices;
  }
  const ErrorCode error = std::visit(
      [&](const auto& config) { return run_step(config, plan.problem, selected, stream); }, plan.config);
  if (error != 0 || !plan.order_rows) return error;
  Buffers ordered = buffers;
  ordered.workspace = memory.step;
  return order_rows::run(plan.problem, selected.values, selected.indices, ordered, stream);
}

}  // namespace gputopk::cuda
