// Rows whose bound a block finds in a sample of sectors, and whose candidates it lists on chip.
// Common to one_cluster.cu, which says how it goes, and equal_shares.cu; resident_cluster.cu lists as they
// do, and falls back on the same.
#pragma once

#include <cstdint>

#include "core/key_order.h"
#include "core/problem.h"
#include "cuda/delegate/delegate.h"
#include "cuda/delegate/numbers.h"
#include "cuda/device/block_loop.cuh"
#include "cuda/device/block_sort.cuh"
#include "cuda/device/cluster.cuh"
#include "cuda/device/maxima_bound.cuh"
#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/row_digits.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/row_sample.h"
#include "cuda/device/sample.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/window_writer.cuh"
#include "cuda/device/winner_writer.cuh"

namespace gputopk::cuda::delegate {

using Index = uint32_t;

constexpr int kSectorVectors = tuning::kClusterSectorBytes / 16;

template <class Bits>
struct Row {
  const Bits* begin;
  int64_t cols;
  int k;
  int index_bits;
};

// What a block looks at of a row to find its bound: the element of that rank in it.
struct SectorSample {
  int vectors;    // a thread's; 0: there is none
  Strata strata;  // one sector of each
  int rank;
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
  SectorSample sample;

  __device__ WinnerWriter<Bits> writer(int64_t, const WinnerWriter<Bits>& output) const { return output; }
  __device__ Row<Bits> of(int64_t number) const {
    Row<Bits> own = row;
    own.begin += number * row_stride;
    return own;
  }
  __device__ SectorSample sample_of(const Row<Bits>&) const { return sample; }
};

template <class Bits>
Row<Bits> first_row(const Problem& problem, const Buffers& buffers) {
  return {static_cast<const Bits*>(buffers.input), problem.cols, static_cast<int>(problem.k),
          bit_width(static_cast<uint64_t>(problem.cols - 1))};
}

template <class Bits>
Rectangle<Bits> rectangle_of(const SampledBound& config, const Problem& problem, const Buffers& buffers) {
  return {first_row<Bits>(problem, buffers),
          problem.row_stride,
          {config.vectors, strata_of<Bits>(problem.cols, config.threads, config.vectors), config.rank}};
}

template <class Bits>
struct Ragged {
  static constexpr bool kWindows = true;
  using OfRow = SomeCandidates;
  WindowRows rows;
  const Bits* input;
  int vectors;     // that a thread's sample has at most
  int neighbours;  // SampledBound's

  __device__ WindowWriter<Bits> writer(int64_t number, const WinnerWriter<Bits>& output) const {
    return {rows, number, output};
  }
  __device__ Row<Bits> of(int64_t number) const {
    const Window window = rows.of(number);
    return {input + number * rows.row_stride + window.start, window.length, static_cast<int>(window.k),
            window.length > 1 ? bits_of(static_cast<Index>(window.length - 1)) : 0};
  }
  __device__ int64_t count_of(int64_t number, const Row<Bits>& row) const {
    return rows.count_of(number, {0, row.cols, row.k});
  }
  // Otherwise none is wanted, or all are in any order.
  __device__ bool needs_selection(const Row<Bits>& row, int64_t count) const {
    const bool takes_all = rows.any_order && row.k == row.cols && count == row.cols;
    return row.k > 0 && !takes_all;
  }
  // The largest that the row has sectors enough for, wherever it begins, and whose rank will do.
  __device__ SectorSample sample_of(const Row<Bits>& row) const {
    const int threads = static_cast<int>(blockDim.x);
    SectorSample sample{};
    for (int v = vectors; v > 0 && sample.vectors == 0; v /= 2) {
      if ((int64_t{threads} * v + 1) * kPerVector<Bits> > row.cols) continue;
      const float elements = static_cast<float>(threads * v * kPerVector<Bits>);
      const float winners = static_cast<float>(row.k) * elements / static_cast<float>(row.cols);
      sample.rank = static_cast<int>(tuning::sample_rank_of_neighbours(winners, row.k, neighbours));
      if (sample.rank <= threads) sample.vectors = v;
    }
    if (sample.vectors > 0) sample.strata = strata_of<Bits>(row.cols, threads, sample.vectors);
    return sample;
  }
};

// Where a window has few candidates beside its winners, whatever room there is: to put the others in order
// takes longer than to sample them.
template <class Bits>
__device__ bool is_listed_whole(const Row<Bits>& row, int64_t count, int room) {
  return count <= min(int64_t{room}, int64_t{tuning::kClusterListedWinners} * row.k);
}

template <class Bits>
using Extended = ExtendedKey<typename KeyWord<Bits>::type, Index>;

// What all blocks of the row have listed, and, of those before this one, how many.
struct Listed {
  uint64_t all;
  uint32_t before;
};

template <class Bits>
struct Shared {
  using Word = typename KeyWord<Bits>::type;

  KeySpan<Word> spans[tuning::kClusterMaxThreads / 32];  // of warps
  TargetDigit<uint32_t> target;
  TargetDigitScratch<uint32_t> search;
  uint32_t listed;   // by this block, or so many would be if there were room
  uint32_t sampled;  // candidates
  Listed lists;      // of all blocks
};

// Beside it, where the list is put in order.
template <class Bits>
using SortScratch = BlockScratch<typename KeyWord<Bits>::type, Index>;

// The same of rows whose bound, an extended key, tells where its equals end.
template <class Bits>
using TiedSortScratch =
    BlockScratch<typename KeyWord<Bits>::type, Index, TiedBins<typename KeyWord<Bits>::type, Index>>;

static_assert(sizeof(Shared<uint64_t>) + sizeof(TiedSortScratch<uint64_t>) <= tuning::kClusterStaticBytes);

// What a block reads of a row.
template <class Bits>
struct Part {
  const Bits* begin;
  int64_t cols;
  int64_t first;   // its first element's index
  Index reversed;  // and the same reversed
};

// The same in all blocks that look at the row. False: the sample has fewer candidates than the rank. `part`
// is what the block reads next, of which so many tiles are fetched meanwhile; `counts` are
// kCountsOfBound<Word>.
template <class Order, class OfRow, class Bits = typename Order::Bits>
__device__ __forceinline__ bool find_bound_of_sample(const Row<Bits>& row, const SectorSample& sample,
                                                     const Part<Bits>& part, const Order& order,
                                                     const OfRow& candidates, int prefetched_tiles,
                                                     uint32_t* counts, Shared<Bits>& shared,
                                                     Extended<Bits>& bound) {
  using Word = typename KeyWord<Bits>::type;
  constexpr int kElements = kPerVector<Bits>, kVectors = tuning::cluster_vectors(sizeof(Bits));
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const Index last_index = static_cast<Index>(row.cols - 1);
  const RowShape<Bits> shape(row.begin, row.cols);
  Vector<Bits> sampled[kVectors];
  Index first[kVectors];
  uint32_t present = 0;  // a bit for each candidate
  static_assert(kVectors * kElements <= 32);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (v >= sample.vectors) continue;
    const uint32_t number = static_cast<uint32_t>(v * threads + thread);
    const Index sector = static_cast<Index>(sample.strata.entry_of(number / kSectorVectors));
    first[v] = shape.head + (sector * kSectorVectors + number % kSectorVectors) * kElements;
    sampled[v] = load_vector<Reading::kAgain>(row.begin + first[v]);
    if constexpr (OfRow::kFilters) present |= candidates.of(first[v], kElements) << (v * kElements);
  }
  const auto each = [&](auto&& visit) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (v >= sample.vectors) continue;
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        if (OfRow::kFilters && (present >> (v * kElements + e) & 1) == 0) continue;
        visit(Extended<Bits>{order(sampled[v][e]), last_index - first[v] - e});
      }
    }
  };
  clear_histogram(counts, kCountsOfBound<Word>);
  if constexpr (OfRow::kFilters) {
    if (thread == 0) shared.sampled = 0;
    __syncthreads();  // the sum is zero
  }

  // Each warp has ceil(rank / warps) threads whose best reach its bound: `rank` elements reach the least of
  // them. (A thread without candidates has the least key of all as its best.)
  Word best[1] = {0};
  each([&](const Extended<Bits>& x) { best[0] = max(best[0], x.key); });
  const WarpBound<Word> of_warp = bound_of_rank(best, (sample.rank + threads / 32 - 1) / (threads / 32));
  if constexpr (OfRow::kFilters) {
    const unsigned own = __reduce_add_sync(~0u, static_cast<unsigned>(__popc(present)));
    if (thread % 32 == 0) atomicAdd(&shared.sampled, own);
  }
  const KeySpan<Word> span = KeySpan<Word>{of_warp.bound, of_warp.greatest}.over_block(shared.spans);
  // The memory is idle from here on. Earlier, the sample would wait for all this.
  prefetch_tiles(part.begin, part.cols, /*part=*/0, /*parts=*/1, prefetched_tiles);
  if (OfRow::kFilters && shared.sampled < static_cast<uint32_t>(sample.rank)) return false;
  const int slack = sample.rank / tuning::kClusterRankSlack;
  const BlockBound<Word> found = bound_within<Word>(
      span, [&](auto&& visit) { each([&](const Extended<Bits>& x) { visit(x.key); }); }, sample.rank, slack,
      Undivided{}, counts, shared.spans);
  bound = {found.key, 0};
  if (found.reaching <= sample.rank + slack) return true;

  // Of its equals, which are many, those of the lowest indices.
  constexpr int kBits = tuning::kClusterSampleDigitBits, kBins = 1 << kBits;
  static_assert(kBins <= kCountsOfBound<uint32_t>);
  const int above = found.reaching - found.of_bin;
  auto selection = Selection<uint32_t, Index>::whole_row(static_cast<uint64_t>(sample.rank - above),
                                                         static_cast<uint64_t>(found.of_bin));
  selection.split.key = 0;
  for (int pass = 1; selection.candidates - selection.owed > static_cast<uint64_t>(slack); ++pass) {
    const Digit digit = digit_of_pass(pass, kBits, /*key_bits=*/0, row.index_bits);
    __syncthreads();  // the counts are not in use
    clear_histogram(counts, kBins);
    __syncthreads();  // no thread counts into bins that another has yet to clear
    each([&](const Extended<Bits>& x) {
      if (x.key != found.key || x.reversed < selection.low.reversed ||
          selection.split.reversed < x.reversed) {
        return;
      }
      atomicAdd(counts + digit.of(0u, x.reversed - selection.low.reversed), 1u);
    });
    __syncthreads();  // all have counted
    if (thread < 32) {
      find_target_digit_by_warp(counts, kBins, static_cast<uint32_t>(selection.owed), shared.target);
    }
    __syncthreads();  // the digit is found
    const TargetDigit<uint32_t> target = shared.target;
    selection.narrow(digit, target.digit, target.above, target.count);
  }
  bound.reversed = selection.low.reversed;
  return true;
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

// Lists the part's candidates that reach the bound, as far as there is room. `listed`, which was zero, is how
// many do.
template <Reading kReading = Reading::kOnce, class Order, class OfRow, class Bits = typename Order::Bits>
__device__ __forceinline__ void list_part(const Part<Bits>& part, const Extended<Bits>& bound,
                                          const Order& order, const OfRow& candidates, uint32_t room,
                                          const BlockMemory<Bits, Index>& memory, uint32_t& listed) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Where the bound's own element is, counted from the part's first: elements of its key reach it up to
  // there.
  const int64_t bound_at = static_cast<int64_t>(part.reversed) - static_cast<int64_t>(bound.reversed);
  BoundFilter<Order> filter(order);
  scan_tiles<kReading, BlockTeam, /*kEnds=*/true>(
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

// bound_of_row's, two histograms, are within those of the smallest block.
static_assert((tuning::kClusterMinThreads / 32 + 1) * kDigits >= 2 << tuning::kClusterDigitBits);

// Adds up what the blocks of a row's cluster have counted.
struct ClusterSums {
  int blocks;

  __device__ void operator()(uint32_t* own, uint32_t* sums, int bins) const {
    Cluster::arrive();
    Cluster::wait();  // all blocks have counted
    each_in_block(bins, [&](int bin) {
      uint32_t sum = 0;
      for (int block = 0; block < blocks; ++block) sum += Cluster::of_block(own, block)[bin];
      sums[bin] = sum;
    });
    Cluster::arrive();
    Cluster::wait();  // all have added up
  }
};

// Where a sample misled: a bound that k of the row's `count` candidates reach, and no more than there is room
// for. The same in all blocks of the row: add_up(own, sums, bins) makes `sums` of what they have counted, by
// all threads of all of them, with barriers before and behind.
template <class Order, class OfRow, class AddUp, class Bits = typename Order::Bits>
__device__ __noinline__ Extended<Bits> bound_of_row(Row<Bits> row, Part<Bits> part, AddUp add_up, Order order,
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
    add_up(own, sums, bins);
    const TargetDigit<uint32_t> target = find_target_digit(sums, bins, selection.owed, shared.search);
    selection.narrow(digit, target.digit, target.above, target.count);
    const uint64_t reaching = static_cast<uint64_t>(row.k) - selection.owed + selection.candidates;
    if (reaching <= static_cast<uint64_t>(room)) return selection.low;
    digit = next_digit(selection, digit, kBits, row.index_bits);
  }
}

// Of the lists of the row's `blocks` blocks, this one's number `number`. By all threads of all of them; one
// warp asks the others, as each question is a trip through the GPU.
template <class Bits>
__device__ __forceinline__ Listed count_lists(Shared<Bits>& shared, int blocks, int number) {
  if (blocks == 1) {
    __syncthreads();  // the list is whole
    return {shared.listed, 0};
  }
  Cluster::arrive();
  Cluster::wait();  // all lists are whole
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < 32) {
    const uint32_t of_block = lane < blocks ? *Cluster::of_block(&shared.listed, lane) : 0;
    const Listed lists{__reduce_add_sync(~0u, of_block),
                       __reduce_add_sync(~0u, lane < number ? of_block : 0)};
    if (lane == 0) shared.lists = lists;
  }
  __syncthreads();  // the counts are there
  return shared.lists;
}

// Lists what reaches the bound in all blocks of the row. What they listed before, all know: bound_of_row,
// which follows that, has barriers of its own.
template <Reading kReading = Reading::kOnce, class Order, class OfRow, class Bits = typename Order::Bits>
__device__ __forceinline__ Listed list_row(const Part<Bits>& part, const Extended<Bits>& bound, int blocks,
                                           int number, const Order& order, const OfRow& candidates,
                                           uint32_t room, const BlockMemory<Bits, Index>& memory,
                                           Shared<Bits>& shared) {
  __syncthreads();  // nothing of the list's memory is in use
  if (threadIdx.x == 0) shared.listed = 0;
  __syncthreads();  // the count is zero
  list_part<kReading>(part, bound, order, candidates, room, memory, shared.listed);
  return count_lists(shared, blocks, number);
}

// Brings the lists together in the first block, whose own entries are where they belong, and prepares it to
// sort them. False in the other blocks, which then are done.
template <class Bits, class Scratch>
__device__ __forceinline__ bool bring_together(const Listed& listed, uint32_t own, int blocks, int number,
                                               const BlockMemory<Bits, Index>& memory, Scratch& scratch) {
  if (number == 0) {
    prepare_sort(static_cast<int>(listed.all), memory, scratch);
  } else {
    Bits* const values = Cluster::of_block(memory.values, 0) + listed.before;
    Index* const indices = Cluster::of_block(memory.indices, 0) + listed.before;
    each_in_block(own, [&](uint32_t i) {
      values[i] = memory.values[i];
      indices[i] = memory.indices[i];
    });
  }
  if (blocks == 1) {
    __syncthreads();  // all is clear
    return true;
  }
  Cluster::arrive();
  Cluster::wait();  // the first block has all, and needs no other's memory any more
  return number == 0;
}

// What a window's row needs no selection for: padding, and rows of which all is wanted in any order. True if
// that is all.
template <class Bits>
__device__ bool write_unselected(const Ragged<Bits>& rows, const Row<Bits>& row, const Part<Bits>& part,
                                 bool is_first, int64_t count, int64_t places,
                                 const WindowWriter<Bits>& output) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  if (is_first) output.finish(row.k, places, thread, threads);
  if (rows.needs_selection(row, count)) return false;
  for (int64_t i = thread; row.k > 0 && i < part.cols; i += threads) {
    output.write(part.first + i, part.begin[i], part.first + i);
  }
  return true;
}

}  // namespace gputopk::cuda::delegate
