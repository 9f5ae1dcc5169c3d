// How the k best of each row are kept in their places: by the warps and threads that select, or by a step
// behind a selection, of a list of them or of the last one alone.
#include "cuda/topk.h"

#include <cuda_runtime_api.h>

#include <type_traits>

#include "cuda/workspace.h"

namespace gputopk::cuda {
namespace {

// What a selection hands to the step behind it.
struct KeepMemory {
  char* values = nullptr;
  char* indices = nullptr;
  char* selection = nullptr;
  size_t bytes = 0;

  KeepMemory(const KeepPlan& plan, void* base) {
    if (plan.way == KeepWay::kInRegisters) return;
    const Problem& problem = plan.selection.problem;
    const int64_t winners = problem.rows * problem.k;
    Workspace workspace(base);
    values = workspace.take<char>(winners * dtype_bytes(problem.dtype));
    indices = workspace.take<char>(winners * (problem.wide_indices ? 8 : 4));
    selection = workspace.take<char>(static_cast<int64_t>(workspace_bytes(plan.selection)));
    bytes = workspace.bytes();
  }
};

ErrorCode run_in_registers(const Config& config, const Problem& problem, const KeepBuffers& buffers,
                           Stream stream) {
  return std::visit(
      [&](const auto& form) -> ErrorCode {
        if constexpr (kKeepsInRow<std::decay_t<decltype(form)>>)
          return form.run_kept(problem, buffers, stream);
        return cudaErrorInvalidValue;  // no plan has it
      },
      config);
}

}  // namespace

size_t workspace_bytes(const KeepPlan& plan) { return KeepMemory(plan, nullptr).bytes; }

ErrorCode run(const KeepPlan& plan, const KeepBuffers& buffers, Stream stream) {
  const Problem& problem = plan.selection.problem;
  if (plan.way == KeepWay::kInRegisters) {
    return run_in_registers(plan.selection.config, problem, buffers, stream);
  }
  const KeepMemory memory(plan, buffers.workspace);
  const ErrorCode error =
      run(plan.selection, {buffers.input, memory.values, memory.indices, memory.selection}, stream);
  if (error != 0) return error;
  if (plan.way == KeepWay::kFromKth) {
    return mask::run(mask_of_last(problem, memory.values, memory.indices), {buffers.input, buffers.output},
                     stream);
  }
  return mask::run_listed(problem, {memory.values, memory.indices}, buffers.output, stream);
}

}  // namespace gputopk::cuda
