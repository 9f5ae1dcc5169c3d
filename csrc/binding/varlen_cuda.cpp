// gputopk::topk_varlen and gputopk::kth_value on CUDA: plan, allocate, run, one status check.

#include <cuda_runtime_api.h>
#include <torch/csrc/stable/library.h>

#include "binding/check.h"
#include "binding/cuda_device.h"
#include "binding/varlen.h"
#include "cuda/topk.h"

namespace gputopk::binding {
namespace {

void run(const VarlenProblem& problem, const VarlenBuffers& buffers, const Tensor& like) {
  constexpr int64_t kMostCols = 0xFFFFFFFF;
  check(problem.problem.cols <= kMostCols, kVarlen, "rows have ", problem.problem.cols,
        " columns, at most 2^32 - 1 on CUDA");
  const int32_t device_index = like.get_device_index();
  const CurrentDevice current(device_index);
  const cuda::VarlenPlan plan = cuda::make_varlen_plan(problem, device_of(device_index));
  const int64_t bytes = static_cast<int64_t>(cuda::workspace_bytes(plan));
  std::optional<Tensor> workspace;
  if (bytes > 0) workspace = new_empty({bytes}, ScalarType::Byte, like, kVarlen);
  VarlenBuffers with_workspace = buffers;
  with_workspace.workspace = workspace ? workspace->mutable_data_ptr() : nullptr;
  const cuda::ErrorCode error = cuda::run(plan, with_workspace, current_stream(device_index));
  if (error == 0) return;
  cudaGetLastError();  // not left for the next call to find
  char text[512];
  cuda::describe(plan, text, sizeof(text));
  check(false, kVarlen, "CUDA error: ", cudaGetErrorString(static_cast<cudaError_t>(error)), " (plan: ", text,
        ")");
}

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CUDA, m) {
  using namespace gputopk::binding;
  m.impl("topk_varlen", TORCH_BOX(&boxed_topk_varlen<run>));
  m.impl("topk_varlen.out", TORCH_BOX(&boxed_topk_varlen_out<run>));
  m.impl("kth_value", TORCH_BOX(&boxed_kth_value<run>));
}
