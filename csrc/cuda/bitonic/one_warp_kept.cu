// Bitonic top-k of short rows whose winners are kept in their places: as a mask of the row, or the row with a
// number in place of the others. A team of lanes has a row as one_warp.cu has it.

#include "cuda/bitonic/one_warp.cuh"
#include "cuda/device/kept_writer.cuh"

namespace gputopk::cuda::bitonic {
namespace {

template <class Order, int kLanes, int kElements>
__global__ void __launch_bounds__(tuning::kOneWarpThreads,
                                  tuning::one_warp_blocks(sizeof(typename Order::Bits), kElements))
    keep_rows(const __grid_constant__ Params<typename Order::Bits> params,
              const __grid_constant__ KeptWriter<typename Order::Bits> output, Order order) {
  using Bits = typename Order::Bits;
  using Share = RowNumbers<Order, kElements>;
  __shared__ List<Bits, kLanes> lists[tuning::kOneWarpThreads / kLanes];
  __shared__ Marks<kLanes> of_teams[tuning::kOneWarpThreads / kLanes];

  const int team = static_cast<int>(threadIdx.x / kLanes), member = Team<kLanes>::member();
  const int64_t own_row = static_cast<int64_t>(blockIdx.x) * (tuning::kOneWarpThreads / kLanes) + team;
  const int64_t row = min(own_row, params.rows - 1);  // a team without a row does the last one's work again
  const Bits* const input = params.input + row * params.row_stride;
  const Share share(input, params.cols, member, kLanes, Numbers<Order>(order));
  Marks<kLanes>& marks = of_teams[team];
  marks.clear();
  select_row<kLanes>(input, params.cols, order, share, kAllPresent, params.maxima, params.k, lists[team],
                     own_row < params.rows, [&](int, Bits, uint32_t index) { marks.mark(index); });
  // All are marked; and no team reads the last row any more, which may be written over.
  __syncthreads();
  if (own_row < params.rows) {
    output.write(input, row, params.cols, member, kLanes, [&](int first) { return marks.from(first); });
  }
}

}  // namespace

ErrorCode OneWarp::run_kept(const Problem& problem, const KeepBuffers& buffers, Stream stream) const {
  return visit_shape(*this, problem, [&](auto lanes, auto elements, auto order) -> ErrorCode {
    using Bits = typename decltype(order)::Bits;
    Buffers selection;
    selection.input = buffers.input;
    return launch_teams(keep_rows<decltype(order), lanes, elements>, lanes, problem.rows, stream,
                        params_of<Bits>(*this, problem, selection),
                        KeptWriter<Bits>::of(buffers.output, buffers.input, problem.row_stride, problem.cols),
                        order);
  });
}

}  // namespace gputopk::cuda::bitonic
