// A sparsification that reads what it accumulates once: the bound is known before the accumulation, and what
// reaches it is stored meanwhile.
//
//   1. A sample of each row, summed but not stored, gives a bound that all but surely k of the row's elements
//      reach, and few more: one of its delegates, as in delegate/from_sample.cu. Where many win, it gives a
//      second one too, that all but surely fewer than k are above (device/element_bounds.cuh).
//   2. accumulate_and_store (chunks.cuh): warps take a row chunk by chunk. A chunk's elements that reach the
//      bound, the candidates, are stored together, in order of index, and its place in the store is written
//      down. What is above the second bound is counted, and zeros are left in its places; what is between the
//      two is stored once more.
//   3. The row's last block, or radix passes, find the bound that k of the candidates reach and no others: of
//      two bounds' candidates, among those between them.
//   4. count_winners (spans.cuh): how many each span of chunks has.
//   5. write_winners: they go behind those of all spans before, in order of index, and zeros in their places.
//      Where none of a row's is finite, all else that is not becomes zero too.
// Where fewer than k elements reached the bound, or more than were stored, 3 to 5 read the row instead; where
// the second bound was none, what was taken is put back before.

#include <algorithm>
#include <atomic>

#include "core/key_order.h"
#include "cuda/device/element_bounds.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/row_sample.cuh"
#include "cuda/sparsify/chunks.cuh"
#include "cuda/sparsify/spans.cuh"
#include "cuda/sparsify/sparsify.h"
#include "cuda/workspace.h"

namespace gputopk::cuda::sparsify {
namespace {

using tuning::kPassThreads;

// ---- 1. Sample ----

template <class Self, class Add, bool kMomentum, class Order>
__global__ void __launch_bounds__(kPassThreads)
    sample_sums(RadixPasses<typename Self::Bits, Index> params, Sample<typename Self::Bits, Index> sample,
                Sum<Self, Add> sum, Order order) {
  using Bits = typename Self::Bits;
  using Rows = RowSum<Self, Add, kMomentum>;
  let_next_kernel_start();
  const int64_t row = blockIdx.x / sample.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x % sample.blocks_per_row);
  const Rows sums(sum, row);
  const Index last_index = static_cast<Index>(params.cols - 1);
  Extended<Bits> best;
  if (sample.lines > 0) {
    best = best_of_lines(sample, part, /*head=*/0, last_index, order, [&](int64_t vector) {
      typename Rows::template Loaded<Rows::kWidth> x;
      sums.load(vector * Rows::kWidth, x);
      sums.accumulate(x);
      return x.vector();
    });
  } else {
    const int64_t col = sample.element(part);
    typename Rows::template Loaded<1> x;
    sums.load(col, x);
    sums.accumulate(x);
    best = {order(x.self.at[0]), static_cast<Index>(last_index - static_cast<Index>(col))};
  }
  find_bound(params, sample, row, part, best, dynamic_shared());
}

// The elements of a sample of two bounds, for find_bounds.
template <class Self, class Add, bool kMomentum>
__global__ void __launch_bounds__(tuning::kTwoBoundsThreads)
    sum_elements(SampledPlaces<typename Self::Bits> places, Sum<Self, Add> sum,
                 typename Self::Bits* elements) {
  constexpr int kElements = tuning::kTwoBoundsElements;
  using Rows = RowSum<Self, Add, kMomentum>;
  const int threads = static_cast<int>(blockDim.x);
  const unsigned blocks = static_cast<unsigned>(places.sample.blocks);
  const Rows sums(sum, blockIdx.x / blocks);
  typename Rows::template Loaded<1> x[kElements];
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    sums.load(places.at(/*head=*/0, static_cast<int>(blockIdx.x % blocks), i), x[i]);
  }
  follow_kernel_before();
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    sums.accumulate(x[i]);
    elements[(int64_t{blockIdx.x} * kElements + i) * threads + threadIdx.x] = x[i].self.at[0];
  }
}

// ---- Launch ----

template <class Bits>
struct Memory {
  RadixPasses<Bits, Index> params{};
  Spans<Bits> spans{};
  // Of one bound, or of two, whose elements are summed before.
  Sample<Bits, Index> one{};
  BoundSample<Bits, Index> two{};
  Bits* elements = nullptr;  // of the two
  size_t zeroed_bytes;
  size_t bytes;

  Memory(const OneRead& config, const SparsifyProblem& problem, void* base) {
    const int64_t rows = problem.rows;
    params.digit_bits = config.digit_bits;
    params.buffer_capacity[0] = config.buffer;
    params.buffer_capacity[1] = config.buffer / 2;  // a pass stores at most half of what it reads
    spans.two_sided = config.two_sided;
    spans.blocks_per_row = config.store_blocks_per_row;
    spans.chunk = config.chunk;
    spans.chunks = (problem.cols + config.chunk - 1) / config.chunk;
    spans.chunks_per_warp = config.chunks_per_warp;
    spans.per_row = config.spans;
    spans.capacity = config.store;
    Workspace workspace(base);
    params.carve_zeroed(workspace, rows);
    spans.notes = workspace.take<RowNotes>(rows);
    spans.of_warps = workspace.take<uint32_t>(rows * spans.per_row * tuning::kSpanWarps);
    spans.of_spans = workspace.take<uint32_t>(rows * spans.per_row);
    zeroed_bytes = workspace.bytes();
    params.carve_rest(workspace, rows);
    spans.places = workspace.take<Place>(rows * spans.chunks);
    if (config.two_sided) {
      spans.stored.values = workspace.take<Bits>(rows * spans.capacity);
      spans.stored.indices = workspace.take<Index>(rows * spans.capacity);
      elements = workspace.take<Bits>(rows * elements_of(config.sample));
      two.set(config.sample, config.ranks, problem.cols);
      two.elements = elements;
      two.carve_found(workspace, rows);
    } else {
      spans.stored = params.buffers[0];  // what is stored is selected from
      one.set(config.one, problem.cols);
      one.list = workspace.take<Extended<Bits>>(rows * one.delegates);
    }
    bytes = workspace.bytes();
  }
};

template <class Self, class Add, bool kMomentum>
cudaError_t launch(const OneRead& config, const SparsifyProblem& problem, const SparsifyBuffers& buffers,
                   cudaStream_t stream) {
  using Bits = typename Self::Bits;
  using Order = KeyOrder<Bits, true>;
  const Order order = make_key_order<Bits, true>(problem.dtype, /*largest=*/true, /*magnitude=*/true);
  Memory<Bits> memory(config, problem, buffers.workspace);
  RadixPasses<Bits, Index>& params = memory.params;
  const Spans<Bits>& spans = memory.spans;
  params.input = static_cast<const Bits*>(buffers.self);
  params.row_stride = problem.self_stride;
  params.cols = problem.cols;
  params.k = problem.k;
  params.blocks_per_row = config.blocks_per_row;
  params.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
  params.adaptive = params.early_stop = true;
  params.wanted = Wanted::kBound;
  params.likely_passes = config.likely_passes;
  const Sum<Self, Add> sum = sum_of<Self, Add>(problem, buffers, /*as_one_row=*/false);
  const Winners<Bits> winners = winners_of<Bits>(problem, buffers);
  const bool ahead = config.launches_ahead;
  const unsigned rows = static_cast<unsigned>(problem.rows);
  cudaError_t error = zero_workspace(buffers.workspace, memory.zeroed_bytes, ahead, stream);
  if (error != cudaSuccess) return error;

  if (config.two_sided) {
    error = launch_kernel(ahead, sum_elements<Self, Add, kMomentum>, rows * config.sample.blocks,
                          static_cast<unsigned>(config.sample.threads), 0, stream, memory.two.places, sum,
                          memory.elements);
    if (error != cudaSuccess) return error;
    error = find_bounds(params, memory.two, order, problem.rows, ahead, stream);
  } else {
    static std::atomic<uint64_t> allowed;
    const auto kernel = sample_sums<Self, Add, kMomentum, Order>;
    const size_t bytes = memory.one.shared_bytes();
    error = allow_shared_memory(kernel, bytes, allowed);
    if (error != cudaSuccess) return error;
    error = launch_kernel(ahead, kernel, rows * config.one.blocks, kPassThreads, bytes, stream, params,
                          memory.one, sum, order);
  }
  if (error != cudaSuccess) return error;

  static std::atomic<uint64_t> allowed;
  const auto store = accumulate_and_store<Self, Add, kMomentum, Order>;
  const unsigned store_blocks = rows * config.store_blocks_per_row;
  const size_t store_bytes = block_bytes<Bits>(config.chunk, config.two_sided);
  error = allow_shared_memory(store, store_bytes, allowed);
  if (error != cudaSuccess) return error;
  error =
      launch_kernel(ahead, store, store_blocks, kPassThreads, store_bytes, stream, params, sum, spans, order);
  if (error != cudaSuccess) return error;
  constexpr bool kTaken = !kMomentum;
  if (kTaken && config.two_sided) {
    error = launch_kernel(ahead, put_back<Order>, store_blocks, kPassThreads, 0, stream, params, spans,
                          winners, order);
    if (error != cudaSuccess) return error;
  }
  error = launch_passes(params, order, problem.rows, /*first=*/1, ahead, stream);
  if (error != cudaSuccess) return error;

  const unsigned blocks = static_cast<unsigned>(problem.rows * spans.per_row);
  error = launch_kernel(ahead, count_winners<Order>, blocks, kSpanThreads, 0, stream, params, spans, order);
  if (error != cudaSuccess) return error;
  return launch_kernel(ahead, write_winners<kTaken, Order>, blocks, kSpanThreads, 0, stream, params, spans,
                       winners, order);
}

}  // namespace

size_t OneRead::workspace_bytes(const SparsifyProblem& problem) const {
  return visit_sum(problem, [&](auto self, auto) {
    return Memory<typename decltype(self)::Bits>(*this, problem, nullptr).bytes;
  });
}

ErrorCode OneRead::run(const SparsifyProblem& problem, const SparsifyBuffers& buffers, Stream stream) const {
  return visit_sum(problem, [&](auto self, auto add) {
    using Self = decltype(self);
    using Add = decltype(add);
    return problem.update == Update::kMomentum ? launch<Self, Add, true>(*this, problem, buffers, stream)
                                               : launch<Self, Add, false>(*this, problem, buffers, stream);
  });
}

}  // namespace gputopk::cuda::sparsify
