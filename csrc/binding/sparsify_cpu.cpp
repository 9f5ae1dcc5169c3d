// gputopk::sparsify_ on the CPU.

#include "cpu/sparsify_cpu.h"

#include <torch/csrc/stable/library.h>

#include "binding/cpu_call.h"
#include "binding/sparsify.h"

namespace gputopk::binding {
namespace {

void run_on_cpu(const SparsifyProblem& problem, SparsifyBuffers buffers, const Tensor& like) {
  const int threads = usable_threads();
  CpuWorkspace workspace(cpu::sparsify_workspace_bytes(problem, threads), like, kSparsify);
  buffers.workspace = workspace.data();
  cpu::sparsify(problem, buffers, threads, parallel_for);
}

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CPU, m) {
  using namespace gputopk::binding;
  m.impl("sparsify_", TORCH_BOX(&boxed_sparsify<run_on_cpu>));
}
