// Delegate top-k: Dr. Top-k, rebuilt for one read of a long row.
// Gaihre, Zheng, Weitze, Li, Song, Ding, Li, Liu: Dr. Top-k: Delegate-Centric Top-k on GPUs (SC '21).
//
//   1. Delegates (section 5): the row, but for its ragged ends, is cut into subranges of 2^alpha elements.
//      One read leaves each subrange's best beta keys, its delegates, best first, in an array in the order of
//      the row. The same pass counts the first digit of the delegates.
//   2. First selection: radix passes over that array find the k best delegates, and a bound that k of the
//      row's elements reach. A delegate's position stands for its element's index, so ties among delegates go
//      the way of ties in the row.
//   3. Candidates (section 4): a subrange with no delegate taken holds no winner (rule 1). One with all taken
//      is read again, for its elements that reach the bound (rule 2). With some taken, those are all that
//      it has to give (rule 3), and only the vectors of the lane that found the best are read, for its index.
//      The ragged ends' elements are candidates if they reach the bound.
//   4. Second selection, from the candidates, which were stored with their indices, and counted by a first
//      digit meanwhile: few by the row's last block, many by radix passes.
// Nothing is read by the host; the launches depend on sizes alone.
//
// A crowded bound costs nothing extra: all-equal rows have k delegates taken, the first ones, and only those
// subranges are read again. What is read again is at most k subranges, however the row is made. Should more
// candidates reach the bound than can be stored, step 4 selects from the row itself, by AIR's passes.
//
// Beyond the paper: exact for ties, NaN and every length; the first selection's first digit is counted by the
// pass that makes the delegates; short subranges are reduced by groups of lanes, straight from vector loads,
// instead of through shared memory. It loses to AIR where rows are short, or k near cols.

#include "cuda/delegate/delegate.h"

#include <atomic>

#include "core/key_order.h"
#include "cuda/delegate/numbers.h"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/numbers.h"
#include "cuda/device/radix_passes.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/stored_candidates.cuh"
#include "cuda/device/study.h"
#include "cuda/workspace.h"

namespace gputopk::cuda::delegate {
namespace {

using tuning::kPassThreads;
constexpr int kWarps = kPassThreads / 32;

// A warp reads units of so many vectors a lane.
constexpr int kUnitVectors = 8;
constexpr int kUnitShift = 8;  // log2 of the vectors of a unit
static_assert(1 << kUnitShift == 32 * kUnitVectors);

// In place of a lane's number: more than one lane holds the best key.
constexpr uint8_t kSeveralLanes = 0xFF;

template <class Bits>
struct Delegates {
  const Bits* input;
  int64_t row_stride;
  int64_t cols;
  int vectors_log2;    // of a subrange, in vectors
  uint32_t subranges;  // a row; the last may be empty, as it is counted with the ragged ends
  int blocks_per_row;

  // Workspace.
  Bits* keys;        // rows x subranges x beta
  uint8_t* lanes;    // rows x subranges: where the best key is, vectors of a subrange going to lanes in turn
  Bits* taken_keys;  // rows x k: the first selection's output,
  int32_t* taken;    // positions in `keys`
};

// The best keys that a lane, or a group of lanes, has seen of one subrange. Zero stands for none: it is the
// least key, and stands behind all elements of that key.
template <class Word, int kBeta>
struct Best {
  Word first = 0, second = 0;

  __device__ void see(Word key) {
    if constexpr (kBeta == 2) second = max(second, min(first, key));
    first = max(first, key);
  }
  __device__ void see(const Best& other) {
    if constexpr (kBeta == 2) second = max(min(first, other.first), max(second, other.second));
    first = max(first, other.first);
  }
};

// The lane among `holders` whose vectors hold the best key, or kSeveralLanes.
__device__ inline uint8_t only_lane(unsigned holders) {
  return __popc(holders) == 1 ? static_cast<uint8_t>(__ffs(static_cast<int>(holders)) - 1) : kSeveralLanes;
}

// The best of the whole warp, in all lanes. `lane`: of its first delegate.
template <class Word, int kBeta>
__device__ Best<Word, kBeta> best_of_warp(const Best<Word, kBeta>& own, uint8_t& lane) {
  Best<Word, kBeta> best;
  best.first = warp_max(own.first);
  if constexpr (kBeta == 2) {
    const unsigned holders = __ballot_sync(~0u, own.first == best.first);
    lane = only_lane(holders);
    // The lane that gives the first delegate has its next best left.
    const bool gives = static_cast<int>(threadIdx.x) % 32 == __ffs(static_cast<int>(holders)) - 1;
    best.second = warp_max(gives ? own.second : own.first);
  }
  return best;
}

// The same for groups of `lanes` adjacent lanes, a power of two.
template <class Word, int kBeta>
__device__ Best<Word, kBeta> best_of_group(const Best<Word, kBeta>& own, int lanes, uint8_t& lane) {
  Best<Word, kBeta> best = own;
  for (int step = 1; step < lanes; step *= 2) {
    Best<Word, kBeta> other;
    other.first = __shfl_xor_sync(~0u, best.first, step);
    if constexpr (kBeta == 2) other.second = __shfl_xor_sync(~0u, best.second, step);
    best.see(other);
  }
  if constexpr (kBeta == 2) {
    const int start = static_cast<int>(threadIdx.x) % 32 / lanes * lanes;
    const unsigned group = lanes < 32 ? (1u << lanes) - 1 : ~0u;
    lane = only_lane(__ballot_sync(~0u, own.first == best.first) >> start & group);
  }
  return best;
}

// Where a block's threads write delegates of a row, and count their digits.
template <class Bits, int kBeta>
class DelegateWriter {
 public:
  using Word = typename KeyWord<Bits>::type;

  __device__ DelegateWriter(const Delegates<Bits>& params, int64_t row, Digit digit, uint32_t* histogram)
      : params_(params),
        keys_(params.keys + row * params.subranges * kBeta),
        lanes_(params.lanes + row * params.subranges),
        digit_(digit),
        histogram_(histogram) {}

  // `of_lane`: best_of_warp's, or best_of_group's.
  __device__ void operator()(int64_t subrange, const Best<Word, kBeta>& best, uint8_t of_lane) {
    if (subrange >= params_.subranges) return;
    greatest_ = max(greatest_, best.first);
    const uint32_t position = static_cast<uint32_t>(subrange) * kBeta;
    write(position, best.first);
    if constexpr (kBeta == 2) {
      write(position + 1, best.second);
      lanes_[subrange] = of_lane;
    }
  }

  // Of the keys that this thread has written.
  __device__ Word greatest() const { return greatest_; }

 private:
  __device__ void write(uint32_t position, Word key) {
    keys_[position] = static_cast<Bits>(key);
    atomicAdd(histogram_ + digit_.of(key, params_.subranges * kBeta - 1 - position), 1u);
  }

  const Delegates<Bits>& params_;
  Bits* keys_;
  uint8_t* lanes_;
  Digit digit_;
  uint32_t* histogram_;
  Word greatest_ = 0;
};

// A warp reads a unit, its vector number `begin` first, into `best`. After each of the unit's vectors a lane,
// calls each_vector(v, best), which may take what is there.
template <int kBeta, class Order, class Bits, class Word, class EachVector>
__device__ __forceinline__ void read_unit(const uint4* vectors, const RowShape<Bits>& shape, int64_t begin,
                                          const Order& order, Best<Word, kBeta>& best,
                                          EachVector&& each_vector) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int here = static_cast<int>(min(max(shape.vectors - begin, int64_t{0}), int64_t{1} << kUnitShift));
  Vector<Bits> loaded[kUnitVectors];
#pragma unroll
  for (int v = 0; v < kUnitVectors; ++v) {
    if (v * 32 + lane < here) loaded[v] = {__ldcs(vectors + begin + v * 32 + lane)};
  }
#pragma unroll
  for (int v = 0; v < kUnitVectors; ++v) {
    if (v * 32 + lane < here) {
#pragma unroll
      for (int i = 0; i < kPerVector<Bits>; ++i) best.see(order(loaded[v][i]));
    }
    each_vector(v, best);
  }
}

// A block's warps read all subranges that are its part of a row's, and write the best of each. A warp takes
// spans: a subrange of one unit or more, or a unit of several subranges.
template <int kBeta, class Order, class Bits>
__device__ __forceinline__ void read_spans(const Delegates<Bits>& params, const RowShape<Bits>& shape,
                                           const uint4* vectors, int part, const Order& order,
                                           DelegateWriter<Bits, kBeta>& write) {
  using Word = typename KeyWord<Bits>::type;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int vectors_log2 = params.vectors_log2;
  const bool long_subranges = vectors_log2 >= kUnitShift;
  const int units = long_subranges ? 1 << (vectors_log2 - kUnitShift) : 1;
  const int64_t subranges_per_span = long_subranges ? 1 : 1 << (kUnitShift - vectors_log2);
  const int64_t spans = (params.subranges + subranges_per_span - 1) / subranges_per_span;
  const int64_t warps = static_cast<int64_t>(params.blocks_per_row) * kWarps;
  for (int64_t span = static_cast<int64_t>(part) * kWarps + warp; span < spans; span += warps) {
    Best<Word, kBeta> best;
    Best<Word, kBeta> kept;  // of the unit's subrange number `lane`, where lanes share subranges
    uint8_t kept_lane = 0;
    for (int unit = 0; unit < units; ++unit) {
      const int64_t begin = (span * units + unit) << kUnitShift;
      read_unit(vectors, shape, begin, order, best, [&](int v, Best<Word, kBeta>& so_far) {
        if (vectors_log2 < 5) {
          uint8_t of_lane = 0;
          const Best<Word, kBeta> of_group = best_of_group(so_far, 1 << vectors_log2, of_lane);
          if ((lane & ((1 << vectors_log2) - 1)) == 0) {
            write((begin + v * 32 + lane) >> vectors_log2, of_group, of_lane);
          }
          so_far = {};
        } else if (!long_subranges && ((v + 1) & ((1 << (vectors_log2 - 5)) - 1)) == 0) {
          uint8_t of_lane = 0;
          const Best<Word, kBeta> of_warp = best_of_warp(so_far, of_lane);
          if (lane == v >> (vectors_log2 - 5)) {
            kept = of_warp;
            kept_lane = of_lane;
          }
          so_far = {};
        }
      });
    }
    if (long_subranges) {
      kept = best_of_warp(best, kept_lane);
      if (lane == 0) write(span, kept, kept_lane);
    } else if (vectors_log2 >= 5 && lane < subranges_per_span) {
      write(span * subranges_per_span + lane, kept, kept_lane);
    }
  }
}

// Step 1.
template <class Order, int kBeta>
__global__ void __launch_bounds__(kPassThreads, tuning::kPassBlocksPerSm)
    make_delegates(Delegates<typename Order::Bits> params, RadixPasses<typename Order::Bits, uint32_t> first,
                   Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  unsigned char* const dynamic = dynamic_shared();
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic);
  __shared__ TargetDigitScratch<uint32_t> scratch;
  __shared__ Word greatest_of_warp[kWarps];

  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t row = blockIdx.x / params.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x % params.blocks_per_row);
  const Digit digit = digit_of_pass(1, first.digit_bits, Order::kBits, first.index_bits);
  let_next_kernel_start();
  clear_histogram(histogram, 1 << digit.width());
  __syncthreads();

  const Bits* const input = params.input + row * params.row_stride;
  const RowShape<Bits> shape(input, params.cols);
  DelegateWriter<Bits, kBeta> write(params, row, digit, histogram);
  read_spans(params, shape, reinterpret_cast<const uint4*>(input + shape.head), part, order, write);

  const Word greatest = warp_max(write.greatest());
  if (lane == 0) greatest_of_warp[warp] = greatest;
  wait_for_kernel_before();  // the row's histogram and state are zero
  uint32_t* const row_histogram = first.histogram + (row << first.digit_bits);
  add_up(histogram, row_histogram, 1 << digit.width());  // begins with a barrier
  auto& state = first.states[row];
  if (warp == 0) {
    const Word of_block = warp_max(lane < kWarps ? greatest_of_warp[lane] : Word{0});
    if (lane == 0) atomicMax(&state.greatest, static_cast<unsigned long long>(of_block));
  }
  if (is_last_block(&state.arrived, params.blocks_per_row)) {
    choose(first, 1, row, Selection<Word, uint32_t>::whole_row(first.k, first.cols), row_histogram, histogram,
           scratch, state);
  }
}

// The subranges of a row whose delegates were taken.
template <class Bits, int kBeta>
struct TakenSubranges {
  using Bound = ExtendedKey<typename KeyWord<Bits>::type, uint32_t>;

  const Bits* keys;
  const uint8_t* lanes;
  const int32_t* taken;
  Bound bound;  // of delegates
  uint32_t last_position;
  int vectors_log2;
  int64_t vectors;  // of the row

  // Whether their vector number i, of all of them, is to be read, and which of the row's it is.
  __device__ bool is_read(int64_t i, int64_t& at) const {
    const uint32_t position = static_cast<uint32_t>(taken[i >> vectors_log2]);
    const int offset = static_cast<int>(i & ((int64_t{1} << vectors_log2) - 1));
    at = (static_cast<int64_t>(position / kBeta) << vectors_log2) + offset;
    return at < vectors && is_read_for(position, offset);
  }

 private:
  // The subrange's vector number `offset`, for the delegate at `position`.
  __device__ bool is_read_for(uint32_t position, int offset) const {
    if constexpr (kBeta == 1) return true;
    if (position % 2 == 1) return true;
    const Bound second{keys[position + 1], last_position - (position + 1)};
    if (!(second < bound)) return false;  // it was taken too, and is in the list
    const uint8_t of_lane = lanes[position / 2];
    return of_lane == kSeveralLanes || offset % 32 == of_lane;
  }
};

// Calls push(is_chosen, bits, index) by whole warps for each element with a bit, of vectors number `at` of
// the row.
template <class Bits, int kVectors, class Push>
__device__ __forceinline__ void push_chosen(uint32_t chosen, const Vector<Bits> (&loaded)[kVectors],
                                            const int64_t (&at)[kVectors], int64_t head, Push&& push) {
  constexpr int kElements = kPerVector<Bits>;
  while (__any_sync(~0u, chosen != 0)) {
    const int bit = chosen != 0 ? __ffs(static_cast<int>(chosen)) - 1 : 0;
    int64_t vector = at[0];
#pragma unroll
    for (int v = 1; v < kVectors; ++v) {
      if (bit / kElements == v) vector = at[v];
    }
    push(chosen != 0, element_of(loaded, bit), head + vector * kElements + bit % kElements);
    chosen &= chosen - 1;
  }
}

// Step 3: the threads of a row's blocks go through the vectors of the subranges whose delegates were taken.
template <class Order, class Index, int kBeta>
__global__ void __launch_bounds__(kPassThreads, tuning::kPassBlocksPerSm)
    store_candidates(Delegates<typename Order::Bits> params,
                     RadixPasses<typename Order::Bits, uint32_t> first,
                     RadixPasses<typename Order::Bits, Index> second, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  using Store = CandidateStore<Bits, Index>;
  constexpr int kVectors = kUnroll<Bits>;
  constexpr int kStaged = kStagedCandidates<Bits, Index>;
  unsigned char* const dynamic = dynamic_shared();

  const int64_t row = blockIdx.x / second.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x % second.blocks_per_row);
  const Bits* const input = params.input + row * params.row_stride;
  const RowShape<Bits> shape(input, params.cols);
  const uint4* const vectors = reinterpret_cast<const uint4*>(input + shape.head);
  auto& state = second.states[row];
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic);
  unsigned char* const stages = dynamic + kCountBytes<Index>;
  Store candidates(stages + threadIdx.x / 32 * Store::bytes(kStaged), kStaged,
                   BoundedBuffer<Bits, Index>{second.buffer(0, row), second.buffer_capacity[0]},
                   &state.buffered);
  clear_histogram(histogram, (1 << tuning::kStoredCountBits) + 1);
  follow_kernel_before();

  const ExtendedKey<Word, uint32_t> bound = first.states[row].bound;
  const Index last_index = static_cast<Index>(params.cols - 1);
  const auto range = CandidateRange<Word, Index>::of(
      second, {bound.key, 0}, static_cast<Word>(first.states[row].greatest), /*spare_bits=*/0);
  __syncthreads();  // no bin is yet to be cleared
  const auto push = [&](bool reaches, Bits bits, int64_t index) {
    const Extended x{order(bits), static_cast<Index>(last_index - static_cast<Index>(index))};
    if (reaches) atomicAdd(histogram + range.bin(x), 1u);
    candidates.push(reaches, bits, static_cast<Index>(index));
  };
  const TakenSubranges<Bits, kBeta> subranges{params.keys + row * params.subranges * kBeta,
                                              params.lanes + row * params.subranges,
                                              params.taken + row * first.k,
                                              bound,
                                              params.subranges * kBeta - 1,
                                              params.vectors_log2,
                                              shape.vectors};

  const int64_t work = first.k << params.vectors_log2;
  const int64_t stride = static_cast<int64_t>(second.blocks_per_row) * kPassThreads * kVectors;
  for (int64_t base = static_cast<int64_t>(part) * kPassThreads * kVectors; base < work; base += stride) {
    Vector<Bits> loaded[kVectors] = {};
    int64_t at[kVectors] = {};
    bool reads[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t i = base + v * kPassThreads + threadIdx.x;
      reads[v] = i < work && subranges.is_read(i, at[v]);
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (reads[v]) loaded[v] = {__ldcs(vectors + at[v])};
    }
    uint32_t chosen = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int i = 0; i < kPerVector<Bits>; ++i) {
        if (reads[v] && order(loaded[v][i]) >= bound.key) chosen |= 1u << (v * kPerVector<Bits> + i);
      }
    }
    push_chosen(chosen, loaded, at, shape.head, push);
  }
  if (part == 0 && threadIdx.x < 32) {
    visit_ends(
        input, shape, params.cols - shape.tail,
        [&](const auto& end, int64_t, bool valid) { return valid && order(end[0]) >= bound.key; },
        [&](Bits bits, int64_t index, bool reaches) { push(reaches, bits, index); });
  }
  finish_store(second, row, candidates, histogram, range.bins());
  if (is_last_block(&state.arrived, second.blocks_per_row)) {
    select_stored(second, order, row, range, dynamic);
  }
}

// Everything that the steps are told, and the memory they share.
template <class Bits, class Index>
struct Steps {
  Delegates<Bits> delegates{};
  RadixPasses<Bits, uint32_t> first{};
  RadixPasses<Bits, Index> second{};
  size_t zeroed_bytes;
  size_t bytes;

  Steps(const FromMaxima& config, const Problem& problem, void* base) {
    const int64_t subranges = (problem.cols + (int64_t{1} << config.alpha) - 1) >> config.alpha;
    const int64_t positions = subranges * config.beta;
    first.cols = first.row_stride = positions;
    first.k = second.k = problem.k;
    first.index_bits = bit_width(static_cast<uint64_t>(positions - 1));
    first.digit_bits = config.first_digit_bits;
    first.blocks_per_row = config.first_blocks_per_row;
    first.buffer_capacity[0] = first.buffer_capacity[1] = config.first_buffer;
    first.adaptive = first.early_stop = true;
    first.likely_passes = tuning::kLikelyPasses;

    second.row_stride = problem.row_stride;
    second.cols = problem.cols;
    second.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
    second.digit_bits = config.second_digit_bits;
    second.blocks_per_row = config.blocks_per_row;
    second.buffer_capacity[0] = config.second_buffer;
    second.buffer_capacity[1] = config.second_buffer / 2;  // a pass stores at most half of what it reads
    second.adaptive = second.early_stop = true;
    second.likely_passes = config.likely_passes;

    delegates.row_stride = problem.row_stride;
    delegates.cols = problem.cols;
    delegates.vectors_log2 = config.alpha - bit_width(kPerVector<Bits>) + 1;
    delegates.subranges = static_cast<uint32_t>(subranges);
    delegates.blocks_per_row = config.blocks_per_row;

    Workspace workspace(base);
    first.carve_zeroed(workspace, problem.rows);
    second.carve_zeroed(workspace, problem.rows);
    zeroed_bytes = workspace.bytes();
    delegates.keys = workspace.take<Bits>(problem.rows * positions);
    if (config.beta == 2) delegates.lanes = workspace.take<uint8_t>(problem.rows * subranges);
    delegates.taken_keys = workspace.take<Bits>(problem.rows * problem.k);
    delegates.taken = workspace.take<int32_t>(problem.rows * problem.k);
    first.carve_rest(workspace, problem.rows);
    second.carve_rest(workspace, problem.rows);
    bytes = workspace.bytes();
    first.input = delegates.keys;
    first.output = {delegates.taken_keys, delegates.taken, /*wide_indices=*/false};
  }
};

template <class Order, class Index, int kBeta>
cudaError_t launch(const FromMaxima& config, const Problem& problem, const Buffers& buffers, Order order,
                   cudaStream_t stream) {
  using Bits = typename Order::Bits;
  Steps<Bits, Index> steps(config, problem, buffers.workspace);
  steps.delegates.input = steps.second.input = static_cast<const Bits*>(buffers.input);
  steps.second.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};

  constexpr int64_t kMostBlocks = 0x7FFFFFFF;
  if (problem.rows > kMostBlocks / config.blocks_per_row) return cudaErrorInvalidConfiguration;
  const unsigned blocks = static_cast<unsigned>(problem.rows * config.blocks_per_row);

  cudaError_t error = zero_workspace(buffers.workspace, steps.zeroed_bytes, config.launches_ahead, stream);
  if (error != cudaSuccess) return error;
  const size_t histogram_bytes = sizeof(uint32_t) << config.first_digit_bits;
  static std::atomic<uint64_t> allowed;
  error = allow_shared_memory(make_delegates<Order, kBeta>, histogram_bytes, allowed);
  if (error != cudaSuccess) return error;
  error = launch_kernel(config.launches_ahead, make_delegates<Order, kBeta>, blocks, kPassThreads,
                        histogram_bytes, stream, steps.delegates, steps.first, order);
  if (error != cudaSuccess) return error;

  const auto by_key = make_key_order<Bits, false>(DType::kUInt8, /*largest=*/true, /*magnitude=*/false);
  error = launch_passes(steps.first, by_key, problem.rows, /*first=*/2, config.launches_ahead, stream);
  if (error != cudaSuccess) return error;

  static std::atomic<uint64_t> allowed_store;
  error = allow_shared_memory(store_candidates<Order, Index, kBeta>, kStoreBytes<Index>, allowed_store);
  if (error != cudaSuccess) return error;
  error = launch_kernel(config.launches_ahead, store_candidates<Order, Index, kBeta>, blocks, kPassThreads,
                        kStoreBytes<Index>, stream, steps.delegates, steps.first, steps.second, order);
  if (error != cudaSuccess) return error;
  return launch_passes(steps.second, order, problem.rows, /*first=*/1, config.launches_ahead, stream);
}

}  // namespace

size_t FromMaxima::workspace_bytes(const Problem& problem) const {
  return visit_key_order(problem.dtype, true, false, [&](auto order) {
    using Bits = typename decltype(order)::Bits;
    return visit_index(problem.cols, [&](auto index) {
      return Steps<Bits, decltype(index)>(*this, problem, nullptr).bytes;
    });
  });
}

ErrorCode FromMaxima::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Order = decltype(order);
    return visit_index(problem.cols, [&](auto index) {
      using Index = decltype(index);
      if constexpr (kStudy) {
        if (beta == 2) return launch<Order, Index, 2>(*this, problem, buffers, order, stream);
      }
      return launch<Order, Index, 1>(*this, problem, buffers, order, stream);
    });
  });
}

}  // namespace gputopk::cuda::delegate
