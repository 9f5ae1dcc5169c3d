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

// launch(config), and where this context has only a part of the GPU, and no room for clusters of
// config.blocks, again with smaller ones.
template <class Config, class Launch>
ErrorCode launch_with_room(Config config, Launch&& launch) {
  for (;;) {
    const ErrorCode error = launch(config);
    const bool no_room = error == cudaErrorInvalidClusterSize || error == cudaErrorLaunchOutOfResources;
    if (!no_room || config.blocks == 1) return error;
    cudaGetLastError();  // not left for the next call to find
    config.blocks /= 2;
  }
}

}  // namespace gputopk::cuda
