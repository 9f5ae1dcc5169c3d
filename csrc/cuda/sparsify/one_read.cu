// A sparsification that reads what it accumulates once: the bound is known before the accumulation, and what
// reaches it is stored meanwhile.
//
//   1. sample_sums: of a sample of each row, summed but not stored, one delegate is the bound, as in
//      delegate/from_sample.cu: all but surely k of the row's elements reach it, and few more.
//   2. accumulate_and_store: warps take a row chunk by chunk. A chunk's elements that reach the bound, the
//      candidates, are stored together, in order of index, and its place in the store is written down.
//   3. The row's last block, or radix passes, select from the candidates. What is wanted is the bound that
//      winners reach and no others; that they are also written, in any order, is of no use.
//   4. count_winners: how many each span of chunks has.
//   5. write_winners: they go behind those of all spans before, in order of index, and zeros in their places.
//      Where none of a row's is finite, all else that is not becomes zero too.
// Where fewer than k elements reached the bound, or more than were stored, 3 to 5 read the row instead.

#include <algorithm>
#include <atomic>

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
constexpr int kChunk = tuning::kChunkElements;
constexpr int kSpanThreads = 32 * tuning::kSpanWarps;
static_assert(kChunk == 32 * 64, "a lane's elements of a chunk are the bits of a word");

template <class Bits>
using Extended = ExtendedKey<typename KeyWord<Bits>::type, Index>;

// Where a chunk's candidates are in the row's store.
struct Place {
  uint32_t first, count;
};

struct Spans {
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
                bool lines, Sum<Self, Add> sum, Order order) {
  using Bits = typename Self::Bits;
  using Rows = RowSum<Self, Add, kMomentum>;
  let_next_kernel_start();
  const int64_t row = blockIdx.x / sample.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x % sample.blocks_per_row);
  const Rows sums(sum, row);
  const Index last_index = static_cast<Index>(params.cols - 1);
  Extended<Bits> best;
  if (lines) {
    best = best_of_lines(sample, part, /*head=*/0, last_index, order, [&](int64_t vector) {
      typename Rows::template Loaded<Rows::kWidth> x;
      sums.load(vector * Rows::kWidth, x);
      sums.accumulate(x);
      return cuda::Vector<Bits>{*reinterpret_cast<const uint4*>(x.self.at)};
    });
  } else {
    const uint32_t thread = static_cast<uint32_t>(part) * kPassThreads + threadIdx.x;
    const int64_t col = sample.strata.entry_of(thread);
    typename Rows::template Loaded<1> x;
    sums.load(col, x);
    sums.accumulate(x);
    best = {order(x.self.at[0]), static_cast<Index>(last_index - static_cast<Index>(col))};
  }
  find_bound(params, sample, row, part, best, dynamic_shared());
}

// ---- 2. Accumulate and store ----

// Accumulates a lane's elements of a chunk, kInFlight vectors at a time, each 32 * kWidth elements behind the
// one before; is a bit for each that `filter` lets through.
template <int kInFlight, class Rows, class Filter>
__device__ __forceinline__ uint64_t accumulate_chunk(const Rows& sums, const Filter& filter, int64_t first) {
  constexpr int kWidth = Rows::kWidth, kVectors = 64 / kWidth;
  const int64_t cols = sums.sum.cols;
  first += static_cast<int64_t>(threadIdx.x % 32) * kWidth;
  uint64_t chosen = 0;
#pragma unroll 1
  for (int v = 0; v < kVectors; v += kInFlight) {
    typename Rows::template Loaded<kWidth> x[kInFlight];
    uint32_t of_turn = 0;
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int64_t col = first + (v + i) * (32 * kWidth);
      if (col + kWidth <= cols) sums.load(col, x[i]);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int64_t col = first + (v + i) * (32 * kWidth);
      if (col + kWidth <= cols) {
        sums.accumulate(x[i]);
        sums.store(col, x[i]);
        const cuda::Vector<typename Rows::Bits> elements{*reinterpret_cast<const uint4*>(x[i].self.at)};
        of_turn |= filter.probe(elements) << (i * kWidth);
        continue;
      }
      for (int j = 0; col + j < cols; ++j) {
        typename Rows::template Loaded<1> one;
        sums.load(col + j, one);
        sums.accumulate(one);
        sums.store(col + j, one);
        of_turn |= filter.probe(Single<typename Rows::Bits>{one.self.at[0]}) << (i * kWidth + j);
      }
    }
    chosen |= static_cast<uint64_t>(of_turn) << (v * kWidth);
  }
  return chosen;
}

// Calls visit(col) for a lane's chosen elements of a chunk, and visit(place, col) with the places that they
// have in order of index among those of the warp. By whole warps.
template <int kWidth, class Visit>
__device__ __forceinline__ void visit_in_order(uint64_t chosen, int64_t first, Visit&& visit) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint64_t any = static_cast<uint64_t>(__reduce_or_sync(~0u, static_cast<uint32_t>(chosen >> 32))) << 32 |
                 __reduce_or_sync(~0u, static_cast<uint32_t>(chosen));
  uint32_t before = 0;
  while (any != 0) {
    const int vector = (__ffsll(static_cast<long long>(any)) - 1) / kWidth;
    const uint64_t bits_of_vector = ((uint64_t{1} << kWidth) - 1) << (vector * kWidth);
    any &= ~bits_of_vector;
    uint32_t own = static_cast<uint32_t>((chosen & bits_of_vector) >> (vector * kWidth));
    const int count = __popc(own), so_far = sum_so_far(count);
    uint32_t place = before + static_cast<uint32_t>(so_far - count);
    for (; own != 0; own &= own - 1) {
      visit(place++, first + (vector * 32 + lane) * kWidth + __ffs(static_cast<int>(own)) - 1);
    }
    before += static_cast<uint32_t>(__shfl_sync(~0u, so_far, 31));
  }
}

template <class Self, class Add, bool kMomentum, class Order>
__global__ void __launch_bounds__(kPassThreads, tuning::kPassBlocksPerSm)
    accumulate_and_store(RadixPasses<typename Self::Bits, Index> params, Sum<Self, Add> sum, Spans spans,
                         Order order) {
  using Bits = typename Self::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Rows = RowSum<Self, Add, kMomentum>;
  constexpr int kWidth = Rows::kWidth, kWarps = kPassThreads / 32;
  constexpr int kInFlight = kMomentum ? tuning::kMomentumInFlight : tuning::kSparsifyInFlight;
  unsigned char* const dynamic = dynamic_shared();
  __shared__ CandidateRange<Word, Index> range;

  const int64_t row = blockIdx.x / params.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x % params.blocks_per_row);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  auto& state = params.states[row];
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic);
  clear_histogram(histogram, (1 << tuning::kStoredCountBits) + 1);
  follow_kernel_before();
  const Extended<Bits> bound = state.bound;
  const Index last_index = static_cast<Index>(params.cols - 1);
  if (threadIdx.x == 0) {
    range = range.of(params, bound, static_cast<Word>(state.greatest), tuning::kSampleSpareBits);
  }
  __syncthreads();  // the range is known, and no bin is yet to be cleared
  const int64_t bound_index = static_cast<int64_t>(static_cast<Index>(last_index - bound.reversed));
  const BoundedBuffer<Bits, Index> store{params.buffer(0, row), params.buffer_capacity[0]};
  const Rows sums(sum, row);
  const auto extended = [&](Bits bits, int64_t col) {
    return Extended<Bits>{order(bits), static_cast<Index>(last_index - static_cast<Index>(col))};
  };

  BoundFilter<Order> filter(order);
  const int64_t warp = part * kWarps + static_cast<int>(threadIdx.x) / 32;
  for (int64_t chunk = warp; chunk < spans.chunks; chunk += int64_t{params.blocks_per_row} * kWarps) {
    const int64_t first = chunk * kChunk;
    filter.raise(bound.key, first > bound_index);
    uint64_t chosen = accumulate_chunk<kInFlight>(sums, filter, first);
    if (first <= bound_index && bound_index < first + kChunk) {
      // Behind the bound's own index, elements of its key do not reach it.
      for (uint64_t rest = chosen; rest != 0; rest &= rest - 1) {
        const int bit = __ffsll(static_cast<long long>(rest)) - 1;
        const int64_t col = first + (bit / kWidth * 32 + lane) * kWidth + bit % kWidth;
        if (extended(*sums.self(col), col) < bound) chosen &= ~(uint64_t{1} << bit);
      }
    }
    const uint32_t count = __reduce_add_sync(~0u, static_cast<unsigned>(__popcll(chosen)));
    unsigned long long place = 0;
    if (lane == 0) {
      if (count > 0) place = atomicAdd(spans.reaching + row, static_cast<unsigned long long>(count));
      spans.places[row * spans.chunks + chunk] = {static_cast<uint32_t>(place), count};
    }
    if (count == 0) continue;
    place = __shfl_sync(~0u, place, 0);
    visit_in_order<kWidth>(chosen, first, [&](uint32_t at, int64_t col) {
      const Bits bits = *sums.self(col);  // this lane's own, a moment ago
      atomicAdd(histogram + range.bin(extended(bits, col)), 1u);
      store.write(static_cast<int64_t>(place) + at, bits, static_cast<Index>(col));
    });
  }
  add_counts(params, row, histogram, range.bins());
  if (!is_last_block(&state.arrived, params.blocks_per_row)) return;
  if (threadIdx.x == 0) state.buffered = __ldcg(spans.reaching + row);
  __syncthreads();  // the number of candidates is there
  select_stored(params, order, row, range, dynamic);
}

// ---- 4. and 5. Winners in order of index ----

// A warp's chunks of a span, of which visit(bits, col, there) sees the candidates, or all elements where
// those are not stored, 32 at a time in order of index; then after(first) where a chunk is done.
template <class Bits, class Visit, class After>
__device__ __forceinline__ void visit_chunks(const RadixPasses<Bits, Index>& params, const Spans& spans,
                                             int64_t row, int64_t span, Visit&& visit, After&& after) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const bool stored = spans.are_stored(row, params.k, params.buffer_capacity[0]);
  const CandidateBuffer<Bits, Index> buffer = params.buffer(0, row);
  const int64_t begin = (span * tuning::kSpanWarps + warp) * spans.chunks_per_warp;
  const int64_t end = min(begin + spans.chunks_per_warp, spans.chunks);
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    const int64_t first = chunk * kChunk;
    if (stored) {
      const Place place = spans.places[row * spans.chunks + chunk];
      for (uint32_t base = 0; base < place.count; base += 32) {
        const bool there = base + lane < place.count;
        const uint32_t at = place.first + base + lane;
        visit(there ? buffer.values[at] : Bits{}, there ? buffer.indices[at] : Index{}, there);
      }
    } else {
      const int64_t count = min(params.cols - first, int64_t{kChunk});
      for (int64_t base = 0; base < count; base += 32) {
        const bool there = base + lane < count;
        const int64_t col = first + base + lane;
        visit(there ? params.input[row * params.row_stride + col] : Bits{}, static_cast<Index>(col), there);
      }
    }
    after(first);
  }
}

template <class Order>
struct WinsIn {
  const Order& order;
  Extended<typename Order::Bits> bound;
  Index last_index;

  __device__ bool operator()(typename Order::Bits bits, Index index) const {
    return !(Extended<typename Order::Bits>{order(bits), static_cast<Index>(last_index - index)} < bound);
  }
};

template <class Order>
__global__ void __launch_bounds__(kSpanThreads)
    count_winners(RadixPasses<typename Order::Bits, Index> params, Spans spans, Order order) {
  using Bits = typename Order::Bits;
  __shared__ uint32_t of_warps[tuning::kSpanWarps];
  __shared__ unsigned long long least_of_warps[tuning::kSpanWarps];
  const int64_t row = blockIdx.x / spans.per_row, span = blockIdx.x % spans.per_row;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  follow_kernel_before();
  const WinsIn<Order> wins{order, params.states[row].bound, static_cast<Index>(params.cols - 1)};
  uint32_t count = 0;
  uint64_t least = ~uint64_t{0};
  visit_chunks(
      params, spans, row, span,
      [&](Bits bits, Index index, bool there) {
        if (!there || !wins(bits, index)) return;
        ++count;
        least = min(least, uint64_t{order(bits)});
      },
      [](int64_t) {});
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
  const WinsIn<Order> is_winner{order, params.states[row].bound, static_cast<Index>(params.cols - 1)};
  const uint64_t infinity = order(order.max_magnitude);
  const bool drops = ~spans.least[row] >= infinity;
  int64_t place = row * winners.k + winners_before(spans, row, span, &of_block);
  visit_chunks(
      params, spans, row, span,
      [&](Bits bits, Index index, bool there) {
        const bool wins = there && is_winner(bits, index);
        const unsigned all = __ballot_sync(~0u, wins);
        if (wins) {
          const int64_t at = place + __popc(all & ((1u << lane) - 1));
          winners.values[at] = bits;
          winners.write_index(at, index);
          winners.clear(row, index);
        }
        place += __popc(all);
      },
      [&](int64_t first) {
        if (!drops) return;
        const int64_t end = min(first + kChunk, winners.cols);
        for (int64_t col = first + lane; col < end; col += 32) {
          if (order(winners.self[row * winners.self_stride + col]) >= infinity) winners.clear(row, col);
        }
      });
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
    sample.set(config.sample_blocks_per_row, config.delegates, config.rank);
    spans.chunks = (problem.cols + kChunk - 1) / kChunk;
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
  params.adaptive = params.early_stop = params.keeps_stored = true;
  params.likely_passes = config.likely_passes;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  const int64_t lines = int64_t{config.sample_blocks_per_row} * (kPassThreads / tuning::kSampleLineVectors) *
                        tuning::kSampleLines;
  sample.strata = config.of_lines
                      ? Strata::of((problem.cols / kPerVector<Bits> - 1) / tuning::kSampleLineVectors, lines)
                      : Strata::of(problem.cols, config.delegates);
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
                        sample.shared_bytes(), stream, params, sample, config.of_lines, sum, order);
  if (error != cudaSuccess) return error;

  const auto store = accumulate_and_store<Self, Add, kMomentum, Order>;
  error = allow_shared_memory(store, kStoreBytes<Index>, allowed_store);
  if (error != cudaSuccess) return error;
  error = launch_kernel(ahead, store, rows * config.blocks_per_row, kPassThreads, kStoreBytes<Index>, stream,
                        params, sum, spans, order);
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
  const auto bytes = [&](auto bits) {
    RadixPasses<decltype(bits), Index> params{};
    Sample<decltype(bits), Index> sample{};
    Spans spans{};
    return Memory<decltype(bits)>(*this, problem, nullptr, params, sample, spans).bytes;
  };
  switch (dtype_bytes(problem.dtype)) {
    case 2: return bytes(uint16_t{});
    case 4: return bytes(uint32_t{});
    default: return bytes(uint64_t{});
  }
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
