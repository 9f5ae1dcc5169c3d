// Launches of one cluster of blocks a row.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/key_order.h"  // GPUTOPK_HOST_DEVICE
#include "cuda/stream.h"

namespace gputopk::cuda {

// Elements of a row's part, one of `blocks`: whole lines of memory.
GPUTOPK_HOST_DEVICE int64_t part_of_cluster(int64_t cols, int blocks, int element_bytes) {
  const int64_t line = 128 / element_bytes;
  return (cols + blocks * line - 1) / (blocks * line) * line;
}

// Whether a launch failed as this context, of a part of the GPU perhaps, has no room for such a cluster. Then
// nothing is left of the error.
inline bool lacks_room(ErrorCode error) {
  const bool lacks = error == cudaErrorInvalidClusterSize || error == cudaErrorLaunchOutOfResources;
  if (lacks) cudaGetLastError();  // not left for the next call to find
  return lacks;
}

// launch(config), and where this context has only a part of the GPU, and no room for clusters of
// config.blocks, again with smaller ones.
template <class Config, class Launch>
ErrorCode launch_with_room(Config config, Launch&& launch) {
  for (;;) {
    const ErrorCode error = launch(config);
    if (config.blocks == 1 || !lacks_room(error)) return error;
    config.blocks /= 2;
  }
}

}  // namespace gputopk::cuda
