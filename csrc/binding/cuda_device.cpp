#include "binding/cuda_device.h"

#include <cuda_runtime_api.h>

#include <array>
#include <mutex>

#include "binding/check.h"
#include "cuda/topk.h"

namespace gputopk::binding {
namespace {

int attribute_of(int32_t index, cudaDeviceAttr attribute) {
  int value = 0;
  const cudaError_t error = cudaDeviceGetAttribute(&value, attribute, index);
  if (error != cudaSuccess) cudaGetLastError();  // not left for the next call to find
  check(error == cudaSuccess, "gputopk: CUDA device ", index, ": ", cudaGetErrorString(error));
  return value;
}

}  // namespace

cuda::Device device_of(int32_t index) {
  struct Known {
    std::once_flag asked;
    cuda::Device device;
  };
  static std::array<Known, 64> known;
  const auto ask = [index] {
    const torch::stable::accelerator::DeviceGuard guard(index);
    return cuda::Device{attribute_of(index, cudaDevAttrMultiProcessorCount),
                        10 * attribute_of(index, cudaDevAttrComputeCapabilityMajor) +
                            attribute_of(index, cudaDevAttrComputeCapabilityMinor),
                        attribute_of(index, cudaDevAttrMaxSharedMemoryPerBlockOptin),
                        cuda::most_cluster_blocks()};
  };
  if (index < 0 || index >= static_cast<int32_t>(known.size())) return ask();
  std::call_once(known[index].asked, [&] { known[index].device = ask(); });
  return known[index].device;
}

cuda::Stream current_stream(int32_t device_index) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device_index, &stream));
  return static_cast<cuda::Stream>(stream);
}

CurrentDevice::CurrentDevice(int32_t index) {
  if (torch::stable::accelerator::getCurrentDeviceIndex() != index) guard_.emplace(index);
}

}  // namespace gputopk::binding
