#include "cuda/topk.h"

#include <algorithm>

#include "cuda/order/order.h"
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
        std::visit([&](const auto& config) { return config.workspace_bytes(problem); }, plan.config);
    if (plan.order_rows)
      step_bytes_needed = std::max(step_bytes_needed, order_rows::workspace_bytes(problem));
    step = workspace.take<char>(static_cast<int64_t>(step_bytes_needed));
    bytes = workspace.bytes();
  }
};

// Where reranking stores keys: those of all candidates, and what a top-k makes of them.
struct RerankMemory {
  uint32_t* keys = nullptr;
  uint32_t* winner_keys = nullptr;
  int32_t* winner_positions = nullptr;
  char* selection = nullptr;
  size_t bytes = 0;

  RerankMemory(const RerankPlan& plan, void* base) {
    if (!plan.selection) return;
    const RerankProblem& problem = plan.problem;
    Workspace workspace(base);
    keys = workspace.take<uint32_t>(problem.queries * problem.candidates);
    winner_keys = workspace.take<uint32_t>(problem.queries * problem.k);
    winner_positions = workspace.take<int32_t>(problem.queries * problem.k);
    selection = workspace.take<char>(static_cast<int64_t>(workspace_bytes(*plan.selection)));
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
  const ErrorCode error =
      std::visit([&](const auto& config) { return config.run(plan.problem, selected, stream); }, plan.config);
  if (error != 0 || !plan.order_rows) return error;
  Buffers ordered = buffers;
  ordered.workspace = memory.step;
  return order_rows::run(plan.problem, selected.values, selected.indices, ordered, stream);
}

int most_cluster_blocks() { return air::OneCluster::most_blocks(); }

size_t workspace_bytes(const RerankPlan& plan) { return RerankMemory(plan, nullptr).bytes; }

ErrorCode run(const RerankPlan& plan, const RerankBuffers& buffers, Stream stream) {
  if (!plan.selection) return rerank::select(plan.config, plan.problem, buffers, stream);
  const RerankMemory memory(plan, buffers.workspace);
  ErrorCode error = rerank::score(plan.config, plan.problem, buffers, memory.keys, stream);
  if (error != 0) return error;
  Buffers selection;
  selection.input = memory.keys;
  selection.values = memory.winner_keys;
  selection.indices = memory.winner_positions;
  selection.workspace = memory.selection;
  error = run(*plan.selection, selection, stream);
  if (error != 0) return error;
  return rerank::look_up(plan.problem, memory.winner_keys, memory.winner_positions, buffers, stream);
}

}  // namespace gputopk::cuda
