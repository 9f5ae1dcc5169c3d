// A square of elements, read along its columns and given out along its rows, in vectors both times: how a
// warp turns rows that lie side by side into rows of adjacent elements.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/strided_problem.h"
#include "cuda/device/row_reader.cuh"

namespace gputopk::cuda {

template <class Bits>
class SquareBlock {
 public:
  // A side: a vector of 16 bytes; of 1-byte elements half of one, as a thread's registers hold the square.
  static constexpr int kSide = square_side(sizeof(Bits));
  using Words = std::conditional_t<sizeof(Bits) == 1, uint2, uint4>;

  // The square of the rows from first_row on, `rows` of which there are, and of the columns from first_col
  // on. Zeros lie outside them. `whole`: lies_in_squares.
  __device__ __forceinline__ SquareBlock(const Bits* input, const RowLayout& layout, bool whole,
                                         int64_t first_row, int rows, int64_t first_col, int cols) {
    if (whole) {
      const Bits* const first = input + layout.row(first_row) + first_col * layout.col_stride;
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        if (c < cols) columns_[c] = *reinterpret_cast<const Words*>(first + c * layout.col_stride);
      }
      return;
    }
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      if (r >= rows) continue;
      const Bits* const row = input + layout.row(first_row + r) + first_col * layout.col_stride;
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        if (c < cols) put(columns_[c], r, row[c * layout.col_stride]);
      }
    }
  }

  // Row number r, all its columns.
  __device__ __forceinline__ Words row(int r) const {
    Words words{};
#pragma unroll
    for (int c = 0; c < kSide; ++c) put(words, c, element(columns_[c], r));
    return words;
  }

 private:
  static constexpr int kBits = 8 * static_cast<int>(sizeof(Bits));

  template <class AnyWords>
  __device__ static uint32_t& word(AnyWords& words, int i) {
    if constexpr (sizeof(Bits) == 1) {
      return i == 0 ? words.x : words.y;
    } else {
      return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
    }
  }
  // Into zeros.
  __device__ static void put(Words& words, int at, Bits bits) {
    if constexpr (sizeof(Bits) == 8) {
      word(words, 2 * at) = static_cast<uint32_t>(bits);
      word(words, 2 * at + 1) = static_cast<uint32_t>(bits >> 32);
    } else {
      word(words, at * kBits / 32) |= static_cast<uint32_t>(bits) << (at * kBits % 32);
    }
  }
  __device__ static Bits element(Words words, int at) {
    if constexpr (sizeof(Bits) == 8) {
      return word(words, 2 * at) | static_cast<Bits>(word(words, 2 * at + 1)) << 32;
    } else {
      return static_cast<Bits>(word(words, at * kBits / 32) >> (at * kBits % 32));
    }
  }

  Words columns_[kSide] = {};
};

}  // namespace gputopk::cuda
