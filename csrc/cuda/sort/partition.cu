// Many winners of long rows, in any order, with one read of the row.
//
// A sample of the row, in order, gives two bounds about the place where the k-th best should be, so far from
// it on either side that it lies between them all but surely. Then
//   1. the row is read: what comes before the upper bound is a winner and goes to the output at once, what
//      lies between the bounds goes to a window, a few percent of the row;
//   2. where that is much, the window is read in the same way, with bounds from a sample of itself;
//   3. a block finds the rest of the winners in the last window.
// Bounds are extended keys, (key, index), so crowded rows are as good as others. What was written and stored
// is counted: if it shows that a bound was wrong, or a window too small, the block of step 3 selects from the
// row itself, digit by digit. That is exact, slow, and a matter of bad luck with five standard deviations, or
// of a row made for these places.

#include <algorithm>

#include "core/key_order.h"
#include "cuda/device/block_sort.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/list_selection.cuh"
#include "cuda/device/sample.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/winner_writer.cuh"
#include "cuda/sort/numbers.h"
#include "cuda/sort/partition.h"

namespace gputopk::cuda::sort {
namespace {

constexpr int kThreads = tuning::kSplitThreads;

struct Params {
  Problem problem;
  Partition config;
  PartitionMemory memory;
  const void* input;
  void* values;
  void* indices;

  __device__ RowState& state(int64_t row) const { return memory.states[row]; }

  template <class Bits, class Index>
  __device__ Entries window(int round, int64_t row) const {
    return entries_from<Bits>({memory.values[round], memory.indices[round], sizeof(Index) == 8},
                              row * config.windows[round]);
  }
  template <class Bits>
  __device__ Entries input_row(int64_t row) const {
    return {const_cast<Bits*>(static_cast<const Bits*>(input)) + row * problem.row_stride, nullptr, false};
  }
  // What round number `round` reads.
  template <class Bits, class Index>
  __device__ Entries source(int round, int64_t row) const {
    return round == 0 ? input_row<Bits>(row) : window<Bits, Index>(round - 1, row);
  }
  __device__ int64_t source_entries(int round, int64_t row) const {
    return round == 0 ? problem.cols : static_cast<int64_t>(state(row).stored[round - 1]);
  }
  template <class Bits>
  __device__ WinnerWriter<Bits> output(int64_t row) const {
    return WinnerWriter<Bits>{static_cast<Bits*>(values), indices, problem.wide_indices}.row(row, problem.k);
  }

  // Whether the window of the round before `round`, all rounds up to it being done, has the winners that are
  // still to be found.
  __device__ bool is_good(int round, int64_t row) const {
    if (round == 0) return true;
    const RowState& now = state(row);
    const uint64_t k = static_cast<uint64_t>(problem.k), stored = now.stored[round - 1];
    return now.good[round - 1] && stored <= static_cast<uint64_t>(config.windows[round - 1]) &&
           now.written <= k && k - now.written <= stored;
  }
};

// ---- The bounds ----

template <class Order, class Index>
__global__ void __launch_bounds__(tuning::kSortMaxThreads)
    find_bounds(Params params, Order order, int round) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  __shared__ BlockScratch<Word, Index> scratch;
  const int most = params.config.samples[round];
  const BlockMemory<Bits, Index> memory(dynamic_shared(), most);
  const int64_t row = blockIdx.x;
  RowState& state = params.state(row);
  follow_kernel_before();
  const bool good = params.is_good(round, row);
  if (threadIdx.x == 0) state.good[round] = good;
  if (!good) return;
  const int64_t entries = params.source_entries(round, row);
  const int64_t owed = params.problem.k - (round == 0 ? 0 : static_cast<int64_t>(state.written));
  const Entries from = params.source<Bits, Index>(round, row);
  const int samples = static_cast<int>(min(entries, static_cast<int64_t>(most)));
  // Where the k-th best should be in the sample, and five standard deviations of that.
  const double share = entries > 0 ? static_cast<double>(owed) / static_cast<double>(entries) : 0.0;
  const int rank = static_cast<int>(share * samples);
  const int margin = 2 + static_cast<int>(tuning::kPartitionDeviations * sqrt(samples * share * (1 - share)));
  __syncthreads();  // all have read the state
  if (threadIdx.x == 0) {
    if (round == 0) state.written = 0;
    state.stored[round] = 0;
    state.upper[round] = {static_cast<uint64_t>(static_cast<Word>(~Word{0})), 0};
    state.lower[round] = {0, static_cast<uint64_t>(static_cast<Index>(~Index{0}))};
  }
  const Strata strata = Strata::of(entries, samples);
  sort_in_block<kItems<Order, Index>>(
      samples, rank + margin + 1, order, memory, scratch,
      [&](int i, Bits& bits, Index& index) {
        read_entry(from, strata.entry_of(static_cast<uint32_t>(i)), bits, index);
      },
      [&](int at, Bits bits, Index index) {
        if (at == rank - margin) state.upper[round] = {order(bits), index};
        if (at == rank + margin) state.lower[round] = {order(bits), index};
      });
}

// ---- The split ----

template <class Word, class Index>
struct Bound {
  Word key;
  Index index;

  __device__ explicit Bound(const EntryBound& bound)
      : key(static_cast<Word>(bound.key)), index(static_cast<Index>(bound.index)) {}

  __device__ bool behind(Word other, Index other_index) const {
    return (other > key) | ((other == key) & (other_index < index));
  }
  // Whether `least` says the same of all elements of a row from number `first` on, up to `last`.
  __device__ bool by_key(int64_t first, int64_t last, Word& least) const {
    const bool all_before = static_cast<uint64_t>(last) <= index;
    least = static_cast<Word>(all_before ? key : key + 1);
    return all_before || (static_cast<uint64_t>(first) >= index && least != 0);
  }
};

struct SplitScratch {
  uint32_t winners[kThreads / 32], stored[kThreads / 32];
  unsigned long long first_winner, first_stored;
};

template <class Order, class Index>
__global__ void __launch_bounds__(kThreads, tuning::kSplitBlocksPerSm)
    split_rows(Params params, Order order, int round, int blocks_per_row) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  constexpr int kItemsHere = kItems<Order, Index>;
  constexpr int kTile = kThreads * kItemsHere;
  __shared__ SplitScratch scratch;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const unsigned lanes_below = (1u << lane) - 1;
  const int64_t row = blockIdx.x / blocks_per_row;
  RowState& state = params.state(row);
  follow_kernel_before();
  if (!state.good[round]) return;
  const int64_t entries = params.source_entries(round, row), k = params.problem.k;
  const int64_t window_entries = params.config.windows[round];
  const Entries from = params.source<Bits, Index>(round, row);
  const Entries window = params.window<Bits, Index>(round, row);
  const WinnerWriter<Bits> output = params.output<Bits>(row);
  const Bound<Word, Index> upper(state.upper[round]), lower(state.lower[round]);

  for (int64_t tile = static_cast<int64_t>(blockIdx.x % blocks_per_row) * kTile; tile < entries;
       tile += int64_t{kTile} * blocks_per_row) {
    const int64_t first = tile + warp * (32 * kItemsHere) + lane;
    const Bits* const values = static_cast<const Bits*>(from.values);
    Bits bits[kItemsHere];
    if (tile + kTile <= entries) {
#pragma unroll
      for (int e = 0; e < kItemsHere; ++e) bits[e] = values[first + e * 32];
    } else {
#pragma unroll
      for (int e = 0; e < kItemsHere; ++e) {
        if (first + e * 32 < entries) bits[e] = values[first + e * 32];
      }
    }
    const auto index_of = [&](int e) {
      if (round == 0) return static_cast<Index>(first + e * 32);
      Bits unused;
      Index index;
      read_entry(from, first + e * 32, unused, index);
      return index;
    };
    uint32_t wins = 0, stores = 0;  // a bit for each of the thread's entries
    Word least_upper, least_lower;
    if (round == 0 && tile + kTile <= entries && upper.by_key(tile, tile + kTile, least_upper) &&
        lower.by_key(tile, tile + kTile, least_lower)) {
#pragma unroll
      for (int e = 0; e < kItemsHere; ++e) {
        const Word key = order(bits[e]);
        wins |= (key >= least_upper ? 1u : 0u) << e;
        stores |= (key >= least_lower ? 1u : 0u) << e;
      }
    } else {
#pragma unroll
      for (int e = 0; e < kItemsHere; ++e) {
        if (first + e * 32 >= entries) continue;
        const Word key = order(bits[e]);
        const Index index = index_of(e);
        wins |= (upper.behind(key, index) ? 1u : 0u) << e;
        stores |= (lower.behind(key, index) ? 1u : 0u) << e;
      }
    }
    stores &= ~wins;

    const uint32_t winners_of_warp = __reduce_add_sync(~0u, static_cast<uint32_t>(__popc(wins)));
    uint32_t stored_below = static_cast<uint32_t>(__popc(stores));
    const uint32_t stored_of_thread = stored_below;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const uint32_t other = __shfl_up_sync(~0u, stored_below, distance);
      if (lane >= distance) stored_below += other;
    }
    if (lane == 31) {
      scratch.winners[warp] = winners_of_warp;
      scratch.stored[warp] = stored_below;
    }
    stored_below -= stored_of_thread;
    __syncthreads();
    if (threadIdx.x == 0) {
      uint32_t winners = 0, stored = 0;
      for (int w = 0; w < kThreads / 32; ++w) {
        const uint32_t own_winners = scratch.winners[w], own_stored = scratch.stored[w];
        scratch.winners[w] = winners;
        scratch.stored[w] = stored;
        winners += own_winners;
        stored += own_stored;
      }
      scratch.first_winner =
          winners > 0 ? atomicAdd(&state.written, static_cast<unsigned long long>(winners)) : 0;
      scratch.first_stored =
          stored > 0 ? atomicAdd(&state.stored[round], static_cast<unsigned long long>(stored)) : 0;
    }
    __syncthreads();
    int64_t at = static_cast<int64_t>(scratch.first_winner + scratch.winners[warp]);
    int64_t stored_at = static_cast<int64_t>(scratch.first_stored + scratch.stored[warp] + stored_below);
    __syncthreads();  // the next tile's counts come to where this one's are
#pragma unroll
    for (int e = 0; e < kItemsHere; ++e) {
      const bool win = wins >> e & 1;
      const unsigned winners = __ballot_sync(~0u, win);
      const int64_t place = at + __popc(winners & lanes_below);
      // More than k only if the bound was wrong.
      if (win && place < k) output.write(place, bits[e], static_cast<int64_t>(index_of(e)));
      at += __popc(winners);
      if (stores >> e & 1) {
        if (stored_at < window_entries) write_entry(window, stored_at, bits[e], index_of(e));
        ++stored_at;
      }
    }
  }
}

// ---- The rest ----

template <class Order, class Index>
__global__ void __launch_bounds__(tuning::kSortMaxThreads) take_rest(Params params, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  __shared__ ListSelectionScratch<Word> scratch;
  __shared__ uint32_t taken;
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic_shared());
  const int64_t row = blockIdx.x, k = params.problem.k;
  const Index last_index = static_cast<Index>(params.problem.cols - 1);
  const WinnerWriter<Bits> output = params.output<Bits>(row);
  follow_kernel_before();
  const int rounds = params.config.rounds;
  const bool good = params.is_good(rounds, row);
  const int64_t written = good ? static_cast<int64_t>(params.state(row).written) : 0;
  if (written == k) return;
  const Entries from = params.source<Bits, Index>(good ? rounds : 0, row);
  const int count = static_cast<int>(params.source_entries(good ? rounds : 0, row));
  const auto entry = [&](int i) {
    Bits bits;
    Index index;
    read_entry(from, i, bits, index);
    return Extended{order(bits), static_cast<Index>(last_index - index)};
  };
  find_key_range</*kInFlight=*/8>(count, scratch, [&](int i) { return entry(i).key; });
  const Extended bound =
      bound_in_list<Word, Index>(count, static_cast<uint64_t>(k - written), /*slack=*/0, bits_of(last_index),
                                 kListDigitBits, histogram, scratch, entry);
  if (threadIdx.x == 0) taken = 0;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32, threads = static_cast<int>(blockDim.x);
#pragma unroll 4
  for (int base = static_cast<int>(threadIdx.x) - lane; base < count; base += threads) {
    Bits bits{};
    Index index{};
    bool wins = base + lane < count;
    if (wins) {
      read_entry(from, base + lane, bits, index);
      wins = !(Extended{order(bits), static_cast<Index>(last_index - index)} < bound);
    }
    const unsigned winners = __ballot_sync(~0u, wins);
    if (winners == 0) continue;
    uint32_t at = 0;
    if (lane == 0) at = atomicAdd(&taken, static_cast<uint32_t>(__popc(winners)));
    at = __shfl_sync(~0u, at, 0) + __popc(winners & ((1u << lane) - 1));
    if (wins) output.write(written + at, bits, static_cast<int64_t>(index));
  }
}

template <class Order, class Index>
ErrorCode launch(const Params& params, const Order& order, Stream stream) {
  constexpr int kEntryBytes = BlockMemory<typename Order::Bits, Index>::kEntryBytes;
  static std::atomic<uint64_t> bounds_allowed;
  const Partition& config = params.config;
  const unsigned rows = static_cast<unsigned>(params.problem.rows);
  cudaError_t error = cudaSuccess;
  for (int round = 0; round < config.rounds; ++round) {
    const int samples = config.samples[round];
    const int threads = std::min(tuning::kSortMaxThreads, std::max(tuning::kSortMinThreads, samples / 2));
    const size_t bytes = static_cast<size_t>(block_bytes(kEntryBytes, samples, threads));
    error = allow_shared_memory(find_bounds<Order, Index>, bytes, bounds_allowed);
    if (error != cudaSuccess) return error;
    error = launch_kernel(/*ahead=*/true, find_bounds<Order, Index>, rows, static_cast<unsigned>(threads),
                          bytes, stream, params, order, round);
    if (error != cudaSuccess) return error;
    const int blocks = config.blocks_per_row[round];
    error = launch_kernel(/*ahead=*/true, split_rows<Order, Index>, rows * static_cast<unsigned>(blocks),
                          kThreads, 0, stream, params, order, round, blocks);
    if (error != cudaSuccess) return error;
  }
  return launch_kernel(/*ahead=*/true, take_rest<Order, Index>, rows, tuning::kSortMaxThreads,
                       sizeof(uint32_t) * kListBins, stream, params, order);
}

}  // namespace

ErrorCode Partition::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  const Params params{problem,       *this,          PartitionMemory(problem, *this, buffers.workspace),
                      buffers.input, buffers.values, buffers.indices};
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) -> ErrorCode {
    return launch<decltype(order), uint32_t>(params, order, stream);
  });
}

}  // namespace gputopk::cuda::sort
