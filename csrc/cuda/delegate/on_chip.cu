// Delegate top-k on chip: one read of the row, and all else in a block's shared memory.
//
// A block takes rows one after the other. Chunks of them are copied into a ring of shared memory ahead of
// their use (device/row_ring.cuh), so that the memory stays at work while a row is finished. Of each row:
//   1. The first chunks, as many as the ring holds, which is all of a short row, are looked at for the best
//      element of each of many groups: the delegates. The k-th best of them is a bound that k elements reach.
//      It is an extended key (key, reversed index): where many delegates tie, ties are counted by index, so
//      that rows of one value, or of few, let in little more than k.
//   2. What reaches the bound is appended to a list of candidates.
//   3. Further chunks, in an order that is spread over the row, are passed through the same bound, which
//      rises with the k-th best of the candidates whenever these become many. A chunk of which more reaches
//      the bound than there is room for is still there: it gets a bound from its own delegates and is looked
//      at again, at last in parts that fit whatever they hold.
//   4. The list is put in order by one digit of its own range and ranks within its bins, and the k best are
//      written, coalesced.
// No row is read twice, no element that can win is lost, and what a hostile row costs is bounded.
//
// It loses where rows are fewer than the SMs and long, for each is bound to one SM, and where k is more than
// the list can hold.

#include <algorithm>
#include <atomic>

#include "core/key_order.h"
#include "cuda/delegate/delegate.h"
#include "cuda/delegate/numbers.h"
#include "cuda/device/candidate_list.cuh"
#include "cuda/device/group_maxima.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/row_ring.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/winner_writer.cuh"

namespace gputopk::cuda::delegate {
namespace {

using Index = ListIndex;

template <class Bits>
struct Params {
  ChunkedRows<Bits> rows;
  OnChip config;
  int k;
  int index_bits;
  bool in_order;
  WinnerWriter<Bits> output;
};

// What a warp looks at in one step: so many vectors a lane, each 32 behind the other.
template <class Bits>
constexpr int kLaneVectors = tuning::kOnChipLaneVectors;
template <class Bits>
constexpr int kTileVectors = 32 * kLaneVectors<Bits>;

template <class Order>
struct Shared {
  CandidateScratch<typename KeyWord<typename Order::Bits>::type> list;
  RingFiller filler;
  uint64_t copied[tuning::kOnChipMostStages];
};

// Dynamic shared memory, in this order: the ring's chunks; the histogram; the list; the delegates' keys, or
// the winners' places and what they are found with.
template <class Bits>
size_t shared_bytes(const OnChip& config) {
  return static_cast<size_t>(config.stages) * config.chunk_vectors * kVectorBytes +
         (sizeof(uint32_t) << config.digit_bits) + CandidateList<Bits>::bytes(config.capacity) +
         static_cast<size_t>(config.spare_bytes);
}

template <class Order>
struct FilterOf {
  using type = TileFilter<BoundFilter<Order>>;
};
template <>
struct FilterOf<KeyOrder<uint32_t, true>> {
  using type = FloatFilter<KeyOrder<uint32_t, true>>;
};

// One row's selection. All methods are called by all threads of the block, which know the same.
template <class Order>
class Selector {
 public:
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  static constexpr int kElements = kPerVector<Bits>;

  __device__ Selector(const Params<Bits>& params, const Order& order, const CandidateList<Bits>& list,
                      RowRing<Bits>& ring, unsigned char* spare)
      : params_(params), order_(order), list_(list), ring_(ring), spare_(spare), filter_(order) {}

  __device__ void select(int64_t row) {
    const Bits* const input = params_.rows.row(row);
    const RowShape<Bits> shape(input, params_.rows.cols);
    const uint32_t chunks = params_.rows.chunks;
    const int k = params_.k;
    read_ends(input, shape);
    entries_ = 0;
    bound_ = {0, 0};

    // Step 1; then steps 2 and 3, from the first chunk on again.
    raise_by_delegates(0, params_.config.window, shape);
    uint32_t chunk = 0;
    for (uint32_t visited = 1; visited <= chunks; ++visited, chunk = params_.rows.next(chunk)) {
      take_all(chunk, shape);
      ring_.release();
      if (visited < chunks && entries_ > params_.config.prune_at) prune(params_.config.slack);
    }

    // Step 4.
    uint16_t* const places = reinterpret_cast<uint16_t*>(spare_);
    list_.find_best(entries_, k, params_.in_order, places, places + params_.config.places);
    const WinnerWriter<Bits> output = params_.output.row(row, k);
    const Index last_index = static_cast<Index>(params_.rows.cols - 1);
    for (int i = static_cast<int>(threadIdx.x); i < k; i += static_cast<int>(blockDim.x)) {
      const int place = places[i];
      output.write(i, list_.values[place], static_cast<int64_t>(last_index - list_.reversed[place]));
    }
    __syncthreads();  // the next row's list replaces this one
  }

 private:
  using Filter = typename FilterOf<Order>::type;

  // Vectors [first, last) of a chunk. `reversed`: the reversed index of the chunk's first element.
  struct Part {
    const Bits* elements;
    uint32_t first, last;
    Index reversed;
  };

  // The chunk with that number, which is the ring's current one or so many ahead.
  __device__ Part part_of(uint32_t chunk, uint32_t ahead, const RowShape<Bits>& shape) const {
    const Index first =
        static_cast<Index>(shape.head) + static_cast<Index>(chunk) * params_.rows.chunk_vectors * kElements;
    return {ring_.wait(ahead), 0, params_.rows.vectors_of(chunk, shape),
            static_cast<Index>(params_.rows.cols - 1) - first};
  }

  // The ragged ends, fewer elements than a vector each: by one warp, and long before they are used.
  __device__ void read_ends(const Bits* input, const RowShape<Bits>& shape) {
    const int thread = static_cast<int>(threadIdx.x);
    const bool in_head = thread < 16;
    end_present_ = thread < 32 && (in_head ? thread < shape.head : thread - 16 < shape.tail);
    const int64_t at = in_head ? thread : params_.rows.cols - shape.tail + (thread - 16);
    end_reversed_ = static_cast<Index>(params_.rows.cols - 1 - at);
    end_ = end_present_ ? input[at] : Bits{};
  }

  // The bits of the elements of so many vectors.
  __device__ static uint32_t of_present(int vectors) {
    return vectors >= kLaneVectors<Bits> ? ~0u : (1u << (vectors * kElements)) - 1;
  }

  __device__ void raise(const Extended& bound) {
    if (bound_ < bound) bound_ = bound;
  }

  __device__ void prune(int slack) { raise(list_.prune(entries_, params_.k, slack)); }

  using Vectors = Vector<Bits>[kLaneVectors<Bits>];

  // Calls look(vectors, at, present) for each of the warp's tiles of a part: a lane's vectors, the first of
  // which is number `at` of the chunk, and how many of them there are. begin(tile) comes before, with the
  // tile's first vector.
  template <class Begin, class Look>
  __device__ static void visit_tiles(const Part& part, Begin&& begin, Look&& look) {
    constexpr int kVectors = kLaneVectors<Bits>;
    constexpr uint32_t kTile = kTileVectors<Bits>;
    const uint32_t lane = threadIdx.x % 32, step = blockDim.x / 32 * kTile;
    const uint4* const source = reinterpret_cast<const uint4*>(part.elements);
    uint32_t tile = part.first + threadIdx.x / 32 * kTile;
    for (; tile + kTile <= part.last; tile += step) {
      Vector<Bits> vectors[kVectors];
#pragma unroll
      for (int v = 0; v < kVectors; ++v) vectors[v].words = source[tile + lane + v * 32];
      begin(tile);
      look(vectors, tile + lane, kVectors);
    }
    if (tile >= part.last) return;
    Vector<Bits> vectors[kVectors];  // of the last tile, which is short
    int present = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      vectors[v].words = uint4{};
      if (tile + lane + v * 32 < part.last) {
        vectors[v].words = source[tile + lane + v * 32];
        ++present;
      }
    }
    begin(tile);
    look(vectors, tile + lane, present);
  }

  // Raises the bound to one that k elements of some chunks reach: `count` of them, from the ring's current
  // one on, which is number `chunk`.
  __device__ void raise_by_delegates(uint32_t chunk, uint32_t count, const RowShape<Bits>& shape) {
    auto& scratch = list_.scratch.list;
    Word* const delegates = reinterpret_cast<Word*>(spare_);
    const int threads = static_cast<int>(blockDim.x), total = params_.config.groups * threads;
    if (threadIdx.x == 0) scratch.range.reset();
    __syncthreads();  // and what was in `spare` has been read
    visit_maxima(order_, [&](auto maxima) { find_delegates(maxima, chunk, count, shape, delegates); });
    __syncthreads();  // the delegates are there, and their range

    // By their keys alone, as their indices are not known.
    auto selection =
        Selection<Word, Index>::whole_row(static_cast<uint64_t>(params_.k), static_cast<uint64_t>(total));
    selection.low.key = static_cast<Word>(scratch.range.least);
    const int key_bits = bits_of(static_cast<Word>(scratch.range.greatest - scratch.range.least));
    const uint64_t slack = static_cast<uint64_t>(params_.config.slack);
    for (int pass = 1; selection.candidates - selection.owed > slack; ++pass) {
      const Digit digit = digit_of_pass(pass, params_.config.delegate_digit_bits, key_bits, 0);
      if (digit.width() == 0) break;
      clear_histogram(list_.histogram, 1 << digit.width());
      __syncthreads();  // no thread counts into bins that another has yet to clear
      SeesNothing nothing;
      count_in_list(total, selection, digit, list_.histogram, nothing,
                    [&](int i) { return Extended{delegates[i], 0}; });
      __syncthreads();  // all have counted
      const TargetDigit<uint32_t> target =
          find_target_digit(list_.histogram, 1 << digit.width(), selection.owed, scratch.target);
      selection.narrow(digit, target.digit, target.above, target.count);
    }
    Extended bound{selection.low.key, 0};
    if (selection.candidates - selection.owed > slack) {
      // Key 0 may be that of a group without elements, unless every warp has a whole tile of the first chunk.
      const bool all_have = params_.rows.vectors_of(chunk, shape) >= kTileVectors<Bits> / 32 * blockDim.x;
      if (bound.key > 0 || all_have)
        bound.reversed = least_of_ties(bound.key, selection.owed, chunk, count, shape);
    }
    raise(bound);
  }

  // The best keys of the groups of all threads, of the elements of some chunks.
  template <class Maxima>
  __device__ void find_delegates(Maxima maxima, uint32_t chunk, uint32_t count, const RowShape<Bits>& shape,
                                 Word* delegates) {
    constexpr int kMost = kMostGroups<Bits>;
    const int groups = params_.config.groups;
    int seen_vectors = 0;
    for (uint32_t i = 0; i < count; ++i, chunk = params_.rows.next(chunk)) {
      visit_tiles(
          part_of(chunk, i, shape), [](uint32_t) {},
          [&](const Vectors& vectors, uint32_t, int present) {
#pragma unroll
            for (int v = 0; v < kLaneVectors<Bits>; ++v) {
              if (v < present) maxima.see(v % kGroupVectors, vectors[v]);
            }
            seen_vectors += present;
          });
    }
#pragma unroll
    for (int half = kMost / 2; half >= 1; half /= 2) {
      if (half < groups) break;
#pragma unroll
      for (int g = 0; g < half; ++g) maxima.merge(g, g + half);
    }
    SeenKeys<Word> seen;
#pragma unroll
    for (int g = 0; g < kMost; ++g) {
      if (g >= groups) break;
      const Word key = maxima.key(g, seen_vectors);
      seen.see(key);
      delegates[g * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)] = key;
    }
    list_.scratch.list.range.add(seen);
  }

  // A reversed index that `owed` of the chunks' elements with this key reach, and few more. There must be as
  // many.
  __device__ Index least_of_ties(Word key, uint64_t owed, uint32_t chunk, uint32_t count,
                                 const RowShape<Bits>& shape) {
    const int bits = min(params_.index_bits, params_.config.digit_bits), shift = params_.index_bits - bits;
    __syncthreads();  // the histogram has been read
    clear_histogram(list_.histogram, 1 << bits);
    __syncthreads();  // no thread counts into bins that another has yet to clear
    Filter from(order_), beyond(order_);
    from.raise(key, false);
    beyond.raise(key, true);
    for (uint32_t i = 0; i < count; ++i, chunk = params_.rows.next(chunk)) {
      const Part part = part_of(chunk, i, shape);
      visit_tiles(
          part, [](uint32_t) {},
          [&](const Vectors& vectors, uint32_t at, int present) {
            uint32_t ties = __popc(from.probe(vectors) & ~beyond.probe(vectors) & of_present(present));
            ties = __reduce_add_sync(~0u, ties);
            if (threadIdx.x % 32 != 0 || ties == 0) return;
            // All of the tile reach what its last element does.
            const Index last = min(at + kTileVectors<Bits>, part.last) * kElements - 1;
            atomicAdd(list_.histogram + ((part.reversed - last) >> shift), ties);
          });
    }
    __syncthreads();  // all have counted
    const TargetDigit<uint32_t> target =
        find_target_digit(list_.histogram, 1 << bits, owed, list_.scratch.list.target);
    return static_cast<Index>(target.digit) << shift;
  }

  // Appends what reaches the bound, as far as there is room. False if some did not fit.
  __device__ bool take(const Part& part, bool ends) {
    uint32_t* const added = list_.scratch.added + turn_;
    const uint32_t before = static_cast<uint32_t>(entries_);
    visit_tiles(
        part,
        // All of a tile lies behind the bound's index if its first element does.
        [&](uint32_t tile) { filter_.raise(bound_.key, part.reversed - tile * kElements < bound_.reversed); },
        [&](const Vectors& vectors, uint32_t at, int present) {
          uint32_t chosen = filter_.probe(vectors);
          if (present < kLaneVectors<Bits>) chosen &= of_present(present);
          if (!__any_sync(~0u, chosen != 0)) return;
          uint32_t place = before + CandidateList<Bits>::reserve(added, __popc(chosen));
          for (; chosen != 0; chosen &= chosen - 1, ++place) {
            const uint32_t bit = __ffs(static_cast<int>(chosen)) - 1;
            const uint32_t element = (at + bit / kElements * 32) * kElements + bit % kElements;
            const Bits bits = part.elements[element];
            list_.put(place, {static_cast<Word>(order_(bits)), part.reversed - element}, bits);
          }
        });
    if (ends && threadIdx.x < 32) {
      const Extended x{static_cast<Word>(order_(end_)), end_reversed_};
      const bool takes = end_present_ && !(x < bound_);
      const uint32_t place = before + CandidateList<Bits>::reserve(added, takes ? 1 : 0);
      if (takes) list_.put(place, x, end_);
    }
    __syncthreads();  // all have added
    const uint32_t reached = before + *added;
    // Three counters take turns: this one may still be read while the next is added to, and the last has been
    // read by all.
    turn_ = turn_ == 2 ? 0 : turn_ + 1;
    if (threadIdx.x == 0) list_.scratch.added[turn_ == 2 ? 0 : turn_ + 1] = 0;
    if (reached > static_cast<uint32_t>(list_.capacity)) return false;
    entries_ = static_cast<int>(reached);
    return true;
  }

  // The same of the ring's current chunk, which has that number, and with the first one of the row's ends:
  // with room made for all.
  __device__ void take_all(uint32_t chunk, const RowShape<Bits>& shape) {
    Part part = part_of(chunk, 0, shape);
    const uint32_t end = part.last;
    bool has_own_bound = false;
    for (;;) {
      if (take(part, chunk == 0 && part.first == 0)) {
        if (part.last == end) break;
        part.first = part.last;
      } else {
        if (entries_ > params_.k) prune(/*slack=*/0);
        if (!has_own_bound) {
          raise_by_delegates(chunk, 1, shape);
          has_own_bound = true;
          continue;
        }
      }
      // Beside k entries and the row's ends there is room for so many vectors, whatever they hold.
      part.last = min(part.first + params_.config.part_vectors, end);
    }
  }

  const Params<Bits>& params_;
  const Order& order_;
  const CandidateList<Bits>& list_;
  RowRing<Bits>& ring_;
  unsigned char* spare_;
  Filter filter_;
  Extended bound_{0, 0};
  int entries_ = 0;
  int turn_ = 0;  // the counter that is added to
  bool end_present_ = false;
  Bits end_{};
  Index end_reversed_ = 0;
};

template <class Order>
__global__ void __launch_bounds__(tuning::kOnChipMostThreads)
    select_rows(const __grid_constant__ Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  __shared__ Shared<Order> shared;
  const OnChip& config = params.config;
  unsigned char* const chunks = dynamic_shared();
  unsigned char* const histogram =
      chunks + static_cast<size_t>(config.stages) * config.chunk_vectors * kVectorBytes;
  unsigned char* const entries = histogram + (sizeof(uint32_t) << config.digit_bits);
  unsigned char* const spare = entries + CandidateList<Bits>::bytes(config.capacity);
  const CandidateList<Bits> list(entries, config.capacity, reinterpret_cast<uint32_t*>(histogram),
                                 config.digit_bits, params.index_bits, shared.list);
  RowRing<Bits> ring(params.rows, chunks, shared.copied, shared.filler, static_cast<uint32_t>(config.stages));
  Selector<Order> selector(params, order, list, ring, spare);
  if (threadIdx.x < 3) shared.list.added[threadIdx.x] = 0;
  ring.start();  // with a barrier
  for (int64_t row = blockIdx.x; row < params.rows.rows; row += gridDim.x) selector.select(row);
}

template <class Order>
cudaError_t launch(const OnChip& config, const Problem& problem, const Buffers& buffers, Order order,
                   cudaStream_t stream) {
  using Bits = typename Order::Bits;
  Params<Bits> params{};
  params.config = config;
  params.rows.input = static_cast<const Bits*>(buffers.input);
  params.rows.rows = problem.rows;
  params.rows.row_stride = problem.row_stride;
  params.rows.cols = problem.cols;
  params.rows.chunk_vectors = static_cast<uint32_t>(config.chunk_vectors);
  params.rows.chunks = static_cast<uint32_t>(config.chunks);
  params.rows.stride = static_cast<uint32_t>(config.stride);
  params.k = static_cast<int>(problem.k);
  params.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
  params.in_order = problem.sorted;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  static std::atomic<uint64_t> allowed;
  const size_t bytes = shared_bytes<Bits>(config);
  const cudaError_t error = allow_shared_memory(select_rows<Order>, bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_kernel(/*ahead=*/false, select_rows<Order>, static_cast<unsigned>(config.blocks),
                       static_cast<unsigned>(config.threads), bytes, stream, params, order);
}

}  // namespace

ErrorCode OnChip::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude,
                         [&](auto order) { return launch(*this, problem, buffers, order, stream); });
}

}  // namespace gputopk::cuda::delegate
