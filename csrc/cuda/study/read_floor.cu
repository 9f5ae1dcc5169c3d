// The yardstick: a kernel that only reads its input once. 16-byte loads, several in flight, and a maximum so
// that nothing is optimised away.

#include <algorithm>
#include <cstdint>

#include "cuda/device/launch.h"
#include "cuda/topk.h"

namespace gputopk::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kBlocksPerSm = 4;
constexpr int kLoads = 8;  // in flight a thread

__global__ void __launch_bounds__(kThreads)
    read_once(const uint4* input, int64_t vectors, uint32_t* scratch) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  uint32_t most = 0;
  for (; at < vectors; at += kLoads * step) {
    uint4 loaded[kLoads] = {};
    // The remainder too is in flight at once.
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (at + i * step < vectors) loaded[i] = __ldcs(input + at + i * step);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      most = max(most, max(max(loaded[i].x, loaded[i].y), max(loaded[i].z, loaded[i].w)));
    }
  }
  most = __reduce_max_sync(~0u, most);
  if (threadIdx.x % 32 == 0) scratch[blockIdx.x * (kThreads / 32) + threadIdx.x / 32] = most;
}

}  // namespace

ErrorCode read_floor(const void* input, size_t bytes, void* scratch, const Device& device, Stream stream) {
  const int64_t vectors = static_cast<int64_t>(bytes / sizeof(uint4));
  constexpr int64_t kMostBlocks = kReadFloorScratchBytes / (kThreads / 32 * sizeof(uint32_t));
  const int64_t resident = std::min(kMostBlocks, int64_t{device.sm_count} * kBlocksPerSm);
  const int64_t blocks = std::clamp((vectors + kThreads - 1) / kThreads, int64_t{1}, resident);
  return launch_kernel(/*ahead=*/false, read_once, static_cast<unsigned>(blocks), kThreads, 0, stream,
                       static_cast<const uint4*>(input), vectors, static_cast<uint32_t*>(scratch));
}

}  // namespace gputopk::cuda
