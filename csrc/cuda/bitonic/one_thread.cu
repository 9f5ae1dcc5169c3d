// Bitonic top-k of very short rows by the thousand, as routers have them: a row a thread.
// Shanbhag, Pirk, Madden: Efficient Top-K Query Processing on Massively Parallel Hardware (SIGMOD '18),
// section 3.2, within the registers of one thread: every comparison is between two of its registers.
//
//   1. Local sort: eight elements at a time are sorted, those of the first eight are the best so far.
//   2. Merge: of the best so far and the next eight, in opposite orders, the greater of each pair stay.
//   3. Rebuild: what stays is bitonic, and half a sort puts it in order.
//   4. Where a register had no room for an element's index beside its key, the row's elements that reach the
//      k-th best key are found by a mask, and each takes the place of its key; of equal keys, the elements
//      with the lower indices come first.
//   5. The rows of a warp are written together, from shared memory.
// Rows that do not lie side by side are read and written where they lie: adjacent rows are adjacent threads'.
// Of winners that are kept in their row, or in a mask of it, a thread has a bit each behind step 3, and the
// rows of a warp are written together.

#include <cuda_runtime_api.h>

#include <type_traits>

#include "core/key_order.h"
#include "cuda/bitonic/bitonic.h"
#include "cuda/bitonic/numbers.h"
#include "cuda/device/item_sort.cuh"
#include "cuda/device/kept_writer.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/resident_row.cuh"
#include "cuda/device/winner_writer.cuh"

namespace gputopk::cuda::bitonic {
namespace {

constexpr int kThreads = tuning::kOneThreadThreads;
constexpr int kRun = static_cast<int>(kOneThreadMaxK);

template <class Bits>
struct Params {
  const Bits* input;
  int64_t rows;
  RowLayout rows_in, rows_out;
  int cols;
  int k;
  WinnerWriter<Bits> output;
};

// A warp's winners, row by row.
template <class Bits>
struct Stage {
  Bits values[32 * kRun];
  uint8_t indices[32 * kRun];

  __device__ void put(int at, Bits value, int index) {
    values[at] = value;
    indices[at] = static_cast<uint8_t>(index);
  }
};

// Steps 1 to 3.
template <class Share>
__device__ __forceinline__ void find_best(const Share& share, typename Share::Held (&best)[kRun]) {
  using Held = typename Share::Held;
#pragma unroll
  for (int i = 0; i < kRun; ++i) best[i] = share.held[i];
  sort_items</*kDescending=*/true>(best);
#pragma unroll
  for (int first = kRun; first < Share::kElements; first += kRun) {
    Held next[kRun];
#pragma unroll
    for (int i = 0; i < kRun; ++i) next[i] = share.held[first + i];
    sort_items</*kDescending=*/false>(next);
#pragma unroll
    for (int i = 0; i < kRun; ++i) best[i] = best[i] > next[i] ? best[i] : next[i];
    merge_items</*kDescending=*/true>(best);
  }
}

// A bit for each element that reaches `key`, or is above it.
template <bool kAbove, class Share>
__device__ __forceinline__ uint64_t mask_of(const Share& share, typename Share::Held key) {
  uint32_t halves[2] = {};
#pragma unroll
  for (int i = 0; i < Share::kElements; ++i) {
    if (kAbove ? share.held[i] > key : share.held[i] >= key) halves[i / 32] |= 1u << (i % 32);
  }
  return static_cast<uint64_t>(halves[1]) << 32 | halves[0];
}

// A bit for each winner. Behind the row's end no element is one: its equals before the end are k at least.
template <class Share>
__device__ __forceinline__ uint64_t winners_of(const Share& share, int k,
                                               const typename Share::Held (&best)[kRun]) {
  typename Share::Held kth = best[0];
#pragma unroll
  for (int i = 1; i < kRun; ++i) {
    if (i < k) kth = best[i];
  }
  uint64_t winners = mask_of</*kAbove=*/false>(share, kth);
  if (__popcll(winners) > k) {
    const uint64_t above = mask_of</*kAbove=*/true>(share, kth);
    uint64_t equals = winners & ~above;
    winners = above;
    for (int left = k - __popcll(above); left > 0; --left) {
      winners |= equals & (0 - equals);
      equals &= equals - 1;
    }
  }
  return winners;
}

// Step 4.
template <class Share, class Order, class Element>
__device__ __forceinline__ void place_winners(const Share& share, const Order& order, Element&& element,
                                              int k, const typename Share::Held (&best)[kRun],
                                              Stage<typename Share::Bits>& stage, int first) {
  using Held = typename Share::Held;
  uint64_t winners = winners_of(share, k, best);
  uint32_t filled = 0;  // places
  for (int i = 0; i < k; ++i) {
    const int index = __ffsll(static_cast<long long>(winners)) - 1;
    winners &= winners - 1;
    const auto bits = element(index);  // once more: a register has no run-time number
    const Held key = order(bits);
    int place = 0;
#pragma unroll
    for (int other = 0; other < kRun; ++other) place += best[other] > key;
    place = __ffs(static_cast<int>(~filled & (~0u << place))) - 1;  // behind its equals
    filled |= 1u << place;
    stage.put(first + place, bits, index);
  }
}

template <class Order, int kElements>
__global__ void __launch_bounds__(kThreads, tuning::one_thread_blocks(kElements*(Order::kBits == 64 ? 2 : 1)))
    keep_in_row(Params<typename Order::Bits> params, KeptWriter<typename Order::Bits> output, Order order) {
  using Share = RowShare<Order, kElements>;
  __shared__ uint64_t winners[kThreads];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x) - lane;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * kThreads + warp;
  if (first_row >= params.rows) return;  // by whole warps
  const int rows = static_cast<int>(min(params.rows - first_row, int64_t{32}));
  const auto input_of = [&](int row) {
    return params.input + (first_row + row) * params.rows_in.outer_stride;
  };

  if (lane < rows) {
    const Share share(input_of(lane), params.cols, /*thread=*/0, /*threads=*/1, order);
    typename Share::Held best[kRun];
    find_best(share, best);
    winners[threadIdx.x] = winners_of(share, params.k, best);
  }
  __syncwarp();   // all winners are known, and no row is read for them any more
  int lanes = 1;  // of a row
  while (lanes < 32 && lanes * output.count < params.cols) lanes *= 2;
  for (int row = lane / lanes; row < rows; row += 32 / lanes) {
    const uint64_t own = winners[warp + row];
    output.write(input_of(row), first_row + row, params.cols, lane % lanes, lanes,
                 [&](int first) { return static_cast<uint32_t>(own >> first); });
  }
}

template <class Order, int kElements, bool kStrided>
__global__ void __launch_bounds__(kThreads, tuning::one_thread_blocks(kElements*(Order::kBits == 64 ? 2 : 1)))
    select_row_a_thread(Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Share = RowShare<Order, kElements>;
  __shared__ Stage<Bits> stages[kThreads / 32];
  Stage<Bits>& stage = stages[threadIdx.x / 32];
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * kThreads + (threadIdx.x - lane);
  if (first_row >= params.rows) return;  // by whole warps
  const int rows = static_cast<int>(min(params.rows - first_row, int64_t{32}));
  const int k = params.k;

  if (lane < rows) {
    const Bits* const input = params.input + (kStrided ? params.rows_in.row(first_row + lane)
                                                       : (first_row + lane) * params.rows_in.outer_stride);
    const int64_t step = kStrided ? params.rows_in.col_stride : 1;
    const auto element = [&](int index) { return input[index * step]; };
    const Share share = [&] {
      if constexpr (kStrided) {
        return Share(input, step, params.cols, order);
      } else {
        return Share(input, params.cols, /*thread=*/0, /*threads=*/1, order);
      }
    }();
    typename Share::Held best[kRun];
    find_best(share, best);
    if constexpr (Resident<Bits>::kDistinct) {
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        if (i >= k) continue;
        const int index = static_cast<int>(Resident<Bits>::index(best[i]));
        stage.put(lane * k + i, element(index), index);
      }
    } else {
      place_winners(share, order, element, k, best, stage, lane * k);
    }
  }
  __syncwarp();  // all rows' winners are there
  if (kStrided && !params.rows_out.is_plain()) {
    if (lane >= rows) return;
    const int64_t first = params.rows_out.row(first_row + lane);
    for (int i = 0; i < k; ++i) {
      const int at = lane * k + i;
      params.output.write(first + i * params.rows_out.col_stride, stage.values[at], stage.indices[at]);
    }
    return;
  }
  const WinnerWriter<Bits> output = params.output.row(first_row, k);
  for (int i = lane; i < rows * k; i += 32) output.write(i, stage.values[i], stage.indices[i]);
}

template <class Bits>
Params<Bits> params_of(const StridedProblem& strided, const void* input) {
  Params<Bits> params{};
  params.input = static_cast<const Bits*>(input);
  params.rows = strided.problem.rows;
  params.rows_in = strided.input;
  params.rows_out = strided.outputs;
  params.cols = static_cast<int>(strided.problem.cols);
  params.k = static_cast<int>(strided.problem.k);
  return params;
}

// A launch of as many blocks as the rows take.
template <class Kernel, class... Arguments>
ErrorCode launch(Kernel* kernel, int64_t rows, Stream stream, const Arguments&... arguments) {
  const int64_t blocks = (rows + kThreads - 1) / kThreads;
  if (blocks > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
  return launch_kernel(/*ahead=*/false, kernel, static_cast<unsigned>(blocks), kThreads, 0, stream,
                       arguments...);
}

// run(elements, order) with the config's shape as a constant.
template <class Run>
ErrorCode visit_elements(const OneThread& config, const Problem& problem, Run&& run) {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) -> ErrorCode {
    if (config.elements == 16) return run(std::integral_constant<int, 16>{}, order);
    using Order = decltype(order);
    if constexpr (Order::kBits < 64) {
      if (config.elements == 64) return run(std::integral_constant<int, 64>{}, order);
    }
    return run(std::integral_constant<int, 32>{}, order);
  });
}

template <bool kStrided>
ErrorCode run_rows(const OneThread& config, const StridedProblem& strided, const Buffers& buffers,
                   Stream stream) {
  const Problem& problem = strided.problem;
  return visit_elements(config, problem, [&](auto elements, auto order) {
    using Bits = typename decltype(order)::Bits;
    auto params = params_of<Bits>(strided, buffers.input);
    params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
    return launch(select_row_a_thread<decltype(order), elements, kStrided>, problem.rows, stream, params,
                  order);
  });
}

}  // namespace

ErrorCode OneThread::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return run_rows</*kStrided=*/false>(*this, plain(problem), buffers, stream);
}

ErrorCode OneThread::run_strided(const StridedProblem& strided, const Buffers& buffers, Stream stream) const {
  return run_rows</*kStrided=*/true>(*this, strided, buffers, stream);
}

ErrorCode OneThread::run_kept(const Problem& problem, const KeepBuffers& buffers, Stream stream) const {
  return visit_elements(*this, problem, [&](auto elements, auto order) {
    using Bits = typename decltype(order)::Bits;
    return launch(keep_in_row<decltype(order), elements>, problem.rows, stream,
                  params_of<Bits>(plain(problem), buffers.input),
                  KeptWriter<Bits>::of(buffers.output, buffers.input, problem.row_stride, problem.cols),
                  order);
  });
}

}  // namespace gputopk::cuda::bitonic
