// Reads a row with 16-byte loads, several in flight, whatever its alignment and length.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/numbers.h"
#include "cuda/device/ptx.cuh"

namespace gputopk::cuda {

inline constexpr int kVectorBytes = 16;

template <class Bits>
inline constexpr int kPerVector = kVectorBytes / static_cast<int>(sizeof(Bits));

// Where a row's whole vectors lie: `head` elements before them, `tail` behind, both fewer than a vector.
template <class Bits>
struct RowShape {
  int head;
  int tail;
  int64_t vectors;

  __device__ RowShape(const Bits* row, int64_t cols) {
    constexpr int kElements = kPerVector<Bits>;
    const int misaligned = static_cast<int>(reinterpret_cast<uintptr_t>(row) % kVectorBytes / sizeof(Bits));
    const int to_boundary = (kElements - misaligned) % kElements;
    head = cols < to_boundary ? static_cast<int>(cols) : to_boundary;
    vectors = (cols - head) / kElements;
    tail = static_cast<int>((cols - head) % kElements);
  }
};

// Elements are taken out of whole words as they are used: a register each would not fit for 1-byte dtypes.
template <class Bits>
struct Vector {
  static constexpr int kElements = kPerVector<Bits>;
  uint4 words;

  __device__ Bits operator[](int i) const {
    if constexpr (sizeof(Bits) == 8) {
      return i == 0 ? words.x | static_cast<Bits>(words.y) << 32 : words.z | static_cast<Bits>(words.w) << 32;
    } else {
      constexpr int kPerWord = 4 / static_cast<int>(sizeof(Bits));
      const int word_index = i / kPerWord;
      const uint32_t word = word_index == 0   ? words.x
                            : word_index == 1 ? words.y
                            : word_index == 2 ? words.z
                                              : words.w;
      return static_cast<Bits>(word >> (i % kPerWord * 8 * static_cast<int>(sizeof(Bits))));
    }
  }
};

template <class Bits>
struct Single {
  static constexpr int kElements = 1;
  Bits element;

  __device__ Bits operator[](int) const { return element; }
};

// How a row is read.
enum class Reading {
  kOnce,       // streamed, so that it does not drive out of L2 what is used again
  kOnceAhead,  // and the next tile's loads are under way while one is looked at: more registers
  kAgain,      // soon read again by the same block
};

template <Reading kReading, class Bits>
__device__ Vector<Bits> load_vector(const Bits* source) {
  const uint4* const words = reinterpret_cast<const uint4*>(source);
  if constexpr (kReading == Reading::kAgain) {
    return {*words};
  } else {
    return {__ldcs(words)};
  }
}

// The `wanted` of a reader that reads all tiles.
struct AllTiles {};

// Whether it reads all tiles too, but says itself which is next (dealt_tiles.cuh).
template <class Wanted>
inline constexpr bool kDealsTiles = false;

// Walks the tiles of one part: every `parts`-th from `part` on, those that are wanted. A warp asks for 32 at
// a time, a lane each, so that passing over most of a row costs little.
template <class WantsTile>
class TileWalk {
 public:
  __device__ TileWalk(int64_t tiles, int part, int parts, WantsTile wants)
      : tiles_(tiles), parts_(parts), next_(part), wants_(wants) {}

  // Called by whole warps. False when no tile is left.
  __device__ bool next(int64_t& tile) {
    if constexpr (std::is_same_v<WantsTile, AllTiles>) {
      tile = next_;
      next_ += parts_;
      return tile < tiles_;
    } else {
      while (pending_ == 0) {
        if (next_ >= tiles_) return false;
        asked_ = next_;
        const int64_t own = asked_ + static_cast<int64_t>(threadIdx.x % 32) * parts_;
        pending_ = __ballot_sync(~0u, own < tiles_ && wants_(own));
        next_ += int64_t{32} * parts_;
      }
      tile = asked_ + static_cast<int64_t>(__ffs(static_cast<int>(pending_)) - 1) * parts_;
      pending_ &= pending_ - 1;
      return true;
    }
  }

 private:
  int64_t tiles_;
  int parts_;
  int64_t next_;
  int64_t asked_ = 0;
  uint32_t pending_ = 0;
  WantsTile wants_;
};

// Element number `at` of several vectors, by selects: a register array has no run-time index.
template <class Bits, int kVectors>
__device__ Bits element_of(const Vector<Bits> (&vectors)[kVectors], int at) {
  const int vector = at / kPerVector<Bits>;
  Vector<Bits> chosen = vectors[0];
#pragma unroll
  for (int v = 1; v < kVectors; ++v) {
    if (vector == v) chosen = vectors[v];
  }
  const int byte = at % kPerVector<Bits> * static_cast<int>(sizeof(Bits));
  const auto word = [&](int w) {
    return w == 0 ? chosen.words.x : w == 1 ? chosen.words.y : w == 2 ? chosen.words.z : chosen.words.w;
  };
  if constexpr (sizeof(Bits) == 8) {
    return word(byte / 4) | static_cast<Bits>(word(byte / 4 + 1)) << 32;
  } else {
    return static_cast<Bits>(word(byte / 4) >> (byte % 4 * 8));
  }
}

template <class Bits>
__device__ Bits element_of(const Single<Bits> (&singles)[1], int) {
  return singles[0].element;
}

template <class Bits>
inline constexpr int kUnroll = tuning::loads_in_flight(sizeof(Bits));

// Asks for the first `count` tiles that visit_row will read to be fetched into L2: worth it where a block has
// to wait before it may start. By all threads of the block.
template <class Bits>
__device__ void prefetch_tiles(const Bits* row, int64_t cols, int part, int parts, int count) {
  const RowShape<Bits> shape(row, cols);
  const uint32_t tile_vectors = blockDim.x * kUnroll<Bits>;
  const int64_t tile = part + static_cast<int64_t>(threadIdx.x) * parts;
  if (static_cast<int>(threadIdx.x) >= count || (tile + 1) * tile_vectors > shape.vectors) return;
  const Bits* const first = row + shape.head + tile * tile_vectors * kPerVector<Bits>;
  prefetch_bulk(first, tile_vectors * kVectorBytes);
}

// The threads that read a part of a row together. A type: its numbers are read anew, not kept in registers.
struct BlockTeam {
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int threads() { return static_cast<int>(blockDim.x); }
};
struct WarpTeam {
  __device__ static int thread() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int threads() { return 32; }
};

// The `each_tile` of a reader that has nothing to do between tiles.
struct NoStep {
  __device__ void operator()(int64_t) const {}
};

// The index of element number `at` of a lane's vectors, the first of which begins at `begin`.
template <class Bits>
__device__ int64_t index_of(int64_t begin, int distance, int at) {
  return begin + at / kPerVector<Bits> * distance + at % kPerVector<Bits>;
}

// Scans the ragged ends of the row, fewer than a vector each, `end` being that of the vectors: head in the
// lower half of a warp's lanes, tail in the upper. By one warp.
template <class Bits, class Probe, class Take>
__device__ void scan_ends(const Bits* row, const RowShape<Bits>& shape, int64_t end, Probe&& probe,
                          Take&& take) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool in_head = lane < 16;
  const int64_t at = in_head ? lane : end + (lane - 16);
  const bool valid = in_head ? lane < shape.head : lane - 16 < shape.tail;
  const Single<Bits> single[1] = {{valid ? row[at] : Bits{}}};
  take(single, at, 0, probe(single[0], at, valid) != 0 ? 1u : 0u);
}

// The same by visit(bits, index, chosen), called once by all lanes.
template <class Bits, class Probe, class Visit>
__device__ void visit_ends(const Bits* row, const RowShape<Bits>& shape, int64_t end, Probe&& probe,
                           Visit&& visit) {
  scan_ends(row, shape, end, probe, [&](const auto& single, int64_t at, int, uint32_t chosen) {
    visit(single[0].element, at, chosen != 0);
  });
}

// Scans the elements of row[0, cols) that belong to this team, one of `parts` that share the row, the row's
// ends only with kEnds. Tiles of kUnroll vectors a thread go to the parts in turn, so that a
// crowded region is shared by all.
//
//   wanted(first, last) says whether a tile of the elements [first, last) need be read.
//   probe(elements, index, valid) sees every element once, in a Vector or a Single, with the index of the
//     first, and says by a bit each which to take. Unrolled: what is done for all elements belongs here.
//     `valid` is false where a lane has none.
//   take(loaded, begin, distance, chosen) takes those of a tile: element_of(loaded, i) for each bit i of
//     `chosen`, whose index index_of<Bits>(begin, distance, i) says. All lanes of a warp call it together.
//   each_tile(first) is called by whole warps before each tile is looked at, with the index of a lane's first
//     element, and before the ends, with 0.
template <Reading kReading, class Team, bool kEnds, class Bits, class Wanted, class Probe, class Take,
          class EachTile>
__device__ void scan_tiles(const Bits* row, int64_t cols, int part, int parts, Wanted&& wanted, Probe&& probe,
                           Take&& take, EachTile&& each_tile) {
  constexpr int kElements = kPerVector<Bits>;
  constexpr int kVectors = kUnroll<Bits>;
  static_assert(kVectors * kElements <= 32, "a bit of `chosen` for each element");
  const RowShape<Bits> shape(row, cols);
  const int distance = Team::threads() * kElements;  // from one of a thread's vectors to the next
  const int64_t tile_elements = int64_t{distance} * kVectors;
  const int64_t end = cols - shape.tail;  // of the whole vectors
  const int64_t tiles = (end - shape.head + tile_elements - 1) / tile_elements;
  const auto begin_of = [&](int64_t tile) {
    return shape.head + tile * tile_elements + Team::thread() * kElements;
  };
  const auto load = [&](int64_t tile, Vector<Bits>(&into)[kVectors]) {
    const Bits* const source = row + begin_of(tile);
    if (tile < tiles - 1) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) into[v] = load_vector<kReading>(source + v * distance);
    } else {  // the last tile may be short
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        if (begin_of(tile) + v * distance < end) into[v] = load_vector<kReading>(source + v * distance);
      }
    }
  };

  const auto wants_tile = [&] {
    if constexpr (std::is_same_v<std::decay_t<Wanted>, AllTiles> || kDealsTiles<std::decay_t<Wanted>>) {
      return wanted;  // all
    } else {
      return [=](int64_t tile) {
        const int64_t tile_begin = shape.head + tile * tile_elements;
        return wanted(tile_begin, min(tile_begin + tile_elements, end));
      };
    }
  }();
  TileWalk walk(tiles, part, parts, wants_tile);
  // Ahead: the next tile's loads are under way while this tile is looked at.
  constexpr bool kAhead = kReading == Reading::kOnceAhead;
  [[maybe_unused]] Vector<Bits> ahead[kVectors] = {};
  int64_t tile = 0;
  bool more = walk.next(tile);
  if (kAhead && more) load(tile, ahead);
  while (more) {
    const int64_t current = tile;
    more = walk.next(tile);
    Vector<Bits> loaded[kVectors] = {};
    if constexpr (kAhead) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) loaded[v] = ahead[v];
      if (more) load(tile, ahead);
    } else {
      load(current, loaded);
    }
    const int64_t begin = begin_of(current);
    each_tile(begin);
    uint32_t chosen = 0;
    if (current < tiles - 1) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        chosen |= probe(loaded[v], begin + v * distance, true) << (v * kElements);
      }
    } else {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        chosen |= probe(loaded[v], begin + v * distance, begin + v * distance < end) << (v * kElements);
      }
    }
    take(loaded, begin, distance, chosen);
  }

  if constexpr (kEnds) {
    if (part == 0 && Team::thread() < 32 && shape.head + shape.tail > 0) {
      each_tile(0);
      scan_ends(row, shape, end, probe, take);
    }
  }
}

// The same, for what is long and rare: visit(bits, index, chosen) sees the chosen elements, a lane one at a
// time. All lanes of a warp call it together, so it may vote, and its code is there once or twice.
template <Reading kReading, class Team, bool kEnds, class Bits, class Wanted, class Probe, class Visit,
          class EachTile>
__device__ void visit_tiles(const Bits* row, int64_t cols, int part, int parts, Wanted&& wanted,
                            Probe&& probe, Visit&& visit, EachTile&& each_tile) {
  scan_tiles<kReading, Team, kEnds>(
      row, cols, part, parts, wanted, probe,
      [&](const auto& loaded, int64_t begin, int distance, uint32_t chosen) {
        while (__any_sync(~0u, chosen != 0)) {
          const int at = chosen != 0 ? __ffs(static_cast<int>(chosen)) - 1 : 0;
          visit(element_of(loaded, at), index_of<Bits>(begin, distance, at), chosen != 0);
          chosen &= chosen - 1;
        }
      },
      each_tile);
}

// The same by a block, for which nothing happens between tiles.
template <Reading kReading, class Bits, class Wanted, class Probe, class Visit>
__device__ void visit_row(const Bits* row, int64_t cols, int part, int parts, Wanted&& wanted, Probe&& probe,
                          Visit&& visit) {
  visit_tiles<kReading, BlockTeam, /*kEnds=*/true>(row, cols, part, parts, wanted, probe, visit, NoStep{});
}

// The same for candidates that were stored with their indices, `count` of them: probe(bits, index, valid)
// says whether to visit, and visit(bits, index, chosen) sees the chosen.
template <class Bits, class Index, class Probe, class Visit>
__device__ void visit_candidates(const Bits* values, const Index* indices, int64_t count, int part, int parts,
                                 Probe&& probe, Visit&& visit) {
  constexpr int kLoads = 2;  // in flight a thread, of each kind
  const int threads = static_cast<int>(blockDim.x);
  const int64_t stride = static_cast<int64_t>(parts) * threads * kLoads;
  for (int64_t base = static_cast<int64_t>(part) * threads * kLoads; base < count; base += stride) {
    const int64_t begin = base + threadIdx.x;
    Bits bits[kLoads];
    Index index[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const bool valid = begin + i * threads < count;
      bits[i] = valid ? values[begin + i * threads] : Bits{};
      index[i] = valid ? indices[begin + i * threads] : Index{};
    }
    uint32_t chosen = 0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (probe(bits[i], index[i], begin + i * threads < count)) chosen |= 1u << i;
    }
    while (__any_sync(~0u, chosen != 0)) {
      const int at = chosen != 0 ? __ffs(static_cast<int>(chosen)) - 1 : 0;
      Bits chosen_bits = bits[0];
      Index chosen_index = index[0];
#pragma unroll
      for (int i = 1; i < kLoads; ++i) {
        if (at == i) {
          chosen_bits = bits[i];
          chosen_index = index[i];
        }
      }
      visit(chosen_bits, chosen_index, chosen != 0);
      chosen &= chosen - 1;
    }
  }
}

}  // namespace gputopk::cuda
