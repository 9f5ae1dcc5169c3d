// gputopk::topk_where on the CPU.

#include <torch/csrc/stable/library.h>

#include "binding/cpu_call.h"
#include "binding/where.h"
#include "cpu/varlen_cpu.h"

namespace gputopk::binding {
namespace {

void run(const VarlenProblem& problem, VarlenBuffers buffers, const Tensor& like) {
  const int threads = usable_threads();
  CpuWorkspace workspace(cpu::varlen_workspace_bytes(problem, threads), like, kWhere);
  buffers.workspace = workspace.data();
  cpu::topk_varlen(problem, buffers, threads, parallel_for);
}

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CPU, m) {
  using namespace gputopk::binding;
  m.impl("topk_where", TORCH_BOX(&boxed_topk_where<run>));
}
