// Host side of a launch: what must be said to the runtime once a kernel and device, and no more.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <utility>

namespace gputopk::cuda {

// Says something to the runtime once a device: say(device). `said` is the caller's own record of the devices
// where that is done, as asking the runtime costs more than a launch.
template <class Say>
cudaError_t once_a_device(std::atomic<uint64_t>& said, Say&& say) {
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  const uint64_t bit = device < 64 ? uint64_t{1} << device : 0;  // no record of devices beyond
  if (said.load(std::memory_order_relaxed) & bit) return cudaSuccess;
  error = say(device);
  if (error == cudaSuccess) said.fetch_or(bit, std::memory_order_relaxed);
  return error;
}

// Lets a kernel have `bytes` of dynamic shared memory on the current device. `allowed` is the kernel's own.
template <class Kernel>
cudaError_t allow_shared_memory(Kernel* kernel, size_t bytes, std::atomic<uint64_t>& allowed) {
  // 48 KB, less what kernels here have as static variables: tests/simt counts those of each launch.
  constexpr size_t kGivenToAll = 36 * 1024;
  if (bytes <= kGivenToAll) return cudaSuccess;
  return once_a_device(allowed, [&](int device) {
    int most = 0;
    cudaError_t error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (error != cudaSuccess) return error;
    cudaFuncAttributes attributes;
    error = cudaFuncGetAttributes(&attributes, kernel);
    if (error != cudaSuccess) return error;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                most - static_cast<int>(attributes.sharedSizeBytes));
  });
}

// Whether the code that runs on the current device is compute capability 9.0's, which has
// wait_for_kernel_before's wait and clusters: that of an older GPU, translated for a new one, has not. The
// same for all kernels of this library.
template <class Kernel>
bool runs_code_of_sm_90(Kernel* kernel) {
  static std::atomic<uint64_t> asked{0}, does{0};
  bool answer = false;
  const cudaError_t error = once_a_device(asked, [&](int device) {
    cudaFuncAttributes attributes;
    const cudaError_t failed = cudaFuncGetAttributes(&attributes, kernel);
    answer = failed == cudaSuccess && attributes.ptxVersion >= 90;
    if (answer && device < 64) does.fetch_or(uint64_t{1} << device, std::memory_order_relaxed);
    return failed;
  });
  if (error != cudaSuccess) {
    cudaGetLastError();  // not left for the next call to find
    return false;
  }
  int device = 0;
  cudaGetDevice(&device);
  return answer || (device < 64 && (does.load(std::memory_order_relaxed) >> device & 1));
}

// A launch with so many attributes.
template <class... Parameters, class... Arguments>
cudaError_t launch_with(cudaLaunchAttribute* attributes, unsigned count, void (*kernel)(Parameters...),
                        unsigned blocks, unsigned threads, size_t shared_bytes, cudaStream_t stream,
                        Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

inline cudaLaunchAttribute launched_ahead() {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

// Launches a kernel. With `ahead` its blocks may start while the kernel before it ends, which hides most of
// a launch's cost: the one before must call let_next_kernel_start, this one wait_for_kernel_before, and the
// code must be compute capability 9.0's.
template <class... Parameters, class... Arguments>
cudaError_t launch_kernel(bool ahead, void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
                          size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchAttribute attribute = launched_ahead();
  return launch_with(&attribute, ahead && runs_code_of_sm_90(kernel) ? 1 : 0, kernel, blocks, threads,
                     shared_bytes, stream, std::forward<Arguments>(arguments)...);
}

// Launches a kernel whose blocks all run at once, so that they may wait for each other.
template <class... Parameters, class... Arguments>
cudaError_t launch_together(void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
                            size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  return launch_with(&attribute, 1, kernel, blocks, threads, shared_bytes, stream,
                     std::forward<Arguments>(arguments)...);
}

// Lets a kernel run in clusters of more than the eight blocks that any device takes. `allowed` as above.
template <class Kernel>
cudaError_t allow_large_clusters(Kernel* kernel, std::atomic<uint64_t>& allowed) {
  return once_a_device(allowed, [&](int) {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  });
}

// A launch in clusters of so many blocks. `ahead` as above.
template <class... Parameters, class... Arguments>
cudaError_t launch_clusters(bool ahead, unsigned cluster_blocks, void (*kernel)(Parameters...),
                            unsigned blocks, unsigned threads, size_t shared_bytes, cudaStream_t stream,
                            Arguments&&... arguments) {
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = cluster_blocks;
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1] = launched_ahead();
  return launch_with(attributes, ahead && runs_code_of_sm_90(kernel) ? 2 : 1, kernel, blocks, threads,
                     shared_bytes, stream, std::forward<Arguments>(arguments)...);
}

// Zeroes the part of a workspace that must be zero before an algorithm's first kernel: 256-byte aligned, a
// multiple of 16 bytes and not none. `ahead`: by a kernel, so that the next one, launched ahead too, may read
// its input meanwhile; else by the runtime. zero_workspace.cu has it.
cudaError_t zero_workspace(void* base, size_t bytes, bool ahead, cudaStream_t stream);

#ifdef __CUDACC__
// Lets blocks of the next kernel be placed as soon as there is room for them.
__device__ inline void let_next_kernel_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// Until this returns nothing that the kernel before writes may be read, nor anything that it reads written.
__device__ inline void wait_for_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

__device__ inline void follow_kernel_before() {
  let_next_kernel_start();
  wait_for_kernel_before();
}
#endif

}  // namespace gputopk::cuda
