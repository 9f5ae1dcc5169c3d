// Host side of a launch: what must be said to the runtime once a kernel and device, and no more.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

namespace gputopk::cuda {

// Lets a kernel have `bytes` of dynamic shared memory on the current device. `allowed` is the kernel's own
// record of the devices where that has been said: asking the runtime costs more than the launch.
template <class Kernel>
cudaError_t allow_shared_memory(Kernel* kernel, size_t bytes, std::atomic<uint64_t>& allowed) {
  constexpr size_t kGivenToAll = 40 * 1024;  // 48 KB, less what kernels here have as static variables
  constexpr int kMostOnHopper = 227 * 1024;
  if (bytes <= kGivenToAll) return cudaSuccess;
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  const uint64_t bit = uint64_t{1} << (device % 64);
  if (allowed.load(std::memory_order_relaxed) & bit) return cudaSuccess;
  int most = kMostOnHopper;
  error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  cudaFuncAttributes attributes;
  error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess) return error;
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               most - static_cast<int>(attributes.sharedSizeBytes));
  if (error == cudaSuccess && device < 64) allowed.fetch_or(bit, std::memory_order_relaxed);
  return error;
}

}  // namespace gputopk::cuda
