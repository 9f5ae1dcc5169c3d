// One sparsification of a gradient in plain numbers: what the binding hands to the CPU and CUDA algorithms.
//
// The contract, which both keep:
//   - Accumulate, element by element, in float32 (float64 for float64), each result rounded once to the dtype
//     that it is stored in:
//       kAdd       self = self + add
//       kScaled    self = fma(alpha, add, self)
//       kMomentum  momentum = fma(mu, momentum, add), rounded; self = self + momentum
//   - Take the k elements of each row of `self` with the largest magnitudes, as problem.h and key_order.h
//   say:
//     NaN above infinity, of equal magnitudes the lower index.
//   - Hand them out, signed, bit copies, by ascending index, and put +0 in their places in `self` and
//     `momentum`.
//   - What is infinite or NaN is sent or dropped, never kept: where all k winners of a row are, every other
//     such element of the row becomes +0 too, in `self` and `momentum`. Error feedback would keep it for
//     ever.
#pragma once

#include <cstdint>

#include "core/problem.h"

namespace gputopk {

enum class Update : uint8_t { kNone, kAdd, kScaled, kMomentum };

constexpr const char* update_name(Update update) {
  constexpr const char* kNames[] = {"no update", "add", "scaled add", "momentum"};
  return kNames[static_cast<int>(update)];
}

struct SparsifyProblem {
  DType dtype = DType::kFloat32;      // of self, momentum and values: float32, float64, float16 or bfloat16
  DType add_dtype = DType::kFloat32;  // the same; or float16 or bfloat16 where self is float32
  Update update = Update::kNone;
  double alpha = 1;  // of kScaled
  double mu = 0;     // of kMomentum
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t self_stride = 0;  // elements from one row to the next; elements of a row are adjacent
  int64_t add_stride = 0;
  int64_t momentum_stride = 0;
  int64_t k = 0;              // 0 <= k <= cols
  bool wide_indices = false;  // int64 indices; otherwise int32
};

struct SparsifyBuffers {
  void* self = nullptr;
  const void* add = nullptr;  // unless kNone
  void* momentum = nullptr;   // of kMomentum
  void* values = nullptr;     // rows x k, dense
  void* indices = nullptr;    // rows x k of int64 or int32, dense
  void* workspace = nullptr;  // as many bytes as the plan asks for, 256-byte aligned, content arbitrary
};

}  // namespace gputopk
