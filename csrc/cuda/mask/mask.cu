// What is no worse than one element of each row, written as a mask or as the row without the others.
//
// A group of lanes takes a tile of a row: it reads the given element's key once, and neighbouring lanes read
// neighbouring pieces, of which each keeps several in flight: vectors where rows and outputs are aligned,
// else elements. Short rows share a block. In nearly all tiles no column decides anything, so that elements
// are compared with the key alone, by their patterns (device/pattern_filter.cuh).

#include "cuda/mask/mask.h"

#include <algorithm>
#include <type_traits>

#include "cuda/device/kept_writer.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/pattern_filter.cuh"
#include "cuda/mask/numbers.h"
#include "cuda/mask/tiles.cuh"

namespace gputopk::cuda::mask {
namespace {

using tuning::kMaskThreads;

// Ones below bit `bit`, which may lie before the first and behind the last.
__device__ inline uint32_t ones_below(int bit) { return bit <= 0 ? 0 : bit >= 32 ? ~0u : (1u << bit) - 1; }

// `Elements` of a piece: Vector or Single. `lanes` of a group: a power of two up to kMaskThreads. Tiles of
// rows are numbered row by row.
template <bool kKeeps, class Elements, int kPieces, class Order>
__global__ void __launch_bounds__(kMaskThreads, tuning::kMaskBlocksPerSm)
    mark_kept(const __grid_constant__ MaskProblem problem, const __grid_constant__ MaskBuffers buffers,
              int lanes, int64_t tiles_per_row, Order order) {
  using Bits = typename Order::Bits;
  using Place = std::conditional_t<kKeeps, Bits, uint8_t>;
  constexpr int kCount = Elements::kElements;
  follow_kernel_before();
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int groups = kMaskThreads / lanes, of_tile = kPieces * kCount * lanes;
  const int64_t tiles = problem.rows * tiles_per_row;
  BoundFilter<Order> reaching(order);
  for (int64_t tile = int64_t{blockIdx.x} * groups + threadIdx.x / lanes; tile < tiles;
       tile += int64_t{gridDim.x} * groups) {
    const int64_t row = row_of(tile, tiles_per_row), first = (tile - row * tiles_per_row) * of_tile;
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
    // Of the tile: equals are in the set before `of_equals`, and all elements from `of_row` on.
    const int of_equals = static_cast<int>(clamp_number(kept.last_equal + 1 - first, 0, count));
    const int of_row = static_cast<int>(clamp_number(kept.end - first, 0, count));
    const bool by_key = of_row == count && (of_equals == count || of_equals == 0);
    reaching.raise(kept.key, /*behind=*/of_equals == 0);
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const int at = (p * lanes + lane) * kCount;
      if (at >= count) break;
      uint32_t bits = reaching.probe(pieces[p]);
      if (!by_key) {
        BoundFilter<Order> above(order);
        above.raise(kept.key, /*behind=*/true);
        bits = above.probe(pieces[p]) | (bits & ones_below(of_equals - at)) | ~ones_below(of_row - at);
      }
      if constexpr (kKeeps) {
        using Kept = KeptElements<Bits, kCount>;
        const Bits fill = static_cast<Bits>(buffers.output.fill);
        *reinterpret_cast<Kept*>(out + at) = Kept::of(bits, pieces[p], fill);
      } else {
        *reinterpret_cast<MaskBytes<kCount>*>(out + at) = MaskBytes<kCount>::of(bits);
      }
    }
  }
}

template <bool kKeeps, class Elements, int kPieces, class Order>
ErrorCode launch(const MaskProblem& problem, const MaskBuffers& buffers, Order order, Stream stream) {
  constexpr int kCount = Elements::kElements;
  int lanes = 1;
  while (lanes < kMaskThreads && int64_t{lanes} * kCount * kPieces < problem.cols) lanes *= 2;
  const int64_t of_tile = int64_t{lanes} * kCount * kPieces, groups = kMaskThreads / lanes;
  const int64_t tiles_per_row = (problem.cols + of_tile - 1) / of_tile;
  const int64_t blocks = (problem.rows * tiles_per_row + groups - 1) / groups;
  constexpr int64_t kMostBlocks = 0x7FFFFFFF;
  return launch_kernel(/*ahead=*/true, mark_kept<kKeeps, Elements, kPieces, Order>,
                       static_cast<unsigned>(std::min(blocks, kMostBlocks)), kMaskThreads, 0, stream, problem,
                       buffers, lanes, tiles_per_row, order);
}

template <bool kKeeps, class Order>
ErrorCode launch_aligned(const MaskProblem& problem, const MaskBuffers& buffers, Order order, Stream stream) {
  using Bits = typename Order::Bits;
  constexpr int kVector = kPerVector<Bits>;
  const KeptOutput& output = buffers.output;
  // A row's places as they lie in both, from one row to the next.
  const int64_t together = problem.rows == 1 ? 0 : problem.row_stride | output.row_stride;
  const uintptr_t begins = reinterpret_cast<uintptr_t>(buffers.input);
  const uintptr_t written = reinterpret_cast<uintptr_t>(output.rows);
  const bool is_aligned = (begins | written) % 16 == 0 && (together | problem.cols) % kVector == 0;
  if (is_aligned) return launch<kKeeps, Vector<Bits>, tuning::kMaskVectors>(problem, buffers, order, stream);
  return launch<kKeeps, Single<Bits>, tuning::kMaskElements>(problem, buffers, order, stream);
}

}  // namespace

ErrorCode run(const MaskProblem& problem, const MaskBuffers& buffers, Stream stream) {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) -> ErrorCode {
    if (buffers.output.keeps) return launch_aligned</*kKeeps=*/true>(problem, buffers, order, stream);
    return launch_aligned</*kKeeps=*/false>(problem, buffers, order, stream);
  });
}

}  // namespace gputopk::cuda::mask
