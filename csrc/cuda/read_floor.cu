// The yardstick: a kernel that only reads its input once. 16-byte loads, several in flight, and a maximum so
// that nothing is optimised away.

#include <cstdint>

#include "cuda/device/row_reader.cuh"
#include "cuda/topk.h"

namespace gputopk::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kBlocksPerSm = 4;

__global__ void __launch_bounds__(kThreads) read_once(const uint32_t* input, int64_t words, uint32_t* scratch) {
  uint32_t most = 0;
  visit_row(
      input, words, 0, words, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x),
      [&](const auto& elements, int64_t, bool valid) -> uint32_t {
#pragma unroll
        for (int i = 0; i < elements.kElements; ++i) {
          if (valid) most = max(most, elements[i]);
        }
        return 0;
      },
      [](uint32_t, int64_t, bool) {});
  most = __reduce_max_sync(~0u, most);
  if (threadIdx.x % 32 == 0) scratch[blockIdx.x * (kThreads / 32) + threadIdx.x / 32] = most;
}

}  // namespace

ErrorCode read_floor(const void* input, size_t bytes, void* scratch, const Device& device, Stream stream) {
  const int64_t words = static_cast<int64_t>(bytes / sizeof(uint32_t));
  constexpr int64_t kTileWords = int64_t{kThreads} * kUnroll<uint32_t> * kPerVector<uint32_t>;
  const int64_t most = kReadFloorScratchBytes / (kThreads / 32 * sizeof(uint32_t));
  const int64_t tiles = (words + kTileWords - 1) / kTileWords;
  const int64_t blocks = min(min(tiles, most), int64_t{device.sm_count} * kBlocksPerSm);
  read_once<<<static_cast<unsigned>(max(blocks, int64_t{1})), kThreads, 0, stream>>>(
      static_cast<const uint32_t*>(input), words, static_cast<uint32_t*>(scratch));
  return cudaGetLastError();
}

}  // namespace gputopk::cuda
