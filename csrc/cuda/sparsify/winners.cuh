// What the kernels of a sparsification share: vectors, and a row's winners.
#pragma once

#include <cstdint>

#include "core/sparsify_problem.h"

namespace gputopk::cuda::sparsify {

// Elements side by side, read and written as one word.
template <class Bits, int kWidth>
struct alignas(sizeof(Bits) * kWidth) Vector {
  Bits at[kWidth];

  __device__ void load(const Bits* from) {
    if constexpr (sizeof(Vector) == 16) {
      *reinterpret_cast<uint4*>(at) = *reinterpret_cast<const uint4*>(from);
    } else if constexpr (sizeof(Vector) == 8 && kWidth > 1) {
      *reinterpret_cast<uint2*>(at) = *reinterpret_cast<const uint2*>(from);
    } else {
      at[0] = *from;
    }
  }
  __device__ void store(Bits* to) const {
    if constexpr (sizeof(Vector) == 16) {
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(at);
    } else {
      *to = at[0];
    }
  }
};

template <class Bits>
struct Winners {
  Bits* self;
  Bits* momentum;  // null: there is none
  Bits* values;
  void* indices;
  bool wide_indices;
  int64_t rows, cols, k;
  int64_t self_stride, momentum_stride;

  __device__ int64_t index(int64_t i) const {
    return wide_indices ? static_cast<const int64_t*>(indices)[i] : static_cast<const int32_t*>(indices)[i];
  }
  __device__ void write_index(int64_t i, int64_t index) const {
    if (wide_indices) {
      static_cast<int64_t*>(indices)[i] = index;
    } else {
      static_cast<int32_t*>(indices)[i] = static_cast<int32_t>(index);
    }
  }
  __device__ void clear(int64_t row, int64_t col) const {
    self[row * self_stride + col] = 0;
    if (momentum != nullptr) momentum[row * momentum_stride + col] = 0;
  }
};

template <class Bits>
Winners<Bits> winners_of(const SparsifyProblem& problem, const SparsifyBuffers& buffers) {
  return {static_cast<Bits*>(buffers.self),
          static_cast<Bits*>(buffers.momentum),
          static_cast<Bits*>(buffers.values),
          buffers.indices,
          problem.wide_indices,
          problem.rows,
          problem.cols,
          problem.k,
          problem.self_stride,
          problem.momentum_stride};
}

}  // namespace gputopk::cuda::sparsify
