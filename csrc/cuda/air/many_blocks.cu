// AIR top-k: Adaptive and Iteration-fused Radix top-k over many blocks a row.
// Zhang, Naruse, Li, Wang: Parallel Top-K Algorithms on GPU (SC '23), section 3.
//
// A row's elements are ordered by an extended key, (key, reversed index): see device/selection.cuh. Its
// digits are resolved from the most significant down, one pass a digit:
//   1. The first pass counts every element's first digit: a histogram a block in shared memory, then added
//      up in global memory.
//   2. The row's last block to arrive finds the target digit, the one that holds the k-th best element, and
//      narrows the selection: elements above the target are winners, those with it are candidates.
//   3. Each further pass is fused: it reads the elements once, writes the winners that the digit before
//      decided, and counts the next digit of the candidates.
//   4. Adaptive: a pass that finds few enough candidates (known exactly, from the histogram) also stores
//      them, and the next pass reads those instead of the row. Crowded rows are never stored.
//   5. Early stop: once as many winners are owed as there are candidates, the next pass takes them all and
//      what is launched after it returns at once. This always holds after the last digit, for no two elements
//      share an extended key.
// Nothing is read by the host; the launches depend on sizes alone.
//
// Beyond the paper: ties are digits of the index, so crowded thresholds need no case of their own, and once
// the key is resolved a pass reads only the range of indices that can still win. Winners and candidates are
// staged a warp and written in runs, so that no counter takes an atomic an element.
//
// It loses to one-read algorithms on long rows (it reads them twice at least), and on rows that one block
// can hold (one_block.cu).

#include "cuda/air/air.h"

#include <atomic>

#include "core/key_order.h"
#include "cuda/air/numbers.h"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/numbers.h"
#include "cuda/device/radix_passes.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda::air {
namespace {

// Step 1. The digits of the first pass reach the index only in 1-byte dtypes.
template <class Order, class Index>
__global__ void __launch_bounds__(tuning::kPassThreads, tuning::kPassBlocksPerSm)
    first_pass(RadixPasses<typename Order::Bits, Index> params, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  unsigned char* const dynamic = dynamic_shared();
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic);
  __shared__ TargetDigitScratch<Index> scratch;

  const Digit digit = digit_of_pass(1, params.digit_bits, Order::kBits, params.index_bits);
  const int bins = 1 << digit.width();
  const Index last_index = static_cast<Index>(params.cols - 1);
  const int64_t row = blockIdx.x / params.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x % params.blocks_per_row);
  let_next_kernel_start();
  clear_histogram(histogram, bins);
  __syncthreads();
  visit_row<Reading::kOnceAhead>(
      params.input + row * params.row_stride, params.cols, part, params.blocks_per_row, AllTiles{},
      [&](const auto& elements, int64_t index, bool valid) -> uint32_t {
        if (!valid) return 0;
#pragma unroll
        for (int i = 0; i < elements.kElements; ++i) {
          const Word key = order(elements[i]);
          if constexpr (sizeof(Bits) == 1) {
            atomicAdd(histogram + digit.of(key, static_cast<Index>(last_index - index - i)), 1u);
          } else {
            atomicAdd(histogram + (key >> digit.key_shift), 1u);
          }
        }
        return 0;
      },
      [](Bits, int64_t, bool) {});

  wait_for_kernel_before();  // the row's histogram and state are zero
  Index* const row_histogram = params.histogram + (row << params.digit_bits);
  add_up(histogram, row_histogram, bins);
  auto& state = params.states[row];
  if (is_last_block(&state.arrived, params.blocks_per_row)) {
    choose(params, 1, row, Selection<Word, Index>::whole_row(params.k, params.cols), row_histogram,
           reinterpret_cast<Index*>(dynamic), scratch, state);
  }
}

// One blob: what must be zero first, then the buffers.
template <class Bits, class Index>
size_t carve(const ManyBlocks& config, const Problem& problem, void* base, RadixPasses<Bits, Index>& params,
             size_t& zeroed_bytes) {
  params.digit_bits = config.digit_bits;
  params.buffer_capacity[0] = params.buffer_capacity[1] = config.buffer;
  Workspace workspace(base);
  params.carve_zeroed(workspace, problem.rows);
  zeroed_bytes = workspace.bytes();
  params.carve_rest(workspace, problem.rows);
  return workspace.bytes();
}

template <class Order, class Index>
cudaError_t launch(const ManyBlocks& config, const Problem& problem, const Buffers& buffers, Order order,
                   cudaStream_t stream) {
  using Bits = typename Order::Bits;
  RadixPasses<Bits, Index> params{};
  params.select(problem, buffers);
  params.blocks_per_row = config.blocks_per_row;
  params.adaptive = config.adaptive;
  params.early_stop = config.early_stop;
  params.likely_passes = tuning::kLikelyPasses;
  size_t zeroed_bytes = 0;
  carve(config, problem, buffers.workspace, params, zeroed_bytes);

  cudaError_t error = zero_workspace(buffers.workspace, zeroed_bytes, config.launches_ahead, stream);
  if (error != cudaSuccess) return error;

  constexpr int64_t kMostBlocks = 0x7FFFFFFF;
  if (problem.rows > kMostBlocks / config.blocks_per_row) return cudaErrorInvalidConfiguration;
  const unsigned blocks = static_cast<unsigned>(problem.rows * config.blocks_per_row);
  // The last block needs the bins in the width of the row's counts.
  const size_t histogram_bytes = sizeof(Index) << config.digit_bits;
  static std::atomic<uint64_t> allowed;
  error = allow_shared_memory(first_pass<Order, Index>, histogram_bytes, allowed);
  if (error != cudaSuccess) return error;
  error = launch_kernel(config.launches_ahead, first_pass<Order, Index>, blocks, tuning::kPassThreads,
                        histogram_bytes, stream, params, order);
  if (error != cudaSuccess) return error;
  return launch_passes(params, order, problem.rows, /*first=*/2, config.launches_ahead, stream);
}

}  // namespace

size_t ManyBlocks::workspace_bytes(const Problem& problem) const {
  return visit_key_order(problem.dtype, true, false, [&](auto order) {
    using Bits = typename decltype(order)::Bits;
    return visit_index(problem.cols, [&](auto index) {
      RadixPasses<Bits, decltype(index)> params{};
      size_t zeroed_bytes = 0;
      return carve(*this, problem, nullptr, params, zeroed_bytes);
    });
  });
}

ErrorCode ManyBlocks::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Bits = typename decltype(order)::Bits;
    return visit_index(problem.cols, [&](auto index) {
      return launch<decltype(order), decltype(index)>(*this, problem, buffers, order, stream);
    });
  });
}

}  // namespace gputopk::cuda::air
