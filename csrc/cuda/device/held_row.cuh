// A row that blocks which run together hold in their shared memory, a part each, side by side: AIR's digits
// of it, added up in memory behind barriers of the row, and a list of the candidates that they leave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/device/block_loop.cuh"
#include "cuda/device/key_range.cuh"
#include "cuda/device/list_selection.cuh"
#include "cuda/device/numbers.h"
#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/row_barrier.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/warp.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda {

inline constexpr int kHeldBins = 1 << tuning::kHeldDigitBits;

// Of a row; all zero at first, but for the histograms, of which the first is.
struct alignas(16) HeldState {
  // Of the keys that the first digit leaves, where those are many, or, for winners in order, of these and of
  // all that are better: the greatest, and the greatest complement.
  unsigned long long greatest, least;
  uint32_t arrived;  // at the row's barrier
  uint32_t listed;   // candidates
  RowCounts<kHeldBins> counts;

  // By all threads of one block of the row.
  __device__ void clear() {
    constexpr int kWords = static_cast<int>(offsetof(HeldState, counts) / sizeof(uint32_t)) + kHeldBins;
    uint32_t* const words = reinterpret_cast<uint32_t*>(this);
    each_in_block(kWords, [&](int i) { words[i] = 0; });
  }
};

// What the blocks of rows tell each other.
template <class Bits>
struct HeldLists {
  using Word = typename KeyWord<Bits>::type;
  using Index = uint32_t;
  // Candidates of a row's list, which lies where a block's counts do.
  static constexpr int kRoom = tuning::held_room(sizeof(Bits));
  static_assert(kRoom * (sizeof(Word) + sizeof(Index)) <= kHeldBins * sizeof(uint32_t));

  HeldState* states;  // rows
  uint32_t* certain;  // rows x blocks: winners that need no list
  Word* keys;         // rows x kRoom
  Index* reversed;    //

  void carve(Workspace& workspace, int64_t rows, int blocks) {
    states = workspace.take<HeldState>(rows);
    certain = workspace.take<uint32_t>(rows * blocks);
    keys = workspace.take<Word>(rows * kRoom);
    reversed = workspace.take<Index>(rows * kRoom);
  }
};

template <class Word>
struct HeldScratch {
  KeyRange<Word> seen;
  TargetDigitScratch<uint32_t> search;  // of a list
  TargetDigit<uint32_t> target;
  ExtendedKey<Word, uint32_t> bound;
  uint32_t warp_sums[tuning::kHeldThreads / 32];
  uint32_t certain;  // winners of this block that need no list
  uint32_t before;   // winners of the blocks before it
};

// A block's part of a row, in vectors of shared memory. The first and the last may be a part of one.
template <class Order_>
struct HeldPart {
  using Order = Order_;
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Index = uint32_t;
  using Extended = ExtendedKey<Word, Index>;
  static constexpr int kThreads = tuning::kHeldThreads;
  static constexpr int kWidth = kPerVector<Bits>;
  // Of `chosen`: whole bytes, as a thread has them.
  static constexpr int kBitsOfVector = kWidth <= 8 ? 8 : 16;
  static constexpr int kVectorsOfWord = 32 / kBitsOfVector;
  using Chosen = std::conditional_t<kWidth <= 8, uint8_t, uint16_t>;

  const Order& order;
  Index last_index;  // of the row
  int64_t first;     // element of the row, of the first vector; before the row, if that begins within it
  int begin, end;    // places that are elements
  uint4* vectors;
  uint32_t* chosen;  // a bit for each element
  const int thread = static_cast<int>(threadIdx.x);

  __device__ int count() const { return (end + kWidth - 1) / kWidth; }                      // of vectors
  __device__ int words() const { return (count() + kVectorsOfWord - 1) / kVectorsOfWord; }  // of `chosen`
  __device__ Bits value(int place) const { return reinterpret_cast<const Bits*>(vectors)[place]; }
  __device__ Index reversed(int place) const {
    return static_cast<Index>(last_index - static_cast<Index>(first + place));
  }
  __device__ Extended extended(int place) const { return {order(value(place)), reversed(place)}; }
  __device__ static Chosen& chosen_of(uint32_t* words, int vector) {
    return reinterpret_cast<Chosen*>(words)[vector];
  }
  // Bits of a vector that are elements.
  __device__ uint32_t present(int vector) const {
    const uint32_t behind = (1u << min(end - vector * kWidth, kWidth)) - 1;
    return vector == 0 ? behind & ~((1u << begin) - 1) : behind;
  }
  __device__ bool is_whole(int vector) const {
    return (vector > 0 || begin == 0) && (vector + 1) * kWidth <= end;
  }

  // Chooses, of each vector, the elements that choose(vector, its number) has a bit for. By all threads, a
  // barrier before they are looked at.
  template <class Choose>
  __device__ __forceinline__ void choose_each(Choose&& choose) const {
#pragma unroll 1
    for (int v = thread; v < kVectorsOfWord * words(); v += kThreads) {
      uint32_t bits = 0;
      if (v < count()) {
        bits = choose(Vector<Bits>{vectors[v]}, v);
        if (!is_whole(v)) bits &= present(v);
      }
      chosen_of(chosen, v) = static_cast<Chosen>(bits);
    }
  }
  // Chooses those whose keys are in [low, high]; is what the thread has seen of their keys.
  __device__ __forceinline__ SeenKeys<Word> choose(Word low, Word high) const {
    SeenKeys<Word> seen;  // as distances from `low`
    KeyDistance<Bits> distance;
    const Word width = high - low;
    if (order.distance_from(static_cast<Bits>(low), static_cast<Bits>(high), distance)) {
      choose_near(width, seen, [&](Bits bits) { return static_cast<Word>(distance(bits)); });
    } else {
      choose_near(width, seen, [&](Bits bits) { return static_cast<Word>(order(bits) - low); });
    }
    if (seen.least > seen.greatest) return seen;  // none
    return {static_cast<Word>(low + seen.least), static_cast<Word>(low + seen.greatest)};
  }

  // Chooses what reaches a bound: of the bound's key, up to its index.
  __device__ __forceinline__ void choose_reaching(const Extended& bound) const {
    BoundFilter<Order> above(order), reaching(order);
    above.raise(bound.key, /*behind=*/true);
    reaching.raise(bound.key, /*behind=*/false);
    const int64_t bound_at =
        static_cast<int64_t>(last_index) - static_cast<int64_t>(bound.reversed) - first;  // place
    choose_each([&](const Vector<Bits>& x, int v) {
      const int64_t behind = bound_at - int64_t{v} * kWidth;  // the vector's first element
      const uint32_t up_to = behind < 0 ? 0 : ~0u >> (31 - min(behind, int64_t{31}));
      return above.probe(x) | (reaching.probe(x) & up_to);
    });
  }

  // visit(place) sees those of a word of `chosen`, in order.
  template <class Visit>
  __device__ __forceinline__ void each_of(int word, uint32_t bits, Visit&& visit) const {
#pragma unroll 1
    for (; bits != 0; bits &= bits - 1) {
      visit(place_of(word, __ffs(static_cast<int>(bits)) - 1));
    }
  }
  __device__ static int place_of(int word, int bit) {
    return (word * kVectorsOfWord + bit / kBitsOfVector) * kWidth + bit % kBitsOfVector;
  }
  // The same of all: a word a thread, or a vector where there are fewer words than threads.
  template <class Visit>
  __device__ __forceinline__ void each_chosen(Visit&& visit) const {
    const bool by_words = words() >= kThreads;
    const int groups = by_words ? words() : count();
#pragma unroll 1
    for (int group = thread; group < groups; group += kThreads) {
#pragma unroll 1
      for (uint32_t bits = by_words ? chosen[group] : chosen_of(chosen, group); bits != 0; bits &= bits - 1) {
        const int bit = __ffs(static_cast<int>(bits)) - 1;
        visit(by_words ? place_of(group, bit) : group * kWidth + bit);
      }
    }
  }

  // write(at, place) sees what is chosen, in order, from number `at` on. By all threads of the block.
  template <class Write>
  __device__ __forceinline__ void each_in_order(int64_t at, uint32_t* of_warps, Write&& write) const {
    const int lane = thread % 32, warp = thread / 32;
    const int share = (words() + kThreads / 32 - 1) / (kThreads / 32);
    const int from = min(warp * share, words()), to = min(from + share, words());
    uint32_t count = 0;
#pragma unroll 1
    for (int w = from + lane; w < to; w += 32) count += __popc(chosen[w]);
    count = __reduce_add_sync(~0u, count);
    if (lane == 0) of_warps[warp] = count;
    __syncthreads();  // all warps have counted
    at += __reduce_add_sync(~0u, lane < warp ? of_warps[lane] : 0u);
#pragma unroll 1
    for (int w = from; w < to; w += 32) {
      const uint32_t bits = w + lane < to ? chosen[w + lane] : 0;
      const int so_far = sum_so_far(__popc(bits)), all = __shfl_sync(~0u, so_far, 31);
      if (all <= 32 * tuning::kHeldFewOfWord) {
        int64_t number = at + so_far - __popc(bits);
        each_of(w + lane, bits, [&](int place) { write(number++, place); });
        at += all;
        continue;
      }
      // A lane for each bit of a word, so that lanes write side by side.
#pragma unroll 1
      for (unsigned left = __ballot_sync(~0u, bits != 0); left != 0; left &= left - 1) {
        const int lane_of_word = __ffs(static_cast<int>(left)) - 1;
        const uint32_t of_word = __shfl_sync(~0u, bits, lane_of_word);
        if (of_word >> lane & 1) {
          write(at + __popc(of_word & ((1u << lane) - 1)), place_of(w + lane_of_word, lane));
        }
        at += __popc(of_word);
      }
    }
  }

 private:
  // What lies beside the row's elements in its first vector and its last may be seen with them.
  template <class DistanceOf>
  __device__ __forceinline__ void choose_near(Word width, SeenKeys<Word>& seen,
                                              DistanceOf&& distance_of) const {
    choose_each([&](const Vector<Bits>& x, int) {
      uint32_t bits = 0;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const Word distance = distance_of(x[i]);
        if (distance > width) continue;
        bits |= 1u << i;
        seen.see(distance);
      }
      return bits;
    });
  }
};

// The digit that `owed` elements are of, or of a greater one: of counts in memory, whose sum is no less. By
// all threads of a block.
template <class Word>
__device__ __forceinline__ TargetDigit<uint32_t> find_held_target(const uint32_t* counts, int bins,
                                                                  uint32_t owed, HeldScratch<Word>& shared) {
  static_assert(kHeldBins == 2 * tuning::kHeldThreads, "a thread has two of them");
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

// A row's list as one of its blocks sees it, in the memory of its counts.
template <class Bits>
struct HeldList {
  using Lists = HeldLists<Bits>;
  using Word = typename Lists::Word;
  static_assert(Lists::kRoom <= tuning::kHeldThreads, "a thread for each entry");

  Word* const keys;
  uint32_t* const reversed;

  __device__ explicit HeldList(uint32_t* memory)
      : keys(reinterpret_cast<Word*>(memory)), reversed(reinterpret_cast<uint32_t*>(keys + Lists::kRoom)) {}

  __device__ ExtendedKey<Word, uint32_t> operator[](int i) const { return {keys[i], reversed[i]}; }

  // By all threads, with barriers before and behind.
  __device__ void fetch(const Lists& lists, int64_t row, int count) const {
    const int i = static_cast<int>(threadIdx.x);
    if (i >= count) return;
    const Word key = __ldcg(lists.keys + row * Lists::kRoom + i);
    reversed[i] = __ldcg(lists.reversed + row * Lists::kRoom + i);
    keys[i] = key;
  }
};

// The bound that selection.owed of its candidates reach, which are the list. By all threads, with a barrier
// before; so many bits of the index are not yet resolved.
template <class Bits, class Word = typename KeyWord<Bits>::type>
__device__ __noinline__ ExtendedKey<Word, uint32_t> bound_of_long_list(const HeldList<Bits>& list,
                                                                       Selection<Word, uint32_t> selection,
                                                                       int index_bits, uint32_t* histogram,
                                                                       HeldScratch<Word>& shared) {
  const int key_bits = bits_of(static_cast<Word>(selection.split.key - selection.low.key));
  return narrow_in_list(static_cast<int>(selection.candidates), selection, /*slack=*/0,
                        tuning::kHeldDigitBits, key_bits, index_bits, histogram, shared.search,
                        [&](int i) { return list[i]; });
}
template <class Bits, class Word = typename KeyWord<Bits>::type>
__device__ __forceinline__ ExtendedKey<Word, uint32_t> bound_of_list(
    const HeldList<Bits>& list, const Selection<Word, uint32_t>& selection, int index_bits,
    uint32_t* histogram, HeldScratch<Word>& shared) {
  const int count = static_cast<int>(selection.candidates);
  if (count > kListCompared) return bound_of_long_list(list, selection, index_bits, histogram, shared);
  constexpr int kLanes = tuning::kHeldThreads / kListCompared;  // that share a candidate's comparisons
  static_assert(kLanes <= 32);
  const int own = static_cast<int>(threadIdx.x) / kLanes, lane = static_cast<int>(threadIdx.x) % kLanes;
  const ExtendedKey<Word, uint32_t> x = list[min(own, count - 1)];
  int better = 0;
#pragma unroll 1
  for (int i = lane; i < count; i += kLanes) better += x < list[i];
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) better += __shfl_xor_sync(~0u, better, step);
  const bool is_last = own < count && better == static_cast<int>(selection.owed) - 1;
  if (is_last && lane == 0) shared.bound = x;
  __syncthreads();  // the last winner is found
  return shared.bound;
}

// What a row's blocks narrow together, digit by digit: the range of its k-th best. From the second digit on a
// block looks at those of its elements alone that were left, the chosen.
template <class Part>
class HeldDigits {
 public:
  using Word = typename Part::Word;
  using Extended = typename Part::Extended;

  Selection<Word, uint32_t> selection;
  Digit digit;
  RowSums<kHeldBins> add_up;
  uint32_t certain = 0;  // of the thread's sums of winners above the digits' targets: in all, the block's
  bool has_chosen = false;
  Word chosen_to = 0;  // the greatest key of what is

  // `with_better`: what is above the candidates is chosen with them.
  __device__ HeldDigits(const Part& part, uint32_t* counters, HeldState& state, int blocks, bool is_first,
                        int64_t k, int64_t cols, int index_bits, Word least, Word greatest, bool with_better)
      : selection(
            Selection<Word, uint32_t>::whole_row(static_cast<uint64_t>(k), static_cast<uint64_t>(cols))),
        add_up{RowBarrier(&state.arrived, blocks, /*waits=*/0), state.counts, is_first},
        part_(part),
        counters_(counters),
        state_(state),
        index_bits_(index_bits),
        greatest_(greatest),
        with_better_(with_better) {
    selection.low.key = least;
    selection.split.key = greatest;
    digit =
        digit_of_pass(1, tuning::kHeldDigitBits, bits_of(static_cast<Word>(greatest - least)), index_bits);
  }

  // The first digit of an element, of the whole range of keys.
  __device__ __forceinline__ void count_first(Word key, uint32_t reversed) const {
    const Word distance = key - selection.low.key;
    if constexpr (sizeof(typename Part::Bits) * 8 > tuning::kHeldDigitBits) {
      atomicAdd(counters_ + (distance >> digit.key_shift), 1u);
    } else {
      atomicAdd(counters_ + digit.of(distance, reversed), 1u);
    }
  }

  // From counts of the first digit on, until is_enough(selection). By all threads of the row's blocks, with a
  // barrier behind the reset of shared.seen.
  template <class IsEnough>
  __device__ __forceinline__ void narrow(HeldScratch<Word>& shared, IsEnough&& is_enough) {
    for (;;) {
      const int bins = 1 << digit.width();
      const uint32_t* const of_row = add_up.add(counters_, bins);
      const auto target = find_held_target(of_row, bins, static_cast<uint32_t>(selection.owed), shared);
#pragma unroll 1
      for (int bin = static_cast<int>(target.digit) + 1 + part_.thread; bin < bins; bin += Part::kThreads) {
        certain += counters_[bin];
      }
      const bool is_crowded = target.count > selection.candidates / tuning::kHeldCrowdShare;
      selection.narrow(digit, target.digit, target.above, target.count);
      bool has_enough = is_enough(selection);
      if (!has_chosen) {
        chosen_to = with_better_ ? greatest_ : selection.split.key;
        const SeenKeys<Word> seen = part_.choose(selection.low.key, chosen_to);
        has_chosen = true;
        if (is_crowded && !has_enough) {
          tighten(seen, shared);
          has_enough = is_enough(selection);
        }
      }
      __syncthreads();  // all know what they have counted, and the choice is made
      if (has_enough) return;
      digit = next_digit(selection, digit, tuning::kHeldDigitBits, index_bits_);
      clear_histogram(counters_, 1 << digit.width());
      __syncthreads();  // no thread counts into bins that another has yet to clear
      each_candidate([&](const Extended& x) {
        atomicAdd(counters_ + digit.of(static_cast<Word>(x.key - selection.low.key),
                                       static_cast<uint32_t>(x.reversed - selection.low.reversed)),
                  1u);
      });
    }
  }

  // visit(x) sees the block's candidates; all are chosen, from the first digit on.
  template <class Visit>
  __device__ __forceinline__ void each_candidate(Visit&& visit) const {
    each_left([&](const Extended& x) {
      if (is_candidate(x)) visit(x);
    });
  }
  // And those above them that are chosen.
  template <class Visit>
  __device__ __forceinline__ void each_left(Visit&& visit) const {
    part_.each_chosen([&](int place) {
      const Extended x = part_.extended(place);
      if (!(x < selection.low)) visit(x);
    });
  }
  // Of those.
  __device__ bool is_candidate(const Extended& x) const { return !(selection.split < x); }

  // Of the index, not yet resolved.
  __device__ int index_bits_left() const { return digit.reaches_index() ? digit.index_shift : index_bits_; }

 private:
  // To the range of the keys that all blocks have chosen: where the first digit leaves many, they may be of
  // few values, and the next digit would tell nothing more.
  __device__ __forceinline__ void tighten(const SeenKeys<Word>& seen, HeldScratch<Word>& shared) {
    shared.seen.add(seen);
    __syncthreads();  // all have added
    if (threadIdx.x == 0) {
      atomicMax(&state_.greatest, static_cast<unsigned long long>(shared.seen.greatest));
      atomicMax(&state_.least, ~static_cast<unsigned long long>(shared.seen.least));
    }
    add_up.barrier.wait();
    selection.tighten(static_cast<Word>(~__ldcg(&state_.least)), static_cast<Word>(__ldcg(&state_.greatest)));
  }

  const Part& part_;
  uint32_t* const counters_;
  HeldState& state_;
  const int index_bits_;
  const Word greatest_;
  const bool with_better_;
};

}  // namespace gputopk::cuda
