
#include <algorithm>
#include <cstdint>

#include "cuda/device/launch.h"

namespace gputopk::cuda {
namespace {

constexpr unsigned kThreads = 512;
constexpr size_t kMostBlocks = 256;

__global__ void __launch_bounds__(kThreads) zero_vectors(uint4* vectors, size_t count) {
  let_next_kernel_start();
  const size_t stride = static_cast<size_t>(gridDim.x) * kThreads;
  for (size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    vectors[i] = uint4{};
  }
}

}  // namespace

cudaError_t zero_workspace(void* base, size_t bytes, bool ahead, cudaStream_t stream) {
  if (!ahead) return cudaMemsetAsync(base, 0, bytes, stream);
  const size_t vectors = bytes / sizeof(uint4);
  const unsigned blocks = static_cast<unsigned>(std::min((vectors + kThreads - 1) / kThreads, kMostBlocks));
  // Not ahead of what came before, which may be the input's kernel.
  return launch_kernel(/*ahead=*/false, zero_vectors, blocks, kThreads, 0, stream, static_cast<uint4*>(base),
                       vectors);
}

}  // namespace gputopk::cuda
