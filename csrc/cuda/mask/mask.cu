// What is no worse than one element of each row, written as a mask or as the row without the others.
//
// A group of lanes takes some tiles of a row, one behind the other, and makes a bound of the given element's
// key once. Neighbouring lanes read neighbouring pieces, of which each keeps several in flight: vectors where
// rows and outputs are aligned, else elements. Short rows share a block. Elements are compared with the key
// by their patterns (device/pattern_filter.cuh); the given element's column tells which pieces have its
// equals, and only in the one that has it does an element's own column count.

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

// How rows are dealt out: to groups of so many lanes, a power of two up to kMaskThreads, in spans of so many
// tiles each, numbered row by row.
struct Deal {
  int lanes, tiles;
  int64_t spans_per_row;
};

// `Elements` of a piece: Vector or Single.
template <bool kKeeps, class Elements, int kPieces, class Order>
__global__ void __launch_bounds__(kMaskThreads, tuning::kMaskBlocksPerSm)
    mark_kept(const __grid_constant__ MaskProblem problem, const __grid_constant__ MaskBuffers buffers,
              Deal deal, Order order) {
  using Bits = typename Order::Bits;
  using Place = std::conditional_t<kKeeps, Bits, uint8_t>;
  constexpr int kCount = Elements::kElements;
  follow_kernel_before();
  const int lane = static_cast<int>(threadIdx.x) % deal.lanes;
  const int groups = kMaskThreads / deal.lanes, of_tile = kPieces * kCount * deal.lanes;
  const int of_span = deal.tiles * of_tile;
  const int64_t spans = problem.rows * deal.spans_per_row;
  for (int64_t span = int64_t{blockIdx.x} * groups + threadIdx.x / deal.lanes; span < spans;
       span += int64_t{gridDim.x} * groups) {
    const int64_t row = row_of(span, deal.spans_per_row), first = (span - row * deal.spans_per_row) * of_span;
    const int count = static_cast<int>(min(problem.cols - first, int64_t{of_span}));
    const Bits* const elements = static_cast<const Bits*>(buffers.input) + row * problem.row_stride + first;
    Place* const out = static_cast<Place*>(buffers.output.rows) + row * buffers.output.row_stride + first;
    const auto kept = KeptOfRow<Order>::of(problem, buffers, row, order);
    // Of the span: equals are in the set before `of_equals`, and all elements from `of_row` on.
    const int of_equals = static_cast<int>(clamp_number(kept.last_equal + 1 - first, 0, count));
    const int of_row = static_cast<int>(clamp_number(kept.end - first, 0, count));
    BoundFilter<Order> reaching(order), above(order);
    reaching.raise(kept.key, /*behind=*/false);
    above.raise(kept.key, /*behind=*/true);
#pragma unroll 1
    for (int tile = lane * kCount; tile < count; tile += of_tile) {
      Elements pieces[kPieces];
#pragma unroll
      for (int p = 0; p < kPieces; ++p) {
        const int at = tile + p * deal.lanes * kCount;
        if (at < count) pieces[p] = *reinterpret_cast<const Elements*>(elements + at);
      }
#pragma unroll
      for (int p = 0; p < kPieces; ++p) {
        const int at = tile + p * deal.lanes * kCount;
        if (at >= count) break;
        const bool with_equals = at + kCount <= of_equals;
        BoundFilter<Order> filter = above;  // a copy: what is chosen by its address lies in memory
        if (with_equals) filter = reaching;
        uint32_t bits = filter.probe(pieces[p]);
        if (!with_equals && at < of_equals) bits |= reaching.probe(pieces[p]) & ones_below(of_equals - at);
        if (at + kCount > of_row) bits |= ~ones_below(of_row - at);
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
}

template <bool kKeeps, class Elements, int kPieces, class Order>
ErrorCode launch(const MaskProblem& problem, const MaskBuffers& buffers, Order order, Stream stream) {
  constexpr int kOfLane = Elements::kElements * kPieces;
  const auto deal_of = [&](int tiles) {
    Deal deal{1, tiles, 0};
    while (deal.lanes < kMaskThreads && int64_t{deal.lanes} * tiles * kOfLane < problem.cols) deal.lanes *= 2;
    const int64_t of_span = int64_t{deal.lanes} * tiles * kOfLane;
    deal.spans_per_row = (problem.cols + of_span - 1) / of_span;
    return deal;
  };
  const auto blocks_of = [&](const Deal& deal) {
    const int64_t groups = kMaskThreads / deal.lanes;
    return (problem.rows * deal.spans_per_row + groups - 1) / groups;
  };
  Deal deal = deal_of(tuning::kMaskTiles);
  while (deal.tiles > 1 && blocks_of(deal) < tuning::kMaskLeastBlocks) deal = deal_of(deal.tiles / 2);
  constexpr int64_t kMostBlocks = 0x7FFFFFFF;
  return launch_kernel(/*ahead=*/true, mark_kept<kKeeps, Elements, kPieces, Order>,
                       static_cast<unsigned>(std::min(blocks_of(deal), kMostBlocks)), kMaskThreads, 0, stream,
                       problem, buffers, deal, order);
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
