// Entries in a block's shared memory, as it sorts them (block_sort.cuh).
#pragma once

#include <cstdint>

#include "cuda/device/entries.cuh"
#include "cuda/device/key_range.cuh"
#include "cuda/device/resident_row.cuh"

namespace gputopk::cuda {

// A block's dynamic shared memory.
template <class Bits, class Index>
struct BlockMemory {
  static constexpr int kEntryBytes = sizeof(Index) + sizeof(Bits);

  Index* indices;
  Bits* values;
  uint32_t* counters;

  // `capacity` is a multiple of 64, so that all parts are aligned.
  __device__ BlockMemory(unsigned char* base, int capacity)
      : indices(reinterpret_cast<Index*>(base)),
        values(reinterpret_cast<Bits*>(base + sizeof(Index) * capacity)),
        counters(reinterpret_cast<uint32_t*>(base + kEntryBytes * capacity)) {}

  __device__ Entries entries() const { return {values, indices, sizeof(Index) == 8}; }
};

// The order of entries whose values are keys.
template <class Word>
struct KeysAsTheyAre {
  using Bits = Word;
  static constexpr bool kFloating = false;
  __device__ Word operator()(Word key) const { return key; }
};

// Entries as they lie in memory while they are ranked. Where a key and an index have room in one word they
// lie in one, so that one comparison tells which entry is better: of 2-byte keys, in place of the index; of
// 4-byte ones, where kPacks has it, in place of both, a key as its distance from the least, if the pattern
// can be told from that. (That takes a few registers more, which kernels that do other things too do not
// have.)
template <class Order, class Index, bool kPacks>
class PlacedEntries {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Memory = BlockMemory<Bits, Index>;
  using Halves = Resident<Bits>;
  static constexpr bool kHalves = Halves::kDistinct && sizeof(Index) == 4;
  static constexpr bool kWholes = kPacks && sizeof(Bits) == 4 && sizeof(Index) == 4;

 public:
  struct Entry {
    Bits bits;
    Word key;
    Index index;
  };

  __device__ PlacedEntries(const Order& order, const Memory& memory, const EntryRange<Word, Index>& range)
      : memory_(memory), least_(range.least), least_index_(range.least_index), packs_(false) {
    if constexpr (kHalves) packs_ = range.index_bits <= 16;
    if constexpr (kWholes) {
      packs_ = order.distance_from(range.least, range.greatest, distance_) && distance_.keeps_all();
    }
  }

  __device__ __forceinline__ void put(const Order& order, int at, Bits bits, Index index) const {
    if constexpr (kWholes) {
      if (packs_) {
        words()[at] = uint64_t{distance_(bits)} << 32 | static_cast<Index>(~index);
        return;
      }
    }
    memory_.values[at] = bits;
    if constexpr (kHalves) {
      if (packs_) index = Halves::held(order(bits), index - least_index_);
    }
    memory_.indices[at] = index;
  }
  __device__ __forceinline__ Entry get(const Order& order, int at) const {
    if constexpr (kWholes) {
      if (packs_) {
        const uint64_t word = words()[at];
        const Word distance = static_cast<Word>(word >> 32);
        return {distance_.bits_at(distance), least_ + distance,
                static_cast<Index>(~static_cast<Index>(word))};
      }
    }
    const Bits bits = memory_.values[at];
    Index index = memory_.indices[at];
    if constexpr (kHalves) {
      if (packs_) index = least_index_ + Halves::index(index);
    }
    return {bits, order(bits), index};
  }
  // How many of those number `first` to `last` - 1 are better than `entry`, number `own`.
  __device__ __forceinline__ int better(const Order& order, int first, int last, int own,
                                        const Entry& entry) const {
    int better = 0;
    // Few: to have several under way at once takes longer.
    const auto each = [&](auto&& is_better) {
#pragma unroll 1
      for (int other = first; other < last; ++other) better += is_better(other);
    };
    if constexpr (kHalves || kWholes) {
      if (packs_) {
        const auto* const packed = [&] {
          if constexpr (kHalves) return memory_.indices;
          if constexpr (kWholes) return words();
        }();
        const auto word = packed[own];
        each([&](int other) { return packed[other] > word; });
        return better;
      }
    }
    each([&](int other) {
      const Word key = order(memory_.values[other]);
      return (key > entry.key) | ((key == entry.key) & (memory_.indices[other] < entry.index));
    });
    return better;
  }
  // Puts values and indices in their places. Of kItems a thread at most; by all threads of a block.
  template <int kItems>
  __device__ void unpack(const Order& order, int count) const {
    if (!packs_) return;
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    Entry entries[kItems];
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      if (thread + e * threads < count) entries[e] = get(order, thread + e * threads);
    }
    __syncthreads();  // all are taken out
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      if (thread + e * threads < count) {
        memory_.values[thread + e * threads] = entries[e].bits;
        memory_.indices[thread + e * threads] = entries[e].index;
      }
    }
    __syncthreads();  // all are back
  }

 private:
  // `capacity` words of 64 bits: the indices, and behind them the values.
  __device__ uint64_t* words() const { return reinterpret_cast<uint64_t*>(memory_.indices); }

  Memory memory_;
  Word least_;
  Index least_index_;
  KeyDistance<Word> distance_;
  bool packs_;
};

}  // namespace gputopk::cuda
