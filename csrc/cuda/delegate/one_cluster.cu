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
// Rows are a rectangle's, or windows: then the blocks find a row's length, candidates and k on the device,
// and from these how many of them are needed and what to ask of the sample. A row of no more candidates than
// there is room for is listed whole, and a row too short for a sample has its bound found from the row
// itself.
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
#include "cuda/device/row_sample.h"
#include "cuda/device/sample.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/window_writer.cuh"
#include "cuda/device/winner_writer.cuh"

namespace gputopk::cuda::delegate {
namespace {

using Index = uint32_t;

// Vectors that lie side by side in a sector of 32 bytes, which memory reads whole.
constexpr int kSectorVectors = 2;

// A row as its blocks see it.
template <class Bits>
struct Row {
  const Bits* begin;
  int64_t cols;
  int64_t part_cols;  // a block's
  int k;
  int blocks;     // that share it
  int vectors;    // of the sample, a thread's; 0: there is none
  Strata strata;  // one sector of each
  int rank;
  int index_bits;
};

// The strata of the sample, of the sectors that there are wherever the row begins.
template <class Bits>
GPUTOPK_HOST_DEVICE Strata strata_of(int64_t cols, int threads, int vectors) {
  return Strata::of((cols / kPerVector<Bits> - 1) / kSectorVectors,
                    int64_t{threads} * vectors / kSectorVectors);
}

struct AllCandidates {
  static constexpr bool kFilters = false;
  __device__ constexpr uint32_t of(int64_t, int) const { return ~0u; }
};
struct SomeCandidates : RowCandidates {
  static constexpr bool kFilters = true;
};

// All rows are alike, and all elements candidates.
template <class Bits>
struct Rectangle {
  static constexpr bool kWindows = false;
  using OfRow = AllCandidates;
  Row<Bits> row;  // the first
  int64_t row_stride;

  __device__ WinnerWriter<Bits> writer(int64_t, const WinnerWriter<Bits>& output) const { return output; }
  __device__ Row<Bits> of(int64_t number) const {
    Row<Bits> own = row;
    own.begin += number * row_stride;
    return own;
  }
};

template <class Bits>
struct Ragged {
  static constexpr bool kWindows = true;
  using OfRow = SomeCandidates;
  WindowRows rows;
  const Bits* input;
  int blocks;   // of a row's cluster
  int vectors;  // that a thread's sample has at most

  __device__ WindowWriter<Bits> writer(int64_t number, const WinnerWriter<Bits>& output) const {
    return {rows, number, output};
  }
  __device__ Row<Bits> of(int64_t number) const {
    const Window window = rows.of(number);
    const int threads = static_cast<int>(blockDim.x);
    Row<Bits> row{};
    row.begin = input + number * rows.row_stride + window.start;
    row.cols = window.length;
    row.k = static_cast<int>(window.k);
    const int64_t tile = int64_t{threads} * kUnroll<Bits> * kPerVector<Bits>;
    const int64_t most = min(int64_t{blocks}, (row.cols + tile - 1) / tile);
    row.blocks = static_cast<int>(max(int64_t{1}, most));
    row.part_cols = part_of_cluster(row.cols, row.blocks, sizeof(Bits));
    row.index_bits = row.cols > 1 ? bits_of(static_cast<Index>(row.cols - 1)) : 0;
    // The largest sample that the row has sectors enough for, wherever it begins, and whose rank will do.
    for (int v = vectors; v > 0 && row.vectors == 0; v /= 2) {
      if ((int64_t{threads} * v + 1) * kPerVector<Bits> > row.cols) continue;
      const float sample = static_cast<float>(threads * v * kPerVector<Bits>);
      row.rank = static_cast<int>(
          tuning::sample_rank(static_cast<float>(row.k) * sample / static_cast<float>(row.cols)));
      if (row.rank <= threads) row.vectors = v;
    }
    if (row.vectors > 0) row.strata = strata_of<Bits>(row.cols, threads, row.vectors);
    return row;
  }
};

template <class Bits, class Rows>
struct Params {
  Rows rows;
  int64_t places;        // of a row in the outputs
  int room;              // candidates
  int prefetched_tiles;  // while the bound is found
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
  uint32_t listed;   // by this block, or so many would be if there were room
  uint32_t sampled;  // candidates
};

// What one of a row's blocks reads.
template <class Bits>
struct Part {
  const Bits* begin;
  int64_t cols;
  int64_t first;   // its first element's index
  Index reversed;  // and the same reversed
};

// Step 1. The same in all blocks of the row. False: the sample has fewer candidates than the rank.
template <class Order, class OfRow, class Bits = typename Order::Bits>
__device__ __forceinline__ bool find_bound_of_sample(const Row<Bits>& row, const Part<Bits>& part,
                                                     const Order& order, const OfRow& candidates,
                                                     int prefetched_tiles, uint32_t* histogram,
                                                     Shared<Bits>& shared, Extended<Bits>& bound) {
  using Word = typename KeyWord<Bits>::type;
  constexpr int kElements = kPerVector<Bits>, kVectors = tuning::cluster_vectors(sizeof(Bits));
  constexpr int kBins = 1 << tuning::kClusterSampleDigitBits;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const Index last_index = static_cast<Index>(row.cols - 1);
  const RowShape<Bits> shape(row.begin, row.cols);
  Vector<Bits> sampled[kVectors];
  Index first[kVectors];
  uint32_t present = 0;  // a bit for each candidate
  static_assert(kVectors * kElements <= 32);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (v >= row.vectors) continue;
    const uint32_t number = static_cast<uint32_t>(v * threads + thread);
    const Index sector = static_cast<Index>(row.strata.entry_of(number / kSectorVectors));
    first[v] = shape.head + (sector * kSectorVectors + number % kSectorVectors) * kElements;
    sampled[v] = load_vector<Reading::kAgain>(row.begin + first[v]);
    if constexpr (OfRow::kFilters) present |= candidates.of(first[v], kElements) << (v * kElements);
  }
  const auto each = [&](auto&& visit) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (v >= row.vectors) continue;
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        if (OfRow::kFilters && (present >> (v * kElements + e) & 1) == 0) continue;
        visit(Extended<Bits>{order(sampled[v][e]), last_index - first[v] - e});
      }
    }
  };
  if (thread == 0) {
    shared.range.reset();
    shared.sampled = 0;
  }
  clear_histogram(histogram, kBins);
  __syncthreads();  // the range is reset, and no bin is yet to be cleared

  // As many elements as threads, rank <= threads, are no less than the least of the threads' best: what is
  // less than that cannot be the bound. (A thread without candidates has the least key of all as its best.)
  Word best = 0;
  each([&](const Extended<Bits>& x) { best = max(best, x.key); });
  SeenKeys<Word> seen;
  seen.see(best);
  shared.range.add(seen);
  if constexpr (OfRow::kFilters) {
    const unsigned own = __reduce_add_sync(~0u, static_cast<unsigned>(__popc(present)));
    if (thread % 32 == 0) atomicAdd(&shared.sampled, own);
  }
  __syncthreads();  // all warps have added
  // The memory is idle from here on. Earlier, the sample would wait for all this.
  prefetch_tiles(part.begin, part.cols, /*part=*/0, /*parts=*/1, prefetched_tiles);
  if (OfRow::kFilters && shared.sampled < static_cast<uint32_t>(row.rank)) return false;
  auto selection = Selection<Word, Index>::whole_row(
      static_cast<uint64_t>(row.rank), static_cast<uint64_t>(threads) * row.vectors * kElements);
  selection.low.key = static_cast<Word>(shared.range.least);
  const int key_bits = bits_of(static_cast<Word>(shared.range.greatest - shared.range.least));
  for (int pass = 1;; ++pass) {
    const Digit digit = digit_of_pass(pass, tuning::kClusterSampleDigitBits, key_bits, row.index_bits);
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
        static_cast<uint64_t>(row.rank / tuning::kClusterRankSlack)) {
      bound = selection.low;
      return true;
    }
    clear_histogram(histogram, kBins);
    __syncthreads();  // no thread counts into bins that another has yet to clear
  }
}

// Of a lane's chosen elements those that are candidates; device/row_reader.cuh says which they are.
template <class Bits>
__device__ __forceinline__ uint32_t among_candidates(const RowCandidates& candidates, int64_t first,
                                                     int distance, uint32_t chosen) {
  constexpr int kElements = kPerVector<Bits>;
  if (candidates.bits == nullptr || chosen == 0) return chosen;
  if (distance == 0) return candidates.has(first) ? chosen : 0;  // one element, of the ragged ends
#pragma unroll
  for (int v = 0; v < kUnroll<Bits>; ++v) {
    constexpr uint32_t kAll = (1u << kElements) - 1;
    if ((chosen >> (v * kElements) & kAll) == 0) continue;
    chosen &= ~((~candidates.of(first + v * distance, kElements) & kAll) << (v * kElements));
  }
  return chosen;
}

// Step 2: lists the part's candidates that reach the bound, as far as there is room. shared.listed, which was
// zero, is how many do.
template <class Order, class OfRow, class Bits = typename Order::Bits>
__device__ __forceinline__ void list_part(const Part<Bits>& part, const Extended<Bits>& bound,
                                          const Order& order, const OfRow& candidates, uint32_t room,
                                          const BlockMemory<Bits, Index>& memory, uint32_t& listed) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Where the bound's own element is, counted from the part's first: elements of its key reach it up to
  // there.
  const int64_t bound_at = static_cast<int64_t>(part.reversed) - static_cast<int64_t>(bound.reversed);
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
        if constexpr (OfRow::kFilters) {
          chosen = among_candidates<Bits>(candidates, part.first + begin, distance, chosen);
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
          memory.indices[place] = static_cast<Index>(part.first + index_of<Bits>(begin, distance, at));
        }
      },
      [&](int64_t first) { filter.raise(bound.key, first > bound_at); });
}

// Where a sample misled: a bound that k of the row's `count` candidates reach, and no more than there is room
// for. The same in all blocks of the row.
template <class Order, class OfRow, class Bits = typename Order::Bits>
__device__ __noinline__ Extended<Bits> bound_of_row(Row<Bits> row, Part<Bits> part, Order order,
                                                    OfRow candidates, int64_t count, int room,
                                                    uint32_t* counters, Shared<Bits>& shared) {
  using Word = typename KeyWord<Bits>::type;
  constexpr int kBits = tuning::kClusterDigitBits;
  uint32_t* const own = counters;
  uint32_t* const sums = own + (1 << kBits);
  auto selection =
      Selection<Word, Index>::whole_row(static_cast<uint64_t>(row.k), static_cast<uint64_t>(count));
  const auto has = [&](int64_t first, int elements) { return candidates.of(part.first + first, elements); };
  Digit digit = digit_of_pass(1, kBits, Order::kBits, row.index_bits);
  for (bool first = true;; first = false) {
    const int bins = 1 << digit.width();
    clear_histogram(own, bins);
    __syncthreads();  // no thread counts into bins that another has yet to clear
    SeesNothing nothing;
    if (first) {
      count_first_digit(order, part.begin, part.cols, part.reversed, digit, own, nothing, has);
    } else {
      count_next_digit(order, part.begin, part.cols, part.reversed, selection, digit, own, nothing, has);
    }
    Cluster::arrive();
    Cluster::wait();  // all blocks have counted
    for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += static_cast<int>(blockDim.x)) {
      uint32_t sum = 0;
      for (int block = 0; block < row.blocks; ++block) sum += Cluster::of_block(own, block)[bin];
      sums[bin] = sum;
    }
    Cluster::arrive();
    Cluster::wait();  // all have added up
    const TargetDigit<uint32_t> target = find_target_digit(sums, bins, selection.owed, shared.search);
    selection.narrow(digit, target.digit, target.above, target.count);
    const uint64_t reaching = static_cast<uint64_t>(row.k) - selection.owed + selection.candidates;
    if (reaching <= static_cast<uint64_t>(room)) return selection.low;
    digit = next_digit(selection, digit, kBits, row.index_bits);
  }
}

// What all blocks of the row have listed, and, of those before this one, how many.
struct Listed {
  uint64_t all;
  uint32_t before;
};

// What a window's row needs no selection for: padding, and rows of which all is wanted in any order. True if
// that is all.
template <class Bits>
__device__ bool write_unselected(const WindowRows& rows, const Row<Bits>& row, const Part<Bits>& part,
                                 int64_t count, int64_t places, const WindowWriter<Bits>& output) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  if (part.first == 0) output.finish(row.k, places, thread, threads);
  const bool takes_all = rows.any_order && row.k == row.cols && count == row.cols;
  if (row.k > 0 && !takes_all) return false;
  for (int64_t i = thread; row.k > 0 && i < part.cols; i += threads) {
    output.write(part.first + i, part.begin[i], part.first + i);
  }
  return true;
}

// A block puts at most kItems entries a thread in order: few of them are less code, and what a block runs but
// once waits for its code.
template <class Order, class Rows, int kItems>
__global__ void __launch_bounds__(tuning::kClusterMaxThreads)
    select_row(const __grid_constant__ Params<typename Order::Bits, Rows> params, Order order,
               int cluster_blocks) {
  using Bits = typename Order::Bits;
  __shared__ Shared<Bits> shared;
  const BlockMemory<Bits, Index> memory(dynamic_shared(), params.room);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int number = static_cast<int>(blockIdx.x % static_cast<unsigned>(cluster_blocks));
  const int64_t row_number = blockIdx.x / static_cast<unsigned>(cluster_blocks);
  const Row<Bits> row = params.rows.of(row_number);
  const int blocks = row.blocks;
  if (number >= blocks) return;  // barriers of a cluster are of those that are left
  const int64_t first = min(number * row.part_cols, row.cols);
  const Part<Bits> part{row.begin + first, min(row.part_cols, row.cols - first), first,
                        static_cast<Index>(row.cols - 1) - static_cast<Index>(first)};
  const auto output = params.rows.writer(row_number, params.output.row(row_number, params.places));
  const uint64_t k = static_cast<uint64_t>(row.k), room = static_cast<uint64_t>(params.room);

  // By position where all candidates win, and any order will do.
  bool by_position = false;
  int64_t count = row.cols;
  typename Rows::OfRow candidates{};
  Extended<Bits> bound{};  // that all elements reach
  if constexpr (Rows::kWindows) {
    const WindowRows& rows = params.rows.rows;
    candidates = {rows.candidates.of(row_number)};
    count = rows.count_of(row_number, {0, row.cols, row.k});
    if (write_unselected(rows, row, part, count, params.places, output)) return;
    by_position = rows.any_order && row.k == count;
  }
  const bool lists_all = Rows::kWindows && static_cast<uint64_t>(count) <= room;
  const bool has_bound =
      lists_all ||
      (row.vectors > 0 && find_bound_of_sample(row, part, order, candidates, params.prefetched_tiles,
                                               memory.counters, shared, bound));
  if (Rows::kWindows && !has_bound) {
    bound = bound_of_row(row, part, order, candidates, count, params.room, memory.counters, shared);
  }
  Listed listed{};
  for (;;) {
    __syncthreads();  // nothing of the list's memory is in use
    if (thread == 0) shared.listed = 0;
    __syncthreads();  // the count is zero
    list_part(part, bound, order, candidates, static_cast<uint32_t>(params.room), memory, shared.listed);
    listed = {};
    if (blocks == 1) {
      __syncthreads();  // the list is whole
      listed.all = shared.listed;
    } else {
      Cluster::arrive();
      Cluster::wait();  // all lists are whole
      // By every warp, a lane a block.
      const int lane = thread % 32;
      const uint32_t of_block = lane < blocks ? *Cluster::of_block(&shared.listed, lane) : 0;
      listed.all = __reduce_add_sync(~0u, of_block);
      listed.before = __reduce_add_sync(~0u, lane < number ? of_block : 0);
    }
    if (listed.all >= k && listed.all <= room) break;
    if (blocks > 1) {
      Cluster::arrive();
      Cluster::wait();  // all know it, before a count is reset
    }
    bound = bound_of_row(row, part, order, candidates, count, params.room, memory.counters, shared);
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
  sort_in_block<kItems>(
      static_cast<int>(listed.all), order, memory, shared.sort,
      [&](int i, Bits& bits, Index& index) {
        bits = by_position ? Bits{} : memory.values[i];  // equals go by index
        index = memory.indices[i];
      },
      [&](int rank, Bits bits, Index index) {
        if (rank < row.k) output.write(rank, by_position ? row.begin[index] : bits, index);
      });
}

template <int kItems, class Order, class Rows>
ErrorCode launch(const OneCluster& config, const Problem& problem, const Buffers& buffers, const Rows& rows,
                 Order order, Stream stream) {
  using Bits = typename Order::Bits;
  Params<Bits, Rows> params{};
  params.rows = rows;
  params.places = problem.k;
  params.room = config.room;
  params.prefetched_tiles = config.prefetched_tiles;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};

  constexpr int64_t kMostBlocksOfGrid = 0x7FFFFFFF;
  if (problem.rows > kMostBlocksOfGrid / config.blocks) return cudaErrorInvalidConfiguration;
  const unsigned blocks = static_cast<unsigned>(problem.rows * config.blocks);
  const unsigned threads = static_cast<unsigned>(config.threads);
  const size_t shared_bytes =
      static_cast<size_t>(block_bytes(BlockMemory<Bits, Index>::kEntryBytes, config.room, config.threads));
  const auto kernel = select_row<Order, Rows, kItems>;
  static std::atomic<uint64_t> allowed, allowed_clusters;
  cudaError_t error = allow_shared_memory(kernel, shared_bytes, allowed);
  if (error != cudaSuccess) return error;
  if (config.blocks == 1) {
    return launch_kernel(/*ahead=*/false, kernel, blocks, threads, shared_bytes, stream, params, order, 1);
  }
  error = allow_large_clusters(kernel, allowed_clusters);
  if (error != cudaSuccess) return error;
  return launch_clusters(static_cast<unsigned>(config.blocks), kernel, blocks, threads, shared_bytes, stream,
                         params, order, config.blocks);
}

// rows_of(config, order): the rows as kernels take them.
template <class RowsOf>
ErrorCode run_with(const OneCluster& config, const Problem& problem, const Buffers& buffers, Stream stream,
                   RowsOf&& rows_of) {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    return launch_with_room(config, [&](const OneCluster& fitting) {
      constexpr int kFew = tuning::kClusterFewItems;
      const auto rows = rows_of(fitting, order);
      return fitting.room <= kFew * fitting.threads
                 ? launch<kFew>(fitting, problem, buffers, rows, order, stream)
                 : launch<tuning::kClusterItems>(fitting, problem, buffers, rows, order, stream);
    });
  });
}

}  // namespace

ErrorCode OneCluster::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return run_with(*this, problem, buffers, stream, [&](const OneCluster& config, auto order) {
    using Bits = typename decltype(order)::Bits;
    Row<Bits> row{};
    row.begin = static_cast<const Bits*>(buffers.input);
    row.cols = problem.cols;
    row.part_cols = part_of_cluster(problem.cols, config.blocks, sizeof(Bits));
    row.k = static_cast<int>(problem.k);
    row.blocks = config.blocks;
    row.vectors = config.vectors;
    row.strata = strata_of<Bits>(problem.cols, config.threads, config.vectors);
    row.rank = config.rank;
    row.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
    return Rectangle<Bits>{row, problem.row_stride};
  });
}

ErrorCode OneCluster::run_windows(const Problem& problem, const WindowRows& rows, const Buffers& buffers,
                                  Stream stream) const {
  return run_with(*this, problem, buffers, stream, [&](const OneCluster& config, auto order) {
    using Bits = typename decltype(order)::Bits;
    return Ragged<Bits>{rows, static_cast<const Bits*>(buffers.input), config.blocks, config.vectors};
  });
}

}  // namespace gputopk::cuda::delegate
