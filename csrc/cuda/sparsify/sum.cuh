// What an element of a gradient becomes: its sum with what is added, in float32 or float64.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/sparsify/sparsify.h"
#include "cuda/sparsify/winners.cuh"

namespace gputopk::cuda::sparsify {

// An element as it lies in memory, and as the number that is computed with.
struct Float32 {
  static constexpr DType kDType = DType::kFloat32;
  using Bits = uint32_t;
  using Number = float;
  __device__ static float widen(uint32_t bits) { return __uint_as_float(bits); }
  __device__ static uint32_t narrow(float number) { return __float_as_uint(number); }
};
struct Float64 {
  static constexpr DType kDType = DType::kFloat64;
  using Bits = uint64_t;
  using Number = double;
  __device__ static double widen(uint64_t bits) { return __longlong_as_double(static_cast<long long>(bits)); }
  __device__ static uint64_t narrow(double number) {
    return static_cast<uint64_t>(__double_as_longlong(number));
  }
};
struct Float16 {
  static constexpr DType kDType = DType::kFloat16;
  using Bits = uint16_t;
  using Number = float;
  __device__ static float widen(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
  __device__ static uint16_t narrow(float number) { return __half_as_ushort(__float2half_rn(number)); }
  __device__ static uint32_t narrow_two(float first, float second) {
    const __half2 two = __floats2half2_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&two);
  }
};
struct BFloat16 {
  static constexpr DType kDType = DType::kBFloat16;
  using Bits = uint16_t;
  using Number = float;
  __device__ static float widen(uint16_t bits) { return __uint_as_float(uint32_t{bits} << 16); }
  // To the nearest, ties to even; NaN stays one.
  __device__ static uint16_t narrow(float number) {
    const uint32_t bits = __float_as_uint(number);
    const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    return static_cast<uint16_t>(is_nan ? bits >> 16 | 0x40 : rounded);
  }
  __device__ static uint32_t narrow_two(float first, float second) {
    const __nv_bfloat162 two = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&two);
  }
};

__device__ inline float fused_multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double fused_multiply_add(double a, double b, double c) { return fma(a, b, c); }

template <class Self, class Add>
struct Sum {
  using Bits = typename Self::Bits;

  Bits* self;
  const typename Add::Bits* add;
  Bits* momentum;  // null: there is none
  int64_t rows, cols;
  int64_t self_stride, add_stride, momentum_stride;
  typename Self::Number alpha, mu;
};

template <class Self, class Add>
__device__ void add_one(const Sum<Self, Add>& sum, typename Self::Bits& self, typename Add::Bits add,
                        typename Self::Bits& momentum) {
  using Number = typename Self::Number;
  const Number added = static_cast<Number>(Add::widen(add)), before = Self::widen(self);
  if (sum.momentum == nullptr) {
    self = Self::narrow(fused_multiply_add(sum.alpha, added, before));
  } else {
    momentum = Self::narrow(fused_multiply_add(sum.mu, Self::widen(momentum), added));
    self = Self::narrow(before + Self::widen(momentum));
  }
}

// The same of two side by side of 2 bytes each, where there is no momentum: NaN's payload is open.
template <class Self, class Add>
__device__ void add_two(const Sum<Self, Add>& sum, typename Self::Bits* self, const typename Add::Bits* add) {
  const auto summed = [&](int i) {
    return fused_multiply_add(sum.alpha, Add::widen(add[i]), Self::widen(self[i]));
  };
  const uint32_t both = Self::narrow_two(summed(0), summed(1));
  self[0] = static_cast<typename Self::Bits>(both);
  self[1] = static_cast<typename Self::Bits>(both >> 16);
}

// `as_one_row`: all rows, one behind the other.
template <class Self, class Add>
Sum<Self, Add> sum_of(const SparsifyProblem& problem, const SparsifyBuffers& buffers, bool as_one_row) {
  using Bits = typename Self::Bits;
  using Number = typename Self::Number;
  return {static_cast<Bits*>(buffers.self),
          static_cast<const typename Add::Bits*>(buffers.add),
          static_cast<Bits*>(buffers.momentum),
          as_one_row ? 1 : problem.rows,
          as_one_row ? problem.rows * problem.cols : problem.cols,
          problem.self_stride,
          problem.add_stride,
          problem.momentum_stride,
          static_cast<Number>(problem.alpha),
          static_cast<Number>(problem.mu)};
}

// visit(Self{}, Add{}) of the problem's dtypes.
template <class Visitor>
auto visit_sum(const SparsifyProblem& problem, Visitor&& visit) {
  switch (problem.dtype) {
    case DType::kFloat16: return visit(Float16{}, Float16{});
    case DType::kBFloat16: return visit(BFloat16{}, BFloat16{});
    case DType::kFloat64: return visit(Float64{}, Float64{});
    default: break;
  }
  switch (problem.add_dtype) {
    case DType::kFloat16: return visit(Float32{}, Float16{});
    case DType::kBFloat16: return visit(Float32{}, BFloat16{});
    default: return visit(Float32{}, Float32{});
  }
}

}  // namespace gputopk::cuda::sparsify
