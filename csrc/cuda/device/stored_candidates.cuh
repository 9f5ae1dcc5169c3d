// Candidates of a row that many blocks have stored, and who selects the winners from them.
#pragma once

#include <cstdint>

#include "cuda/device/list_selection.cuh"
#include "cuda/device/pass_numbers.h"
#include "cuda/device/radix_passes.cuh"

namespace gputopk::cuda {

// A row's store of candidates. There may be more than it holds: then they are only counted.
template <class Bits, class Index>
struct BoundedBuffer {
  CandidateBuffer<Bits, Index> buffer;
  int64_t capacity;

  __device__ void write(int64_t at, Bits value, Index index) const {
    if (at < capacity) buffer.write(at, value, index);
  }
};

template <class Bits, class Index>
using CandidateStore = StagedWriter<Bits, Index, BoundedBuffer<Bits, Index>>;

// Shared memory of a block that stores candidates: what it counts, and its warps' stages, both of which its
// last block needs for a histogram of all counts and for the list that it selects from.
template <class Index>
inline constexpr size_t kCountBytes = (sizeof(Index) << tuning::kStoredCountBits) + 16;
template <class Index>
inline constexpr size_t kStoreBytes = kCountBytes<Index> + kStageBytes;

template <class Bits, class Index>
inline constexpr int kStagedCandidates = staged_candidates(static_cast<int>(sizeof(Bits) + sizeof(Index)));

// How candidates, which all reach a bound, are told apart while they are stored: by the first digit of what
// they are above it.
template <class Word, class Index>
struct CandidateRange {
  using Extended = ExtendedKey<Word, Index>;

  Extended low, high;        // the greatest that a candidate can be
  int key_bits, index_bits;  // of the distance from `low`; what is more is beyond the digit
  Digit digit;

  // The digit is of the range from the bound to a key `greatest`, and 2^spare_bits times as far; or, if that
  // is the bound's own key, of the index. `row` says what is read: input, cols and index_bits.
  template <class Row>
  __device__ static CandidateRange of(const Row& row, const Extended& bound, Word greatest, int spare_bits) {
    CandidateRange range{{bound.key, 0}, Selection<Word, Index>::highest(), 0, row.index_bits, {}};
    if (greatest > bound.key) {
      range.key_bits = min(bits_of(static_cast<Word>(greatest - bound.key)) + spare_bits,
                           8 * static_cast<int>(sizeof(*row.input)));
    } else {
      range.low.reversed = bound.reversed;
      range.index_bits = bits_of(static_cast<Index>(static_cast<Index>(row.cols - 1) - bound.reversed));
    }
    range.digit = digit_of_pass(1, tuning::kStoredCountBits, range.key_bits, range.index_bits);
    return range;
  }

  // Of what lies between two bounds of a row's state. Without an upper one, which is the highest there is,
  // the digit is of the range to the greatest that was seen.
  template <class Bits>
  __device__ static CandidateRange between_bounds(const RadixPasses<Bits, Index>& params,
                                                  const RowState<Word, Index>& state) {
    const Extended low = state.bound, high = state.upper;
    const bool open = !(high < Selection<Word, Index>::highest());
    CandidateRange range = of(params, low, open ? static_cast<Word>(state.greatest) : high.key,
                              open ? tuning::kSampleSpareBits : 0);
    range.high = high;
    return range;
  }

  // Below the digit.
  __device__ int key_bits_left() const { return key_bits - digit.key_width; }
  __device__ int index_bits_left() const { return index_bits - digit.index_width; }

  __device__ int bins() const { return 1 << digit.width(); }
  // The candidate's, or bins() if it is beyond.
  __device__ uint32_t bin(const Extended& x) const {
    const Word distance = static_cast<Word>(x.key - low.key);
    if (bits_of(distance) > key_bits) return static_cast<uint32_t>(bins());
    return digit.of(distance, static_cast<Index>(x.reversed - low.reversed));
  }
};

// The least of a list's entries that reach a bound. By all threads of a block; the same in all.
template <class Word, class Index>
__device__ ExtendedKey<Word, Index> least_that_reaches(const ExtendedKey<Word, Index>* list, int entries,
                                                       const ExtendedKey<Word, Index>& bound) {
  __shared__ ExtendedKey<Word, Index> of_warps[tuning::kPassThreads / 32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warps = static_cast<int>(blockDim.x) / 32;
  auto least = Selection<Word, Index>::highest();
  for (int i = static_cast<int>(threadIdx.x); i < entries; i += static_cast<int>(blockDim.x)) {
    if (!(list[i] < bound) && list[i] < least) least = list[i];
  }
  least = least_of_warp(least);
  if (lane == 0) of_warps[threadIdx.x / 32] = least;
  __syncthreads();  // all warps have theirs
  return least_of_warp(of_warps[min(lane, warps - 1)]);
}

// Stored candidates of a row in one block's shared memory, `entries` of those in its buffer `which`. Methods
// are called by all threads of the block.
template <class Order, class Index>
class StoredList {
 public:
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;

  // `memory` is 16-byte aligned and has `bytes`, enough for the entries as extended keys.
  __device__ StoredList(const RadixPasses<Bits, Index>& params, const Order& order, int64_t row, int which,
                        int entries, unsigned char* memory, size_t bytes)
      : order_(order),
        buffer_(params.buffer(which, row)),
        output_(params.output.row(row, params.k)),
        last_index_(static_cast<Index>(params.cols - 1)),
        entries_(entries),
        list_(reinterpret_cast<Extended*>(memory)),
        values_(reinterpret_cast<Bits*>(list_ + entries)),
        keeps_values_(entries * (sizeof(Extended) + sizeof(Bits)) <= bytes) {}

  // Brings entry number i into the list, and is its key. Values are kept too where there is room; else they
  // are read again.
  __device__ Word take(int i) {
    const Bits value = __ldcg(buffer_.values + i);
    if (keeps_values_) values_[i] = value;
    const Word key = order_(value);
    list_[i] = {key, static_cast<Index>(last_index_ - __ldcg(buffer_.indices + i))};
    return key;
  }
  __device__ const Extended& operator[](int i) const { return list_[i]; }

  // Hands out what the selection is asked for, which the entries that reach the bound decide: those, behind
  // the `before` winners of the row that were written before, or the least of them.
  __device__ void hand_out(const RadixPasses<Bits, Index>& params, const Extended& bound,
                           int64_t before) const {
    if (params.wanted == Wanted::kWinners) write(bound, before);
    if (params.wanted != Wanted::kLast) return;
    const Extended last = least_that_reaches(list_, entries_, bound);
    for (int i = static_cast<int>(threadIdx.x); i < entries_; i += static_cast<int>(blockDim.x)) {
      if (list_[i] < last || last < list_[i]) continue;
      output_.write(params.k - 1, value(i), static_cast<Index>(last_index_ - last.reversed));
    }
  }

 private:
  __device__ Bits value(int i) const { return keeps_values_ ? values_[i] : __ldcg(buffer_.values + i); }

  // Writes the entries that reach the bound, from the row's winner number `before` on.
  __device__ void write(const Extended& bound, int64_t before) const {
    // A counter in shared memory: one in global memory would be waited for.
    __shared__ uint32_t written;
    if (threadIdx.x == 0) written = 0;
    __syncthreads();
    const int lane = static_cast<int>(threadIdx.x) % 32, threads = static_cast<int>(blockDim.x);
#pragma unroll 4
    for (int base = static_cast<int>(threadIdx.x) - lane; base < entries_; base += threads) {
      const int i = base + lane;
      const bool wins = i < entries_ && !(list_[i] < bound);
      const unsigned winners = __ballot_sync(~0u, wins);
      if (winners == 0) continue;
      uint32_t at = 0;
      if (lane == 0) at = atomicAdd(&written, static_cast<uint32_t>(__popc(winners)));
      at = __shfl_sync(~0u, at, 0) + __popc(winners & ((1u << lane) - 1));
      if (wins) {
        output_.write(before + at, value(i), static_cast<Index>(last_index_ - list_[i].reversed));
      }
    }
  }

  const Order& order_;
  CandidateBuffer<Bits, Index> buffer_;
  WinnerWriter<Bits> output_;
  Index last_index_;
  int entries_;
  Extended* list_;
  Bits* values_;
  bool keeps_values_;
};

// take_best_of_stored, of a few: each thread compares its own with all. One barrier, and little code, as what
// a block runs but once waits for its code.
template <class Order, class Index>
__device__ void take_best_of_few(const RadixPasses<typename Order::Bits, Index>& params, const Order& order,
                                 int64_t row, int which, int entries, uint64_t owed, int64_t before,
                                 unsigned char* shared) {
  using Bits = typename Order::Bits;
  using Extended = ExtendedKey<typename KeyWord<Bits>::type, Index>;
  static_assert(kListCompared <= tuning::kPassThreads);
  Extended* const list = reinterpret_cast<Extended*>(shared);
  const CandidateBuffer<Bits, Index> buffer = params.buffer(which, row);
  const int own = static_cast<int>(threadIdx.x);
  Bits value{};
  Index index{};
  Extended x{};
  __syncthreads();  // what else was in `shared` has been read
  if (own < entries) {
    value = __ldcg(buffer.values + own);
    index = __ldcg(buffer.indices + own);
    x = {order(value), static_cast<Index>(static_cast<Index>(params.cols - 1) - index)};
    list[own] = x;
  }
  __syncthreads();  // the list is whole
  if (own >= entries) return;
  uint32_t rank = 0;
#pragma unroll 8
  for (int i = 0; i < entries; ++i) rank += x < list[i];
  if (rank >= owed) return;
  const bool is_last = rank + 1 == owed;
  if (params.wanted == Wanted::kWinners || (params.wanted == Wanted::kLast && is_last)) {
    params.output.row(row, params.k).write(before + rank, value, index);
  }
  if (is_last) params.states[row].bound = x;
}

// By one block: writes the `owed` best of the `entries` candidates in the selection's buffer `which` behind
// the `before` winners that were written before, which decides the row. `shared`:
// list_selection_bytes(bytes), 16-byte aligned, where `bytes` hold the entries as extended keys at least.
template <class Order, class Index>
__device__ void take_best_of_stored(const RadixPasses<typename Order::Bits, Index>& params,
                                    const Order& order, int64_t row, int which, int entries, uint64_t owed,
                                    int64_t before, unsigned char* shared, size_t bytes) {
  using Word = typename KeyWord<typename Order::Bits>::type;
  __shared__ ListSelectionScratch<Word> scratch;
  if (entries <= kListCompared) {
    take_best_of_few(params, order, row, which, entries, owed, before, shared);
    return;
  }
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(shared);
  StoredList<Order, Index> list(params, order, row, which, entries, shared + sizeof(uint32_t) * kListBins,
                                bytes);
  __syncthreads();  // what else was in `shared` has been read
  find_key_range</*kInFlight=*/8>(entries, scratch, [&](int i) { return list.take(i); });
  const auto bound = bound_in_list<Word, Index>(entries, owed, /*slack=*/0, params.index_bits, kListDigitBits,
                                                histogram, scratch, [&](int i) { return list[i]; });
  list.hand_out(params, bound, before);
  if (threadIdx.x == 0) params.states[row].bound = bound;
}

// The last winner of a row whose first buffer, `stored` entries, was counted by the range's digit: it is
// among the selection's candidates, those of one bin, for which the list has room. By one block, which reads
// all keys of the buffer.
template <class Order, class Bits, class Word, class Index>
__device__ ExtendedKey<Word, Index> last_of_bin(const RadixPasses<Bits, Index>& params, const Order& order,
                                                int64_t row, int64_t stored,
                                                const Selection<Word, Index>& selection,
                                                const CandidateRange<Word, Index>& range,
                                                ExtendedKey<Word, Index>* list, uint32_t* histogram,
                                                TargetDigitScratch<uint32_t>& scratch) {
  using Extended = ExtendedKey<Word, Index>;
  __shared__ uint32_t listed;
  __shared__ Extended last;
  const CandidateBuffer<Bits, Index> buffer = params.buffer(0, row);
  const Extended low = selection.low, high = selection.split;
  if (threadIdx.x == 0) listed = 0;
  __syncthreads();  // none is listed
  visit_row<Reading::kOnce>(
      buffer.values, stored, /*part=*/0, /*parts=*/1, AllTiles{},
      [&](const auto& elements, int64_t, bool valid) {
        uint32_t chosen = 0;
#pragma unroll
        for (int i = 0; i < elements.kElements; ++i) {
          const Word distance = static_cast<Word>(order(elements[i]) - low.key);
          if (distance <= static_cast<Word>(high.key - low.key)) chosen |= 1u << i;
        }
        return valid ? chosen : 0;
      },
      [&](Bits bits, int64_t at, bool chosen) {
        if (!chosen) return;
        const Extended x{order(bits), static_cast<Index>(static_cast<Index>(params.cols - 1) -
                                                         __ldcg(buffer.indices + at))};
        if (!(x < low) && !(high < x)) list[atomicAdd(&listed, 1u)] = x;
      });
  __syncthreads();  // all are listed
  const int count = static_cast<int>(listed), own = static_cast<int>(threadIdx.x);
  if (count > kListCompared) {
    const auto bound =
        narrow_in_list(count, selection, /*slack=*/0, tuning::kStoredCountBits, range.key_bits_left(),
                       range.index_bits_left(), histogram, scratch, [&](int i) { return list[i]; });
    return least_that_reaches(list, count, bound);
  }
  if (own < count) {
    uint64_t rank = 1;
    for (int i = 0; i < count; ++i) rank += list[own] < list[i];
    if (rank == selection.owed) last = list[own];
  }
  __syncthreads();  // it is found
  return last;
}

// Adds what a block has counted to the row's counts, of which the last is beyond the bins. By all threads; a
// barrier first.
template <class Bits, class Index>
__device__ void add_counts(const RadixPasses<Bits, Index>& params, int64_t row, const uint32_t* histogram,
                           int bins) {
  add_up(histogram, params.histogram + (row << params.digit_bits), bins);
  if (threadIdx.x == 0 && histogram[bins] > 0) {
    atomicAdd(&params.states[row].beyond, static_cast<unsigned long long>(histogram[bins]));
  }
}

// Writes out what the block's warps still have staged, as many as they have told. By all threads.
template <class Store>
__device__ void write_staged(Store& store, unsigned long long* counts) {
  if (threadIdx.x == 0) store.reserve(counts);
  __syncthreads();  // the places are known
  store.finish(counts);
}

// Writes out what the block's warps still have staged, and adds what they have counted to the row's counts.
// By all threads.
template <class Store, class Bits, class Index>
__device__ void finish_store(const RadixPasses<Bits, Index>& params, int64_t row, Store& store,
                             const uint32_t* histogram, int bins) {
  __shared__ unsigned long long counts[tuning::kPassThreads / 32 + 1];
  store.publish(counts);
  add_counts(params, row, histogram, bins);  // begins with a barrier
  write_staged(store, counts);
}

// By the row's last block, as pass 0, once all that reaches a bound is in the selection's first buffer,
// `buffered` of them, and counted by the range's digit; but for those above an upper bound, which win and
// were written, from the output's first place on and from its last. A few it selects from itself; where no
// winners are to be written, it looks through more for those of one bin of the digit. Otherwise it tells the
// passes, from the first on, what to read: of what was stored, or of the row if there are more than were
// stored, what the digit leaves; all of either if the k-th best is beyond the digit or, the bounds being no
// more than guesses, not between them. `shared`: of a storing block.
template <class Order, class Index>
__device__ void select_stored(
    const RadixPasses<typename Order::Bits, Index>& params, const Order& order, int64_t row,
    const CandidateRange<typename KeyWord<typename Order::Bits>::type, Index>& range, unsigned char* shared) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  __shared__ TargetDigitScratch<Index> scratch;
  __shared__ TargetDigitScratch<uint32_t> list_scratch;
  auto& state = params.states[row];
  Index* const local = reinterpret_cast<Index*>(shared);
  unsigned char* const rest = shared + kCountBytes<Index>;
  const uint64_t written = __ldcg(&state.written), above = written + __ldcg(&state.written_from_end);
  const uint64_t stored = __ldcg(&state.buffered);
  const uint64_t beyond = __ldcg(&state.beyond), k = params.k;
  const int entries = static_cast<int>(stored);
  const bool between = above < k && k <= above + stored;
  const bool all_stored = stored <= static_cast<uint64_t>(params.buffer_capacity[0]);
  const bool listed = between && all_stored && stored <= tuning::kStoredListBytes / sizeof(Extended);
  const bool by_digit = between && above + beyond < k;
  take_histogram(params.histogram + (row << params.digit_bits), local, range.bins());
  if (listed && (!by_digit || entries <= kListCompared)) {
    take_best_of_stored(params, order, row, 0, entries, k - above, static_cast<int64_t>(written), rest,
                        tuning::kStoredListBytes);
    if (threadIdx.x == 0) state.begin(1, kNoPass);
    return;
  }

  if (!by_digit) {
    __syncthreads();  // the counts are zero for the first pass
    if (threadIdx.x != 0) return;
    state.buffered = 0;
    Step<Word, Index>& step = state.steps[1];
    step = {};
    step.last = params.cols;
    if (between && all_stored) {
      step.stored = stored;
      step.selection = Selection<Word, Index>::whole_row(k - above, stored);
    } else {
      step.selection = Selection<Word, Index>::whole_row(k, params.cols);
      state.written = state.written_from_end = 0;  // what was is written over
    }
    step.top = Selection<Word, Index>::highest();
    step.takes_all = params.wanted != Wanted::kLast && step.selection.takes_all();
    if (params.wanted == Wanted::kBound && step.takes_all) {
      state.bound = step.selection.low;
      return state.begin(1, kNoPass);
    }
    return params.begin(state, 1);
  }

  StoredList<Order, Index> list(params, order, row, 0, entries, rest, tuning::kStoredListBytes);
  if (listed) {
#pragma unroll 8
    for (int i = static_cast<int>(threadIdx.x); i < entries; i += tuning::kPassThreads) list.take(i);
  }
  __syncthreads();  // list and counts are there
  auto selection = Selection<Word, Index>::whole_row(k - above - beyond, stored);
  selection.low = range.low;
  selection.split = range.high;
  const TargetDigit<Index> target = find_target_digit(local, range.bins(), selection.owed, scratch);
  if (listed) {
    selection.narrow(range.digit, target.digit, target.above, target.count);
    const Extended bound =
        narrow_in_list(entries, selection, /*slack=*/0, tuning::kStoredCountBits, range.key_bits_left(),
                       range.index_bits_left(), reinterpret_cast<uint32_t*>(local), list_scratch,
                       [&](int i) { return list[i]; });
    list.hand_out(params, bound, static_cast<int64_t>(written));
    if (threadIdx.x != 0) return;
    state.bound = bound;
    state.begin(1, kNoPass);
    return;
  }
  if (params.wanted != Wanted::kWinners && all_stored &&
      stored * sizeof(Bits) <= tuning::kStoredScannedBytes &&
      target.count <= tuning::kStoredListBytes / sizeof(Extended)) {
    selection.narrow(range.digit, target.digit, target.above, target.count);
    const Extended last =
        last_of_bin(params, order, row, static_cast<int64_t>(stored), selection, range,
                    reinterpret_cast<Extended*>(rest), reinterpret_cast<uint32_t*>(local), list_scratch);
    if (threadIdx.x != 0) return;
    if (params.wanted == Wanted::kLast) params.write_last(row, last);
    state.bound = last;
    state.begin(1, kNoPass);
    return;
  }
  if (threadIdx.x == 0) {
    Step<Word, Index>& now = state.steps[0];
    now.stored = 0;
    now.source = 1;
    now.stores = all_stored;
    state.key_bits_less = 8 * static_cast<int>(sizeof(Bits)) - range.key_bits_left();
    state.index_bits_less = params.index_bits - range.index_bits_left();
  }
  settle(params, /*pass=*/0, row, selection, range.digit, target, local, state);
}

}  // namespace gputopk::cuda
