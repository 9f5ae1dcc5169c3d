// Delegate top-k with a bound from a sample, so that one read of a long row stores its candidates.
//
// Dr. Top-k (from_maxima.cu) knows its bound, the k-th best delegate, only when it has read the row, and
// reads the subranges that reach it again. Here the delegates are those of a sample:
//   1. Lines of 128 bytes, one at random in each of as many strata of the row, are read. Of every group of
//      lanes the best element is a delegate. The row's last block finds the delegate of a certain rank, the
//      bound: that rank is such that k of the row's elements reach the bound, all but surely, and few more.
//   2. The row is read, and the elements that reach the bound are stored, and counted by a first digit of
//      their own range.
//   3. Few candidates are selected from by the row's last block, more by its blocks together, while they are
//      on chip, and many by radix passes.
// The bound is an extended key (key, reversed index), and no two elements share one: how many reach it is a
// matter of ranks, not of values. Shuffled rows, crowded or not, store little more than k. In sorted and
// equal rows the elements of a line are neighbours in rank and count for one, so that some times as many are
// stored. A bound that fewer than k elements reach, or more than can be stored, is found out by counting:
// step 3 then is AIR's, from the row. So the result is exact for every row, and what takes more than one read
// is rare: a sample that was unlucky (numbers.h), or rows that were made to mislead it, whose places are
// fixed.
//
// Nothing is read by the host; the launches depend on sizes alone. It loses to AIR where a row's read is no
// longer than the launches, and to two_bounds.cu where k is a good part of cols.

#include "cuda/delegate/delegate.h"

#include <algorithm>
#include <atomic>

#include "core/key_order.h"
#include "cuda/delegate/numbers.h"
#include "cuda/device/dealt_tiles.cuh"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/numbers.h"
#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/radix_passes.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/row_sample.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/staged_candidates.cuh"
#include "cuda/device/stored_candidates.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda::delegate {
namespace {

using tuning::kPassThreads;

// Step 1.
template <class Order, class Index>
__global__ void __launch_bounds__(kPassThreads)
    take_sample(RadixPasses<typename Order::Bits, Index> params, Sample<typename Order::Bits, Index> sample,
                Order order) {
  using Bits = typename Order::Bits;
  let_next_kernel_start();
  const int64_t row = blockIdx.x / sample.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x % sample.blocks_per_row);
  const Bits* const input = params.input + row * params.row_stride;
  const Index last_index = static_cast<Index>(params.cols - 1);
  const RowShape<Bits> shape(input, params.cols);
  const auto best = best_of_lines(sample, part, shape.head, last_index, order, [&](int64_t vector) {
    return load_vector<Reading::kAgain>(input + shape.head + vector * kPerVector<Bits>);
  });
  find_bound(params, sample, row, part, best, dynamic_shared());
}

// Step 2, and the blocks' part of step 3, which they do together if they are to `meet`.
template <class Order, class Index>
__global__ void __launch_bounds__(kPassThreads, tuning::kPassBlocksPerSm)
    store_candidates(RadixPasses<typename Order::Bits, Index> params, Order order, int spare_bits,
                     int dealt_share, bool meet) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  using Store = CandidateStore<Bits, Index>;
  constexpr int kStaged = kStagedCandidates<Bits, Index>;
  unsigned char* const dynamic = dynamic_shared();
  __shared__ CandidateRange<Word, Index> range;
  __shared__ DealtTiles::Turn turn;

  const int64_t row = blockIdx.x / params.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x % params.blocks_per_row);
  auto& state = params.states[row];
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic);
  unsigned char* const stages = dynamic + kCountBytes<Index>;
  Store store(stages + threadIdx.x / 32 * Store::bytes(kStaged), kStaged,
              BoundedBuffer<Bits, Index>{params.buffer(0, row), params.buffer_capacity[0]}, &state.buffered);
  clear_histogram(histogram, (1 << tuning::kStoredCountBits) + 1);
  const Bits* const input = params.input + row * params.row_stride;
  // The memory is idle while the bound is found.
  prefetch_tiles(input, params.cols, part, params.blocks_per_row, tuning::kSamplePrefetchTiles);
  follow_kernel_before();
  if (meet && threadIdx.x == 0) state.meeting.begin();
  const Extended bound = state.bound;
  const Index last_index = static_cast<Index>(params.cols - 1);
  if (threadIdx.x == 0) {
    range = range.of(params, bound, static_cast<Word>(state.greatest), spare_bits);
    turn = DealtTiles::turn_of(input, params.cols, params.blocks_per_row, dealt_share);
  }
  __syncthreads();  // the range is known, and no bin is yet to be cleared
  const int64_t bound_index = static_cast<int64_t>(static_cast<Index>(last_index - bound.reversed));

  // Behind the bound's own index, elements of its key do not reach it.
  BoundFilter<Order> filter(order);
  visit_tiles<Reading::kOnce, BlockTeam, /*kEnds=*/true>(
      input, params.cols, part, params.blocks_per_row, DealtTiles{&turn, &state.tiles_taken},
      [&](const auto& elements, int64_t, bool valid) { return valid ? filter.probe(elements) : 0; },
      [&](Bits bits, int64_t index, bool chosen) {
        const Extended x{order(bits), static_cast<Index>(last_index - static_cast<Index>(index))};
        const bool reaches = chosen && !(x < bound);
        if (reaches) atomicAdd(histogram + range.bin(x), 1u);
        store.push(reaches, bits, static_cast<Index>(index));
      },
      [&](int64_t first) { filter.raise(bound.key, first > bound_index); });
  finish_and_select(params, order, row, range, store, meet, dynamic);
}

template <class Bits, class Index>
struct Memory {
  size_t zeroed_bytes;
  size_t bytes;

  Memory(const FromSample& config, const Problem& problem, void* base, RadixPasses<Bits, Index>& params,
         Sample<Bits, Index>& sample) {
    params.digit_bits = config.digit_bits;
    params.buffer_capacity[0] = config.buffer;
    // A pass stores at most half of what it reads.
    params.buffer_capacity[1] = config.buffer / 2;
    sample.set(config.sample, problem.cols);
    Workspace workspace(base);
    params.carve_zeroed(workspace, problem.rows);
    zeroed_bytes = workspace.bytes();
    params.carve_rest(workspace, problem.rows);
    sample.list =
        workspace.take<ExtendedKey<typename KeyWord<Bits>::type, Index>>(problem.rows * sample.delegates);
    bytes = workspace.bytes();
  }
};

template <class Order, class Index>
cudaError_t launch(const FromSample& config, const Problem& problem, const Buffers& buffers, Order order,
                   cudaStream_t stream) {
  using Bits = typename Order::Bits;
  RadixPasses<Bits, Index> params{};
  Sample<Bits, Index> sample{};
  const Memory<Bits, Index> memory(config, problem, buffers.workspace, params, sample);
  params.select(problem, buffers);
  params.blocks_per_row = config.blocks_per_row;
  params.likely_passes = config.likely_passes;

  constexpr int64_t kMostBlocks = 0x7FFFFFFF;
  if (problem.rows > kMostBlocks / std::max(config.blocks_per_row, config.sample.blocks)) {
    return cudaErrorInvalidConfiguration;
  }
  const unsigned rows = static_cast<unsigned>(problem.rows);
  cudaError_t error = zero_workspace(buffers.workspace, memory.zeroed_bytes, config.launches_ahead, stream);
  if (error != cudaSuccess) return error;

  const size_t sample_bytes = sample.shared_bytes();
  static std::atomic<uint64_t> allowed_sample, allowed_store;
  error = allow_shared_memory(take_sample<Order, Index>, sample_bytes, allowed_sample);
  if (error != cudaSuccess) return error;
  error = launch_kernel(config.launches_ahead, take_sample<Order, Index>, rows * config.sample.blocks,
                        kPassThreads, sample_bytes, stream, params, sample, order);
  if (error != cudaSuccess) return error;

  error = allow_shared_memory(store_candidates<Order, Index>, kStoreBytes<Index>, allowed_store);
  if (error != cudaSuccess) return error;
  error =
      launch_kernel(config.launches_ahead, store_candidates<Order, Index>, rows * config.blocks_per_row,
                    kPassThreads, kStoreBytes<Index>, stream, params, order,
                    sample.upper > 0 ? 0 : tuning::kSampleSpareBits, config.dealt_share, config.blocks_meet);
  if (error != cudaSuccess) return error;
  return launch_passes(params, order, problem.rows, /*first=*/1, config.launches_ahead, stream);
}

}  // namespace

size_t FromSample::workspace_bytes(const Problem& problem) const {
  return visit_key_order(problem.dtype, true, false, [&](auto order) {
    using Bits = typename decltype(order)::Bits;
    return visit_index(problem.cols, [&](auto index) {
      RadixPasses<Bits, decltype(index)> params{};
      Sample<Bits, decltype(index)> sample{};
      return Memory<Bits, decltype(index)>(*this, problem, nullptr, params, sample).bytes;
    });
  });
}

ErrorCode FromSample::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    return visit_index(problem.cols, [&](auto index) {
      return launch<decltype(order), decltype(index)>(*this, problem, buffers, order, stream);
    });
  });
}

}  // namespace gputopk::cuda::delegate
