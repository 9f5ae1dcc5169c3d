// How a sparsification's plan is run: in one launch, with one read, or step by step: accumulate, select, put
// the winners in ascending order, take them out.
#include "cuda/topk.h"

#include <algorithm>

#include "cuda/workspace.h"

namespace gputopk::cuda {
namespace {

// What a selection hands to the step that puts its winners in ascending order: their indices. The other
// outputs of the two are of no use.
struct SparsifyMemory {
  char* indices = nullptr;
  char* positions = nullptr;
  char* selection = nullptr;  // of the one, then of the other
  size_t bytes = 0;

  SparsifyMemory(const SparsifyPlan& plan, void* base) {
    if (!plan.selection) return;
    const int64_t winners = plan.problem.rows * plan.problem.k;
    Workspace workspace(base);
    indices = workspace.take<char>(winners * (plan.problem.wide_indices ? 8 : 4));
    positions = workspace.take<char>(winners * (plan.order->problem.wide_indices ? 8 : 4));
    const size_t selecting = std::max(workspace_bytes(*plan.selection), workspace_bytes(*plan.order));
    selection = workspace.take<char>(static_cast<int64_t>(selecting));
    bytes = workspace.bytes();
  }
};

}  // namespace

size_t workspace_bytes(const SparsifyPlan& plan) {
  const size_t resident = plan.resident ? plan.resident->workspace_bytes(plan.problem) : 0;
  const size_t others =
      plan.one_read ? plan.one_read->workspace_bytes(plan.problem) : SparsifyMemory(plan, nullptr).bytes;
  return std::max(resident, others);
}

ErrorCode run(const SparsifyPlan& plan, const SparsifyBuffers& buffers, Stream stream) {
  const SparsifyProblem& problem = plan.problem;
  if (plan.resident) {
    const ErrorCode error = plan.resident->run(problem, buffers, stream);
    if (!sparsify::Resident::lacked_room(error)) return error;
  }
  if (plan.one_read) return plan.one_read->run(problem, buffers, stream);
  if (problem.update != Update::kNone) {
    const ErrorCode error = sparsify::accumulate(plan.config, problem, buffers, stream);
    if (error != 0) return error;
  }
  if (!plan.selection) return 0;
  const SparsifyMemory memory(plan, buffers.workspace);
  Buffers selection;
  selection.input = buffers.self;
  selection.values = buffers.values;  // written again, in order
  selection.indices = memory.indices;
  selection.workspace = memory.selection;
  ErrorCode error = run(*plan.selection, selection, stream);
  if (error != 0) return error;
  Buffers order;
  order.input = memory.indices;
  order.values = buffers.indices;
  order.indices = memory.positions;
  order.workspace = memory.selection;
  error = run(*plan.order, order, stream);
  if (error != 0) return error;
  error = sparsify::take(plan.config, problem, buffers, stream);
  if (error != 0) return error;
  return sparsify::drop_what_is_not_finite(plan.config, problem, buffers, stream);
}

}  // namespace gputopk::cuda
