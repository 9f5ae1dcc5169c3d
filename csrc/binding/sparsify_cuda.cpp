// gputopk::sparsify_ on CUDA: plan, allocate, run, one status check.

#include <cuda_runtime_api.h>
#include <torch/csrc/stable/library.h>

#include "binding/check.h"
#include "binding/cuda_device.h"
#include "binding/sparsify.h"
#include "cuda/topk.h"

namespace gputopk::binding {
namespace {

void run_on_cuda(const SparsifyProblem& problem, const SparsifyBuffers& buffers, const Tensor& like) {
  const int32_t device_index = like.get_device_index();
  const CurrentDevice current(device_index);
  const bool aligned = cuda::sparsify::is_aligned(problem, buffers);
  const cuda::SparsifyPlan plan = cuda::make_sparsify_plan(problem, device_of(device_index), aligned);
  const int64_t bytes = static_cast<int64_t>(cuda::workspace_bytes(plan));
  std::optional<Tensor> workspace;
  if (bytes > 0) workspace = new_empty({bytes}, ScalarType::Byte, like, kSparsify);
  SparsifyBuffers with_workspace = buffers;
  with_workspace.workspace = workspace ? workspace->mutable_data_ptr() : nullptr;
  const cuda::ErrorCode error = cuda::run(plan, with_workspace, current_stream(device_index));
  if (error == 0) return;
  cudaGetLastError();  // not left for the next call to find
  char text[1024];
  cuda::describe(plan, text, sizeof(text));
  check(false, kSparsify, "CUDA error: ", cudaGetErrorString(static_cast<cudaError_t>(error)),
        " (plan: ", text, ")");
}

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CUDA, m) {
  using namespace gputopk::binding;
  m.impl("sparsify_", TORCH_BOX(&boxed_sparsify<run_on_cuda>));
}
