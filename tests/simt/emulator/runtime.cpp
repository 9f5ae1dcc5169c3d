// The CUDA runtime's functions: what the device is, and launches that a GPU would refuse.

#include <map>
#include <stdexcept>

#include "machine.h"

namespace simt {
namespace {

struct Granted {
  int dynamic_bytes = 48 * 1024;
  bool large_clusters = false;
};
std::map<const void*, Granted> granted;  // to each kernel

}  // namespace

const char* too_much_shared(const Launch& launch, size_t static_bytes) {
  const size_t both = launch.shared_bytes + static_bytes;
  if (both > static_cast<size_t>(machine.settings.shared_bytes)) {
    return "static and dynamic shared memory are more than a block can have";
  }
  constexpr size_t kGivenToAll = 48 * 1024;
  const bool asked = granted[launch.kernel].dynamic_bytes != static_cast<int>(kGivenToAll);
  return asked || both <= kGivenToAll ? nullptr
                                      : "more than 48 KB of shared memory, for which no leave was asked";
}

cudaError_t attributes_of(const void*, cudaFuncAttributes& attributes) {
  attributes = {};
  attributes.ptxVersion = 90;
  return cudaSuccess;
}

cudaError_t set_attribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) {
    granted[kernel].large_clusters = value != 0;
    return cudaSuccess;
  }
  // The most that any test's device has: what is allowed is remembered, as the runtime's is, for all.
  if (value > 227 * 1024) return cudaErrorInvalidValue;
  granted[kernel].dynamic_bytes = value;
  return cudaSuccess;
}

cudaError_t largest_cluster(const cudaLaunchConfig_t&, const void*, int& blocks) {
  blocks = machine.settings.cluster_blocks;
  return cudaSuccess;
}

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::unique_ptr<Call> call) {
  auto launch = std::make_unique<Launch>();
  launch->call = std::move(call);
  launch->kernel = kernel;
  launch->blocks = config.gridDim.x;
  launch->threads = config.blockDim.x;
  launch->shared_bytes = config.dynamicSmemBytes;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeCooperative) launch->cooperative = attribute.val.cooperative != 0;
    if (attribute.id == cudaLaunchAttributeClusterDimension)
      launch->cluster_blocks = attribute.val.clusterDim.x;
    if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      launch->ahead = attribute.val.programmaticStreamSerializationAllowed != 0;
    }
  }
  if (config.gridDim.y != 1 || config.gridDim.z != 1 || config.blockDim.y != 1 || config.blockDim.z != 1 ||
      launch->blocks == 0 || launch->blocks > 0x7FFFFFFF || launch->threads == 0 || launch->threads > 1024) {
    return cudaErrorInvalidConfiguration;
  }
  if (launch->shared_bytes > static_cast<size_t>(granted[kernel].dynamic_bytes) ||
      launch->shared_bytes > static_cast<size_t>(machine.settings.shared_bytes)) {
    return cudaErrorInvalidValue;
  }
  if (launch->cluster_blocks > 1) {
    const int room = std::min(machine.settings.cluster_blocks, machine.settings.cluster_room);
    const int most = granted[kernel].large_clusters ? room : std::min(8, room);
    if (static_cast<int>(launch->cluster_blocks) > most || launch->blocks % launch->cluster_blocks != 0) {
      return cudaErrorInvalidClusterSize;
    }
  }
  if (launch->cooperative && launch->blocks > static_cast<unsigned>(machine.settings.sm_count) * 2) {
    return cudaErrorCooperativeLaunchTooLarge;
  }
  if (!machine.stream.empty()) launch->before = machine.stream.back().get();
  machine.stream.push_back(std::move(launch));
  ++machine.launches;
  return cudaSuccess;
}

void launch_host_work(std::function<void()> work) {
  auto launch = std::make_unique<Launch>();
  launch->host_work = std::move(work);
  launch->blocks = launch->threads = 0;
  if (!machine.stream.empty()) launch->before = machine.stream.back().get();
  machine.stream.push_back(std::move(launch));
}

}  // namespace simt

cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const simt::Settings& settings = simt::machine.settings;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = settings.sm_count; break;
    case cudaDevAttrComputeCapabilityMajor: *value = settings.compute_capability / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *value = settings.compute_capability % 10; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 227 * 1024; break;
  }
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* base, int value, size_t bytes, cudaStream_t) {
  simt::launch_host_work([=] {
    simt::announce_host_access(base, bytes, /*writes=*/true);
    std::memset(base, value, bytes);
  });
  return cudaSuccess;
}
