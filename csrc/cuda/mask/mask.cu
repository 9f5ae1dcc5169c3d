// What is no worse than one element of each row, written as a mask or as the row without the others.
//
// A group of lanes takes a tile of a row: it reads the given element's key once, and neighbouring lanes read
// neighbouring pieces, of which each keeps several in flight: vectors where rows and outputs are aligned,
// else elements. Short rows share a block. In nearly all tiles no column decides anything, so that keys are
// compared alone.

#include "cuda/mask/mask.h"

#include <algorithm>
#include <type_traits>

#include "cuda/device/launch.h"
#include "cuda/mask/numbers.h"
#include "cuda/mask/tiles.cuh"

namespace gputopk::cuda::mask {
namespace {

using tuning::kMaskThreads;

// What a lane reads or writes at once.
template <class Place, int kCount>
struct alignas(kCount * sizeof(Place)) Piece {
  Place at[kCount];
};

// `lanes` of a group: a power of two up to kMaskThreads. Tiles of rows are numbered row by row.
template <bool kKeeps, int kCount, int kPieces, class Order>
__global__ void __launch_bounds__(kMaskThreads)
    mark_kept(const __grid_constant__ MaskProblem problem, const __grid_constant__ MaskBuffers buffers,
              int lanes, int64_t tiles_per_row, Order order) {
  using Bits = typename Order::Bits;
  using Place = std::conditional_t<kKeeps, Bits, uint8_t>;
  using Elements = Piece<Bits, kCount>;
  using Written = Piece<Place, kCount>;
  follow_kernel_before();
  const Bits fill = static_cast<Bits>(buffers.output.fill);
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int groups = kMaskThreads / lanes, of_tile = kPieces * kCount * lanes;
  const int64_t tiles = problem.rows * tiles_per_row;
  for (int64_t tile = int64_t{blockIdx.x} * groups + threadIdx.x / lanes; tile < tiles;
       tile += int64_t{gridDim.x} * groups) {
    const int64_t row = row_of_tile(tile, tiles_per_row), first = (tile - row * tiles_per_row) * of_tile;
    const int count = static_cast<int>(min(problem.cols - first, int64_t{of_tile}));
    const Bits* const elements = static_cast<const Bits*>(buffers.input) + row * problem.row_stride + first;
    Place* const out = static_cast<Place*>(buffers.output.rows) + row * buffers.output.row_stride + first;
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
      Written written;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const Bits key = order(pieces[p].at[i]);
        const bool with_equals = by_key ? equals : at + i < of_equals;
        const bool is_kept =
            key > kept.key || (key == kept.key && with_equals) || (!by_key && at + i >= of_row);
        if constexpr (kKeeps) {
          written.at[i] = is_kept ? pieces[p].at[i] : fill;
        } else {
          written.at[i] = is_kept ? 1 : 0;
        }
      }
      *reinterpret_cast<Written*>(out + at) = written;
    }
  }
}

template <bool kKeeps, int kCount, int kPieces, class Order>
ErrorCode launch(const MaskProblem& problem, const MaskBuffers& buffers, Order order, Stream stream) {
  int lanes = 1;
  while (lanes < kMaskThreads && int64_t{lanes} * kCount * kPieces < problem.cols) lanes *= 2;
  const int64_t of_tile = int64_t{lanes} * kCount * kPieces, groups = kMaskThreads / lanes;
  const int64_t tiles_per_row = (problem.cols + of_tile - 1) / of_tile;
  const int64_t blocks = (problem.rows * tiles_per_row + groups - 1) / groups;
  constexpr int64_t kMostBlocks = 0x7FFFFFFF;
  return launch_kernel(/*ahead=*/true, mark_kept<kKeeps, kCount, kPieces, Order>,
                       static_cast<unsigned>(std::min(blocks, kMostBlocks)), kMaskThreads, 0, stream, problem,
                       buffers, lanes, tiles_per_row, order);
}

template <bool kKeeps, class Order>
ErrorCode launch_aligned(const MaskProblem& problem, const MaskBuffers& buffers, Order order, Stream stream) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(typename Order::Bits));
  const KeptOutput& output = buffers.output;
  // A row's places as they lie in both, from one row to the next.
  const int64_t together = problem.rows == 1 ? 0 : problem.row_stride | output.row_stride;
  const uintptr_t begins = reinterpret_cast<uintptr_t>(buffers.input);
  const uintptr_t written = reinterpret_cast<uintptr_t>(output.rows);
  const bool is_aligned = (begins | written) % 16 == 0 && (together | problem.cols) % kVector == 0;
  if (is_aligned) return launch<kKeeps, kVector, tuning::kMaskVectors>(problem, buffers, order, stream);
  return launch<kKeeps, 1, tuning::kMaskElements>(problem, buffers, order, stream);
}

}  // namespace

ErrorCode run(const MaskProblem& problem, const MaskBuffers& buffers, Stream stream) {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) -> ErrorCode {
    if (buffers.output.keeps) return launch_aligned</*kKeeps=*/true>(problem, buffers, order, stream);
    return launch_aligned</*kKeeps=*/false>(problem, buffers, order, stream);
  });
}

}  // namespace gputopk::cuda::mask
