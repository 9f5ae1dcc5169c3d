// gputopk::_settle_stage and gputopk::_join_stages on the CPU.

#include "cpu/stages_cpu.h"

#include <torch/csrc/stable/library.h>

#include "binding/cpu_call.h"
#include "binding/stages.h"

namespace gputopk::binding {
namespace {

void settle_on_cpu(const Stage& stage, const StageBuffers& buffers, const Tensor&) {
  cpu::settle(stage, buffers, usable_threads(), parallel_for);
}

void join_on_cpu(const JoinProblem& problem, JoinBuffers buffers, const Tensor& like) {
  const int threads = usable_threads();
  CpuWorkspace workspace(cpu::join_workspace_bytes(problem, threads), like, kJoin);
  buffers.workspace = workspace.data();
  cpu::join(problem, buffers, threads, parallel_for);
}

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CPU, m) {
  using namespace gputopk::binding;
  m.impl("_settle_stage", TORCH_BOX(&boxed_settle_stage<settle_on_cpu>));
  m.impl("_join_stages", TORCH_BOX(&boxed_join_stages<join_on_cpu>));
}
