#include "cuda/topk.h"

#include <algorithm>

#include "cuda/workspace.h"

namespace gputopk::cuda {
namespace {

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
