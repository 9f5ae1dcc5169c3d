// gputopk::rerank on CUDA: plan, allocate, run, one status check.

#include <torch/csrc/stable/library.h>

#include "binding/cuda_device.h"
#include "binding/rerank.h"
#include "binding/run_plan.h"

namespace gputopk::binding {
namespace {

cuda::RerankPlan make_plan(const RerankProblem& problem, const Tensor& like) {
  return cuda::make_rerank_plan(problem, device_of(like.get_device_index()));
}

void run(RerankProblem problem, RerankBuffers buffers, const Tensor& queries) {
  const CurrentDevice current(queries.get_device_index());
  std::optional<Tensor> widened;
  if (!cuda::rerank::reads_queries(problem)) {
    widened = new_empty({problem.queries, problem.dims}, ScalarType::Float, queries, kRerank);
    copy(*widened, queries);
    problem.query_dtype = DType::kFloat32;
    problem.query_stride = problem.dims;
    buffers.queries = widened->const_data_ptr();
  }
  run_plan(make_plan(problem, queries), buffers, queries, kRerank);
}

std::string describe(const RerankProblem& problem, const Tensor& like) {
  return text_of_plan(make_plan(problem, like));
}

constexpr RerankBackend kCudaRerank{run, describe};

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CUDA, m) {
  using namespace gputopk::binding;
  m.impl("rerank", TORCH_BOX(&boxed_rerank<kCudaRerank>));
  m.impl("rerank.out", TORCH_BOX(&boxed_rerank_out<kCudaRerank>));
  m.impl("_rerank_plan", TORCH_BOX(&boxed_rerank_plan<kCudaRerank>));
}
