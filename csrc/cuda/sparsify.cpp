// How a sparsification's plan is run: accumulate, select, put the winners in ascending order, take them out.
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
  sparsify::Collecting collecting{};
  char* selection = nullptr;  // of the one, then of the other
  size_t bytes = 0;

  SparsifyMemory(const SparsifyPlan& plan, void* base) {
    if (!plan.selection) return;
    const int64_t winners = plan.problem.rows * plan.problem.k;
    Workspace workspace(base);
    indices = workspace.take<char>(winners * (plan.problem.wide_indices ? 8 : 4));
    size_t selecting = workspace_bytes(*plan.selection);
    if (plan.order) {
      positions = workspace.take<char>(winners * (plan.order->problem.wide_indices ? 8 : 4));
      selecting = std::max(selecting, workspace_bytes(*plan.order));
    } else {
      collecting.tiles = sparsify::collected_tiles(plan.problem);
      collecting.bounds = workspace.take<unsigned long long>(plan.problem.rows);
      collecting.places = workspace.take<int64_t>(plan.problem.rows * collecting.tiles);
    }
    selection = workspace.take<char>(static_cast<int64_t>(selecting));
    bytes = workspace.bytes();
  }
};

}  // namespace

size_t workspace_bytes(const SparsifyPlan& plan) { return SparsifyMemory(plan, nullptr).bytes; }

ErrorCode run(const SparsifyPlan& plan, const SparsifyBuffers& buffers, Stream stream) {
  const SparsifyProblem& problem = plan.problem;
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
  if (!plan.order) {
    error = sparsify::collect(plan.config, problem, buffers, memory.indices, memory.collecting, stream);
    if (error != 0) return error;
    return sparsify::drop_what_is_not_finite(plan.config, problem, buffers, stream);
  }
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
