#include "binding/run_plan.h"

#include <cuda_runtime_api.h>

#include "binding/check.h"
#include "binding/cuda_device.h"
#include "cuda/topk.h"

namespace gputopk::binding {
namespace {

void check_launch(cuda::ErrorCode error, const cuda::Plan& plan) {
  if (error == 0) return;
  cudaGetLastError();  // not left for the next call to find
  char text[512];
  cuda::describe(plan, text, sizeof(text));
  throw std::runtime_error(
      words_of("gputopk::topk: CUDA error: ", cudaGetErrorString(static_cast<cudaError_t>(error)),
               " (plan: ", text, ")"));
}

}  // namespace

void run_plan(const cuda::Plan& plan, const Request& request, Buffers buffers) {
  const int32_t device_index = request.input.get_device_index();
  const CurrentDevice current(device_index);
  const int64_t bytes = static_cast<int64_t>(cuda::workspace_bytes(plan));
  std::optional<Tensor> workspace;
  if (bytes > 0) workspace = new_empty({bytes}, ScalarType::Byte, request.input, kTopk);
  buffers.workspace = workspace ? workspace->mutable_data_ptr() : nullptr;
  check_launch(cuda::run(plan, buffers, current_stream(device_index)), plan);
}

}  // namespace gputopk::binding
