// The CUDA runtime as far as csrc/cuda uses it. The device is what a test says that it is: emulator/launch.h.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>

#include "simt.h"

using cudaStream_t = struct CUstream_st*;

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorLaunchOutOfResources = 701,
  cudaErrorCooperativeLaunchTooLarge = 720,
  cudaErrorInvalidClusterSize = 912,
};

enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor,
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize,
  cudaFuncAttributeNonPortableClusterSizeAllowed,
};
enum cudaLaunchAttributeID {
  cudaLaunchAttributeCooperative,
  cudaLaunchAttributeClusterDimension,
  cudaLaunchAttributeProgrammaticStreamSerialization,
};

struct cudaFuncAttributes {
  size_t sharedSizeBytes;
  int ptxVersion;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
union cudaLaunchAttributeValue {
  int cooperative;
  int programmaticStreamSerializationAllowed;
  struct {
    unsigned x, y, z;
  } clusterDim;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

cudaError_t cudaGetLastError();
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaMemsetAsync(void* base, int value, size_t bytes, cudaStream_t stream);

namespace simt {
// A kernel with its arguments, which its threads read.
struct Call {
  virtual ~Call() = default;
  virtual void run() const = 0;
  size_t bytes = 0;  // of the whole object
};

// Puts a launch at the stream's end.
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::unique_ptr<Call> call);
// Puts work of the host there.
void launch_host_work(std::function<void()> work);
void announce_host_access(const void* address, size_t bytes, bool writes);
cudaError_t attributes_of(const void* kernel, cudaFuncAttributes& attributes);
cudaError_t set_attribute(const void* kernel, cudaFuncAttribute attribute, int value);
cudaError_t largest_cluster(const cudaLaunchConfig_t& config, const void* kernel, int& blocks);
}  // namespace simt

template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Kernel* kernel) {
  return simt::attributes_of(reinterpret_cast<const void*>(kernel), *attributes);
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute attribute, int value) {
  return simt::set_attribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
template <class Kernel>
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, Kernel* kernel,
                                                 const cudaLaunchConfig_t* config) {
  return simt::largest_cluster(*config, reinterpret_cast<const void*>(kernel), *blocks);
}
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  struct Held : simt::Call {
    void (*kernel)(Parameters...);
    std::tuple<std::decay_t<Parameters>...> arguments;
    Held(void (*kernel)(Parameters...), Arguments&&... arguments)
        : kernel(kernel), arguments(std::forward<Arguments>(arguments)...) {
      bytes = sizeof(*this);
    }
    void run() const override { std::apply(kernel, arguments); }
  };
  return simt::launch(*config, reinterpret_cast<const void*>(kernel),
                      std::make_unique<Held>(kernel, std::forward<Arguments>(arguments)...));
}
