// Bitonic top-k of short windows of rows, ragged or filtered: a team of lanes has one as one_warp.cu has it.

#include "cuda/bitonic/one_warp.cuh"
#include "cuda/device/window_writer.cuh"

namespace gputopk::cuda::bitonic {
namespace {

// A bit for each of a lane's elements that is a candidate.
template <class Share>
__device__ __forceinline__ uint32_t candidates_of(const Share& share, const RowCandidates& candidates,
                                                  int cols) {
  uint32_t present = 0;
#pragma unroll
  for (int v = 0; v < Share::kVectors; ++v) {
    const int first = static_cast<int>(share.index(v * Share::kInVector));
    if (first >= cols) continue;
    const uint32_t bits = candidates.of(first, Share::kInVector);
    const int left = cols - first;
    present |= (left < Share::kInVector ? bits & ((1u << left) - 1) : bits) << (v * Share::kInVector);
  }
  return present;
}

template <class Order, int kLanes, int kElements>
__global__ void __launch_bounds__(tuning::kOneWarpThreads,
                                  tuning::one_warp_blocks(sizeof(typename Order::Bits), kElements))
    select_windows(const __grid_constant__ Params<typename Order::Bits> params,
                   const __grid_constant__ WindowRows rows, Order order) {
  using Bits = typename Order::Bits;
  using Share = RowNumbers<Order, kElements>;
  __shared__ List<Bits, kLanes> lists[tuning::kOneWarpThreads / kLanes];

  const int team = static_cast<int>(threadIdx.x / kLanes), member = Team<kLanes>::member();
  const int64_t own_row = static_cast<int64_t>(blockIdx.x) * (tuning::kOneWarpThreads / kLanes) + team;
  const bool is_own = own_row < params.rows;
  const int64_t row = min(own_row, params.rows - 1);
  const Window window = rows.of(row);
  const int cols = static_cast<int>(window.length), k = static_cast<int>(window.k);
  const Bits* const input = params.input + row * params.row_stride + window.start;
  const RowCandidates candidates = rows.candidates.of(row);
  const bool by_position = rows.any_order && k == rows.count_of(row, window);

  const Numbers<Order> numbers(order);
  Share share(input, cols, member, kLanes, numbers);
  uint32_t present = cols > 0 ? kAllPresent : 0;  // of an empty window, nothing is read
  if (candidates.bits != nullptr) {
    present = candidates_of(share, candidates, cols);
    share.keep(present, numbers);
  }
  const WindowWriter<Bits> output(rows, row, params.output.row(row, params.k));
  // Of the first candidates in a row, as many have lower positions as stand before.
  const auto position_rank = [&](uint32_t index) {
    if (candidates.bits == nullptr) return static_cast<int>(index);
    int rank = 0;
    for (uint32_t word = 0; word <= index / 32; ++word) {
      const uint32_t bits = candidates.bits[word];
      rank += __popc(word < index / 32 ? bits : bits & ((1u << index % 32) - 1));
    }
    return rank;
  };
  select_row<kLanes>(input, cols, order, share, present, params.maxima, max(k, 1), lists[team], is_own,
                     [&](int rank, Bits bits, uint32_t index) {
                       if (rank < k) output.write(by_position ? position_rank(index) : rank, bits, index);
                     });
  if (is_own) output.finish(k, params.k, member, kLanes);
}

}  // namespace

ErrorCode OneWarp::run_windows(const Problem& problem, const WindowRows& rows, const Buffers& buffers,
                               Stream stream) const {
  return visit_shape(*this, problem, [&](auto lanes, auto elements, auto order) -> ErrorCode {
    auto params = params_of<typename decltype(order)::Bits>(*this, problem, buffers);
    params.row_stride = rows.row_stride;
    return launch_teams(select_windows<decltype(order), lanes, elements>, lanes, problem.rows, stream, params,
                        rows, order);
  });
}

}  // namespace gputopk::cuda::bitonic
