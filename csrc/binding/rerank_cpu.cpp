// gputopk::rerank on the CPU.

#include "cpu/rerank_cpu.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "binding/rerank.h"

namespace gputopk::binding {
namespace {

void parallel_for(int64_t begin, int64_t end, int64_t grain, void (*body)(int64_t, int64_t, void*),
                  void* context) {
  TORCH_ERROR_CODE_CHECK(torch_parallel_for(begin, end, grain, body, context));
}

int usable_threads() { return in_forked_child() ? 1 : static_cast<int>(torch::stable::get_num_threads()); }

void run(const RerankProblem& problem, const RerankBuffers& buffers, const Tensor& like) {
  const int threads = usable_threads();
  const int64_t bytes = static_cast<int64_t>(cpu::rerank_workspace_bytes(problem, threads));
  const Tensor workspace = new_empty({bytes}, ScalarType::Byte, like, kRerank);
  RerankBuffers with_workspace = buffers;
  with_workspace.workspace = workspace.mutable_data_ptr();
  cpu::rerank(problem, with_workspace, threads, parallel_for);
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
  m.impl("_rerank_plan", TORCH_BOX(&boxed_rerank_plan<kCpuRerank>));
}
