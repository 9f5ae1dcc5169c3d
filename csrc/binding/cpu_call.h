// What the CPU's operators ask of torch: threads and workspace.
#pragma once

#include <torch/csrc/stable/ops.h>

#include <cstdint>
#include <optional>

#include "binding/tensors.h"

namespace gputopk::binding {

inline void parallel_for(int64_t begin, int64_t end, int64_t grain, void (*body)(int64_t, int64_t, void*),
                         void* context) {
  TORCH_ERROR_CODE_CHECK(torch_parallel_for(begin, end, grain, body, context));
}

inline int usable_threads() {
  return in_forked_child() ? 1 : static_cast<int>(torch::stable::get_num_threads());
}

// On the stack where it is small: a tensor costs as much as selecting from some hundred elements.
class CpuWorkspace {
 public:
  CpuWorkspace(size_t bytes, const Tensor& like, const char* op) {
    if (bytes > sizeof(on_stack_)) {
      tensor_.emplace(new_empty({static_cast<int64_t>(bytes)}, ScalarType::Byte, like, op));
    }
  }

  void* data() { return tensor_ ? tensor_->mutable_data_ptr() : on_stack_; }

 private:
  // What one worker asks for where k is small, rows long and keys narrow, and half as much again.
  alignas(256) char on_stack_[48 * 1024];
  std::optional<Tensor> tensor_;
};

}  // namespace gputopk::binding
