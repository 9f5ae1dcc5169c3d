// How a top-k over rows that do not lie side by side is run: where they lie, or panel by panel.
#include <algorithm>

#include "cuda/topk.h"

#include "cuda/workspace.h"

namespace gputopk::cuda {
namespace {

// A panel: its rows and their winners, one beside the other, and what their selection works in.
struct PanelMemory {
  char* rows = nullptr;
  char* values = nullptr;
  char* indices = nullptr;
  char* selection = nullptr;
  size_t bytes = 0;

  PanelMemory(const StridedPlan& plan, const strided::Panels& panels, void* base) {
    const Problem& problem = plan.problem.problem;
    const int64_t element = dtype_bytes(problem.dtype), winners = panels.rows * problem.k;
    Workspace workspace(base);
    if (panels.gathers) rows = workspace.take<char>(panels.rows * panels.pitch * element);
    if (panels.scatters) {
      values = workspace.take<char>(winners * element);
      indices = workspace.take<char>(winners * (problem.wide_indices ? 8 : 4));
    }
    const size_t last = plan.last_selection ? workspace_bytes(*plan.last_selection) : 0;
    selection = workspace.take<char>(static_cast<int64_t>(std::max(workspace_bytes(*plan.selection), last)));
    bytes = workspace.bytes();
  }
};

ErrorCode run_panels(const StridedPlan& plan, const strided::Panels& panels, const Buffers& buffers,
                     Stream stream) {
  const StridedProblem& strided = plan.problem;
  const Problem& problem = strided.problem;
  const PanelMemory memory(plan, panels, buffers.workspace);
  const int64_t element = dtype_bytes(problem.dtype), index = problem.wide_indices ? 8 : 4;
  ErrorCode error = 0;
  for (int64_t first = 0; first < problem.rows && error == 0; first += panels.rows) {
    const int64_t rows = std::min(panels.rows, problem.rows - first);
    const Plan& selection = rows == panels.rows ? *plan.selection : *plan.last_selection;
    Buffers panel;
    panel.input = memory.rows;
    panel.values = memory.values;
    panel.indices = memory.indices;
    panel.workspace = memory.selection;
    if (panels.gathers) {
      error = strided::gather(strided, panels, first, rows, buffers.input, memory.rows, stream);
    } else {
      panel.input = static_cast<const char*>(buffers.input) + first * panels.pitch * element;
    }
    if (!panels.scatters) {
      panel.values = static_cast<char*>(buffers.values) + first * problem.k * element;
      panel.indices = static_cast<char*>(buffers.indices) + first * problem.k * index;
    }
    if (error == 0) error = run(selection, panel, stream);
    if (error == 0 && panels.scatters) {
      // What finds the last alone has written no other.
      const bool last_alone = problem.last_alone && !selection.last_in_place;
      error = strided::scatter(strided, first, rows, last_alone ? problem.k - 1 : 0, panel, buffers, stream);
    }
  }
  return error;
}

}  // namespace

size_t workspace_bytes(const StridedPlan& plan) {
  if (const auto* const panels = std::get_if<strided::Panels>(&plan.config)) {
    return PanelMemory(plan, *panels, nullptr).bytes;
  }
  const auto* const across = std::get_if<delegate::AcrossRows>(&plan.config);
  return across == nullptr ? 0 : across->workspace_bytes(plan.problem);
}

ErrorCode run(const StridedPlan& plan, const Buffers& buffers, Stream stream) {
  if (const auto* const thread = std::get_if<bitonic::OneThread>(&plan.config)) {
    return thread->run_strided(plan.problem, buffers, stream);
  }
  if (const auto* const warp = std::get_if<bitonic::OneWarp>(&plan.config)) {
    return warp->run_strided(plan.problem, buffers, stream);
  }
  if (const auto* const across = std::get_if<delegate::AcrossRows>(&plan.config)) {
    return across->run_strided(plan.problem, buffers, stream);
  }
  return run_panels(plan, std::get<strided::Panels>(plan.config), buffers, stream);
}

}  // namespace gputopk::cuda
