// A row is accumulated chunk by chunk, by warps: what reaches the bound, its candidates, are stored together,
// in order of index. Where two bounds are known, what is above the upper one wins, all but surely, and zeros
// are left in its places at once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/radix_passes.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/stored_candidates.cuh"
#include "cuda/device/warp.cuh"
#include "cuda/sparsify/chunk_memory.h"
#include "cuda/sparsify/numbers.h"
#include "cuda/sparsify/row_sum.cuh"

namespace gputopk::cuda::sparsify {

// Where a chunk's candidates are in the row's store.
struct Place {
  uint32_t first, count;
};

// Of a row; all zero before it is read.
struct RowNotes {
  unsigned long long reaching;  // candidates, stored or not
  unsigned long long least;     // ~key of the least winner
  unsigned long long between;   // candidates between two bounds
  // The k-th best lies between the two, and nothing was too much to be stored: what is above the upper one
  // wins, has been taken, and is counted.
  uint32_t bounds_hold;
};

// How a row is taken: chunks of it by warps, and again, by blocks, its spans: chunks side by side, whose
// winners are put in order.
template <class Bits>
struct Spans {
  bool two_sided;                       // two bounds are known
  int blocks_per_row;                   // that accumulate it
  int chunk;                            // elements
  int64_t chunks;                       // a row
  int chunks_per_warp;                  // side by side
  int64_t per_row;                      // spans
  int64_t capacity;                     // of a row's store
  CandidateBuffer<Bits, Index> stored;  // rows x capacity
  Place* places;                        // rows x chunks
  // Winners, zero at first: rows x per_row x kSpanWarps, and rows x per_row.
  uint32_t *of_warps, *of_spans;
  RowNotes* notes;  // rows

  __device__ bool are_stored(int64_t row, int64_t k) const {
    const uint64_t reaching = notes[row].reaching;
    return reaching >= static_cast<uint64_t>(k) && reaching <= static_cast<uint64_t>(capacity);
  }
  __device__ CandidateBuffer<Bits, Index> store(int64_t row) const {
    return {stored.values + row * capacity, stored.indices + row * capacity};
  }
  // Counts winners of a chunk.
  __device__ void add_winners(int64_t row, uint32_t of_chunk, uint32_t count) const {
    const uint32_t warp = of_chunk / static_cast<uint32_t>(chunks_per_warp);
    atomicAdd(of_warps + row * per_row * tuning::kSpanWarps + warp, count);
    atomicAdd(of_spans + row * per_row + warp / tuning::kSpanWarps, count);
  }
};

// A row's bounds while it is read.
template <class Order>
struct RowBounds {
  using Bits = typename Order::Bits;

  const Order& order;
  Extended<Bits> lower, upper;
  Index last_index;
  int64_t index;  // the lower one's own; behind it, elements of its key do not reach it

  __device__ RowBounds(const Order& order, const Extended<Bits>& lower, const Extended<Bits>& upper,
                       Index last_index)
      : order(order),
        lower(lower),
        upper(upper),
        last_index(last_index),
        index(static_cast<int64_t>(static_cast<Index>(last_index - lower.reversed))) {}

  __device__ Extended<Bits> extended(Bits bits, int64_t col) const {
    return {order(bits), static_cast<Index>(last_index - static_cast<Index>(col))};
  }
  __device__ bool is_reached(Bits bits, int64_t col) const { return !(extended(bits, col) < lower); }
};

// A warp's chunk in shared memory, once it is accumulated: of each vector, which of its elements may reach
// the bound; where those that do are, in order; and, where there are two bounds, the elements.
template <class Bits>
struct WarpChunk {
  static constexpr int kWidth = kPerVector<Bits>;

  uint8_t* chosen;  // 16-byte aligned
  uint16_t* places;
  Bits* values;

  __device__ WarpChunk(unsigned char* memory, int chunk)
      : chosen(memory),
        places(reinterpret_cast<uint16_t*>(chosen + chunk / kWidth)),
        values(reinterpret_cast<Bits*>(places + chunk)) {}

  // A lane's vectors lie side by side, so that places of lanes one behind the other ascend.
  struct Reaching {
    static constexpr int kMostWords = tuning::most_chunk(sizeof(Bits)) / kWidth / 4 / 32;
    uint32_t bits[kMostWords];  // of the lane's elements
    int words;                  // that there are
    int end;                    // elements of this lane and those before it

    __device__ int first_word() const { return static_cast<int>(threadIdx.x) % 32 * words; }
    __device__ int count() const { return __shfl_sync(~0u, end, 31); }  // of all lanes
  };

  // The chosen of which, where `asks`, is_reached(place) says so too. By all lanes, once all have written
  // theirs.
  template <class IsReached>
  __device__ __forceinline__ Reaching look(int chunk, bool asks, IsReached&& is_reached) const {
    Reaching found;
    found.words = chunk / kWidth / 4 / 32;
    int count = 0;
#pragma unroll
    for (int w = 0; w < Reaching::kMostWords; ++w) {
      uint32_t& bits = found.bits[w];
      const int word = found.first_word() + w;
      bits = w < found.words ? reinterpret_cast<const uint32_t*>(chosen)[word] : 0;
      for (uint32_t rest = asks ? bits : 0; rest != 0; rest &= rest - 1) {
        const int bit = __ffs(static_cast<int>(rest)) - 1, place = element_of_bit<kWidth>(word, bit);
        if (!is_reached(place)) bits &= ~(1u << bit);
      }
      count += __popc(bits);
    }
    found.end = sum_so_far(count);
    return found;
  }

  // Lists their places, in order.
  __device__ __forceinline__ void list(const Reaching& found) const {
    int at = found.end;
#pragma unroll
    for (int w = 0; w < Reaching::kMostWords; ++w) at -= __popc(found.bits[w]);
#pragma unroll
    for (int w = 0; w < Reaching::kMostWords; ++w) {
      for (uint32_t rest = found.bits[w]; rest != 0; rest &= rest - 1) {
        const int bit = __ffs(static_cast<int>(rest)) - 1;
        places[at++] = static_cast<uint16_t>(element_of_bit<kWidth>(found.first_word() + w, bit));
      }
    }
  }
};

// Candidates between two bounds: passes select from them alone.
template <class Bits>
using Between = CandidateStore<Bits, Index>;

template <class Bits>
constexpr int warp_bytes(int chunk, bool two_sided) {
  static_assert(between_bytes(sizeof(Bits)) == Between<Bits>::bytes(tuning::kBetweenStaged));
  return chunk_warp_bytes(sizeof(Bits), chunk, two_sided);
}

// Dynamic shared memory of a block: counts, and its warps' chunks; in their place, what the row's last block
// selects from.
template <class Bits>
constexpr size_t block_bytes(int chunk, bool two_sided) {
  static_assert(kCountBytes<Index> < tuning::kBesideChunksBytes);
  return kCountBytes<Index> + std::max(kStageBytes, static_cast<size_t>(tuning::kPassThreads / 32 *
                                                                        warp_bytes<Bits>(chunk, two_sided)));
}

// Accumulates the chunks of one warp, and stores their candidates.
template <class Rows, class Order>
struct ChunkWarp {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  static constexpr int kWidth = Rows::kWidth;
  static constexpr int kInFlight = tuning::store_in_flight(Rows::kHasMomentum);
  static constexpr int kTurn = kInFlight * 32 * kWidth;  // elements in flight
  static_assert(kTurn <= tuning::least_chunk(sizeof(Bits)), "a chunk is whole turns");

  const Rows& sums;
  const Spans<Bits>& spans;
  const RowBounds<Order>& bounds;
  const CandidateRange<Word, Index>& range;
  uint32_t* const histogram;
  WarpChunk<Bits> memory;
  Between<Bits> between;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  typename Rows::template Loaded<kWidth> in_flight[kInFlight] = {};
  unsigned long long above = 0;  // the upper bound; the same in all lanes
  // What wins is taken at once. Momentum is nowhere else: it waits until its elements surely win.
  const bool takes = spans.two_sided && !Rows::kHasMomentum;

  // Of vector number i of the turn that begins there.
  __device__ int offset(int begin, int i) const { return begin + (i * 32 + lane) * kWidth; }

  __device__ __forceinline__ void load(int64_t first) {
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int64_t col = first + offset(0, i);
      if (col + kWidth <= sums.sum.cols) sums.load(col, in_flight[i]);
    }
  }

  // Chunk number `chunk` of the row, of which one turn is in flight, as is one of number `next` afterwards.
  __device__ __forceinline__ void take(uint32_t chunk, int64_t next, BoundFilter<Order>& filter) {
    const int64_t first = int64_t{chunk} * spans.chunk;
    filter.raise(bounds.lower.key, first > bounds.index);
    Place place{};
    if (accumulate(first, next * spans.chunk, filter)) {
      __syncwarp();  // the chunk is in shared memory
      const auto found = look(first);
      place = reserve(found.count());
      memory.list(found);  // while the place is on its way
      __syncwarp();        // all are listed
      store(chunk, first, place);
      __syncwarp();  // zeros are in the places of what was taken, and nobody reads what is overwritten next
    }
    if (lane == 0) spans.places[sums.row * spans.chunks + chunk] = place;
    if (takes && (place.count > 0 || sums.sum.add != nullptr)) write_back(first);
  }

 private:
  // Whether any lane has an element that may reach the bound.
  __device__ __forceinline__ bool accumulate(int64_t first, int64_t next, const BoundFilter<Order>& filter) {
    const int64_t cols = sums.sum.cols;
    uint32_t any = 0;
#pragma unroll 1
    for (int begin = 0; begin < spans.chunk; begin += kTurn) {
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int at = offset(begin, i);
        const int64_t col = first + at;
        uint32_t chosen = 0;
        if (col + kWidth <= cols) {
          sums.accumulate(in_flight[i]);
          sums.store_momentum(col, in_flight[i]);
          if (spans.two_sided) in_flight[i].self.store(memory.values + at);
          if (!takes) sums.store(col, in_flight[i]);
          chosen = filter.probe(in_flight[i].vector());
        } else {
          for (int j = 0; col + j < cols; ++j) {
            typename Rows::template Loaded<1> one;
            sums.load(col + j, one);
            sums.accumulate(one);
            sums.store_momentum(col + j, one);
            if (spans.two_sided) memory.values[at + j] = one.self.at[0];
            if (!takes) sums.store(col + j, one);
            chosen |= filter.probe(Single<Bits>{one.self.at[0]}) << j;
          }
        }
        memory.chosen[at / kWidth] = static_cast<uint8_t>(chosen);
        any |= chosen;
      }
      load(begin + kTurn < spans.chunk ? first + begin + kTurn : next);
    }
    return __any_sync(~0u, any != 0);
  }

  __device__ __forceinline__ typename WarpChunk<Bits>::Reaching look(int64_t first) const {
    // Only where the bound's own index is do some elements of its key reach it and others not.
    const bool by_index = first <= bounds.index && bounds.index < first + spans.chunk;
    return memory.look(spans.chunk, by_index,
                       [&](int place) { return bounds.is_reached(value(first, place), first + place); });
  }

  __device__ __forceinline__ Bits value(int64_t first, int place) const {
    return spans.two_sided ? memory.values[place] : *sums.self(first + place);
  }

  // A place in the row's store, which only lane 0 knows yet.
  __device__ __forceinline__ Place reserve(int count) const {
    unsigned long long first = 0;
    if (lane == 0) {
      first = atomicAdd(&spans.notes[sums.row].reaching, static_cast<unsigned long long>(count));
    }
    return {static_cast<uint32_t>(first), static_cast<uint32_t>(count)};
  }

  // Stores the chunk's candidates there.
  __device__ __forceinline__ void store(uint32_t chunk, int64_t first, const Place& place) {
    const int count = static_cast<int>(place.count);
    const int64_t begin = __shfl_sync(~0u, place.first, 0);
    const BoundedBuffer<Bits, Index> buffer{spans.store(sums.row), spans.capacity};
    uint32_t winners = 0;
    for (int i = lane; i - lane < count; i += 32) {
      const bool there = i < count;
      const int at = there ? memory.places[i] : 0;
      const int64_t col = first + at, to = begin + i;
      const Bits bits = there ? value(first, at) : Bits{};
      const Extended<Bits> x = bounds.extended(bits, col);
      if (there) buffer.write(to, bits, static_cast<Index>(col));
      const bool wins = there && bounds.upper < x, stays = there && !wins;
      if (stays) atomicAdd(histogram + range.bin(x), 1u);
      if (!spans.two_sided) continue;
      winners += __popc(__ballot_sync(~0u, wins));
      if (takes && wins && to < spans.capacity) memory.values[at] = 0;
      between.push(stays, bits, static_cast<Index>(col));
    }
    if (winners > 0 && lane == 0) spans.add_winners(sums.row, chunk, winners);
    above += winners;
  }

  // All at once: memory takes whole lines best.
  __device__ __forceinline__ void write_back(int64_t first) const {
    const int64_t cols = sums.sum.cols;
    for (int at = lane * kWidth; at < spans.chunk; at += 32 * kWidth) {
      const int64_t col = first + at;
      if (col + kWidth <= cols) {
        *reinterpret_cast<uint4*>(sums.self(col)) = *reinterpret_cast<const uint4*>(memory.values + at);
      } else {
        for (int j = 0; col + j < cols; ++j) *sums.self(col + j) = memory.values[at + j];
      }
    }
  }
};

template <class Self, class Add, bool kMomentum, class Order>
__global__ void __launch_bounds__(tuning::kPassThreads, tuning::kStoreBlocksPerSm)
    accumulate_and_store(RadixPasses<typename Self::Bits, Index> params, Sum<Self, Add> sum,
                         Spans<typename Self::Bits> spans, Order order) {
  using Bits = typename Self::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Rows = RowSum<Self, Add, kMomentum>;
  constexpr int kWarps = tuning::kPassThreads / 32;
  unsigned char* const dynamic = dynamic_shared();
  __shared__ CandidateRange<Word, Index> range;

  const int64_t row = blockIdx.x / spans.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x % spans.blocks_per_row);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  auto& state = params.states[row];
  RowNotes& notes = spans.notes[row];
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic);
  clear_histogram(histogram, (1 << tuning::kStoredCountBits) + 1);
  follow_kernel_before();
  const RowBounds<Order> bounds(order, state.bound,
                                spans.two_sided ? state.upper : Selection<Word, Index>::highest(),
                                static_cast<Index>(params.cols - 1));
  if (threadIdx.x == 0) {
    range = spans.two_sided
                ? range.between_bounds(params, state)
                : range.of(params, bounds.lower, static_cast<Word>(state.greatest), tuning::kSampleSpareBits);
  }
  __syncthreads();  // the range is known, and no bin is yet to be cleared
  const Rows sums(sum, row);
  BoundFilter<Order> filter(order);
  unsigned char* const memory =
      dynamic + kCountBytes<Index> + warp * warp_bytes<Bits>(spans.chunk, spans.two_sided);
  const BoundedBuffer<Bits, Index> buffer{params.buffer(0, row), params.buffer_capacity[0]};
  ChunkWarp<Rows, Order> own{sums,
                             spans,
                             bounds,
                             range,
                             histogram,
                             {memory, spans.chunk},
                             {memory + chunk_bytes(sizeof(Bits), spans.chunk, spans.two_sided),
                              tuning::kBetweenStaged, buffer, &state.buffered}};
  const int64_t step = int64_t{spans.blocks_per_row} * kWarps;
  own.load((part * kWarps + warp) * int64_t{spans.chunk});
  for (int64_t chunk = part * kWarps + warp; chunk < spans.chunks; chunk += step) {
    own.take(static_cast<uint32_t>(chunk), chunk + step, filter);
  }

  if (own.above > 0 && threadIdx.x % 32 == 0) atomicAdd(&state.written, own.above);
  if (spans.two_sided) {
    finish_store(params, row, own.between, histogram, range.bins());
  } else {
    add_counts(params, row, histogram, range.bins());
  }
  if (!is_last_block(&state.arrived, spans.blocks_per_row)) return;
  if (threadIdx.x == 0) {
    const uint64_t reaching = __ldcg(&notes.reaching), above = __ldcg(&state.written);
    if (spans.two_sided) {
      notes.between = __ldcg(&state.buffered);
      const uint64_t k = params.k;
      notes.bounds_hold = above < k && k <= reaching && reaching <= static_cast<uint64_t>(spans.capacity) &&
                          notes.between <= static_cast<uint64_t>(params.buffer_capacity[0]);
    } else {
      state.buffered = reaching;
    }
  }
  __syncthreads();  // the number of candidates is there
  select_stored(params, order, row, range, dynamic);
}

}  // namespace gputopk::cuda::sparsify
