// gputopk::topk_varlen, gputopk::topk_where and gputopk::kth_value on the CPU.

#include "cpu/varlen_cpu.h"

#include <torch/csrc/stable/library.h>

#include "binding/cpu_call.h"
#include "binding/varlen.h"
#include "binding/where.h"

namespace gputopk::binding {
namespace {

void run(const VarlenProblem& problem, VarlenBuffers buffers, const Tensor& like, const char* op) {
  const int threads = usable_threads();
  CpuWorkspace workspace(cpu::varlen_workspace_bytes(problem, threads), like, op);
  buffers.workspace = workspace.data();
  cpu::topk_varlen(problem, buffers, threads, parallel_for);
}

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CPU, m) {
  using namespace gputopk::binding;
  m.impl("topk_varlen", TORCH_BOX(&boxed_topk_varlen<run>));
  m.impl("topk_varlen.out", TORCH_BOX(&boxed_topk_varlen_out<run>));
  m.impl("topk_where", TORCH_BOX(&boxed_topk_where<run>));
  m.impl("kth_value", TORCH_BOX(&boxed_kth_value<run>));
}
