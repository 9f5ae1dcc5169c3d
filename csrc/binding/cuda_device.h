// What the CUDA operators ask of torch and the driver about the device they run on.
#pragma once

#include <cstdint>

#include "cuda/plan.h"
#include "cuda/stream.h"

namespace gputopk::binding {

// Asked of the driver once a device: the answers never change.
cuda::Device device_of(int32_t index);

cuda::Stream current_stream(int32_t device_index);

}  // namespace gputopk::binding
