// Sets of each row's elements on the CPU.

#include "cpu/mask_cpu.h"

#include <torch/csrc/stable/library.h>

#include "binding/cpu_call.h"
#include "binding/mask.h"
#include "cpu/topk_cpu.h"

namespace gputopk::binding {
namespace {

void mask_on_cpu(const MaskProblem& problem, const MaskBuffers& buffers, const Tensor&) {
  cpu::mask(problem, buffers, usable_threads(), parallel_for);
}

// From a list of the winners, or from the last one alone.
void keep_on_cpu(const Problem& problem, KeepBuffers buffers, const Tensor& like) {
  const char* const op = buffers.output.keeps ? kKeepTopk : kTopkMask;
  const int threads = usable_threads();
  Problem selection = problem;
  selection.sorted = false;
  selection.last_alone = !is_listed(problem);
  const int64_t sizes[2] = {problem.rows, problem.cols}, strides[2] = {problem.row_stride, 1};
  const cpu::Layout layout = cpu::layout_of(sizes, strides, 2, /*dim=*/1);
  const auto winners = static_cast<size_t>(problem.rows * problem.k);
  CpuWorkspace values(winners * dtype_bytes(problem.dtype), like, op);
  CpuWorkspace indices(winners * sizeof(int64_t), like, op);
  CpuWorkspace workspace(cpu::workspace_bytes(selection, layout, threads), like, op);
  cpu::topk(selection, layout, {buffers.input, values.data(), indices.data(), workspace.data()}, threads,
            parallel_for);

  const auto* const found = static_cast<const int64_t*>(indices.data());
  if (!selection.last_alone) {
    return cpu::mask_listed(problem, values.data(), found, buffers.output, threads, parallel_for);
  }
  MaskProblem mask;
  mask.dtype = problem.dtype;
  mask.rows = problem.rows;
  mask.cols = problem.cols;
  mask.row_stride = problem.row_stride;
  mask.largest = problem.largest;
  mask.magnitude = problem.magnitude;
  mask.values = static_cast<const char*>(values.data()) + (problem.k - 1) * dtype_bytes(problem.dtype);
  mask.indices = {found + problem.k - 1, /*wide=*/true, problem.k, 0};
  cpu::mask(mask, {buffers.input, buffers.output}, threads, parallel_for);
}

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CPU, m) {
  using namespace gputopk::binding;
  m.impl("_mask_of_kth", TORCH_BOX(&boxed_mask_of_kth<mask_on_cpu>));
  m.impl("_topk_mask", TORCH_BOX(&boxed_topk_mask<keep_on_cpu>));
  m.impl("_keep_topk", TORCH_BOX(&boxed_keep_topk<keep_on_cpu>));
  m.impl("_keep_topk_", TORCH_BOX(&boxed_keep_topk_in_place<keep_on_cpu>));
}
