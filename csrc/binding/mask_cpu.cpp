// Sets of each row's elements on the CPU.

#include "cpu/mask_cpu.h"

#include <torch/csrc/stable/library.h>

#include "binding/cpu_call.h"
#include "binding/mask.h"

namespace gputopk::binding {
namespace {

void mask_on_cpu(const MaskProblem& problem, const MaskBuffers& buffers, const Tensor&) {
  cpu::mask(problem, buffers, usable_threads(), parallel_for);
}

void keep_on_cpu(const Problem& problem, KeepBuffers buffers, const Tensor& like) {
  const int threads = usable_threads();
  CpuWorkspace workspace(cpu::keep_workspace_bytes(problem, threads), like,
                         buffers.output.keeps ? kKeepTopk : kTopkMask);
  buffers.workspace = workspace.data();
  cpu::keep(problem, buffers, threads, parallel_for);
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
