// What the CUDA operators ask of torch and the driver about the device they run on.
#pragma once

#include <torch/csrc/stable/accelerator.h>

#include <cstdint>
#include <optional>

#include "cuda/plan/plan.h"
#include "cuda/stream.h"

namespace gputopk::binding {

// Asked of the driver once a device: the answers never change.
cuda::Device device_of(int32_t index);

cuda::Stream current_stream(int32_t device_index);

// Makes a device the current one as long as it lives. torch's guard allocates, so there is one only where
// another device is current.
class CurrentDevice {
 public:
  explicit CurrentDevice(int32_t index);

 private:
  std::optional<torch::stable::accelerator::DeviceGuard> guard_;
};

}  // namespace gputopk::binding
