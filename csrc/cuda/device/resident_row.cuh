// A whole row in the registers of the threads that share it: rows of up to 2^16 elements.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/entry.cuh"
#include "cuda/device/row_reader.cuh"

namespace gputopk::cuda {

// What stands for an element of such a row, the greater, the better: the key, and where that leaves room for
// it, the inverted index, so that no two elements of a row are equal, and 0 stands for none.
template <class Bits>
struct Resident {
  static constexpr bool kDistinct = sizeof(Bits) <= 2;
  using Held = typename KeyWord<Bits>::type;

  __device__ static Held held(Bits key, uint32_t index) {
    if constexpr (kDistinct) {
      return static_cast<Held>(key) << 16 | (0xFFFF - index);
    } else {
      return key;
    }
  }
  // Of what is distinct.
  __device__ static uint32_t index(Held held) { return 0xFFFF - (held & 0xFFFF); }
};

// A vector of one element.
template <class Bits>
__device__ __forceinline__ Vector<Bits> vector_of(Bits element) {
  if constexpr (sizeof(Bits) == 8) {
    const uint32_t low = static_cast<uint32_t>(element), high = static_cast<uint32_t>(element >> 32);
    return {{low, high, low, high}};
  } else {
    const uint32_t word = element * (sizeof(Bits) == 4 ? 1u : sizeof(Bits) == 2 ? 0x10001u : 0x1010101u);
    return {{word, word, word, word}};
  }
}

// The elements [first, first + kElements) of a row, one by one: `rest` before its beginning and behind its
// end.
template <class Bits>
__device__ __forceinline__ Vector<Bits> load_elements(const Bits* row, int first, int cols, Bits rest) {
  constexpr int kPerWord = sizeof(Bits) < 4 ? 4 / static_cast<int>(sizeof(Bits)) : 1;
  Bits elements[kPerVector<Bits>];
#pragma unroll
  for (int e = 0; e < kPerVector<Bits>; ++e) {
    const bool is_there = static_cast<unsigned>(first + e) < static_cast<unsigned>(cols);
    elements[e] = is_there ? row[first + e] : rest;
  }
  uint32_t words[4] = {};
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    if constexpr (sizeof(Bits) == 8) {
      words[w] = static_cast<uint32_t>(elements[w / 2] >> (w % 2 * 32));
    } else {
#pragma unroll
      for (int i = 0; i < kPerWord; ++i) {
        words[w] |= static_cast<uint32_t>(elements[w * kPerWord + i])
                    << (i * 8 * static_cast<int>(sizeof(Bits)));
      }
    }
  }
  return {{words[0], words[1], words[2], words[3]}};
}

// One thread's share of a row of at most kElements for each of `threads`: vectors side by side, `threads`
// apart. Behind the row's end lie elements that no element of the row is worse than, with indices that are
// its end's and beyond: they are less than every element of the row, and equal only in their key.
template <class Order, int kElements_>
class RowShare {
 public:
  using Bits = typename Order::Bits;
  using Held = typename Resident<Bits>::Held;
  static constexpr int kElements = kElements_;
  static constexpr int kInVector = kPerVector<Bits>;
  static constexpr int kVectors = kElements / kInVector;
  static_assert(kElements % kInVector == 0, "whole vectors");

  __device__ __forceinline__ RowShare(const Bits* row, int cols, int thread, int threads, const Order& order)
      : first_(thread * kInVector), step_(threads * kInVector) {
    const bool aligned = reinterpret_cast<uintptr_t>(row) % kVectorBytes == 0;
    const Bits rest = order.worst();
    Vector<Bits> loaded[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int first = first_ + v * step_;
      if (aligned && first + kInVector <= cols) {
        loaded[v] = load_vector<Reading::kAgain>(row + first);  // winners are read once more
      } else {
        loaded[v] = load_elements(row, first, cols, rest);
      }
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      held[i] = Resident<Bits>::held(order(loaded[i / kInVector][i % kInVector]), index(i));
    }
  }

  // The whole of a row whose elements are so far apart.
  __device__ __forceinline__ RowShare(const Bits* row, int64_t step, int cols, const Order& order)
      : first_(0), step_(kInVector) {
    const Bits rest = order.worst();
    Bits loaded[kElements];
#pragma unroll
    for (int i = 0; i < kElements; ++i) loaded[i] = i < cols ? row[i * step] : rest;
#pragma unroll
    for (int i = 0; i < kElements; ++i) held[i] = Resident<Bits>::held(order(loaded[i]), index(i));
  }

  // Makes those without a bit the least that there are.
  __device__ __forceinline__ void keep(uint32_t bits) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if ((bits >> i & 1) == 0) held[i] = 0;
    }
  }

  // Of element number i, in ascending order of i.
  __device__ __forceinline__ uint32_t index(int i) const {
    return static_cast<uint32_t>(first_ + i / kInVector * step_ + i % kInVector);
  }

  Held held[kElements];

 private:
  int first_, step_;
};

}  // namespace gputopk::cuda
