// A group of lanes takes a tile of a row: it reads the given element's key once, and neighbouring lanes read
// neighbouring elements, of which each keeps several in flight. Short rows share a block.

#include "cuda/mask/mask.h"

#include <algorithm>

#include "cuda/device/launch.h"
#include "cuda/mask/numbers.h"

namespace gputopk::cuda::mask {
namespace {

using tuning::kMaskElements;
using tuning::kMaskThreads;

// `lanes` of a group: a power of two up to kMaskThreads. Tiles of rows are numbered row by row.
template <class Order>
__global__ void __launch_bounds__(kMaskThreads)
    mark_kept(MaskProblem problem, MaskBuffers buffers, int lanes, int64_t tiles_per_row, Order order) {
  using Bits = typename Order::Bits;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int groups = kMaskThreads / lanes;
  const int64_t tiles = problem.rows * tiles_per_row;
  for (int64_t tile = int64_t{blockIdx.x} * groups + threadIdx.x / lanes; tile < tiles;
       tile += int64_t{gridDim.x} * groups) {
    const int64_t row = tile / tiles_per_row;
    const int64_t first = tile % tiles_per_row * (int64_t{kMaskElements} * lanes) + lane;
    const Bits* const elements = static_cast<const Bits*>(buffers.input) + row * problem.row_stride;
    uint8_t* const mask = buffers.mask + row * problem.cols;
    Bits bits[kMaskElements];
#pragma unroll
    for (int i = 0; i < kMaskElements; ++i) {
      const int64_t col = first + int64_t{i} * lanes;
      bits[i] = col < problem.cols ? elements[col] : Bits{0};
    }
    const auto kept = KeptOfRow<Order>::of(problem, buffers, row, order);
#pragma unroll
    for (int i = 0; i < kMaskElements; ++i) {
      const int64_t col = first + int64_t{i} * lanes;
      if (col < problem.cols) mask[col] = kept.has(order(bits[i]), col) ? 1 : 0;
    }
  }
}

}  // namespace

ErrorCode run(const MaskProblem& problem, const MaskBuffers& buffers, Stream stream) {
  int lanes = 1;
  while (lanes < kMaskThreads && int64_t{lanes} * kMaskElements < problem.cols) lanes *= 2;
  const int64_t of_tile = int64_t{lanes} * kMaskElements;
  const int64_t tiles_per_row = (problem.cols + of_tile - 1) / of_tile;
  const int64_t groups = kMaskThreads / lanes;
  const int64_t blocks = (problem.rows * tiles_per_row + groups - 1) / groups;
  constexpr int64_t kMostBlocks = 0x7FFFFFFF;
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) -> ErrorCode {
    return launch_kernel(/*ahead=*/false, mark_kept<decltype(order)>,
                         static_cast<unsigned>(std::min(blocks, kMostBlocks)), kMaskThreads, 0, stream,
                         problem, buffers, lanes, tiles_per_row, order);
  });
}

}  // namespace gputopk::cuda::mask
