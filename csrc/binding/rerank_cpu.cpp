// gputopk::rerank on the CPU.

#include "cpu/rerank_cpu.h"

#include <torch/csrc/stable/library.h>

#include "binding/cpu_call.h"
#include "binding/rerank.h"

namespace gputopk::binding {
namespace {

void run(RerankProblem problem, RerankBuffers buffers, const Tensor& like) {
  const int threads = usable_threads();
  CpuWorkspace workspace(cpu::rerank_workspace_bytes(problem, threads), like, kRerank);
  buffers.workspace = workspace.data();
  cpu::rerank(problem, buffers, threads, parallel_for);
}

std::string describe(const RerankProblem& problem, const Tensor&) {
  char text[256];
  return cpu::describe_rerank(problem, usable_threads(), text, sizeof(text));
}

constexpr RerankBackend kCpuRerank{run, describe};

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CPU, m) {
  using namespace gputopk::binding;
  m.impl("rerank", TORCH_BOX(&boxed_rerank<kCpuRerank>));
  m.impl("rerank.out", TORCH_BOX(&boxed_rerank_out<kCpuRerank>));
  m.impl("_rerank_plan", TORCH_BOX(&boxed_rerank_plan<kCpuRerank>));
}
