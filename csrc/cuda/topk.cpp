#include "cuda/topk.h"

#include <algorithm>

#include "cuda/order_rows.h"
#include "cuda/workspace.h"

namespace gputopk::cuda {
namespace {

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
        std::visit([&](const auto& config) { return workspace_bytes(config, problem); }, plan.config);
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
  // The config's type is the algorithm: the call finds the namespace that it is from.
  const ErrorCode error = std::visit(
      [&](const auto& config) { return run(config, plan.problem, selected, stream); }, plan.config);
  if (error != 0 || !plan.order_rows) return error;
  Buffers ordered = buffers;
  ordered.workspace = memory.step;
  return order_rows::run(plan.problem, selected.values, selected.indices, ordered, stream);
}

}  // namespace gputopk::cuda
