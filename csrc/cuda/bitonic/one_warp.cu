// Bitonic top-k of short rows: a row in the registers of one warp, or of a half or quarter of it.
//
//   1. The lanes load the row and take the maxima of their elements.
//   2. A bitonic network sorts the maxima: the k-th best of them is a bound that k elements reach, and, as
//      there are twice as many maxima or more, few others.
//   3. The indices of what reaches the bound are listed in shared memory.
//      Where k is too many for maxima to bound, and the list has room, all are.
//   4. Listed elements are ranked (device/list_ranks.cuh). Those of rank below k are written in their place:
//      in order, whatever was asked for; but where order by index is, they are marked, and written so.
// Elements are compared as floats or keys (device/row_numbers.cuh), and ranked by keys and indices.
//
// Where many elements equal the bound, what is above it is listed and ranked, and of them those of the lowest
// indices are behind that, in order. Where elements crowd above it, by their values or by their places, a
// bisection of the keys finds a better bound, or the k-th key itself.
//
// Winners that are kept in their row, or in a mask of it, are marked likewise: one_warp_kept.cu.
// Of windows, a team finds its row's length, k and candidates on the device; what is none is as what lies
// behind the row's end, and is never listed: one_warp_windows.cu. Rows that do not lie side by side come in
// tiles: a block brings in as many as fill lines of memory, with all their elements, and its warps take them
// from shared memory one after the other: one_warp_tiles.cu.

#include "cuda/bitonic/one_warp.cuh"

namespace gputopk::cuda::bitonic {
namespace {

template <class Order, int kLanes, int kElements, bool kByIndex>
__global__ void __launch_bounds__(tuning::kOneWarpThreads,
                                  tuning::one_warp_blocks(sizeof(typename Order::Bits), kElements))
    select_rows(Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Share = RowNumbers<Order, kElements>;
  __shared__ List<Bits, kLanes> lists[tuning::kOneWarpThreads / kLanes];

  const int team = static_cast<int>(threadIdx.x / kLanes);
  const int64_t own_row = static_cast<int64_t>(blockIdx.x) * (tuning::kOneWarpThreads / kLanes) + team;
  const int64_t row = min(own_row, params.rows - 1);  // a team without a row does the last one's work again
  const Bits* const input = params.input + row * params.row_stride;
  const WinnerWriter<Bits> output = params.output.row(row, params.k);
  const Share share(input, params.cols, Team<kLanes>::member(), kLanes, Numbers<Order>(order));
  const auto select = [&](auto&& write_winner) {
    select_row<kLanes>(input, params.cols, order, share, kAllPresent, params.maxima, params.k, lists[team],
                       own_row < params.rows, write_winner);
  };
  if constexpr (kByIndex) {
    static_assert(kElements <= 32, "a word a lane");
    __shared__ Marks<kLanes> of_teams[tuning::kOneWarpThreads / kLanes];
    Marks<kLanes>& marks = of_teams[team];
    marks.clear();
    select([&](int, Bits, uint32_t index) { marks.mark(index); });
    marks.visit([&](int place, int index) { output.write(place, input[index], index); });
  } else {
    select([&](int rank, Bits bits, uint32_t index) { output.write(rank, bits, index); });
  }
}

}  // namespace

ErrorCode OneWarp::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_shape(*this, problem, [&](auto lanes, auto elements, auto order) -> ErrorCode {
    using Order = decltype(order);
    const auto kernel = problem.by_index ? select_rows<Order, lanes, elements, /*kByIndex=*/true>
                                         : select_rows<Order, lanes, elements, /*kByIndex=*/false>;
    return launch_teams(kernel, lanes, problem.rows, stream,
                        params_of<typename Order::Bits>(*this, problem, buffers), order);
  });
}

}  // namespace gputopk::cuda::bitonic
