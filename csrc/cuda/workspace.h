// Carves one blob of device memory. The same lines give the size (no base) and the pointers (a base).
#pragma once

#include <cstddef>
#include <cstdint>

namespace gputopk::cuda {

class Workspace {
 public:
  explicit Workspace(void* base = nullptr) : base_(static_cast<char*>(base)) {}

  template <class T>
  T* take(int64_t count) {
    char* const start = base_ + bytes_;
    bytes_ += (static_cast<size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(start);
  }

  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kAlignment = 256;  // what PyTorch's allocator gives, and a whole number of L2 lines
  char* base_;
  size_t bytes_ = 0;
};

}  // namespace gputopk::cuda
