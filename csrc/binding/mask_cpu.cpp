// gputopk::_mask_of_kth on the CPU.

#include "cpu/mask_cpu.h"

#include <torch/csrc/stable/library.h>

#include "binding/cpu_call.h"
#include "binding/mask.h"

namespace gputopk::binding {
namespace {

void mask_on_cpu(const MaskProblem& problem, const MaskBuffers& buffers, const Tensor&) {
  cpu::mask(problem, buffers, usable_threads(), parallel_for);
}

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CPU, m) {
  using namespace gputopk::binding;
  m.impl("_mask_of_kth", TORCH_BOX(&boxed_mask_of_kth<mask_on_cpu>));
}
