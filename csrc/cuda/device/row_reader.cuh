// Reads a row with 16-byte loads, several in flight, whatever its alignment and length.
#pragma once

#include <cstdint>
#include <type_traits>

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
      const uint32_t word = word_index == 0 ? words.x : word_index == 1 ? words.y : word_index == 2 ? words.z : words.w;
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

// Streams past L1: a row is read once a pass.
template <class Bits>
__device__ Vector<Bits> load_vector(const Bits* source) {
  return {__ldcs(reinterpret_cast<const uint4*>(source))};
}

// The probe of a reader that visits every vector.
struct VisitAlways {};

// Visits the elements of row[0, cols) that belong to this block, one of `parts` that share the row:
// visit(elements, index of the first, valid), with elements a Vector or a Single. All lanes of a warp call it
// together, so it may vote; `valid` is false in lanes beyond the end. Tiles of blockDim.x * kUnroll vectors
// go to the parts in turn, so that a crowded region is shared by all; tiles wholly outside [first, last) may
// be left out.
//
// With probe(vector) -> bool, a vector is visited only where the probe says so in some valid lane. That
// keeps the usual path short: probes are unrolled, and the visit, long and rare, is in the code once.
template <int kUnroll, class Bits, class Probe, class Visit>
__device__ void visit_row(const Bits* row, int64_t cols, int64_t first, int64_t last, int part, int parts,
                          Probe&& probe, Visit&& visit) {
  constexpr int kElements = kPerVector<Bits>;
  constexpr bool kProbes = !std::is_same_v<std::decay_t<Probe>, VisitAlways>;
  const RowShape<Bits> shape(row, cols);
  const Bits* const body = row + shape.head;
  const int threads = static_cast<int>(blockDim.x);
  const int tile_vectors = threads * kUnroll;
  const int64_t tile_elements = static_cast<int64_t>(tile_vectors) * kElements;
  const int64_t tiles = (shape.vectors + tile_vectors - 1) / tile_vectors;
  const int64_t first_tile = first <= shape.head ? 0 : (first - shape.head) / tile_elements;
  const int64_t last_tile = last <= shape.head ? 0 : min(tiles, (last - shape.head - 1) / tile_elements + 1);

  for (int64_t tile = first_tile + part; tile < last_tile; tile += parts) {
    const int64_t base = tile * tile_vectors + threadIdx.x;
    const bool whole = (tile + 1) * tile_vectors <= shape.vectors;
    const auto valid = [&](int u) { return whole || base + u * threads < shape.vectors; };
    const auto index = [&](int u) { return shape.head + (base + u * threads) * kElements; };

    Vector<Bits> loaded[kUnroll];
    if (whole) {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) loaded[u] = load_vector(body + (base + u * threads) * kElements);
    } else {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        loaded[u] = valid(u) ? load_vector(body + (base + u * threads) * kElements) : Vector<Bits>{};
      }
    }
    if constexpr (kProbes) {
      unsigned visits = 0;  // the same in all lanes: bit u says that some lane wants vector u
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (__any_sync(~0u, probe(loaded[u]) && valid(u))) visits |= 1u << u;
      }
      while (visits != 0) {
        const int u = __ffs(visits) - 1;
        visits &= visits - 1;
        Vector<Bits> chosen = loaded[0];  // by selects: a register array has no run-time index
#pragma unroll
        for (int other = 1; other < kUnroll; ++other) {
          if (u == other) chosen = loaded[other];
        }
        visit(chosen, index(u), valid(u));
      }
    } else {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) visit(loaded[u], index(u), valid(u));
    }
  }

  // The ragged ends, fewer than a vector each, by the first warp of one block: head in the lower half of
  // its lanes, tail in the upper.
  if (part == 0 && threadIdx.x < 32) {
    const int lane = static_cast<int>(threadIdx.x);
    const bool in_head = lane < 16;
    const int64_t at = in_head ? lane : cols - shape.tail + (lane - 16);
    const bool inside = in_head ? lane < shape.head : lane - 16 < shape.tail;
    visit(Single<Bits>{inside ? row[at] : Bits{}}, at, inside);
  }
}

}  // namespace gputopk::cuda
