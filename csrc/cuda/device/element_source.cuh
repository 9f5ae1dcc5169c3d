// Where a block's elements come from: a row, or entries that blocks have stored. Of
// grid_select/shared_list.cu.
#pragma once

#include <cstdint>

#include "core/key_order.h"
#include "cuda/device/numbers.h"
#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"

namespace gputopk::cuda {

// A source deals a block's elements out in steps, which are the same for all its threads:
//   steps()              how many
//   load(tile)           loads this thread's elements of the next step; reload(tile) loads the same again
//   probe(tile, bound)   a bit for each that may reach the bound: unrolled
//   element(tile, at)    the extended key of the element of one bit

// The tiles of a row that belong to one of its blocks; then, in one block, the ragged ends. `Filter`: of
// pattern_filter.cuh.
template <class Order, class Index, class Filter>
class RowTiles {
 public:
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  static constexpr bool kReadsRow = true;

  struct Tile {
    Vector<Bits> vectors[kUnroll<Bits>];
    Index begin;       // of this thread's elements
    uint32_t present;  // a bit for each that there is
  };

  __device__ RowTiles(const Bits* row, int64_t cols, int part, int parts, const Order& order)
      : row_(row), cols_(cols), order_(order), filter_(order), next_(0), advance_(0) {
    const RowShape<Bits> shape(row, cols);
    head_ = shape.head;
    const int64_t elements = cols - shape.head - shape.tail;
    tiles_ = static_cast<uint32_t>((elements + tile_elements() - 1) / tile_elements());
    const uint32_t first = static_cast<uint32_t>(part);
    left_ = first < tiles_ ? (tiles_ - 1 - first) / static_cast<uint32_t>(parts) + 1 : 0;
    has_ends_ = part == 0 && shape.head + shape.tail > 0;
    if (tiles_ > 1) {
      // The multiples of a prime greater than the number of tiles visit each tile once; and the last tile,
      // which may be short, comes last, so that every block's first is whole.
      const uint32_t stride = tuning::kTilePrime % tiles_;
      next_ = stride - 1;
      if (first > 0) next_ = static_cast<uint32_t>((uint64_t{first} * stride + next_) % tiles_);
      advance_ = parts == 1 ? stride : static_cast<uint32_t>(static_cast<uint64_t>(parts) * stride % tiles_);
    }
  }

  __device__ uint32_t steps() const { return left_ + (has_ends_ ? 1 : 0); }
  // The next step is a tile.
  __device__ bool has_tiles() const { return left_ > 0; }

  __device__ void load(Tile& tile) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) tile.vectors[v] = {};
    tile.present = 0;
    if (left_ == 0) {
      load_end(tile);
      return;
    }
    --left_;
    const uint32_t number = next_;
    next_ += advance_;  // both are below tiles_, and that is far below 2^31
    if (next_ >= tiles_) next_ -= tiles_;
    // Where a thread has no elements of the last tile, this may lie beyond 32 bits.
    const int64_t begin =
        static_cast<int64_t>(number) * tile_elements() + (head_ + static_cast<int>(threadIdx.x) * kElements);
    tile.begin = static_cast<Index>(begin);
    const Bits* const source = row_ + begin;
    if (number < tiles_ - 1) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        tile.vectors[v] = load_vector<Reading::kOnce>(source + v * distance());
      }
      tile.present = ~0u;
    } else {  // the last tile may be short
      const int64_t behind = end() - begin;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        if (v * distance() < behind) {
          tile.vectors[v] = load_vector<Reading::kOnce>(source + v * distance());
          tile.present |= kOfVector << (v * kElements);
        }
      }
    }
  }

  // Loads the same elements again.
  __device__ void reload(Tile& tile) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) tile.vectors[v] = {};
    if (tile.present == 0) return;
    const int64_t begin = static_cast<int64_t>(tile.begin);
    if (begin < head_ || begin >= end()) return load_end(tile);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (tile.present >> (v * kElements) & 1) {
        tile.vectors[v] = load_vector<Reading::kOnce>(row_ + tile.begin + v * distance());
      }
    }
  }

  __device__ uint32_t probe(const Tile& tile, const Extended& bound) {
    filter_.raise(bound.key, reversed(tile.begin) < bound.reversed);
    uint32_t chosen = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) chosen |= filter_.probe(tile.vectors[v]) << (v * kElements);
    return chosen & tile.present;
  }

  // The best key of this thread's elements; 0, which is no better than any, where it has none.
  __device__ Word best_key(const Tile& tile) const {
    Word best = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (tile.present >> (v * kElements) & 1) {
#pragma unroll
        for (int i = 0; i < kElements; ++i) best = max(best, static_cast<Word>(order_(tile.vectors[v][i])));
      }
    }
    return best;
  }

  __device__ Extended element(const Tile& tile, int at) const {
    const int offset = at / kElements * distance() + at % kElements;
    return {static_cast<Word>(order_(element_of(tile.vectors, at))),
            reversed(static_cast<Index>(tile.begin + static_cast<Index>(offset)))};
  }

 private:
  static constexpr int kElements = kPerVector<Bits>;
  static constexpr int kVectors = kUnroll<Bits>;
  static constexpr uint32_t kOfVector = (1u << kElements) - 1;
  static_assert(kVectors * kElements <= 32, "a bit of `present` for each element");

  __device__ static int distance() { return static_cast<int>(blockDim.x) * kElements; }
  __device__ static int tile_elements() { return distance() * kVectors; }
  __device__ Index reversed(Index index) const {
    return static_cast<Index>(static_cast<Index>(cols_ - 1) - index);
  }
  // Of the whole vectors.
  __device__ int64_t end() const { return cols_ - (cols_ - head_) % kElements; }

  // The ragged ends, fewer elements than a vector each: the head in the lower half of the first warp's lanes,
  // the tail in the upper.
  __device__ void load_end(Tile& tile) const {
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t at = thread < 16 ? thread : end() + (thread - 16);
    if (thread >= 32 || at >= (thread < 16 ? int64_t{head_} : cols_)) {
      tile.begin = 0;
      return;
    }
    const Bits bits = row_[at];
    tile.begin = static_cast<Index>(at);
    tile.present = 1;
    tile.vectors[0].words.x = static_cast<uint32_t>(bits);
    if constexpr (sizeof(Bits) == 8) tile.vectors[0].words.y = static_cast<uint32_t>(bits >> 32);
  }

  const Bits* row_;
  int64_t cols_;
  Order order_;
  Filter filter_;
  int head_;
  uint32_t tiles_, left_, next_, advance_;
  bool has_ends_;
};

// Entries that blocks have stored.
template <class Word, class Index>
class StoredEntries {
 public:
  using Extended = ExtendedKey<Word, Index>;
  static constexpr bool kReadsRow = false;
  static constexpr int kLoads = 4;  // in flight a thread, of each kind

  struct Tile {
    Word keys[kLoads];
    Index reversed[kLoads];
    int64_t begin;
    uint32_t present;
  };

  __device__ StoredEntries(const Word* keys, const Index* reversed, int64_t count)
      : keys_(keys), reversed_(reversed), count_(count), next_(0) {}

  __device__ static bool has_tiles() { return false; }
  __device__ uint32_t steps() const {
    const int64_t step = static_cast<int64_t>(blockDim.x) * kLoads;
    return static_cast<uint32_t>((count_ + step - 1) / step);
  }
  __device__ void load(Tile& tile) {
    tile.begin = next_ + static_cast<int>(threadIdx.x);
    next_ += static_cast<int64_t>(blockDim.x) * kLoads;
    reload(tile);
  }

  __device__ void reload(Tile& tile) const {
    tile.present = 0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int64_t at = tile.begin + i * static_cast<int>(blockDim.x);
      const bool present = at < count_;
      tile.keys[i] = present ? __ldcg(keys_ + at) : Word{};
      tile.reversed[i] = present ? __ldcg(reversed_ + at) : Index{};
      if (present) tile.present |= 1u << i;
    }
  }

  __device__ uint32_t probe(const Tile& tile, const Extended& bound) const {
    uint32_t chosen = 0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (tile.keys[i] >= bound.key) chosen |= 1u << i;
    }
    return chosen & tile.present;
  }

  __device__ Extended element(const Tile& tile, int at) const {
    Extended x{tile.keys[0], tile.reversed[0]};
#pragma unroll
    for (int i = 1; i < kLoads; ++i) {
      if (at == i) x = {tile.keys[i], tile.reversed[i]};
    }
    return x;
  }

 private:
  const Word* keys_;
  const Index* reversed_;
  int64_t count_;
  int64_t next_;
};

}  // namespace gputopk::cuda
