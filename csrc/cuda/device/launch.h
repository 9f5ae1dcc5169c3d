// Host side of a launch: what must be said to the runtime once a kernel and device, and no more.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <utility>

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

// Launches a kernel whose blocks may start while the kernel before it ends, which hides most of a launch's
// cost. The kernel must call wait_for_kernel_before. Only on GPUs that have it (compute capability 9.0).
template <class... Parameters, class... Arguments>
cudaError_t launch_ahead(bool ahead, void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
                         size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = ahead ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

#ifdef __CUDACC__
// Before it, nothing that the kernel before wrote may be read, nor anything that it reads written.
__device__ inline void wait_for_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();  // the next kernel's blocks may be placed, and wait in turn
  cudaGridDependencySynchronize();
#endif
}
#endif

}  // namespace gputopk::cuda
