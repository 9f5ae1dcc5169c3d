// A sparsification of rows that the SMs' shared memory holds: one launch, in which each element is read once
// and written once.
//
//   1. A row's blocks, which run together, accumulate a part of it each, side by side, into shared memory,
//      and count a digit of the magnitudes' keys.
//   2. AIR's digits narrow the range of the k-th best: blocks' counts are added up in memory, behind a
//      barrier of the row. From the second digit on a block looks at those of its elements alone that were
//      left, the chosen, a bit for each.
//   3. Where few candidates are left, each block adds its own to a list of the row's, and says how many of
//      its elements are better than all of them. While it waits for the others, it stores what lies in lines
//      of which nothing is chosen, unless those are few, with zeros in winners' places. Then it finds the
//      bound among the list, and how many winners the blocks before it have. Where all that are left win,
//      there is no list.
//   4. It stores the rest, and writes winners in order of index. Where none of a row's is finite, all else
//      that is not becomes zero too.
// Digits go on to the index, so ties are no case of their own.

#include <cooperative_groups.h>

#include <atomic>

#include "core/key_order.h"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/launch.h"
#include "cuda/device/list_selection.cuh"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/row_barrier.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/warp.cuh"
#include "cuda/sparsify/numbers.h"
#include "cuda/sparsify/row_sum.cuh"
#include "cuda/sparsify/sparsify.h"
#include "cuda/workspace.h"

namespace gputopk::cuda::sparsify {
namespace {

constexpr int kThreads = tuning::kHeldThreads;
constexpr int kBins = 1 << tuning::kHeldDigitBits;

// Of a row; all zero at first, but for the histograms, of which the first is.
struct alignas(16) RowState {
  uint32_t arrived;  // at the row's barrier
  uint32_t listed;   // candidates
  RowCounts<kBins> counts;
};
constexpr int kZeroedWords = static_cast<int>(offsetof(RowState, counts) / sizeof(uint32_t)) + kBins;

template <class Bits>
struct Params {
  using Word = typename KeyWord<Bits>::type;
  // Candidates of a row's list, which lies where a block's counts do.
  static constexpr int kRoom = static_cast<int>(kBins * sizeof(uint32_t) / (sizeof(Word) + sizeof(Index)));

  int blocks;  // of a row
  int part_vectors;
  int index_bits;
  RowState* states;   // rows
  uint32_t* certain;  // rows x blocks: winners that are better than all candidates
  Word* keys;         // rows x kRoom
  Index* reversed;    //
  Winners<Bits> winners;
};

template <class Word>
struct Shared {
  TargetDigitScratch<uint32_t> search;  // of a list
  TargetDigit<uint32_t> target;
  ExtendedKey<Word, Index> bound;
  uint32_t warp_sums[kThreads / 32];
  uint32_t certain;  // winners of this block
  uint32_t before;   // winners of the blocks before it
};

// A block's part of a row, in shared memory.
template <class Rows, class Order>
struct Part {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  static constexpr int kWidth = Rows::kWidth;
  static constexpr int kInFlight = tuning::held_in_flight(Rows::kHasMomentum);

  const Rows& sums;
  const Order& order;
  int64_t first;  // element
  int elements;
  uint4* vectors;    // the last may be a part of one
  uint32_t* chosen;  // a bit for each element, a byte for each vector
  const int thread = static_cast<int>(threadIdx.x);

  __device__ int count() const { return (elements + kWidth - 1) / kWidth; }  // of vectors
  __device__ int words() const { return (count() + 3) / 4; }                 // of `chosen`
  __device__ Bits value(int place) const { return reinterpret_cast<const Bits*>(vectors)[place]; }
  __device__ Extended<Bits> extended(int place) const {
    const Index last_index = static_cast<Index>(sums.sum.cols - 1);
    return {order(value(place)), static_cast<Index>(last_index - static_cast<Index>(first + place))};
  }
  __device__ static uint8_t& byte(uint32_t* words, int i) { return reinterpret_cast<uint8_t*>(words)[i]; }
  // Bits of a vector that are elements.
  __device__ uint32_t present(int vector) const {
    return (1u << min(elements - vector * kWidth, kWidth)) - 1;
  }

  // meanwhile() is called while the first elements are on their way; visit(bits) then sees each.
  template <class Meanwhile, class Visit>
  __device__ __forceinline__ void accumulate(Meanwhile&& meanwhile, Visit&& visit) const {
    const int whole = elements / kWidth;
    typename Rows::template Loaded<kWidth> x[kInFlight];
    const auto load = [&](int i, int vector) {
      if (vector < whole) sums.load(first + int64_t{vector} * kWidth, x[i]);
    };
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) load(i, thread + i * kThreads);
    meanwhile();
    for (int begin = thread; begin < whole; begin += kInFlight * kThreads) {
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int vector = begin + i * kThreads;
        if (vector >= whole) break;
        sums.accumulate(x[i]);
        sums.store_momentum(first + int64_t{vector} * kWidth, x[i]);
        vectors[vector] = x[i].vector().words;
#pragma unroll
        for (int j = 0; j < kWidth; ++j) visit(x[i].self.at[j]);
        load(i, vector + kInFlight * kThreads);
      }
    }
    const int place = whole * kWidth + thread;
    if (whole == count() || thread >= kWidth) return;
    typename Rows::template Loaded<1> one;
    one.self.at[0] = 0;
    if (place < elements) {
      sums.load(first + place, one);
      sums.accumulate(one);
      sums.store_momentum(first + place, one);
      visit(one.self.at[0]);
    }
    reinterpret_cast<Bits*>(vectors)[place] = one.self.at[0];
  }

  // Chooses the elements whose keys are in [low, high]. By all threads, a barrier before they are looked at.
  __device__ __forceinline__ void choose(Word low, Word high) const {
    KeyDistance<Bits> distance;
    const Word width = high - low;
    if (order.distance_from(static_cast<Bits>(low), static_cast<Bits>(high), distance)) {
      choose([&](Bits bits) { return distance(bits) <= static_cast<Bits>(width); });
    } else {
      choose([&](Bits bits) { return static_cast<Word>(order(bits) - low) <= width; });
    }
  }

  // visit(place) sees those of a word of `chosen`, in order.
  template <class Visit>
  __device__ __forceinline__ void each_of(int word, uint32_t bits, Visit&& visit) const {
    for (; bits != 0; bits &= bits - 1) {
      const int bit = __ffs(static_cast<int>(bits)) - 1;
      visit(element_of_bit<kWidth>(word, bit));
    }
  }
  template <class Visit>
  __device__ __forceinline__ void each_chosen(Visit&& visit) const {
    for (int w = thread; w < words(); w += kThreads) each_of(w, chosen[w], visit);
  }

  // Stores the vectors of lines of which nothing is chosen, with zeros in the places of what is above `high`,
  // which is chosen from then on. (Infinity and NaN share a first digit: what is not finite and does not win
  // has been chosen.) A bit for each other vector that the thread has, as it has them in `accumulate`. By
  // whole warps.
  __device__ __forceinline__ uint32_t store_decided(Word high) const {
    constexpr int kOfLine = tuning::kHeldVectorsOfLine;
    static_assert(kOfLine < 32 && 32 % kOfLine == 0);
    const int lane = thread % 32, first_of_line = lane / kOfLine * kOfLine;
    uint32_t left = 0;
    for (int v = thread, turn = 0; v - lane < count(); v += kThreads, ++turn) {
      const bool is_there = v < count();
      const unsigned undecided = __ballot_sync(~0u, is_there && byte(chosen, v) != 0);
      if (!is_there) continue;
      if ((undecided >> first_of_line & ((1u << kOfLine) - 1)) != 0) {
        left |= 1u << turn;
      } else {
        store_vector(v, /*drops=*/false, [&](Word key, int) { return key > high; });
      }
    }
    return left;
  }
  // All that it has.
  __device__ __forceinline__ uint32_t all_left() const {
    const int turns = (count() - thread + kThreads - 1) / kThreads;
    return turns > 0 ? ~0u >> (32 - turns) : 0;
  }
  // The same of these: what reaches the bound wins.
  __device__ __forceinline__ void store_left(uint32_t left, const Extended<Bits>& bound) const {
    // Elements of the bound's key reach it up to there.
    const int64_t bound_at = sums.sum.cols - 1 - static_cast<int64_t>(bound.reversed) - first;
    const bool drops = bound.key >= order(order.max_magnitude);
    for (; left != 0; left &= left - 1) {
      const int v = thread + (__ffs(static_cast<int>(left)) - 1) * kThreads;
      const int64_t behind = bound_at - int64_t{v} * kWidth;  // the vector's first element
      if (behind >= 0 && behind < kWidth - 1) {
        store_vector(v, drops,
                     [&](Word key, int j) { return key > bound.key || (key == bound.key && j <= behind); });
      } else {
        const Word least = behind < 0 ? bound.key + 1 : bound.key;
        store_vector(v, drops, [&](Word key, int) { return key >= least; });
      }
    }
  }

  // Writes what is chosen, in order, from place `at` of all rows' winners on. By all threads of the block.
  __device__ __forceinline__ void write_winners(const Winners<Bits>& winners, int64_t at,
                                                uint32_t* of_warps) const {
    const int lane = thread % 32, warp = thread / 32;
    const int share = (words() + kThreads / 32 - 1) / (kThreads / 32);
    const int begin = min(warp * share, words()), end = min(begin + share, words());
    uint32_t own = 0;
    for (int w = begin + lane; w < end; w += 32) own += __popc(chosen[w]);
    own = __reduce_add_sync(~0u, own);
    if (lane == 0) of_warps[warp] = own;
    __syncthreads();  // all warps have counted
    at += __reduce_add_sync(~0u, lane < warp ? of_warps[lane] : 0u);
    for (int w = begin; w < end; w += 32) {
      const uint32_t bits = w + lane < end ? chosen[w + lane] : 0;
      const int so_far = sum_so_far(__popc(bits));
      int64_t place = at + so_far - __popc(bits);
      at += __shfl_sync(~0u, so_far, 31);
      each_of(w + lane, bits, [&](int winner) {
        winners.values[place] = value(winner);
        winners.write_index(place, first + winner);
        ++place;
      });
    }
  }

 private:
  template <class IsChosen>
  __device__ __forceinline__ void choose(IsChosen&& is_chosen) const {
    for (int v = thread; v < 4 * words(); v += kThreads) {
      uint32_t bits = 0;
      if (v < count()) {
        const cuda::Vector<Bits> x{vectors[v]};
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          if (is_chosen(x[j])) bits |= 1u << j;
        }
        if (v == count() - 1) bits &= present(v);
      }
      byte(chosen, v) = static_cast<uint8_t>(bits);
    }
  }

  template <class Wins>
  __device__ __forceinline__ void store_vector(int vector, bool drops, Wins&& is_winner) const {
    sparsify::Vector<Bits, kWidth> x;
    *reinterpret_cast<uint4*>(x.at) = vectors[vector];
    uint32_t wins = 0;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      if (is_winner(static_cast<Word>(order(x.at[j])), j)) wins |= 1u << j;
    }
    wins &= present(vector);
    uint32_t zeros = wins;
    if (drops) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        if (order(x.at[j]) >= order(order.max_magnitude)) zeros |= 1u << j;
      }
      zeros &= present(vector);
    }
    byte(chosen, vector) = static_cast<uint8_t>(wins);
    store(vector, x, zeros);
  }

  __device__ __forceinline__ void store(int vector, sparsify::Vector<Bits, kWidth>& x, uint32_t zeros) const {
    const int64_t col = first + int64_t{vector} * kWidth;
    if (sums.sum.add == nullptr && zeros == 0) return;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      if (zeros >> j & 1) x.at[j] = 0;
    }
    if (present(vector) == (1u << kWidth) - 1) {
      x.store(sums.self(col));
    } else {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        if (present(vector) >> j & 1) *sums.self(col + j) = x.at[j];
      }
    }
    if constexpr (Rows::kHasMomentum) {
      for (; zeros != 0; zeros &= zeros - 1) *sums.momentum(col + __ffs(static_cast<int>(zeros)) - 1) = 0;
    }
  }
};

// The digit that `owed` elements are of, or of a greater one: of counts in memory, whose sum is no less. By
// all threads of a block.
template <class Word>
__device__ __forceinline__ TargetDigit<uint32_t> find_target(const uint32_t* counts, int bins, uint32_t owed,
                                                             Shared<Word>& shared) {
  static_assert(kBins == 2 * kThreads, "a thread has two of them");
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int lower = bins - 2 - 2 * static_cast<int>(threadIdx.x);  // the first thread has the greatest
  const uint2 own = lower >= 0 ? __ldcg(reinterpret_cast<const uint2*>(counts + lower)) : uint2{};
  const uint32_t so_far = sum_so_far(own.x + own.y);
  if (lane == 31) shared.warp_sums[warp] = so_far;
  __syncthreads();  // all warps have added up theirs
  const uint32_t above =
      so_far - own.x - own.y + __reduce_add_sync(~0u, lane < warp ? shared.warp_sums[lane] : 0u);
  if (above < owed && owed <= above + own.x + own.y) {  // one thread
    const bool is_upper = owed <= above + own.y;
    shared.target.digit = static_cast<uint32_t>(lower + is_upper);
    shared.target.above = is_upper ? above : above + own.y;
    shared.target.count = is_upper ? own.y : own.x;
  }
  __syncthreads();  // it is found
  return shared.target;
}

// The bound that selection.owed of its candidates reach, which are the row's list, in shared memory. By all
// threads, with a barrier before; so many bits of the index are not yet resolved.
template <class Word>
__device__ __forceinline__ ExtendedKey<Word, Index> bound_of_list(const Selection<Word, Index>& selection,
                                                                  int index_bits, const Word* keys,
                                                                  const Index* reversed, uint32_t* histogram,
                                                                  Shared<Word>& shared) {
  const int count = static_cast<int>(selection.candidates);
  const auto entry = [&](int i) { return ExtendedKey<Word, Index>{keys[i], reversed[i]}; };
  if (count > kListCompared) {
    const int key_bits = bits_of(static_cast<Word>(selection.split.key - selection.low.key));
    return narrow_in_list(count, selection, /*slack=*/0, tuning::kHeldDigitBits, key_bits, index_bits,
                          histogram, shared.search, entry);
  }
  constexpr int kLanes = kThreads / kListCompared;  // that share a candidate's comparisons
  static_assert(kLanes <= 32);
  const int own = static_cast<int>(threadIdx.x) / kLanes, lane = static_cast<int>(threadIdx.x) % kLanes;
  const ExtendedKey<Word, Index> x = own < count ? entry(own) : ExtendedKey<Word, Index>{};
  int better = 0;
  for (int i = lane; i < count; i += kLanes) better += x < entry(i);
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) better += __shfl_xor_sync(~0u, better, step);
  const bool is_last = own < count && better == static_cast<int>(selection.owed) - 1;
  if (is_last && lane == 0) shared.bound = x;
  __syncthreads();  // the last winner is found
  return shared.bound;
}

template <class Self, class Add, bool kMomentum>
__global__ void __launch_bounds__(kThreads)
    sparsify_row(const __grid_constant__ Params<typename Self::Bits> params, Sum<Self, Add> sum) {
  using Bits = typename Self::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Order = KeyOrder<Bits, true>;
  using Rows = RowSum<Self, Add, kMomentum>;
  using Row = Part<Rows, Order>;
  __shared__ Shared<Word> shared;
  uint32_t* const counters = reinterpret_cast<uint32_t*>(dynamic_shared());
  uint32_t* const of_list = counters + kBins;  // a list's digits

  // Known to the compiler.
  const Order order = make_key_order<Bits, true>(Self::kDType, /*largest=*/true, /*magnitude=*/true);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int64_t row = static_cast<int>(blockIdx.x) / params.blocks;
  const int number = static_cast<int>(blockIdx.x) % params.blocks;
  const Rows sums(sum, row);
  const int64_t part_elements = int64_t{params.part_vectors} * Row::kWidth;
  const int64_t first = min(number * part_elements, sum.cols);
  uint4* const vectors = reinterpret_cast<uint4*>(of_list + kBins);
  const Row part{sums,    order,
                 first,   static_cast<int>(min(part_elements, sum.cols - first)),
                 vectors, reinterpret_cast<uint32_t*>(vectors + params.part_vectors)};
  RowState& state = params.states[row];
  const Index last_index = static_cast<Index>(sum.cols - 1);

  // Step 1. The first digit is of the whole range of keys.
  const Word least = order(Bits{0}), greatest = order(static_cast<Bits>(order.max_magnitude + 1));  // a NaN
  auto selection = Selection<Word, Index>::whole_row(static_cast<uint64_t>(params.winners.k),
                                                     static_cast<uint64_t>(sum.cols));
  selection.low.key = least;
  selection.split.key = greatest;
  Digit digit = digit_of_pass(1, tuning::kHeldDigitBits, bits_of(static_cast<Word>(greatest - least)),
                              params.index_bits);
  clear_histogram(counters, kBins);
  if (thread == 0) shared.certain = shared.before = 0;
  part.accumulate(
      [&] {
        uint32_t* const words = reinterpret_cast<uint32_t*>(&state);
        for (int i = thread; number == 0 && i < kZeroedWords; i += kThreads) words[i] = 0;
        cooperative_groups::this_grid().sync();  // states are clear, and the block's counts
      },
      [&](Bits bits) {
        atomicAdd(counters + (static_cast<Word>(order(bits) - least) >> digit.key_shift), 1u);
      });

  // Step 2.
  RowSums<kBins> add_up{RowBarrier(&state.arrived, params.blocks, /*waits=*/0), state.counts, number == 0};
  const auto is_candidate = [&](const Extended<Bits>& x) {
    return !(x < selection.low) && !(selection.split < x);
  };
  Word chosen_to = 0;  // the greatest key of what is chosen; 0: nothing is yet
  int64_t chosen = 0;  // by all blocks
  // All candidates are chosen, from the first choice on.
  const auto each_candidate = [&](auto&& visit) {
    if (chosen_to == 0) {
      part.choose(selection.low.key, selection.split.key);
      chosen_to = selection.split.key;
      chosen = static_cast<int64_t>(selection.candidates);
      __syncthreads();  // all are chosen
    }
    part.each_chosen([&](int place) {
      const Extended<Bits> x = part.extended(place);
      if (is_candidate(x)) visit(x);
    });
  };
  uint32_t certain = 0;
  for (;;) {
    const int bins = 1 << digit.width();
    const uint32_t* const of_row = add_up.add(counters, bins);
    const auto target = find_target(of_row, bins, static_cast<uint32_t>(selection.owed), shared);
    for (int bin = static_cast<int>(target.digit) + 1 + thread; bin < bins; bin += kThreads) {
      certain += counters[bin];
    }
    selection.narrow(digit, target.digit, target.above, target.count);
    if (selection.takes_all() || selection.settle_dense(last_index) ||
        selection.candidates <= Params<Bits>::kRoom) {
      break;
    }
    digit = next_digit(selection, digit, tuning::kHeldDigitBits, params.index_bits);
    __syncthreads();  // all know what they have counted
    clear_histogram(counters, 1 << digit.width());
    __syncthreads();  // no thread counts into bins that another has yet to clear
    each_candidate([&](const Extended<Bits>& x) {
      atomicAdd(counters + digit.of(static_cast<Word>(x.key - selection.low.key),
                                    static_cast<Index>(x.reversed - selection.low.reversed)),
                1u);
    });
  }

  // Step 3.
  const bool all_win = selection.takes_all();
  Word* const keys = params.keys + row * Params<Bits>::kRoom;
  Index* const reversed = params.reversed + row * Params<Bits>::kRoom;
  each_candidate([&](const Extended<Bits>& x) {
    if (all_win) {
      ++certain;
    } else {
      const uint32_t at = atomicAdd(&state.listed, 1u);
      keys[at] = x.key;
      reversed[at] = x.reversed;
    }
  });
  certain = __reduce_add_sync(~0u, certain);
  if (lane == 0) atomicAdd(&shared.certain, certain);
  __syncthreads();  // all warps have added
  uint32_t* const of_blocks = params.certain + row * params.blocks;
  if (thread == 0) of_blocks[number] = shared.certain;
  add_up.barrier.arrive();
  const uint32_t left = chosen * Row::kWidth * tuning::kHeldUndecided > sum.cols
                            ? part.all_left()
                            : part.store_decided(chosen_to);
  add_up.barrier.wait_for_all();
  Extended<Bits> bound = selection.low;
  uint32_t before = 0;
  for (int block = thread; block < number; block += kThreads) before += __ldcg(of_blocks + block);
  if (!all_win) {
    Word* const own_keys = reinterpret_cast<Word*>(counters);
    Index* const own_reversed = reinterpret_cast<Index*>(own_keys + Params<Bits>::kRoom);
    for (int i = thread; i < static_cast<int>(selection.candidates); i += kThreads) {
      own_keys[i] = __ldcg(keys + i);
      own_reversed[i] = __ldcg(reversed + i);
    }
    __syncthreads();  // the list is there
    const int index_bits = digit.reaches_index() ? digit.index_shift : params.index_bits;
    bound = bound_of_list(selection, index_bits, own_keys, own_reversed, of_list, shared);
    for (int i = thread; i < static_cast<int>(selection.candidates); i += kThreads) {
      const Extended<Bits> x{own_keys[i], own_reversed[i]};
      before += !(x < bound) && static_cast<int64_t>(last_index - x.reversed) < first;
    }
  }
  before = __reduce_add_sync(~0u, before);
  if (lane == 0 && before > 0) atomicAdd(&shared.before, before);

  // Step 4.
  part.store_left(left, bound);
  __syncthreads();  // winners are chosen, and those before them counted
  part.write_winners(params.winners, row * params.winners.k + shared.before, shared.warp_sums);
}

template <class Bits>
size_t carve(const Resident& config, int64_t rows, void* base, Params<Bits>& params) {
  Workspace workspace(base);
  params.states = workspace.take<RowState>(rows);
  params.certain = workspace.take<uint32_t>(rows * config.blocks);
  params.keys = workspace.take<typename Params<Bits>::Word>(rows * Params<Bits>::kRoom);
  params.reversed = workspace.take<Index>(rows * Params<Bits>::kRoom);
  return workspace.bytes();
}

template <class Self, class Add, bool kMomentum>
cudaError_t launch(const Resident& config, const SparsifyProblem& problem, const SparsifyBuffers& buffers,
                   cudaStream_t stream) {
  using Bits = typename Self::Bits;
  static_assert(sizeof(Shared<uint64_t>) <= tuning::kHeldStaticBytes);
  Params<Bits> params{};
  params.blocks = config.blocks;
  params.part_vectors = config.part_vectors;
  params.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
  params.winners = winners_of<Bits>(problem, buffers);
  carve(config, problem.rows, buffers.workspace, params);
  static std::atomic<uint64_t> allowed;
  const auto kernel = sparsify_row<Self, Add, kMomentum>;
  const size_t bytes = static_cast<size_t>(tuning::held_bytes(config.part_vectors));
  const cudaError_t error = allow_shared_memory(kernel, bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_together(kernel, static_cast<unsigned>(problem.rows * config.blocks), kThreads, bytes, stream,
                         params, sum_of<Self, Add>(problem, buffers, /*as_one_row=*/false));
}

}  // namespace

size_t Resident::workspace_bytes(const SparsifyProblem& problem) const {
  return visit_sum(problem, [&](auto self, auto) {
    Params<typename decltype(self)::Bits> params;
    return carve(*this, problem.rows, nullptr, params);
  });
}

bool Resident::lacked_room(ErrorCode error) { return lacks_room(error); }

ErrorCode Resident::run(const SparsifyProblem& problem, const SparsifyBuffers& buffers, Stream stream) const {
  return visit_sum(problem, [&](auto self, auto add) -> ErrorCode {
    using Self = decltype(self);
    using Add = decltype(add);
    return problem.update == Update::kMomentum ? launch<Self, Add, true>(*this, problem, buffers, stream)
                                               : launch<Self, Add, false>(*this, problem, buffers, stream);
  });
}

}  // namespace gputopk::cuda::sparsify
