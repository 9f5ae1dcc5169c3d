// Launches of one cluster of blocks a row.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

#include "core/key_order.h"  // GPUTOPK_HOST_DEVICE
#include "cuda/device/launch.h"
#include "cuda/stream.h"

namespace gputopk::cuda {

// Elements of a row's part, one of `blocks`: whole lines of memory.
GPUTOPK_HOST_DEVICE int64_t part_of_cluster(int64_t cols, int blocks, int element_bytes) {
  const int64_t line = 128 / element_bytes;
  return (cols + blocks * line - 1) / (blocks * line) * line;
}

// Whether a launch failed as this context, of a part of the GPU perhaps, has no room for such a cluster, or
// for so many blocks at once. Then nothing is left of the error.
inline bool lacks_room(ErrorCode error) {
  const bool lacks = error == cudaErrorInvalidClusterSize || error == cudaErrorLaunchOutOfResources ||
                     error == cudaErrorCooperativeLaunchTooLarge;
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

// A launch of a cluster of config.blocks for each row, of one block or more, whose number is the kernel's
// last parameter. `ahead` as launch_kernel's; `allowed` and `allowed_clusters` are the kernel's own.
template <class Config, class Kernel, class... Arguments>
cudaError_t launch_cluster_a_row(bool ahead, const Config& config, int64_t rows, Kernel* kernel,
                                 size_t shared_bytes, std::atomic<uint64_t>& allowed,
                                 std::atomic<uint64_t>& allowed_clusters, cudaStream_t stream,
                                 const Arguments&... arguments) {
  constexpr int64_t kMostBlocksOfGrid = 0x7FFFFFFF;
  if (rows > kMostBlocksOfGrid / config.blocks) return cudaErrorInvalidConfiguration;
  const unsigned blocks = static_cast<unsigned>(rows * config.blocks);
  const unsigned threads = static_cast<unsigned>(config.threads);
  cudaError_t error = allow_shared_memory(kernel, shared_bytes, allowed);
  if (error != cudaSuccess) return error;
  if (config.blocks == 1) {
    return launch_kernel(ahead, kernel, blocks, threads, shared_bytes, stream, arguments..., 1);
  }
  error = allow_large_clusters(kernel, allowed_clusters);
  if (error != cudaSuccess) return error;
  return launch_clusters(ahead, static_cast<unsigned>(config.blocks), kernel, blocks, threads, shared_bytes,
                         stream, arguments..., config.blocks);
}

}  // namespace gputopk::cuda
