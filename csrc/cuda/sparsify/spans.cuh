// A row's winners in order of index, and zeros in their places: span by span of what chunks.cuh has stored.
#pragma once

#include <cstdint>

#include "cuda/sparsify/chunks.cuh"

namespace gputopk::cuda::sparsify {

inline constexpr int kSpanThreads = 32 * tuning::kSpanWarps;

// A warp's chunks of a span, [begin, end), and their elements, [first, last).
struct WarpShare {
  int64_t begin, end;
  int64_t first, last;

  template <class Bits>
  __device__ WarpShare(const Spans<Bits>& spans, int64_t span, int64_t cols) {
    const int64_t warp = span * tuning::kSpanWarps + static_cast<int>(threadIdx.x) / 32;
    begin = min(warp * spans.chunks_per_warp, spans.chunks);
    end = min(begin + spans.chunks_per_warp, spans.chunks);
    first = min(begin * spans.chunk, cols);
    last = min(end * spans.chunk, cols);
  }
};

// visit(bits, col, there) sees a warp's candidates of a span, or all elements where those are not stored, 32
// at a time in order of index.
template <class Bits, class Visit>
__device__ __forceinline__ void visit_share(const RadixPasses<Bits, Index>& params, const Spans<Bits>& spans,
                                            int64_t row, const WarpShare& share, Visit&& visit) {
  constexpr int kAtOnce = 4;  // loads in flight a lane, of each kind
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (!spans.are_stored(row, params.k)) {
    for (int64_t base = share.first; base < share.last; base += 32) {
      const bool there = base + lane < share.last;
      const int64_t col = base + lane;
      visit(there ? params.input[row * params.row_stride + col] : Bits{}, static_cast<Index>(col), there);
    }
    return;
  }
  const CandidateBuffer<Bits, Index> store = spans.store(row);
  for (int64_t begin = share.begin; begin < share.end; begin += 32) {
    // A lane has a chunk's place; candidates of all of them are numbered one behind the other.
    const Place place =
        begin + lane < share.end ? spans.places[row * spans.chunks + begin + lane] : Place{0, 0};
    const int end = sum_so_far(static_cast<int>(place.count));
    const uint32_t first = place.first - static_cast<uint32_t>(end - static_cast<int>(place.count));
    const int count = __shfl_sync(~0u, end, 31);
    for (int base = 0; base < count; base += 32 * kAtOnce) {
      Bits bits[kAtOnce];
      Index index[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int own = base + 32 * i + lane;
        int chunk = 0;  // the first that ends behind this lane's candidate
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
          if (__shfl_sync(~0u, end, chunk + step - 1) <= own) chunk += step;
        }
        const uint32_t at = __shfl_sync(~0u, first, chunk) + static_cast<uint32_t>(own);
        bits[i] = own < count ? store.values[at] : Bits{};
        index[i] = own < count ? store.indices[at] : Index{};
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (base + 32 * i < count) visit(bits[i], index[i], base + 32 * i + lane < count);
      }
    }
  }
}

// Where the upper bound was none, elements above it that are no winners have been taken: puts them back.
template <class Order>
__global__ void __launch_bounds__(tuning::kPassThreads)
    put_back(RadixPasses<typename Order::Bits, Index> params, Spans<typename Order::Bits> spans,
             Winners<typename Order::Bits> winners, Order order) {
  const int64_t row = blockIdx.x / spans.blocks_per_row, part = blockIdx.x % spans.blocks_per_row;
  follow_kernel_before();
  const RowNotes& notes = spans.notes[row];
  if (notes.bounds_hold) return;
  const RowBounds<Order> bounds(order, params.states[row].bound, params.states[row].upper,
                                static_cast<Index>(params.cols - 1));
  const auto store = spans.store(row);
  const int64_t count = min(static_cast<int64_t>(notes.reaching), spans.capacity);
  const int64_t step = int64_t{spans.blocks_per_row} * tuning::kPassThreads;
  for (int64_t i = part * tuning::kPassThreads + threadIdx.x; i < count; i += step) {
    const Index index = store.indices[i];
    if (bounds.upper < bounds.extended(store.values[i], index)) {
      winners.self[row * winners.self_stride + index] = store.values[i];
    }
  }
}

// Of a row whose bounds hold, the winners between them are what is left to count.
template <class Order>
__device__ void count_between(const RadixPasses<typename Order::Bits, Index>& params,
                              const Spans<typename Order::Bits>& spans, int64_t row, int64_t span,
                              const RowBounds<Order>& bounds) {
  const auto between = params.buffer(0, row);
  const int64_t count = static_cast<int64_t>(spans.notes[row].between);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint64_t least = ~uint64_t{0};
  for (int64_t i = span * kSpanThreads + threadIdx.x; i - lane < count; i += spans.per_row * kSpanThreads) {
    const Index index = i < count ? between.indices[i] : Index{};
    const auto bits = i < count ? between.values[i] : typename Order::Bits{};
    const bool wins = i < count && bounds.is_reached(bits, index);
    if (wins) least = min(least, uint64_t{bounds.order(bits)});
    // Neighbours are mostly of one chunk.
    const uint32_t chunk = wins ? index / static_cast<Index>(spans.chunk) : ~0u;
    const unsigned same = __match_any_sync(~0u, chunk);
    if (wins && lane == __ffs(static_cast<int>(same)) - 1) spans.add_winners(row, chunk, __popc(same));
  }
  least = warp_min(least);
  if (threadIdx.x % 32 == 0 && least != ~uint64_t{0}) {
    atomicMax(&spans.notes[row].least, static_cast<unsigned long long>(~least));
  }
}

template <class Order>
__global__ void __launch_bounds__(kSpanThreads)
    count_winners(RadixPasses<typename Order::Bits, Index> params, Spans<typename Order::Bits> spans,
                  Order order) {
  using Bits = typename Order::Bits;
  __shared__ uint32_t of_warps[tuning::kSpanWarps];
  __shared__ unsigned long long least_of_warps[tuning::kSpanWarps];
  const int64_t row = blockIdx.x / spans.per_row, span = blockIdx.x % spans.per_row;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  follow_kernel_before();
  const Extended<Bits> bound = params.states[row].bound;
  const RowBounds<Order> bounds(order, bound, bound, static_cast<Index>(params.cols - 1));
  if (spans.notes[row].bounds_hold) return count_between(params, spans, row, span, bounds);
  uint32_t count = 0;
  uint64_t least = ~uint64_t{0};
  visit_share(params, spans, row, WarpShare(spans, span, params.cols),
              [&](Bits bits, Index index, bool there) {
                if (!there || !bounds.is_reached(bits, index)) return;
                ++count;
                least = min(least, uint64_t{order(bits)});
              });
  count = __reduce_add_sync(~0u, count);
  least = warp_min(least);
  if (threadIdx.x % 32 == 0) {
    of_warps[warp] = count;
    least_of_warps[warp] = least;
    spans.of_warps[blockIdx.x * tuning::kSpanWarps + warp] = count;
  }
  __syncthreads();  // all warps have counted
  if (threadIdx.x != 0) return;
  uint32_t all = 0;
  unsigned long long least_of_all = ~0ull;
  for (int w = 0; w < tuning::kSpanWarps; ++w) {
    all += of_warps[w];
    least_of_all = min(least_of_all, least_of_warps[w]);
  }
  spans.of_spans[blockIdx.x] = all;
  if (all > 0) atomicMax(&spans.notes[row].least, ~least_of_all);
}

// Winners of the row before this warp's. By all threads of a block.
template <class Bits>
__device__ int64_t winners_before(const Spans<Bits>& spans, int64_t row, int64_t span, uint64_t* of_block) {
  if (threadIdx.x == 0) *of_block = 0;
  __syncthreads();  // the sum is zero
  uint32_t before = 0;
  for (int64_t other = threadIdx.x; other < span; other += kSpanThreads) {
    before += spans.of_spans[row * spans.per_row + other];
  }
  before = __reduce_add_sync(~0u, before);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(of_block), static_cast<unsigned long long>(before));
  }
  __syncthreads();  // all warps have added
  int64_t sum = static_cast<int64_t>(*of_block);
  for (int warp = 0; warp < static_cast<int>(threadIdx.x) / 32; ++warp) {
    sum += spans.of_warps[(row * spans.per_row + span) * tuning::kSpanWarps + warp];
  }
  return sum;
}

// `upper`: a row's bound above which all is taken already, where its bounds hold and kTaken.
template <bool kTaken, class Order>
__global__ void __launch_bounds__(kSpanThreads)
    write_winners(RadixPasses<typename Order::Bits, Index> params, Spans<typename Order::Bits> spans,
                  Winners<typename Order::Bits> winners, Order order) {
  using Bits = typename Order::Bits;
  __shared__ uint64_t of_block;
  const int64_t row = blockIdx.x / spans.per_row, span = blockIdx.x % spans.per_row;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  follow_kernel_before();
  const bool taken = kTaken && spans.notes[row].bounds_hold;
  const RowBounds<Order> bounds(
      order, params.states[row].bound,
      taken ? params.states[row].upper : Selection<typename KeyWord<Bits>::type, Index>::highest(),
      static_cast<Index>(params.cols - 1));
  const WarpShare share(spans, span, params.cols);
  int64_t place = row * winners.k + winners_before(spans, row, span, &of_block);
  visit_share(params, spans, row, share, [&](Bits bits, Index index, bool there) {
    const Extended<Bits> x = bounds.extended(bits, index);
    const bool wins = there && !(x < bounds.lower);
    const unsigned all = __ballot_sync(~0u, wins);
    if (wins) {
      const int64_t at = place + __popc(all & ((1u << lane) - 1));
      winners.values[at] = bits;
      winners.write_index(at, index);
      if (!(bounds.upper < x)) winners.clear(row, index);
    }
    place += __popc(all);
  });
  const uint64_t infinity = order(order.max_magnitude);
  if (~spans.notes[row].least < infinity) return;
  for (int64_t col = share.first + lane; col < share.last; col += 32) {
    if (order(winners.self[row * winners.self_stride + col]) >= infinity) winners.clear(row, col);
  }
}

}  // namespace gputopk::cuda::sparsify
