// A group of lanes takes a tile of a row: it reads the given element's key once, and neighbouring lanes read
// neighbouring pieces, of which each keeps several in flight: vectors where rows and masks are aligned, else
// elements. Short rows share a block. In nearly all tiles no column decides anything, so that keys are
// compared alone.

#include "cuda/mask/mask.h"

#include <algorithm>

#include "cuda/device/launch.h"
#include "cuda/mask/numbers.h"

namespace gputopk::cuda::mask {
namespace {

using tuning::kMaskThreads;

// What a lane reads and writes at once.
template <class Bits, int kCount>
struct Piece {
  struct alignas(kCount * sizeof(Bits)) Elements {
    Bits at[kCount];
  };
  struct alignas(kCount) Mask {
    uint8_t at[kCount];
  };
};

// `lanes` of a group: a power of two up to kMaskThreads. Tiles of rows are numbered row by row.
template <int kCount, int kPieces, class Order>
__global__ void __launch_bounds__(kMaskThreads)
    mark_kept(MaskProblem problem, MaskBuffers buffers, int lanes, int64_t tiles_per_row, Order order) {
  using Bits = typename Order::Bits;
  using Elements = typename Piece<Bits, kCount>::Elements;
  using Mask = typename Piece<Bits, kCount>::Mask;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int groups = kMaskThreads / lanes, of_tile = kPieces * kCount * lanes;
  const int64_t tiles = problem.rows * tiles_per_row;
  for (int64_t tile = int64_t{blockIdx.x} * groups + threadIdx.x / lanes; tile < tiles;
       tile += int64_t{gridDim.x} * groups) {
    const int64_t row = tile / tiles_per_row, first = tile % tiles_per_row * of_tile;
    const int count = static_cast<int>(min(problem.cols - first, int64_t{of_tile}));
    const Bits* const elements = static_cast<const Bits*>(buffers.input) + row * problem.row_stride + first;
    uint8_t* const mask = buffers.mask + row * problem.cols + first;
    Elements pieces[kPieces];
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const int at = (p * lanes + lane) * kCount;
      if (at < count) pieces[p] = *reinterpret_cast<const Elements*>(elements + at);
    }
    const auto kept = KeptOfRow<Order>::of(problem, buffers, row, order);
    // Of the tile: equals are in the mask before `of_equals`, and all elements from `of_row` on.
    const int of_equals = static_cast<int>(clamp_number(kept.last_equal + 1 - first, 0, of_tile));
    const int of_row = static_cast<int>(clamp_number(kept.end - first, 0, of_tile));
    const bool by_key = of_row == of_tile && (of_equals == of_tile || of_equals == 0);
    const bool equals = of_equals > 0;
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const int at = (p * lanes + lane) * kCount;
      if (at >= count) break;
      Mask marks;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const Bits key = order(pieces[p].at[i]);
        const bool with_equals = by_key ? equals : at + i < of_equals;
        const bool is_kept =
            key > kept.key || (key == kept.key && with_equals) || (!by_key && at + i >= of_row);
        marks.at[i] = is_kept ? 1 : 0;
      }
      *reinterpret_cast<Mask*>(mask + at) = marks;
    }
  }
}

template <int kCount, int kPieces, class Order>
ErrorCode launch(const MaskProblem& problem, const MaskBuffers& buffers, Order order, Stream stream) {
  int lanes = 1;
  while (lanes < kMaskThreads && int64_t{lanes} * kCount * kPieces < problem.cols) lanes *= 2;
  const int64_t of_tile = int64_t{lanes} * kCount * kPieces, groups = kMaskThreads / lanes;
  const int64_t tiles_per_row = (problem.cols + of_tile - 1) / of_tile;
  const int64_t blocks = (problem.rows * tiles_per_row + groups - 1) / groups;
  constexpr int64_t kMostBlocks = 0x7FFFFFFF;
  return launch_kernel(/*ahead=*/false, mark_kept<kCount, kPieces, Order>,
                       static_cast<unsigned>(std::min(blocks, kMostBlocks)), kMaskThreads, 0, stream, problem,
                       buffers, lanes, tiles_per_row, order);
}

}  // namespace

ErrorCode run(const MaskProblem& problem, const MaskBuffers& buffers, Stream stream) {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) -> ErrorCode {
    using Order = decltype(order);
    constexpr int kVector = 16 / static_cast<int>(sizeof(typename Order::Bits));
    const bool is_aligned = reinterpret_cast<uintptr_t>(buffers.input) % 16 == 0 &&
                            reinterpret_cast<uintptr_t>(buffers.mask) % 16 == 0 &&
                            (problem.rows == 1 || problem.row_stride % kVector == 0) &&
                            problem.cols % kVector == 0;
    if (is_aligned) return launch<kVector, tuning::kMaskVectors>(problem, buffers, order, stream);
    return launch<1, tuning::kMaskElements>(problem, buffers, order, stream);
  });
}

}  // namespace gputopk::cuda::mask
