// A sparsification that reads what it accumulates once: the bound is known before the accumulation, and what
// reaches it is stored meanwhile.
//
//   1. sample_sums: of a sample of each row, summed but not stored, one delegate is the bound, as in
//      delegate/from_sample.cu: all but surely k of the row's elements reach it, and few more.
//   2. accumulate_and_store: warps take a row chunk by chunk. A chunk's elements that reach the bound, the
//      candidates, are stored together, in order of index, and its place in the store is written down.
//   3. The row's last block, or radix passes, find the bound that k of the candidates reach and no others.
//   4. count_winners: how many each span of chunks has.
//   5. write_winners: they go behind those of all spans before, in order of index, and zeros in their places.
//      Where none of a row's is finite, all else that is not becomes zero too.
// Where fewer than k elements reached the bound, or more than were stored, 3 to 5 read the row instead.

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "core/key_order.h"
#include "cuda/device/launch.h"
#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/radix_passes.cuh"
#include "cuda/device/row_sample.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/stored_candidates.cuh"
#include "cuda/device/warp.cuh"
#include "cuda/sparsify/numbers.h"
#include "cuda/sparsify/sparsify.h"
#include "cuda/sparsify/sum.cuh"
#include "cuda/sparsify/winners.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda::sparsify {
namespace {

using tuning::kPassThreads;
using Index = uint32_t;
constexpr int kSpanThreads = 32 * tuning::kSpanWarps;

template <class Bits>
using Extended = ExtendedKey<typename KeyWord<Bits>::type, Index>;

// Where a chunk's candidates are in the row's store.
struct Place {
  uint32_t first, count;
};

struct Spans {
  int blocks_per_row;   // that accumulate it
  int chunk;            // elements
  int64_t chunks;       // a row
  int chunks_per_warp;  // side by side
  int64_t per_row;      // spans, each a block's: its warps' chunks, side by side
  Place* places;        // rows x chunks
  uint32_t* of_warps;   // winners: rows x per_row x kSpanWarps
  uint32_t* of_spans;   // rows x per_row
  // Of each row, zero at first: candidates, stored or not, and ~key of the least winner.
  unsigned long long *reaching, *least;

  __device__ bool are_stored(int64_t row, int64_t k, int64_t capacity) const {
    return reaching[row] >= static_cast<uint64_t>(k) && reaching[row] <= static_cast<uint64_t>(capacity);
  }
};

// Vectors of a row, or one element, as they are once accumulated; what there is to add may be nothing.
template <class Self, class Add, bool kMomentum>
struct RowSum {
  using Bits = typename Self::Bits;
  static constexpr int kWidth = kPerVector<Bits>;

  Sum<Self, Add> sum;
  int64_t row;

  __device__ RowSum(const Sum<Self, Add>& of_all, int64_t row) : sum(of_all), row(row) {
    if (!kMomentum) sum.momentum = nullptr;  // the compiler need not ask
  }

  __device__ Bits* self(int64_t col) const { return sum.self + row * sum.self_stride + col; }
  __device__ const typename Add::Bits* add(int64_t col) const { return sum.add + row * sum.add_stride + col; }
  __device__ Bits* momentum(int64_t col) const { return sum.momentum + row * sum.momentum_stride + col; }

  template <int kCount>
  struct Loaded {
    sparsify::Vector<Bits, kCount> self, momentum;
    sparsify::Vector<typename Add::Bits, kCount> add;
  };

  template <int kCount>
  __device__ __forceinline__ void load(int64_t col, Loaded<kCount>& x) const {
    x.self.load(self(col));
    if (sum.add == nullptr) return;
    x.add.load(add(col));
    if (kMomentum) x.momentum.load(momentum(col));
  }
  template <int kCount>
  __device__ __forceinline__ void accumulate(Loaded<kCount>& x) const {
    if (sum.add == nullptr) return;
#pragma unroll
    for (int j = 0; j < kCount; ++j) add_one(sum, x.self.at[j], x.add.at[j], x.momentum.at[j]);
  }
  template <int kCount>
  __device__ __forceinline__ void store(int64_t col, const Loaded<kCount>& x) const {
    if (sum.add == nullptr) return;
    x.self.store(self(col));
    if (kMomentum) x.momentum.store(momentum(col));
  }
};

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
  if (sample.of_lines) {
    best = best_of_lines(sample, part, /*head=*/0, last_index, order, [&](int64_t vector) {
      typename Rows::template Loaded<Rows::kWidth> x;
      sums.load(vector * Rows::kWidth, x);
      sums.accumulate(x);
      return cuda::Vector<Bits>{*reinterpret_cast<const uint4*>(x.self.at)};
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

// ---- 2. Accumulate and store ----

// A row's bound while it is read.
template <class Order>
struct RowBound {
  using Bits = typename Order::Bits;

  const Order& order;
  Extended<Bits> bound;
  Index last_index;
  int64_t index;  // the bound's own; behind it, elements of its key do not reach it

  __device__ RowBound(const Order& order, const Extended<Bits>& bound, Index last_index)
      : order(order),
        bound(bound),
        last_index(last_index),
        index(static_cast<int64_t>(static_cast<Index>(last_index - bound.reversed))) {}

  __device__ Extended<Bits> extended(Bits bits, int64_t col) const {
    return {order(bits), static_cast<Index>(last_index - static_cast<Index>(col))};
  }
  __device__ bool is_reached(Bits bits, int64_t col) const { return !(extended(bits, col) < bound); }
};

// Accumulates a warp's chunk, kInFlight vectors of a lane at a time, which lie side by side in a warp. Stages
// the places in it of the elements that reach the bound, in order, and is how many.
template <int kInFlight, class Rows, class Order>
__device__ __forceinline__ int accumulate_chunk(const Rows& sums, const RowBound<Order>& bound,
                                                const BoundFilter<Order>& filter, int64_t first, int chunk,
                                                uint16_t* staged) {
  using Bits = typename Order::Bits;
  constexpr int kWidth = Rows::kWidth;
  using Counts = std::conditional_t<kWidth == 8, uint64_t, uint32_t>;
  constexpr int kField = 8 * sizeof(Counts) / kInFlight;  // bits of a count, of up to 32 * kWidth
  constexpr Counts kMask = (Counts{1} << kField) - 1;
  static_assert(32 * kWidth <= kMask);
  const int64_t cols = sums.sum.cols;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool has_bound = first <= bound.index && bound.index < first + chunk;
  static_assert(kInFlight * 32 * kWidth <= tuning::least_chunk(sizeof(Bits)), "a chunk is whole turns");
  const auto offset = [&](int begin, int i) { return begin + (i * 32 + lane) * kWidth; };
  typename Rows::template Loaded<kWidth> x[kInFlight];
  const auto load_turn = [&](int begin) {
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int64_t col = first + offset(begin, i);
      if (begin < chunk && col + kWidth <= cols) sums.load(col, x[i]);
    }
  };
  int count = 0;
  load_turn(0);
#pragma unroll 1
  for (int begin = 0; begin < chunk; begin += kInFlight * 32 * kWidth) {
    uint32_t chosen[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int64_t col = first + offset(begin, i);
      chosen[i] = 0;
      if (col + kWidth <= cols) {
        sums.accumulate(x[i]);
        sums.store(col, x[i]);
        chosen[i] = filter.probe(cuda::Vector<Bits>{*reinterpret_cast<const uint4*>(x[i].self.at)});
      } else {
        for (int j = 0; col + j < cols; ++j) {
          typename Rows::template Loaded<1> one;
          sums.load(col + j, one);
          sums.accumulate(one);
          sums.store(col + j, one);
          chosen[i] |= filter.probe(Single<Bits>{one.self.at[0]}) << j;
        }
      }
      if (!has_bound) continue;
      for (uint32_t rest = chosen[i]; rest != 0; rest &= rest - 1) {
        const int j = __ffs(static_cast<int>(rest)) - 1;
        if (!bound.is_reached(*sums.self(col + j), col + j)) chosen[i] &= ~(1u << j);
      }
    }
    load_turn(begin + kInFlight * 32 * kWidth);  // on its way while these are staged
    // A count of each vector, all added up at once.
    Counts own = 0;
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) own |= static_cast<Counts>(__popc(chosen[i])) << (i * kField);
    if (!__any_sync(~0u, own != 0)) continue;
    Counts so_far = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const Counts other = __shfl_up_sync(~0u, so_far, step);
      if (lane >= step) so_far += other;
    }
    const Counts before = so_far - own, all = __shfl_sync(~0u, so_far, 31);
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      int place = count + static_cast<int>(before >> (i * kField) & kMask);
      for (uint32_t rest = chosen[i]; rest != 0; rest &= rest - 1) {
        staged[place++] = static_cast<uint16_t>(offset(begin, i) + __ffs(static_cast<int>(rest)) - 1);
      }
      count += static_cast<int>(all >> (i * kField) & kMask);
    }
  }
  return count;
}

template <class Self, class Add, bool kMomentum, class Order>
__global__ void __launch_bounds__(kPassThreads, tuning::kStoreBlocksPerSm)
    accumulate_and_store(RadixPasses<typename Self::Bits, Index> params, Sum<Self, Add> sum, Spans spans,
                         Order order) {
  using Bits = typename Self::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Rows = RowSum<Self, Add, kMomentum>;
  constexpr int kWarps = kPassThreads / 32;
  constexpr int kInFlight = tuning::store_in_flight(kMomentum);
  static_assert(kWarps * tuning::kMostChunk * sizeof(uint16_t) <= kStageBytes);
  unsigned char* const dynamic = dynamic_shared();
  __shared__ CandidateRange<Word, Index> range;

  const int64_t row = blockIdx.x / spans.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x % spans.blocks_per_row);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  auto& state = params.states[row];
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic);
  clear_histogram(histogram, (1 << tuning::kStoredCountBits) + 1);
  follow_kernel_before();
  const RowBound<Order> bound(order, state.bound, static_cast<Index>(params.cols - 1));
  if (threadIdx.x == 0) {
    range = range.of(params, bound.bound, static_cast<Word>(state.greatest), tuning::kSampleSpareBits);
  }
  __syncthreads();  // the range is known, and no bin is yet to be cleared
  const BoundedBuffer<Bits, Index> store{params.buffer(0, row), params.buffer_capacity[0]};
  const Rows sums(sum, row);

  BoundFilter<Order> filter(order);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  uint16_t* const staged =
      reinterpret_cast<uint16_t*>(dynamic + kCountBytes<Index>) + warp * tuning::kMostChunk;
  for (int64_t chunk = part * kWarps + warp; chunk < spans.chunks;
       chunk += int64_t{spans.blocks_per_row} * kWarps) {
    const int64_t first = chunk * spans.chunk;
    filter.raise(bound.bound.key, first > bound.index);
    const int count = accumulate_chunk<kInFlight>(sums, bound, filter, first, spans.chunk, staged);
    unsigned long long place = 0;
    if (lane == 0) {
      if (count > 0) place = atomicAdd(spans.reaching + row, static_cast<unsigned long long>(count));
      spans.places[row * spans.chunks + chunk] = {static_cast<uint32_t>(place), static_cast<uint32_t>(count)};
    }
    if (count == 0) continue;
    __syncwarp();  // all are staged, and what they are is written
    place = __shfl_sync(~0u, place, 0);
    for (int i = lane; i < count; i += 32) {
      const int64_t col = first + staged[i];
      const Bits bits = *sums.self(col);
      atomicAdd(histogram + range.bin(bound.extended(bits, col)), 1u);
      store.write(static_cast<int64_t>(place) + i, bits, static_cast<Index>(col));
    }
    __syncwarp();  // nobody reads what the next chunk stages over
  }
  add_counts(params, row, histogram, range.bins());
  if (!is_last_block(&state.arrived, spans.blocks_per_row)) return;
  if (threadIdx.x == 0) state.buffered = __ldcg(spans.reaching + row);
  __syncthreads();  // the number of candidates is there
  select_stored(params, order, row, range, dynamic);
}

// ---- 4. and 5. Winners in order of index ----

// A warp's chunks of a span, [begin, end), and their elements, [first, last).
struct WarpShare {
  int64_t begin, end;
  int64_t first, last;

  __device__ WarpShare(const Spans& spans, int64_t span, int64_t cols) {
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
__device__ __forceinline__ void visit_share(const RadixPasses<Bits, Index>& params, const Spans& spans,
                                            int64_t row, const WarpShare& share, Visit&& visit) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (!spans.are_stored(row, params.k, params.buffer_capacity[0])) {
    for (int64_t base = share.first; base < share.last; base += 32) {
      const bool there = base + lane < share.last;
      const int64_t col = base + lane;
      visit(there ? params.input[row * params.row_stride + col] : Bits{}, static_cast<Index>(col), there);
    }
    return;
  }
  const CandidateBuffer<Bits, Index> buffer = params.buffer(0, row);
  for (int64_t begin = share.begin; begin < share.end; begin += 32) {
    // A lane has a chunk's place; candidates of all of them are numbered one behind the other.
    const Place place =
        begin + lane < share.end ? spans.places[row * spans.chunks + begin + lane] : Place{0, 0};
    const int end = sum_so_far(static_cast<int>(place.count));
    const uint32_t first = place.first - static_cast<uint32_t>(end - static_cast<int>(place.count));
    const int count = __shfl_sync(~0u, end, 31);
    for (int base = 0; base < count; base += 32) {
      int chunk = 0;  // the first that ends behind this lane's candidate
#pragma unroll
      for (int step = 16; step > 0; step /= 2) {
        if (__shfl_sync(~0u, end, chunk + step - 1) <= base + lane) chunk += step;
      }
      const bool there = base + lane < count;
      const uint32_t at = __shfl_sync(~0u, first, chunk) + static_cast<uint32_t>(base + lane);
      visit(there ? buffer.values[at] : Bits{}, there ? buffer.indices[at] : Index{}, there);
    }
  }
}

template <class Order>
__global__ void __launch_bounds__(kSpanThreads)
    count_winners(RadixPasses<typename Order::Bits, Index> params, Spans spans, Order order) {
  using Bits = typename Order::Bits;
  __shared__ uint32_t of_warps[tuning::kSpanWarps];
  __shared__ unsigned long long least_of_warps[tuning::kSpanWarps];
  const int64_t row = blockIdx.x / spans.per_row, span = blockIdx.x % spans.per_row;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  follow_kernel_before();
  const RowBound<Order> bound(order, params.states[row].bound, static_cast<Index>(params.cols - 1));
  uint32_t count = 0;
  uint64_t least = ~uint64_t{0};
  visit_share(params, spans, row, WarpShare(spans, span, params.cols),
              [&](Bits bits, Index index, bool there) {
                if (!there || !bound.is_reached(bits, index)) return;
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
  if (all > 0) atomicMax(spans.least + row, ~least_of_all);
}

// Winners of the row before this warp's. By all threads of a block.
__device__ inline int64_t winners_before(const Spans& spans, int64_t row, int64_t span, uint64_t* of_block) {
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

template <class Order>
__global__ void __launch_bounds__(kSpanThreads)
    write_winners(RadixPasses<typename Order::Bits, Index> params, Spans spans,
                  Winners<typename Order::Bits> winners, Order order) {
  using Bits = typename Order::Bits;
  __shared__ uint64_t of_block;
  const int64_t row = blockIdx.x / spans.per_row, span = blockIdx.x % spans.per_row;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  follow_kernel_before();
  const RowBound<Order> bound(order, params.states[row].bound, static_cast<Index>(params.cols - 1));
  const WarpShare share(spans, span, params.cols);
  int64_t place = row * winners.k + winners_before(spans, row, span, &of_block);
  visit_share(params, spans, row, share, [&](Bits bits, Index index, bool there) {
    const bool wins = there && bound.is_reached(bits, index);
    const unsigned all = __ballot_sync(~0u, wins);
    if (wins) {
      const int64_t at = place + __popc(all & ((1u << lane) - 1));
      winners.values[at] = bits;
      winners.write_index(at, index);
      winners.clear(row, index);
    }
    place += __popc(all);
  });
  const uint64_t infinity = order(order.max_magnitude);
  if (~spans.least[row] < infinity) return;
  for (int64_t col = share.first + lane; col < share.last; col += 32) {
    if (order(winners.self[row * winners.self_stride + col]) >= infinity) winners.clear(row, col);
  }
}

// ---- Launch ----

template <class Bits>
struct Memory {
  size_t zeroed_bytes;
  size_t bytes;

  Memory(const OneRead& config, const SparsifyProblem& problem, void* base, RadixPasses<Bits, Index>& params,
         Sample<Bits, Index>& sample, Spans& spans) {
    params.digit_bits = config.digit_bits;
    params.buffer_capacity[0] = config.buffer;
    params.buffer_capacity[1] = config.buffer / 2;  // a pass stores at most half of what it reads
    sample.set(config, problem.cols);
    spans.blocks_per_row = config.store_blocks_per_row;
    spans.chunk = config.chunk;
    spans.chunks = (problem.cols + config.chunk - 1) / config.chunk;
    spans.chunks_per_warp = config.chunks_per_warp;
    spans.per_row = config.spans;
    const int64_t all_spans = problem.rows * spans.per_row;
    Workspace workspace(base);
    params.carve_zeroed(workspace, problem.rows);
    spans.reaching = workspace.take<unsigned long long>(problem.rows);
    spans.least = workspace.take<unsigned long long>(problem.rows);
    zeroed_bytes = workspace.bytes();
    params.carve_rest(workspace, problem.rows);
    sample.list = workspace.take<Extended<Bits>>(problem.rows * sample.delegates);
    spans.places = workspace.take<Place>(problem.rows * spans.chunks);
    spans.of_warps = workspace.take<uint32_t>(all_spans * tuning::kSpanWarps);
    spans.of_spans = workspace.take<uint32_t>(all_spans);
    bytes = workspace.bytes();
  }
};

template <class Self, class Add, bool kMomentum>
cudaError_t launch(const OneRead& config, const SparsifyProblem& problem, const SparsifyBuffers& buffers,
                   cudaStream_t stream) {
  using Bits = typename Self::Bits;
  using Order = KeyOrder<Bits, true>;
  const Order order = make_key_order<Bits, true>(problem.dtype, /*largest=*/true, /*magnitude=*/true);
  RadixPasses<Bits, Index> params{};
  Sample<Bits, Index> sample{};
  Spans spans{};
  const Memory<Bits> memory(config, problem, buffers.workspace, params, sample, spans);
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
  const bool ahead = config.launches_ahead;
  const unsigned rows = static_cast<unsigned>(problem.rows);
  cudaError_t error = zero_workspace(buffers.workspace, memory.zeroed_bytes, ahead, stream);
  if (error != cudaSuccess) return error;

  static std::atomic<uint64_t> allowed_sample, allowed_store;
  const auto take_sample = sample_sums<Self, Add, kMomentum, Order>;
  error = allow_shared_memory(take_sample, sample.shared_bytes(), allowed_sample);
  if (error != cudaSuccess) return error;
  error = launch_kernel(ahead, take_sample, rows * config.sample_blocks_per_row, kPassThreads,
                        sample.shared_bytes(), stream, params, sample, sum, order);
  if (error != cudaSuccess) return error;

  const auto store = accumulate_and_store<Self, Add, kMomentum, Order>;
  error = allow_shared_memory(store, kStoreBytes<Index>, allowed_store);
  if (error != cudaSuccess) return error;
  error = launch_kernel(ahead, store, rows * config.store_blocks_per_row, kPassThreads, kStoreBytes<Index>,
                        stream, params, sum, spans, order);
  if (error != cudaSuccess) return error;
  error = launch_passes(params, order, problem.rows, /*first=*/1, ahead, stream);
  if (error != cudaSuccess) return error;

  const unsigned blocks = static_cast<unsigned>(problem.rows * spans.per_row);
  error = launch_kernel(ahead, count_winners<Order>, blocks, kSpanThreads, 0, stream, params, spans, order);
  if (error != cudaSuccess) return error;
  return launch_kernel(ahead, write_winners<Order>, blocks, kSpanThreads, 0, stream, params, spans,
                       winners_of<Bits>(problem, buffers), order);
}

}  // namespace

size_t OneRead::workspace_bytes(const SparsifyProblem& problem) const {
  return visit_sum(problem, [&](auto self, auto) {
    using Bits = typename decltype(self)::Bits;
    RadixPasses<Bits, Index> params{};
    Sample<Bits, Index> sample{};
    Spans spans{};
    return Memory<Bits>(*this, problem, nullptr, params, sample, spans).bytes;
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
