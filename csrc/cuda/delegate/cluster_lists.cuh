// What a cluster of blocks that shares a row lists of it, each of its part, and how the lists come together
// in the first block. one_cluster.cu has the steps.
#pragma once

#include <cstdint>

#include "core/key_order.h"
#include "cuda/delegate/numbers.h"
#include "cuda/device/block_sort.cuh"
#include "cuda/device/cluster.cuh"
#include "cuda/device/key_range.cuh"
#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/row_digits.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/sample.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/window_writer.cuh"

namespace gputopk::cuda::delegate {

using Index = uint32_t;

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

struct AllCandidates {
  static constexpr bool kFilters = false;
  __device__ constexpr uint32_t of(int64_t, int) const { return ~0u; }
};
struct SomeCandidates : RowCandidates {
  static constexpr bool kFilters = true;
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
  uint64_t all;  // fewer than 2^32, as the row's elements are
  uint32_t before;
};

// Of the row's blocks, whose lists are whole once all are here.
template <class Bits>
__device__ __forceinline__ Listed count_lists(int blocks, int number, Shared<Bits>& shared) {
  if (blocks == 1) {
    __syncthreads();  // the list is whole
    return {shared.listed, 0};
  }
  Cluster::arrive();
  Cluster::wait();  // all lists are whole
  // By every warp, a lane a block.
  const int lane = static_cast<int>(threadIdx.x % 32);
  const uint32_t of_block = lane < blocks ? *Cluster::of_block(&shared.listed, lane) : 0;
  return {__reduce_add_sync(~0u, of_block), __reduce_add_sync(~0u, lane < number ? of_block : 0)};
}

// Step 3: brings the lists together in the first block. False in all others, which are done.
template <class Bits>
__device__ __forceinline__ bool gather_lists(int blocks, int number, const Listed& listed,
                                             const BlockMemory<Bits, Index>& memory, Shared<Bits>& shared) {
  if (blocks == 1) return true;
  const int own = static_cast<int>(shared.listed);
  if (number > 0) {
    Bits* const values = Cluster::of_block(memory.values, 0) + listed.before;
    Index* const indices = Cluster::of_block(memory.indices, 0) + listed.before;
    for (int i = static_cast<int>(threadIdx.x); i < own; i += static_cast<int>(blockDim.x)) {
      values[i] = memory.values[i];
      indices[i] = memory.indices[i];
    }
  }
  Cluster::arrive();
  Cluster::wait();  // the first block has all, and needs no other's memory any more
  return number == 0;
}

}  // namespace gputopk::cuda::delegate
