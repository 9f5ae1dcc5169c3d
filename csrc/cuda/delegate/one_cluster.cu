// Delegate top-k with a bound from a sample, of rows that one cluster of blocks, or one block, reads once.
//
// As from_sample.cu, for rows of some thousands to some millions of elements: there the bound and the
// candidates go through memory and three launches, here they stay on chip and it is one.
//   1. Every block looks at a sample of the whole row: sectors, one at random in each of as many strata. All
//      find the same bound in it, the element of a certain rank, without telling each other.
//   2. Each block reads its part of the row, and lists what reaches the bound.
//   3. The lists are brought together in the cluster's first block, which puts them in order and writes the k
//      best.
// The bound is an extended key (key, reversed index), and no two elements share one: how many reach it is a
// matter of ranks, not of values. In shuffled rows, crowded or not, that is little more than k; and so it is
// in sorted rows, as strata are short. Where it is fewer than k, or more than there is room for, which is
// known by counting, the bound is found by AIR's digits from the row itself, and step 2 repeated. So the
// result is exact for every row.
//
// It loses to the forms in registers where rows are short, and to from_sample.cu where a row is too long for
// the SMs of one cluster.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>

#include "core/key_order.h"
#include "cuda/delegate/delegate.h"
#include "cuda/delegate/numbers.h"
#include "cuda/device/block_sort.cuh"
#include "cuda/device/cluster.cuh"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/key_range.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/row_digits.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/sample.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/winner_writer.cuh"

namespace gputopk::cuda::delegate {
namespace {

using Index = uint32_t;

// Vectors that lie side by side in a sector of 32 bytes, which memory reads whole.
constexpr int kSectorVectors = 2;

template <class Bits>
struct Params {
  const Bits* input;
  int64_t row_stride;
  int64_t cols;
  int64_t part_cols;  // of the row, a block's
  int k;
  int blocks;     // of a row
  int vectors;    // of the sample, a thread's
  Strata strata;  // one sector of each
  int rank;
  int room;              // candidates
  int prefetched_tiles;  // while the bound is found
  int index_bits;
  WinnerWriter<Bits> output;
};

template <class Bits>
using Extended = ExtendedKey<typename KeyWord<Bits>::type, Index>;

template <class Bits>
struct Shared {
  using Word = typename KeyWord<Bits>::type;

  KeyRange<Word> range;
  TargetDigit<uint32_t> target;
  TargetDigitScratch<uint32_t> search;
  BlockScratch<Word, Index> sort;
  uint32_t listed;  // by this block, or so many would be if there were room
};

// A row as one of its blocks sees it.
template <class Bits>
struct Part {
  const Bits* begin;
  int64_t cols;
  Index reversed;  // of its first element
};

// Step 1. The same in all blocks of the row.
template <class Order, class Bits = typename Order::Bits>
__device__ __forceinline__ Extended<Bits> bound_of_sample(const Params<Bits>& params, const Bits* input,
                                                          const Part<Bits>& part, const Order& order,
                                                          uint32_t* histogram, Shared<Bits>& shared) {
  using Word = typename KeyWord<Bits>::type;
  constexpr int kElements = kPerVector<Bits>, kVectors = tuning::cluster_vectors(sizeof(Bits));
  constexpr int kBins = 1 << tuning::kClusterSampleDigitBits;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const Index last_index = static_cast<Index>(params.cols - 1);
  const RowShape<Bits> shape(input, params.cols);
  Vector<Bits> sampled[kVectors];
  Index first[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (v >= params.vectors) continue;
    const uint32_t number = static_cast<uint32_t>(v * threads + thread);
    const Index sector = static_cast<Index>(params.strata.entry_of(number / kSectorVectors));
    first[v] = shape.head + (sector * kSectorVectors + number % kSectorVectors) * kElements;
    sampled[v] = load_vector<Reading::kAgain>(input + first[v]);
  }
  const auto each = [&](auto&& visit) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (v >= params.vectors) continue;
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        visit(Extended<Bits>{order(sampled[v][e]), last_index - first[v] - e});
      }
    }
  };
  if (thread == 0) shared.range.reset();
  clear_histogram(histogram, kBins);
  __syncthreads();  // the range is reset, and no bin is yet to be cleared

  // As many elements as threads, rank <= threads, are no less than the least of the threads' best: what is
  // less than that cannot be the bound.
  Word best = 0;
  each([&](const Extended<Bits>& x) { best = max(best, x.key); });
  SeenKeys<Word> seen;
  seen.see(best);
  shared.range.add(seen);
  __syncthreads();  // all warps have added
  // The memory is idle from here on. Earlier, the sample would wait for all this.
  prefetch_tiles(part.begin, part.cols, /*part=*/0, /*parts=*/1, params.prefetched_tiles);
  auto selection = Selection<Word, Index>::whole_row(
      static_cast<uint64_t>(params.rank), static_cast<uint64_t>(threads) * params.vectors * kElements);
  selection.low.key = static_cast<Word>(shared.range.least);
  const int key_bits = bits_of(static_cast<Word>(shared.range.greatest - shared.range.least));
  for (int pass = 1;; ++pass) {
    const Digit digit = digit_of_pass(pass, tuning::kClusterSampleDigitBits, key_bits, params.index_bits);
    each([&](const Extended<Bits>& x) {
      if (x < selection.low || selection.split < x) return;
      atomicAdd(histogram + digit.of(static_cast<Word>(x.key - selection.low.key),
                                     static_cast<Index>(x.reversed - selection.low.reversed)),
                1u);
    });
    __syncthreads();  // all have counted
    if (thread < 32) {
      find_target_digit_by_warp(histogram, kBins, static_cast<uint32_t>(selection.owed), shared.target);
    }
    __syncthreads();  // the digit is found
    const TargetDigit<uint32_t> target = shared.target;
    selection.narrow(digit, target.digit, target.above, target.count);
    if (selection.candidates - selection.owed <=
        static_cast<uint64_t>(params.rank / tuning::kClusterRankSlack)) {
      return selection.low;
    }
    clear_histogram(histogram, kBins);
    __syncthreads();  // no thread counts into bins that another has yet to clear
  }
}

// Step 2: lists the part's elements that reach the bound, as far as there is room. shared.listed, which was
// zero, is how many do.
template <class Order, class Bits = typename Order::Bits>
__device__ __forceinline__ void list_part(const Part<Bits>& part, const Extended<Bits>& bound,
                                          const Order& order, Index last_index, uint32_t room,
                                          const BlockMemory<Bits, Index>& memory, uint32_t& listed) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Where the bound's own element is, counted from the part's first: elements of its key reach it up to
  // there.
  const int64_t bound_at = static_cast<int64_t>(part.reversed) - static_cast<int64_t>(bound.reversed);
  const Index first_index = last_index - part.reversed;
  BoundFilter<Order> filter(order);
  scan_tiles<Reading::kOnce, BlockTeam, /*kEnds=*/true>(
      part.begin, part.cols, /*part=*/0, /*parts=*/1, AllTiles{},
      [&](const auto& elements, int64_t, bool valid) { return valid ? filter.probe(elements) : 0; },
      [&](const auto& loaded, int64_t begin, int distance, uint32_t chosen) {
        if (!__any_sync(~0u, chosen != 0)) return;
        // The filter went by the first index of a lane's elements.
        const bool at_ends = distance == 0;
        if (at_ends || (begin <= bound_at && bound_at < begin + kUnroll<Bits> * distance)) {
          for (uint32_t left = chosen; left != 0; left &= left - 1) {
            const int at = __ffs(static_cast<int>(left)) - 1;
            const bool behind = index_of<Bits>(begin, distance, at) > bound_at;
            if (behind && order(element_of(loaded, at)) == bound.key) chosen &= ~(1u << at);
          }
        }
        const uint32_t own = __popc(chosen);
        uint32_t so_far = own;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
          const uint32_t other = __shfl_up_sync(~0u, so_far, step);
          if (lane >= step) so_far += other;
        }
        uint32_t before = 0;
        if (lane == 31) before = atomicAdd(&listed, so_far);
        uint32_t place = __shfl_sync(~0u, before, 31) + so_far - own;
        for (; chosen != 0 && place < room; chosen &= chosen - 1, ++place) {
          const int at = __ffs(static_cast<int>(chosen)) - 1;
          memory.values[place] = element_of(loaded, at);
          memory.indices[place] = first_index + static_cast<Index>(index_of<Bits>(begin, distance, at));
        }
      },
      [&](int64_t first) { filter.raise(bound.key, first > bound_at); });
}

// Where a sample misled: a bound that k of the row's elements reach, and no more than there is room for. The
// same in all blocks of the row.
template <class Order, class Bits = typename Order::Bits>
__device__ __noinline__ Extended<Bits> bound_of_row(const Params<Bits>& params, Part<Bits> part, Order order,
                                                    uint32_t* counters, Shared<Bits>& shared) {
  using Word = typename KeyWord<Bits>::type;
  constexpr int kBits = tuning::kClusterDigitBits;
  uint32_t* const own = counters;
  uint32_t* const sums = own + (1 << kBits);
  auto selection =
      Selection<Word, Index>::whole_row(static_cast<uint64_t>(params.k), static_cast<uint64_t>(params.cols));
  Digit digit = digit_of_pass(1, kBits, Order::kBits, params.index_bits);
  for (bool first = true;; first = false) {
    const int bins = 1 << digit.width();
    clear_histogram(own, bins);
    __syncthreads();  // no thread counts into bins that another has yet to clear
    SeesNothing nothing;
    if (first) {
      count_first_digit(order, part.begin, part.cols, part.reversed, digit, own, nothing);
    } else {
      count_next_digit(order, part.begin, part.cols, part.reversed, selection, digit, own, nothing);
    }
    Cluster::arrive();
    Cluster::wait();  // all blocks have counted
    for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += static_cast<int>(blockDim.x)) {
      uint32_t sum = 0;
      for (int block = 0; block < params.blocks; ++block) sum += Cluster::of_block(own, block)[bin];
      sums[bin] = sum;
    }
    Cluster::arrive();
    Cluster::wait();  // all have added up
    const TargetDigit<uint32_t> target = find_target_digit(sums, bins, selection.owed, shared.search);
    selection.narrow(digit, target.digit, target.above, target.count);
    const uint64_t reaching = static_cast<uint64_t>(params.k) - selection.owed + selection.candidates;
    if (reaching <= static_cast<uint64_t>(params.room)) return selection.low;
    digit = next_digit(selection, digit, kBits, params.index_bits);
  }
}

// What all blocks of the row have listed, and, of those before this one, how many.
struct Listed {
  uint64_t all;
  uint32_t before;
};

// A block puts at most kItems entries a thread in order: few of them are less code, and what a block runs but
// once waits for its code.
template <class Order, int kItems>
__global__ void __launch_bounds__(tuning::kClusterMaxThreads)
    select_row(const __grid_constant__ Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  __shared__ Shared<Bits> shared;
  const BlockMemory<Bits, Index> memory(dynamic_shared(), params.room);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int blocks = params.blocks;
  const int number = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks));
  const int64_t row = blockIdx.x / static_cast<unsigned>(blocks);
  const Bits* const input = params.input + row * params.row_stride;
  const Index last_index = static_cast<Index>(params.cols - 1);
  const int64_t first = min(number * params.part_cols, params.cols);
  const Part<Bits> part{input + first, min(params.part_cols, params.cols - first),
                        last_index - static_cast<Index>(first)};

  Extended<Bits> bound = bound_of_sample(params, input, part, order, memory.counters, shared);
  Listed listed{};
  for (;;) {
    __syncthreads();  // nothing of the list's memory is in use
    if (thread == 0) shared.listed = 0;
    __syncthreads();  // the count is zero
    list_part(part, bound, order, last_index, static_cast<uint32_t>(params.room), memory, shared.listed);
    listed = {};
    if (blocks == 1) {
      __syncthreads();  // the list is whole
      listed.all = shared.listed;
    } else {
      Cluster::arrive();
      Cluster::wait();  // all lists are whole
      for (int block = 0; block < blocks; ++block) {
        const uint32_t count = *Cluster::of_block(&shared.listed, block);
        listed.all += count;
        if (block < number) listed.before += count;
      }
    }
    if (listed.all >= static_cast<uint64_t>(params.k) && listed.all <= static_cast<uint64_t>(params.room)) {
      break;
    }
    if (blocks > 1) {
      Cluster::arrive();
      Cluster::wait();  // all know it, before a count is reset
    }
    bound = bound_of_row(params, part, order, memory.counters, shared);
  }

  // Step 3.
  if (blocks > 1) {
    const int own = static_cast<int>(shared.listed);
    if (number > 0) {
      Bits* const values = Cluster::of_block(memory.values, 0) + listed.before;
      Index* const indices = Cluster::of_block(memory.indices, 0) + listed.before;
      for (int i = thread; i < own; i += threads) {
        values[i] = memory.values[i];
        indices[i] = memory.indices[i];
      }
    }
    Cluster::arrive();
    Cluster::wait();  // the first block has all, and needs no other's memory any more
    if (number > 0) return;
  }
  const WinnerWriter<Bits> output = params.output.row(row, params.k);
  sort_in_block<kItems>(
      static_cast<int>(listed.all), order, memory, shared.sort,
      [&](int i, Bits& bits, Index& index) {
        bits = memory.values[i];
        index = memory.indices[i];
      },
      [&](int rank, Bits bits, Index index) {
        if (rank < params.k) output.write(rank, bits, index);
      });
}

template <int kItems, class Order>
ErrorCode launch(const OneCluster& config, const Problem& problem, const Buffers& buffers, Order order,
                 Stream stream) {
  using Bits = typename Order::Bits;
  Params<Bits> params{};
  params.input = static_cast<const Bits*>(buffers.input);
  params.row_stride = problem.row_stride;
  params.cols = problem.cols;
  params.part_cols = part_of_cluster(problem.cols, config.blocks, sizeof(Bits));
  params.k = static_cast<int>(problem.k);
  params.blocks = config.blocks;
  params.vectors = config.vectors;
  // Wherever a row begins.
  params.strata = Strata::of((problem.cols / kPerVector<Bits> - 1) / kSectorVectors,
                             int64_t{config.threads} * config.vectors / kSectorVectors);
  params.rank = config.rank;
  params.room = config.room;
  params.prefetched_tiles = config.prefetched_tiles;
  params.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};

  constexpr int64_t kMostBlocksOfGrid = 0x7FFFFFFF;
  if (problem.rows > kMostBlocksOfGrid / config.blocks) return cudaErrorInvalidConfiguration;
  const unsigned blocks = static_cast<unsigned>(problem.rows * config.blocks);
  const unsigned threads = static_cast<unsigned>(config.threads);
  const size_t shared_bytes =
      static_cast<size_t>(block_bytes(BlockMemory<Bits, Index>::kEntryBytes, config.room, config.threads));
  static std::atomic<uint64_t> allowed, allowed_clusters;
  cudaError_t error = allow_shared_memory(select_row<Order, kItems>, shared_bytes, allowed);
  if (error != cudaSuccess) return error;
  if (config.blocks == 1) {
    return launch_kernel(/*ahead=*/false, select_row<Order, kItems>, blocks, threads, shared_bytes, stream,
                         params, order);
  }
  error = allow_large_clusters(select_row<Order, kItems>, allowed_clusters);
  if (error != cudaSuccess) return error;
  return launch_clusters(static_cast<unsigned>(config.blocks), select_row<Order, kItems>, blocks, threads,
                         shared_bytes, stream, params, order);
}

}  // namespace

ErrorCode OneCluster::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    return launch_with_room(*this, [&](const OneCluster& config) {
      constexpr int kFew = tuning::kClusterFewItems;
      return config.room <= kFew * config.threads
                 ? launch<kFew>(config, problem, buffers, order, stream)
                 : launch<tuning::kClusterItems>(config, problem, buffers, order, stream);
    });
  });
}

}  // namespace gputopk::cuda::delegate
