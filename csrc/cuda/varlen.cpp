// How a ragged top-k's plan is run: find candidates, select from windows, order, finish.
#include <algorithm>

#include "cuda/topk.h"

#include "cuda/workspace.h"

namespace gputopk::cuda {
namespace {

// Where a ragged top-k keeps what it knows of candidates, and what is selected.
struct VarlenMemory {
  Candidates candidates;
  varlen::Moved moved;
  void* values = nullptr;
  void* positions = nullptr;
  char* steps = nullptr;
  size_t bytes = 0;

  VarlenMemory(const VarlenPlan& plan, void* base) {
    if (plan.problem.kth_alone) return;  // written to the outputs
    const Problem& problem = plan.problem.problem;
    const int64_t element = dtype_bytes(problem.dtype), position = plan.selection.wide_indices ? 8 : 4;
    Workspace workspace(base);
    if (plan.problem.filter.filters()) {
      candidates.words = Candidates::words_of(problem.cols);
      candidates.bits = workspace.take<uint32_t>(problem.rows * candidates.words);
      candidates.counts = workspace.take<int64_t>(problem.rows);
      if (std::holds_alternative<air::OneBlock>(plan.config)) {
        moved.elements = workspace.take<char>(problem.rows * problem.cols * element);
        moved.positions = workspace.take<char>(problem.rows * problem.cols * position);
      }
    }
    if (!plan.selection_finishes) {
      values = workspace.take<char>(problem.rows * problem.k * element);
      positions = workspace.take<char>(problem.rows * problem.k * position);
    }
    // One after the other, the selection and the step that orders work in the same memory.
    const size_t selecting =
        std::visit([&](const auto& form) { return form.workspace_bytes(plan.selection); }, plan.config);
    const size_t ordering = plan.order_rows ? plan.order_rows->workspace_bytes(plan.ordering) : 0;
    steps = workspace.take<char>(static_cast<int64_t>(std::max(selecting, ordering)));
    bytes = workspace.bytes();
  }
};

WindowOutputs outputs_of(const VarlenProblem& varlen, const VarlenBuffers& buffers) {
  const Problem& problem = varlen.problem;
  return {buffers.values,       buffers.indices,
          buffers.counts,       buffers.value_stride,
          buffers.index_stride, problem.wide_indices,
          varlen.map,           pad_bits(problem.dtype, problem.largest, problem.magnitude)};
}

}  // namespace

size_t workspace_bytes(const VarlenPlan& plan) { return VarlenMemory(plan, nullptr).bytes; }

ErrorCode run(const VarlenPlan& plan, const VarlenBuffers& buffers, Stream stream) {
  const VarlenProblem& problem = plan.problem;
  const VarlenMemory memory(plan, buffers.workspace);
  const bool wide = plan.selection.wide_indices;
  WindowRows rows{problem.windows, memory.candidates, problem.problem.row_stride};
  rows.kth_alone = problem.kth_alone;
  rows.any_order = problem.order == WinnerOrder::kAny;
  Buffers selection;
  selection.input = buffers.input;
  if (problem.kth_alone) {
    selection.values = buffers.values;
    selection.indices = buffers.indices;
    return std::get<air::OneBlock>(plan.config).run_windows(plan.selection, rows, selection, stream);
  }
  selection.values = memory.values;
  selection.indices = memory.positions;
  selection.workspace = memory.steps;
  const WindowOutputs outputs = outputs_of(problem, buffers);
  rows.outputs = outputs;
  if (!plan.selection_finishes) rows.outputs.indices = nullptr;
  ErrorCode error = 0;
  if (problem.filter.filters())
    error = varlen::find_candidates(problem, memory.candidates, plan.device, stream);
  if (error == 0 && memory.moved.elements != nullptr) {
    error = varlen::move_together(problem, buffers, memory.candidates, memory.moved, wide, stream);
    rows.moved = true;
    rows.row_stride = problem.problem.cols;
    selection.input = memory.moved.elements;
  }
  if (error == 0 && problem.problem.k > 0) {
    error = std::visit(
        [&](const auto& form) { return form.run_windows(plan.selection, rows, selection, stream); },
        plan.config);
  }
  // To order positions alone, they are the values too.
  if (problem.order == WinnerOrder::kByIndex) selection.values = memory.positions;
  if (error == 0 && plan.order_rows) error = plan.order_rows->run(plan.ordering, selection, stream);
  if (error != 0) return error;
  if (plan.selection_finishes) return 0;
  return varlen::finish(problem, buffers.input, outputs, memory.candidates, memory.moved,
                        {memory.positions, wide}, plan.device, stream);
}

}  // namespace gputopk::cuda
