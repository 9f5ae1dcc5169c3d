// AIR top-k of rows that one block keeps in registers: one read, one launch, and winners in order.
//
//   1. The block loads the row. Its elements fall into groups, one to eight a thread, and each warp sorts the
//      maxima of its groups. With W warps, ceil(k / W) maxima of each reach the least of all warps' maxima of
//      that rank: a bound that k elements reach, whatever the row, and, where k is small, few others. Where
//      each warp would sort all it has, the block counts digits of all maxima instead.
//   2. What reaches the bound is listed. Where many are equals of it, what is above it is, and equals, of the
//      lowest indices, are written behind that. Where more are above it than there is room for, the bound is
//      raised, from number to number.
//   3. The list is put in order, and its k best are written: where it is short, from runs that warps put in
//      order. Else each element is brought to its bin of the range from the bound to the greatest, and ranked
//      among those that are there. Equal keys go to bins by their places in the row, where the range has few.
//      Where entries crowd in some bins, these are dealt out anew, over a narrower range or group by group.
// Elements are compared as floats or keys in registers (device/row_numbers.cuh), and ranked by keys and
// indices.
//
// Where k is too many for groups, or the row crowds in numbers that are many, AIR's digits find the list: a
// digit of the range that keys span is counted in shared memory, and the bin of the k-th best is the next
// range, until there is room, or all in it are equal: then those of the lowest indices are listed.

#include <cuda_runtime_api.h>

#include <atomic>
#include <type_traits>

#include "core/key_order.h"
#include "cuda/air/air.h"
#include "cuda/air/numbers.h"
#include "cuda/air/row_winners.cuh"
#include "cuda/device/block_loop.cuh"
#include "cuda/device/block_sort.cuh"
#include "cuda/device/equals.cuh"
#include "cuda/device/key_range.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/maxima_bound.cuh"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/range_bins.cuh"
#include "cuda/device/resident_row.cuh"
#include "cuda/device/row_numbers.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/warp.cuh"
#include "cuda/device/winner_writer.cuh"

namespace gputopk::cuda::air {
namespace {

constexpr int kMostWarps = tuning::kAirResidentMaxThreads / 32;
constexpr int kLanesOfLine = 8;  // as vectors

template <class Bits>
struct Params {
  const Bits* input;
  int64_t row_stride;
  int cols;
  int k;
  int maxima;
  int rank;
  int digit_bits;
  int room;
  int bins;
  WinnerWriter<Bits> output;
};

// Elements above a bound, and those that are the greatest number or beyond: NaNs.
template <class Number>
struct Crowd {
  uint32_t above, top, beyond;
  Number least_above;
};

template <class Order>
struct Shared {
  using Bits = typename Order::Bits;
  using Held = typename Resident<Bits>::Held;

  union {
    WarpBound<typename Numbers<Order>::Number> bounds[kMostWarps];
    KeySpan<typename KeyWord<Bits>::type> spans[kMostWarps];
  };
  uint32_t listed;
  uint32_t above;  // the bound, listed in place of all
  BinScratch bins;
  Crowd<typename Numbers<Order>::Number> crowds[kMostWarps];
  union {  // one after the other
    EqualsTable<kMostWarps> equals;
    BlockScratch<typename KeyWord<Bits>::type, Index> sort;
  };
  // Where the list is found by digits.
  KeyRange<Held> range;
  TargetDigit<uint32_t> target;
};

// Writes equals of the bound, of the lowest indices, behind as many as are `above` it, which are listed: by
// way of the list, so that lines of the outputs are written whole. By all threads, a barrier behind any use
// of the table's memory.
template <class Equals, class Table, class IndexOf, class Compared, class Bits>
__device__ __forceinline__ void write_equals(const Equals& equals, const Table& table, int above, Index* list,
                                             IndexOf&& index_of, const Compared& numbers,
                                             typename Compared::Number bound,
                                             const WriteWinner<Bits>& write) {
  equals.visit_lowest(write.k - above, table,
                      [&](int place, int i) { list[above + place] = static_cast<Index>(index_of(i)); });
  __syncthreads();  // they are listed
  Bits bits;
  const bool alike = numbers.bits_of_all(bound, bits);
  each_in_block(write.k - above, [&](int i) {
    const int rank = above + i;
    if (alike) {
      write(rank, bits, list[rank]);
    } else {
      write(rank, list[rank]);
    }
  });
}

// What is known of a row.
template <class Number>
struct Found {
  int listed;   // elements, of which the best win
  bool whole;   // those and equals of `bound` that have been written are all winners
  bool equals;  // are written, and so not listed
  Number bound, greatest;
};

// Step 2 where more are above the bound than there is room for, or than is worth sorting. The bound is
// raised, to the greatest number or to the next, until no more than `room` are above it. Those are listed,
// and where they are fewer than k, equals of the bound, of the lowest indices, written behind them, as they
// are in order. Not whole, and the list as it was, where so many turns did not do.
template <class Order, int kElements>
__device__ __noinline__ Found<typename Numbers<Order>::Number> settle_crowd(
    const Params<typename Order::Bits>& params, const typename Order::Bits* input, Order order, Index* list,
    Shared<Order>& shared, Found<typename Numbers<Order>::Number> found, int room, int turns,
    WriteWinner<typename Order::Bits> write) {
  using Compared = Numbers<Order>;
  using Number = typename Compared::Number;
  using Share = RowNumbers<Order, kElements>;
  // The row is loaded anew, threads in order of their indices.
  const Share own(input, params.cols, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
                  Compared(order), Share::shift_of(input));
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int warps = static_cast<int>(blockDim.x / 32);
  // The lesser of those that are numbers.
  const auto lesser = [](Number x, Number y) { return Compared::is_above(x, y) || x != x ? y : x; };
  const auto add_up = [&](Crowd<Number> crowd) {
    Number least = crowd.least_above;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) least = lesser(least, shuffle_xor(least, step));
    return Crowd<Number>{__reduce_add_sync(~0u, crowd.above), __reduce_add_sync(~0u, crowd.top),
                         __reduce_add_sync(~0u, crowd.beyond), shuffle(least, 0)};
  };
  found.whole = false;
  for (int turn = 0; turn < turns; ++turn) {
    Crowd<Number> crowd{0, 0, 0, Compared::beyond()};
#pragma unroll
    for (int i = 0; i < Share::kElements; ++i) {
      const Number number = own.number[i];
      const bool is_above = Compared::is_above(number, found.bound);
      crowd.above += is_above;
      // Not what reaches the greatest, which may be a NaN: any number reaches that.
      const bool is_beyond = Compared::is_above(number, found.greatest);
      crowd.top += is_beyond || Compared::is_equal(number, found.greatest);
      crowd.beyond += is_beyond;
      if (is_above) crowd.least_above = lesser(crowd.least_above, number);
    }
    crowd = add_up(crowd);
    if (lane == 0) shared.crowds[warp] = crowd;
    if (threadIdx.x == 0) shared.listed = 0;
    shared.equals.reset();
    __syncthreads();  // all warps have counted
    const Crowd<Number>& of_warp = shared.crowds[min(lane, warps - 1)];
    const uint32_t counts = lane < warps ? 1 : 0;
    crowd =
        add_up({counts * of_warp.above, counts * of_warp.top, counts * of_warp.beyond, of_warp.least_above});
    const int above = static_cast<int>(crowd.above);
    found.listed = above;
    if (above <= room) {
      found.whole = true;
      list_elements(
          choose<Share::kElements>([&](int i) { return Compared::is_above(own.number[i], found.bound); }),
          static_cast<uint32_t>(room), list, shared.listed, [&](int i) { return own.index(i); });
      const Equals<Share> equals(
          choose<Share::kElements>([&](int i) { return Compared::is_equal(own.number[i], found.bound); }),
          shared.equals);
      __syncthreads();  // the list is whole, and equals are counted
      write_equals(
          equals, shared.equals, above, list, [&](int i) { return own.index(i); }, Compared(order),
          found.bound, write);
      return found;
    }
    const unsigned k = static_cast<unsigned>(params.k);
    found.bound = crowd.beyond >= k ? Compared::beyond()
                  : crowd.top >= k  ? found.greatest
                                    : crowd.least_above;
    __syncthreads();  // all know what warps have counted
  }
  return found;
}

// Step 1's bound, and how many warps have one that is the same: equals of it may be many.
template <class Number>
struct RowBound : WarpBound<Number> {
  int tied;
};

// Step 1: the bound from maxima that warps sort.
template <class Compared, class Order, class Number, int kElements>
__device__ __forceinline__ RowBound<Number> bound_by_sorting(const Number (&numbers)[kElements], int maxima,
                                                             int rank, Shared<Order>& shared) {
  const int lane = static_cast<int>(threadIdx.x % 32), warps = static_cast<int>(blockDim.x / 32);
  const WarpBound<Number> of_warp = bound_of_warp<Compared>(numbers, maxima, rank);
  if (lane == 0) shared.bounds[threadIdx.x / 32] = of_warp;
  __syncthreads();  // all warps have a bound
  const WarpBound<Number> of_row = bound_of_all<Compared>(shared.bounds, warps);
  const bool ties = Compared::is_equal(shared.bounds[min(lane, warps - 1)].bound, of_row.bound);
  return {of_row, __popc(__ballot_sync(~0u, ties) & ~0u >> (32 - warps))};
}

// Step 1: the bound from maxima that the block counts, by digits of what the k best of them lie in. It begins
// at the least of groups' maxima of which each warp has `rank` and more: k elements reach that.
template <class Compared, class Order, class Number, int kElements>
__device__ __forceinline__ RowBound<Number> bound_by_counting(const Number (&numbers)[kElements], int k,
                                                              int rank, uint32_t* counts,
                                                              Shared<Order>& shared) {
  using Word = typename KeyWord<typename Order::Bits>::type;
  static_assert(tuning::kAirResidentItems * tuning::kAirResidentCountingThreads >= kCountsOfBound<uint32_t> &&
                    tuning::kAirResidentMinRoom >= kCountsOfBound<uint32_t>,
                "counts lie where keys of a list will");
  static_assert(tuning::kAirResidentMostRank <= 4 * 32, "four of each lane");
  const Maxima<Compared, Number> maxima(numbers);
  Number least;
  if (rank <= 2 * 32) {
    Number pair[2];
    maxima.pairs(pair);
    least = Compared::lesser(pair[0], pair[1]);
  } else {
    Number four[4];
    maxima.fours(four);
    least = Compared::lesser(Compared::lesser(four[0], four[1]), Compared::lesser(four[2], four[3]));
  }
  Word keys[kMostMaxima];
  KeySpan<Word> own{Compared::rank_key_of(least), 0};
#pragma unroll
  for (int i = 0; i < kMostMaxima; ++i) {
    keys[i] = Compared::rank_key_of(maxima.of_class[i]);
    own.greatest = max(own.greatest, keys[i]);
  }
  const int slack = k / tuning::kAirResidentSlack;
  const BlockBound<Word> bound = bound_of_block(
      own,
      [&](auto&& visit) {
#pragma unroll
        for (int i = 0; i < kMostMaxima; ++i) visit(keys[i]);
      },
      k, slack, Undivided{}, counts, shared.spans);
  const int warps = static_cast<int>(blockDim.x / 32);
  return {{Compared::number_of(bound.key), Compared::number_of(bound.greatest)},
          bound.reaching > k + slack ? warps : 1};
}

// Steps 1 and 2.
template <class Order, int kElements, bool kCounts>
__device__ __forceinline__ Found<typename Numbers<Order>::Number> list_from_maxima(
    const Params<typename Order::Bits>& params, const typename Order::Bits* input, const Order& order,
    Index* list, uint32_t* counts, uint32_t* bins, Shared<Order>& shared,
    const WriteWinner<typename Order::Bits>& write) {
  using Compared = Numbers<Order>;
  using Number = typename Compared::Number;
  using Share = RowNumbers<Order, kElements>;
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int warps = static_cast<int>(blockDim.x / 32);
  const Compared numbers(order);
  // Lines of memory go to the warps in turn, so that each has some of what lies side by side.
  const int place = (lane / kLanesOfLine * warps + warp) * kLanesOfLine + lane % kLanesOfLine;
  const typename Share::Loaded loaded(input, params.cols, place, static_cast<int>(blockDim.x), numbers,
                                      Share::shift_of(input));
  // While the row is under way.
  clear_bins(bins, params.bins);
  if (threadIdx.x == 0) {
    shared.listed = shared.above = 0;
    shared.bins.reset();
  }
  shared.equals.reset();
  const Share own(loaded, numbers);
  const RowBound<Number> of_row = [&] {
    if constexpr (kCounts) {
      return bound_by_counting<Compared>(own.number, params.k, params.rank, counts, shared);
    } else {
      return bound_by_sorting<Compared>(own.number, params.maxima, params.rank, shared);
    }
  }();
  Found<Number> found{0, false, false, of_row.bound, of_row.greatest};
  if (!numbers.is_bound(found.bound)) return found;
  const uint32_t room = static_cast<uint32_t>(params.room);
  const auto index_of = [&](int i) { return own.index(i); };
  const uint32_t reaching =
      choose<kElements>([&](int i) { return Compared::reaches(own.number[i], found.bound); });
  // Where warps have the same bound, the others may have as many equals of it.
  if (of_row.tied == 1 || 2 * of_row.tied < warps) {
    list_elements(reaching, room, list, shared.listed, index_of);
    __syncthreads();  // the list is whole
    found.listed = static_cast<int>(shared.listed);
    found.whole = params.k <= found.listed && found.listed <= params.room;
    const bool few = found.listed <= 2 * params.k + tuning::kAirResidentBeyond;
    if (found.listed <= params.room && (few || of_row.tied == 1)) return found;
  }
  const uint32_t equal =
      choose<kElements>([&](int i) { return Compared::is_equal(own.number[i], found.bound); });
  list_elements(reaching & ~equal, room, list, shared.above, index_of);
  const Equals<Share, kLanesOfLine> equals(equal, shared.equals);
  __syncthreads();  // the list is whole, and equals are counted
  const int above = static_cast<int>(shared.above);
  if (above <= params.room) {
    found.listed = above;
    found.whole = found.equals = true;
    write_equals(equals, shared.equals, above, list, index_of, numbers, found.bound, write);
  } else {
    __syncthreads();  // all know it, before counts are reset
    found = settle_crowd<Order, kElements>(params, input, order, list, shared, found, params.room,
                                           tuning::kAirResidentTurns, write);
  }
  return found;
}

// The list by digits, of k elements or more, as many as there is room for; is how many. The row is loaded
// anew, as keys, so that it takes no registers of those that do without. By all threads, a barrier behind any
// use of the memory.
template <class Order, int kElements>
__device__ __noinline__ int list_by_digits(const Params<typename Order::Bits>& params,
                                           const typename Order::Bits* input, Order order, Index* list,
                                           uint32_t* histogram, Shared<Order>& shared) {
  using Share = RowShare<Order, kElements>;
  using Held = typename Share::Held;
  if (threadIdx.x == 0) {
    shared.range.reset();
    shared.listed = 0;
  }
  shared.equals.reset();
  const Share share(input, params.cols, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), order);
  const auto each_element = [&](auto&& visit) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) visit(share.held[i]);
  };
  SeenKeys<Held> seen;
  each_element([&](Held element) { seen.see(element); });
  __syncthreads();  // the range is reset
  shared.range.add(seen);
  __syncthreads();  // all warps have added
  Bounds<Held> bounds{static_cast<Held>(shared.range.least), static_cast<Held>(shared.range.greatest), 0};
  int listed = 0;
  do {
    clear_histogram(histogram, 1 << params.digit_bits);
    __syncthreads();  // no thread counts into bins that another has yet to clear
    int shift = 0;
    const auto target =
        find_bin(bounds, params.k, params.digit_bits, shift, histogram, shared.target, each_element);
    bounds.narrow(target, shift);
    listed = bounds.taken + static_cast<int>(target.count);
  } while (listed > params.room && bounds.low != bounds.high);
  const bool has_room = listed <= params.room;
  // What lies behind the row's end may be as bad as its worst.
  list_elements(choose<kElements>([&](int i) {
                  return has_room ? share.held[i] >= bounds.low : share.held[i] > bounds.low;
                }),
                static_cast<uint32_t>(params.room), list, shared.listed,
                [&](int i) { return share.index(i); });
  if (!has_room) {
    listed = params.k;
    const Equals<Share> equals(choose<kElements>([&](int i) { return share.held[i] == bounds.low; }),
                               shared.equals);
    __syncthreads();  // equals are counted
    equals.visit_lowest(params.k - bounds.taken, shared.equals,
                        [&](int place, int i) { list[bounds.taken + place] = share.index(i); });
  }
  __syncthreads();  // the list is whole
  return listed;
}

template <class Order, int kElements, bool kCounts>
__global__ void __launch_bounds__(tuning::kAirResidentMaxThreads, tuning::kAirResidentBlocks)
    select_resident_row(const __grid_constant__ Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Compared = Numbers<Order>;
  using Word = typename KeyWord<Bits>::type;
  __shared__ Shared<Order> shared;
  const BlockMemory<Bits, Index> memory = memory_of<Bits>(dynamic_shared(), params.room);
  const int64_t row = blockIdx.x;
  const Bits* const input = params.input + row * params.row_stride;
  const int threads = static_cast<int>(blockDim.x);
  const WriteWinner<Bits> write{input, params.k, params.output.row(row, params.k)};

  Found<typename Compared::Number> found{};
  if (params.maxima > 0 &&
      RowNumbers<Order, kElements>::shift_of(input) + params.cols <= threads * kElements) {
    // Maxima are counted where keys will lie.
    found = list_from_maxima<Order, kElements, kCounts>(params, input, order, memory.indices,
                                                        reinterpret_cast<uint32_t*>(memory.values),
                                                        memory.counters, shared, write);
  }
  int listed = found.listed;
  if (!found.whole) {
    __syncthreads();  // all know it, before the count is reset
    listed = list_by_digits<Order, kElements>(params, input, order, memory.indices, memory.counters, shared);
  }

  // Step 3.
  if (found.whole && listed <= min(tuning::kAirResidentInRuns, threads)) {
    write_in_runs(listed, order, memory, write);
    return;
  }
  if (found.whole) {
    const Word least = Compared::rank_key_of(found.bound), greatest = Compared::rank_key_of(found.greatest);
    const Compared numbers(order);
    constexpr int kItems = tuning::kAirResidentItems;
    Word* const keys = reinterpret_cast<Word*>(memory.values);
    const bool has_few_keys = IndexBins<Word>::spare_bits(least, greatest, numbers.empty_bits(),
                                                          params.bins) >= tuning::kAirResidentSpareBits;
    if (has_few_keys ? write_by_index_bins<kItems>(listed, params.cols, numbers, least, greatest,
                                                   memory.indices, keys, memory.counters, params.bins,
                                                   shared.bins, shared.sort.groups, write)
                     : write_by_bins<kItems, EvenBins<Word>>(
                           listed, params.cols, numbers, least, greatest, memory.indices, keys,
                           memory.counters, params.bins, shared.bins, shared.sort.groups, write)) {
      return;
    }
    __syncthreads();  // nobody adds to a count any more
    if (!found.equals) {
      found = settle_crowd<Order, kElements>(params, input, order, memory.indices, shared, found,
                                             params.k - 1, tuning::kAirResidentFewTurns, write);
      if (found.whole) listed = found.listed;
    }
  }
  write_sorted(listed, input, params.cols, order, memory, shared.sort, write);
}

template <class Order, int kElements, bool kCounts>
cudaError_t launch(const ResidentRow& config, const Problem& problem, const Buffers& buffers, Order order,
                   cudaStream_t stream) {
  using Bits = typename Order::Bits;
  Params<Bits> params{};
  params.input = static_cast<const Bits*>(buffers.input);
  params.row_stride = problem.row_stride;
  params.cols = static_cast<int>(problem.cols);
  params.k = static_cast<int>(problem.k);
  params.maxima = config.maxima;
  params.rank = config.rank;
  params.digit_bits = config.digit_bits;
  params.room = config.room;
  params.bins = config.bins;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  if (problem.rows > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
  static std::atomic<uint64_t> allowed{0};
  const auto kernel = select_resident_row<Order, kElements, kCounts>;
  constexpr int kEntryBytes = sizeof(Index) + sizeof(typename KeyWord<Bits>::type);
  const size_t bytes = static_cast<size_t>(block_bytes(kEntryBytes, config.room, config.threads));
  const cudaError_t error = allow_shared_memory(kernel, bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_kernel(/*ahead=*/false, kernel, static_cast<unsigned>(problem.rows),
                       static_cast<unsigned>(config.threads), bytes, stream, params, order);
}

}  // namespace

ErrorCode ResidentRow::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Order = decltype(order);
    if constexpr (Order::kBits < 64) {
      if (counts) return launch<Order, 32, true>(*this, problem, buffers, order, stream);
      if (elements == 32) return launch<Order, 32, false>(*this, problem, buffers, order, stream);
    }
    return launch<Order, 16, false>(*this, problem, buffers, order, stream);
  });
}

}  // namespace gputopk::cuda::air
