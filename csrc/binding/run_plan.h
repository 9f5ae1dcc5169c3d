// How a plan is run on CUDA, and what it says of itself: the same for every operator.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>
#include <string>

#include "binding/check.h"
#include "binding/cuda_device.h"
#include "binding/tensors.h"
#include "cuda/topk.h"

namespace gputopk::binding {

template <class Plan>
std::string text_of_plan(const Plan& plan) {
  char text[1024];
  cuda::describe(plan, text, sizeof(text));
  return std::string(text) + "; workspace " + std::to_string(cuda::workspace_bytes(plan)) + " bytes";
}

// Throws where a launch failed. `op` opens the error, and `details()` closes it.
template <class Details>
void check_launch(cuda::ErrorCode error, const char* op, Details&& details) {
  if (error == 0) return;
  cudaGetLastError();  // not left for the next call to find
  throw std::runtime_error(
      words_of(op, "CUDA error: ", cudaGetErrorString(static_cast<cudaError_t>(error)), details()));
}

// Allocates the workspace on the device of `like`, launches, and throws where a launch fails. `op` opens the
// errors.
template <class Plan, class Buffers>
void run_plan(const Plan& plan, Buffers buffers, const Tensor& like, const char* op) {
  const int32_t device_index = like.get_device_index();
  const CurrentDevice current(device_index);
  const int64_t bytes = static_cast<int64_t>(cuda::workspace_bytes(plan));
  std::optional<Tensor> workspace;
  if (bytes > 0) workspace = new_empty({bytes}, ScalarType::Byte, like, op);
  buffers.workspace = workspace ? workspace->mutable_data_ptr() : nullptr;
  check_launch(cuda::run(plan, buffers, current_stream(device_index)), op,
               [&] { return " (plan: " + text_of_plan(plan) + ")"; });
}

}  // namespace gputopk::binding
