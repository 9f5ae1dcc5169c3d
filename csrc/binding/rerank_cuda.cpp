// gputopk::rerank on CUDA: plan, allocate, run, one status check.

#include <cuda_runtime_api.h>
#include <torch/csrc/stable/library.h>

#include "binding/check.h"
#include "binding/cuda_device.h"
#include "binding/rerank.h"
#include "cuda/topk.h"

namespace gputopk::binding {
namespace {

cuda::RerankPlan make_plan(const RerankProblem& problem, const Tensor& like) {
  return cuda::make_rerank_plan(problem, device_of(like.get_device_index()));
}

std::string text_of_plan(const cuda::RerankPlan& plan) {
  char text[1024];
  cuda::describe(plan, text, sizeof(text));
  return std::string(text) + "; workspace " + std::to_string(cuda::workspace_bytes(plan)) + " bytes";
}

void run(const RerankProblem& caller_problem, const RerankBuffers& buffers, const Tensor& queries) {
  const int32_t device_index = queries.get_device_index();
  const CurrentDevice current(device_index);
  RerankProblem problem = caller_problem;
  RerankBuffers with_workspace = buffers;
  std::optional<Tensor> widened;
  if (!cuda::rerank::reads_queries(problem)) {
    widened = new_empty({problem.queries, problem.dims}, ScalarType::Float, queries, kRerank);
    copy(*widened, queries);
    problem.query_dtype = DType::kFloat32;
    problem.query_stride = problem.dims;
    with_workspace.queries = widened->const_data_ptr();
  }
  const cuda::RerankPlan plan = make_plan(problem, queries);
  const int64_t bytes = static_cast<int64_t>(cuda::workspace_bytes(plan));
  std::optional<Tensor> workspace;
  if (bytes > 0) workspace = new_empty({bytes}, ScalarType::Byte, queries, kRerank);
  with_workspace.workspace = workspace ? workspace->mutable_data_ptr() : nullptr;
  const cuda::ErrorCode error = cuda::run(plan, with_workspace, current_stream(device_index));
  if (error == 0) return;
  cudaGetLastError();  // not left for the next call to find
  check(false, kRerank, "CUDA error: ", cudaGetErrorString(static_cast<cudaError_t>(error)),
        " (plan: ", text_of_plan(plan), ")");
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
