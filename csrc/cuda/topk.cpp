#include "cuda/topk.h"

#include <algorithm>
#include <type_traits>

#include "cuda/workspace.h"

namespace gputopk::cuda {
namespace {

// Where reranking stores keys: those of a slice's candidates, and what a top-k, if there is one, makes of
// them.
struct RerankMemory {
  uint32_t* keys = nullptr;
  uint32_t* winner_keys = nullptr;
  int32_t* winner_positions = nullptr;
  char* selection = nullptr;
  size_t bytes = 0;

  RerankMemory(const RerankPlan& plan, void* base) {
    if (plan.config.way == rerank::Way::kLists) return;
    const RerankProblem& problem = plan.problem;
    Workspace workspace(base);
    const int64_t queries = plan.config.slice;
    keys = workspace.take<uint32_t>(queries * problem.candidates);
    if (plan.selection) {
      winner_keys = workspace.take<uint32_t>(queries * problem.k);
      winner_positions = workspace.take<int32_t>(queries * problem.k);
      selection = workspace.take<char>(static_cast<int64_t>(workspace_bytes(*plan.selection)));
    }
    bytes = workspace.bytes();
  }
};

// The same buffers from query `first` on.
RerankBuffers buffers_from(const RerankProblem& problem, const RerankBuffers& buffers, int64_t first) {
  const auto advanced = [](auto* pointer, int64_t bytes) {
    using Byte =
        std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(pointer)>>, const char, char>;
    return pointer == nullptr ? pointer : static_cast<decltype(pointer)>(static_cast<Byte*>(pointer) + bytes);
  };
  const int64_t id_bytes = problem.wide_ids ? 8 : 4, range_bytes = problem.wide_ranges ? 8 : 4;
  RerankBuffers rest = buffers;
  rest.queries = advanced(buffers.queries, first * problem.query_stride * dtype_bytes(problem.query_dtype));
  if (buffers.row_offsets == nullptr) {
    rest.candidate_ids = advanced(buffers.candidate_ids, first * problem.id_stride * id_bytes);
  }
  rest.lengths = advanced(buffers.lengths, first * range_bytes);
  rest.row_offsets = advanced(buffers.row_offsets, first * range_bytes);
  rest.distances = buffers.distances + first * problem.k;
  rest.ids = advanced(buffers.ids, first * problem.k * id_bytes);
  return rest;
}

ErrorCode run_slice(const RerankPlan& plan, const RerankBuffers& buffers, const RerankMemory& memory,
                    Stream stream) {
  RerankProblem problem = plan.problem;
  problem.queries = plan.config.slice;
  ErrorCode error = rerank::score(plan.config, problem, buffers, memory.keys, stream);
  if (error != 0) return error;
  if (!plan.selection) return rerank::finish(plan.config, problem, buffers, memory.keys, stream);
  Buffers selection;
  selection.input = memory.keys;
  selection.values = memory.winner_keys;
  selection.indices = memory.winner_positions;
  selection.workspace = memory.selection;
  error = run(*plan.selection, selection, stream);
  if (error != 0) return error;
  return rerank::look_up(problem, memory.winner_keys, memory.winner_positions, buffers, stream);
}

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
    selection = workspace.take<char>(
        static_cast<int64_t>(std::max(workspace_bytes(*plan.selection), workspace_bytes(*plan.order))));
    bytes = workspace.bytes();
  }
};

// Where a ragged top-k keeps candidates that were moved together, and what is selected.
struct VarlenMemory {
  varlen::Moved moved;
  void* values = nullptr;
  void* positions = nullptr;
  char* ordering = nullptr;
  size_t bytes = 0;

  VarlenMemory(const VarlenPlan& plan, void* base) {
    if (plan.problem.kth_alone) return;  // written to the outputs
    const Problem& problem = plan.problem.problem;
    const int64_t element = dtype_bytes(problem.dtype), position = plan.selection.wide_indices ? 8 : 4;
    Workspace workspace(base);
    if (plan.problem.filter.filters()) {
      moved.elements = workspace.take<char>(problem.rows * problem.cols * element);
      moved.positions = workspace.take<char>(problem.rows * problem.cols * position);
      moved.counts = workspace.take<int64_t>(problem.rows);
    }
    values = workspace.take<char>(problem.rows * problem.k * element);
    positions = workspace.take<char>(problem.rows * problem.k * position);
    const size_t more = plan.order_rows ? plan.order_rows->workspace_bytes(plan.ordering) : 0;
    ordering = workspace.take<char>(static_cast<int64_t>(more));
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
  if (plan.config.way == rerank::Way::kLists) {
    return rerank::select(plan.config, plan.problem, buffers, stream);
  }
  const RerankMemory memory(plan, buffers.workspace);
  const int64_t slice = plan.config.slice, queries = plan.problem.queries;
  for (int64_t first = 0; first < queries; first += slice) {
    // The last slice is as long as the others, and may write some of the one before again.
    const int64_t from = std::min(first, queries - slice);
    const ErrorCode error = run_slice(plan, buffers_from(plan.problem, buffers, from), memory, stream);
    if (error != 0) return error;
  }
  return 0;
}

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
  selection.values = buffers.values;  // take writes them again, in order
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

size_t workspace_bytes(const VarlenPlan& plan) { return VarlenMemory(plan, nullptr).bytes; }

ErrorCode run(const VarlenPlan& plan, const VarlenBuffers& buffers, Stream stream) {
  const VarlenProblem& problem = plan.problem;
  const VarlenMemory memory(plan, buffers.workspace);
  const bool filters = problem.filter.filters(), wide = plan.selection.wide_indices;
  WindowRows rows{problem.windows, nullptr, problem.problem.row_stride, problem.kth_alone};
  Buffers selection;
  selection.input = buffers.input;
  if (problem.kth_alone) {
    selection.values = buffers.values;
    selection.indices = buffers.indices;
    return plan.config.run_windows(plan.selection, rows, selection, stream);
  }
  selection.values = memory.values;
  selection.indices = memory.positions;
  selection.workspace = memory.ordering;
  ErrorCode error = 0;
  if (filters) {
    error = varlen::move_together(problem, buffers, memory.moved, wide, stream);
    rows = {problem.windows, memory.moved.counts, problem.problem.cols};
    selection.input = memory.moved.elements;
  }
  if (error == 0 && problem.problem.k > 0) {
    error = plan.config.run_windows(plan.selection, rows, selection, stream);
  }
  // To order positions alone, they are the values too.
  if (problem.order == WinnerOrder::kByIndex) selection.values = memory.positions;
  if (error == 0 && plan.order_rows) error = plan.order_rows->run(plan.ordering, selection, stream);
  if (error != 0) return error;
  return varlen::finish(problem, buffers, memory.moved, {memory.positions, wide}, plan.device, stream);
}

}  // namespace gputopk::cuda
