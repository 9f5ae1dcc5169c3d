// Candidates of a row that many blocks have stored, and who selects the winners from them.
#pragma once

#include <cstdint>

#include "cuda/device/list_selection.cuh"
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

// Shared memory to select from a list of up to `bytes`: a histogram and the list.
constexpr size_t list_selection_bytes(size_t bytes) { return sizeof(uint32_t) * kListBins + bytes; }

// Candidates that each warp of a storing block stages: as many as the memory holds that its last block
// selects in, so that a tile of nothing but candidates goes out at once.
template <class Bits, class Index>
constexpr int staged_candidates(int warps) {
  constexpr size_t kEntryBytes = sizeof(Bits) + sizeof(Index);
  const size_t entries = list_selection_bytes(tuning::kDelegateListBytes) / warps / kEntryBytes;
  // In whole lines, so that every warp's are aligned; of them, 32 are what CandidateStore has beyond.
  return static_cast<int>(entries / 16 * 16) - 32;
}

// By one block: writes the `owed` best of the `entries` candidates in the selection's buffer `which` behind
// the winners that were written before, which decides the row. `shared`: list_selection_bytes(bytes), 16-byte
// aligned, where `bytes` hold the entries as extended keys at least.
template <class Order, class Index>
__device__ void take_best_of_stored(const RadixPasses<typename Order::Bits, Index>& params,
                                    const Order& order, int64_t row, int which, int entries, uint64_t owed,
                                    unsigned char* shared, size_t bytes) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  __shared__ ListSelectionScratch<Word> scratch;
  __shared__ uint32_t written;
  if (threadIdx.x == 0) written = 0;
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(shared);
  Extended* const list = reinterpret_cast<Extended*>(shared + sizeof(uint32_t) * kListBins);
  const CandidateBuffer<Bits, Index> buffer = params.buffer(which, row);
  // The values are kept too where there is room; else they are read again.
  Bits* const values = reinterpret_cast<Bits*>(list + entries);
  const bool keeps_values = entries * (sizeof(Extended) + sizeof(Bits)) <= bytes;
  const Index last_index = static_cast<Index>(params.cols - 1);
  const int threads = static_cast<int>(blockDim.x);
  __syncthreads();  // what else was in `shared` has been read
  find_key_range</*kInFlight=*/8>(entries, scratch, [&](int i) {
    const Bits value = __ldcg(buffer.values + i);
    if (keeps_values) values[i] = value;
    const Word key = order(value);
    list[i] = {key, static_cast<Index>(last_index - __ldcg(buffer.indices + i))};
    return key;
  });
  const Extended bound = bound_in_list<Word, Index>(entries, owed, owed, params.index_bits, kListDigitBits,
                                                    histogram, scratch, [&](int i) { return list[i]; });

  // A counter in shared memory: one in global memory would be waited for.
  const WinnerWriter<Bits> output = params.output.row(row, params.k);
  const int64_t before = static_cast<int64_t>(params.k - owed);
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 4
  for (int base = static_cast<int>(threadIdx.x) - lane; base < entries; base += threads) {
    const int i = base + lane;
    const bool wins = i < entries && !(list[i] < bound);
    const unsigned winners = __ballot_sync(~0u, wins);
    if (winners == 0) continue;
    uint32_t at = 0;
    if (lane == 0) at = atomicAdd(&written, static_cast<uint32_t>(__popc(winners)));
    at = __shfl_sync(~0u, at, 0) + __popc(winners & ((1u << lane) - 1));
    if (wins) {
      const Bits value = keeps_values ? values[i] : __ldcg(buffer.values + i);
      output.write(before + at, value, static_cast<Index>(last_index - list[i].reversed));
    }
  }
  if (threadIdx.x == 0) params.states[row].bound = bound;
}

// What a block knows of the keys that it has stored, and the row's blocks together: the greatest, and how
// many are above the bound's.
template <class Word>
struct StoredKeys {
  struct Shared {
    Word greatest[32];
    uint32_t above[32];
  };
  Word greatest = 0;
  uint32_t above = 0;

  __device__ void see(Word key, Word bound_key) {
    greatest = max(greatest, key);
    above += key > bound_key;
  }
  // Two steps with a barrier between them: by all warps, then by the first.
  __device__ void publish(Shared& shared) const {
    const Word of_warp = warp_max(greatest);
    const uint32_t above_of_warp = __reduce_add_sync(~0u, above);
    if (threadIdx.x % 32 == 0) {
      shared.greatest[threadIdx.x / 32] = of_warp;
      shared.above[threadIdx.x / 32] = above_of_warp;
    }
  }
  template <class State>
  __device__ static void record(const Shared& shared, State& state) {
    const bool has = threadIdx.x < blockDim.x / 32;
    const Word greatest = warp_max(has ? shared.greatest[threadIdx.x] : Word{0});
    const uint32_t above = __reduce_add_sync(~0u, has ? shared.above[threadIdx.x] : 0);
    if (threadIdx.x != 0) return;
    atomicMax(&state.greatest, static_cast<unsigned long long>(greatest));
    atomicAdd(&state.above, static_cast<unsigned long long>(above));
  }
};

// Writes out what the block's warps still have staged, and makes known what they have stored. By all threads.
template <class Store, class Word, class State>
__device__ void finish_store(Store& store, const StoredKeys<Word>& keys, State& state) {
  __shared__ unsigned long long counts[tuning::kAirThreads / 32 + 1];
  __shared__ typename StoredKeys<Word>::Shared shared_keys;
  keys.publish(shared_keys);
  store.publish(counts);
  __syncthreads();  // what all warps counted and saw is there
  if (threadIdx.x == 0) store.reserve(counts);
  if (threadIdx.x < 32) keys.record(shared_keys, state);
  __syncthreads();  // and their places
  store.finish(counts);
}

// By the row's last block, as pass 0, once all that reaches `bound` is in the selection's first buffer,
// `buffered` of them, whose keys StoredKeys knows. A few it selects from itself. Otherwise it tells the
// passes, from the first on, what to read: what was stored; or the row, if there are more than were stored
// or, the bound being no more than a guess, fewer than k. `shared`:
// list_selection_bytes(tuning::kDelegateListBytes).
template <class Order, class Index>
__device__ void select_stored(const RadixPasses<typename Order::Bits, Index>& params, const Order& order,
                              int64_t row,
                              const ExtendedKey<typename KeyWord<typename Order::Bits>::type, Index>& bound,
                              unsigned char* shared) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  __shared__ unsigned long long count;
  auto& state = params.states[row];
  if (threadIdx.x == 0) count = atomicExch(&state.buffered, 0ull);
  __syncthreads();  // the count is known
  const uint64_t reaching = count, k = params.k;
  const bool all_stored = reaching <= static_cast<uint64_t>(params.buffer_capacity[0]);
  if (reaching >= k && all_stored && reaching <= tuning::kDelegateListBytes / sizeof(Extended)) {
    take_best_of_stored(params, order, row, 0, static_cast<int>(reaching), k, shared,
                        tuning::kDelegateListBytes);
    if (threadIdx.x == 0) state.begin(1, kNoPass);
    return;
  }
  if (threadIdx.x != 0) return;
  Step<Word, Index>& step = state.steps[1];
  step = {};
  auto& selection = step.selection;
  selection = Selection<Word, Index>::whole_row(k, params.cols);
  step.last = params.cols;
  if (reaching < k) return params.begin(state, 1);
  // Digits are of the candidates' own range. With fewer than k above the bound's key, that key is the k-th
  // best: those above are winners, and the index decides among the others.
  const uint64_t above = __ldcg(&state.above);
  const Word greatest = static_cast<Word>(__ldcg(&state.greatest));
  const bool index_decides = above < k;
  int key_bits = 0;
  selection.low.key = bound.key;
  if (index_decides) {
    selection.split.key = bound.key;
    selection.top.key = greatest;
    selection.owed = k - above;
  } else if (all_stored) {
    key_bits = bits_of(static_cast<Word>(greatest - bound.key));
  } else {
    // The row has lesser keys too, which the digits must leave out: of all that share the leading bits.
    key_bits = bits_of(static_cast<Word>(greatest ^ bound.key));  // 1 at least
    const Word others = static_cast<Word>((Word{2} << (key_bits - 1)) - 1);
    selection.low.key = static_cast<Word>(bound.key & ~others);
    selection.split.key = selection.top.key = static_cast<Word>(bound.key | others);
  }
  state.key_bits_less = 8 * static_cast<int>(sizeof(Bits)) - key_bits;
  if (!all_stored) return params.begin(state, 1);
  step.stored = reaching;
  selection.candidates = index_decides ? reaching - above : reaching;
  if (key_bits == 0) {
    selection.low.reversed = bound.reversed;
    const Index most = static_cast<Index>(params.cols - 1);
    state.index_bits_less = params.index_bits - bits_of(static_cast<Index>(most - bound.reversed));
  }
  step.takes_all = reaching == k;
  params.begin(state, 1);
}

}  // namespace gputopk::cuda
