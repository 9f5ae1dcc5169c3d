// A whole row in the registers of a block, or of several, as numbers that compare in one instruction: of up
// to 2^15 elements a block, wherever the row begins.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "core/key_order.h"
#include "cuda/device/resident_row.cuh"
#include "cuda/device/row_reader.cuh"

namespace gputopk::cuda {

// What elements are compared as: keys, or, where a dtype is float32 or converts to it in an instruction,
// floats. The better of two elements is the greater number, or a NaN, which reaches any bound. So what
// reaches the number of an element is as good or better; what is best among it is left to keys.
template <class Order>
class Numbers {
 public:
  using Bits = typename Order::Bits;
  using Number = typename KeyWord<Bits>::type;

  __device__ explicit Numbers(const Order& order) : order_(order) {}

  template <int kElements, class BitsOf>
  __device__ __forceinline__ void convert(Number (&numbers)[kElements], BitsOf&& bits_of) const {
#pragma unroll
    for (int i = 0; i < kElements; ++i) numbers[i] = order_(bits_of(i));
  }
  // What stands for no element, and whether it, and elements as bad, stay below a bound.
  __device__ Bits nothing() const { return order_.worst(); }
  __device__ bool is_bound(Number bound) const { return bound > order_(order_.worst()); }

  __device__ static bool reaches(Number number, Number bound) { return number >= bound; }
  __device__ static bool is_above(Number number, Number bound) { return number > bound; }
  __device__ static bool is_equal(Number number, Number bound) { return number == bound; }
  // What all numbers are less than.
  __device__ static Number beyond() { return static_cast<Number>(~Number{0}); }
  __device__ static Number greater(Number x, Number y) { return max(x, y); }
  __device__ static Number lesser(Number x, Number y) { return min(x, y); }

  // A key of an element that reaches a bound, and of the number of one: the greater, the better.
  __device__ Number rank_key(Bits bits) const { return order_(bits); }
  __device__ static Number rank_key_of(Number number) { return number; }
  __device__ static Number number_of(Number rank_key) { return rank_key; }
  // Of the distance of two such keys, the lowest bits, which tell nothing.
  __device__ static int empty_bits() { return 0; }
  // The bits that all elements with this number have. False: there are several such, as of zero.
  __device__ bool bits_of_all(Number number, Bits& bits) const {
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << (Order::kBits - 1));
    const Bits key = static_cast<Bits>(number ^ order_.flip);
    const Bits above_zero = static_cast<Bits>(key - order_.offset);
    const bool by_magnitude = order_.signed_mask == (Order::kFloating ? Bits{0} : kSign);
    const bool is_nan = Order::kFloating && above_zero == static_cast<Bits>(order_.max_magnitude + 1);
    const bool is_negative = Order::kFloating && (above_zero & kSign) != 0;
    bits = is_negative ? static_cast<Bits>(kSign | static_cast<Bits>(0 - above_zero)) : above_zero;
    return !by_magnitude && !is_nan && !(Order::kFloating && above_zero == 0);
  }

 private:
  Order order_;
};

template <class Bits_>
class FloatNumbers {
 public:
  using Bits = Bits_;
  using Number = float;

  __device__ explicit FloatNumbers(const KeyOrder<Bits, true>& order)
      : keep_(order.signed_mask == 0 ? ~kSign : kAll),
        flip_(order.flip != 0 ? kSign : 0),
        nothing_(order.flip == 0 ? order.worst() : order.max_magnitude),
        is_bfloat16_(order.max_magnitude == max_magnitude_bits(DType::kBFloat16)) {}

  template <int kElements, class BitsOf>
  __device__ __forceinline__ void convert(float (&numbers)[kElements], BitsOf&& bits_of) const {
    const auto each = [&](auto&& widen) {
#pragma unroll
      for (int i = 0; i < kElements; ++i) numbers[i] = widen(bits_of(i));
    };
    if constexpr (sizeof(Bits) == 4) {
      each([](uint32_t bits) { return __uint_as_float(bits); });
    } else if (is_bfloat16_) {
      each([](uint16_t bits) { return __uint_as_float(uint32_t{bits} << 16); });
    } else {
      each([](uint16_t bits) { return __half2float(__ushort_as_half(bits)); });
    }
    if (keep_ == kAll && flip_ == 0) return;  // the greatest are wanted, as they are
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      numbers[i] = __uint_as_float((__float_as_uint(numbers[i]) & keep_) ^ flip_);
    }
    if (flip_ == 0) return;
    // The smallest are wanted, and a NaN is the worst.
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (numbers[i] != numbers[i]) numbers[i] = __uint_as_float(kMinusInfinity);
    }
  }
  __device__ Bits nothing() const { return nothing_; }
  __device__ bool is_bound(float bound) const {
    float least[1];
    convert(least, [&](int) { return nothing_; });
    return bound > least[0];
  }

  __device__ static bool reaches(float number, float bound) { return !(number < bound); }
  __device__ static bool is_above(float number, float bound) { return !(number <= bound) && bound == bound; }
  __device__ static bool is_equal(float number, float bound) {
    return number == bound || (number != number && bound != bound);
  }
  __device__ static float beyond() { return __uint_as_float(kNan); }
  // Of a number and a NaN, the number.
  __device__ static float greater(float x, float y) { return fmaxf(x, y); }
  __device__ static float lesser(float x, float y) { return fminf(x, y); }

  __device__ uint32_t rank_key(Bits bits) const {
    float number[1];
    convert(number, [&](int) { return bits; });
    return rank_key_of(number[0]);
  }
  // Sign and magnitude to two's complement, where -0 and +0 meet, and all NaNs.
  __device__ static uint32_t rank_key_of(float number) {
    if (number != number) return kAll;
    const int32_t bits = static_cast<int32_t>(__float_as_uint(number + 0.f));
    return static_cast<uint32_t>(bits ^ ((bits >> 31) & 0x7FFFFFFF)) ^ kSign;
  }
  // With such a key.
  __device__ static float number_of(uint32_t rank_key) {
    const int32_t bits = static_cast<int32_t>(rank_key ^ kSign);
    return __uint_as_float(static_cast<uint32_t>(bits ^ ((bits >> 31) & 0x7FFFFFFF)));
  }
  __device__ int empty_bits() const { return sizeof(Bits) == 4 ? 0 : is_bfloat16_ ? 16 : 13; }
  __device__ bool bits_of_all(float number, Bits& bits) const {
    const uint32_t word = __float_as_uint(number) ^ flip_;
    if constexpr (sizeof(Bits) == 4) {
      bits = word;
    } else {
      bits = is_bfloat16_ ? static_cast<Bits>(word >> 16)
                          : __half_as_ushort(__float2half_rn(__uint_as_float(word)));
    }
    const bool may_be_nan = number != number || (flip_ != 0 && __float_as_uint(number) == kMinusInfinity);
    return keep_ == kAll && number != 0 && !may_be_nan;
  }

 private:
  static constexpr uint32_t kAll = ~0u, kSign = 1u << 31;
  static constexpr uint32_t kMinusInfinity = 0xFF800000, kNan = 0x7FC00000;
  uint32_t keep_, flip_;  // of the float
  Bits nothing_;
  bool is_bfloat16_;
};
template <>
class Numbers<KeyOrder<uint32_t, true>> : public FloatNumbers<uint32_t> {
  using FloatNumbers::FloatNumbers;
};
template <>
class Numbers<KeyOrder<uint16_t, true>> : public FloatNumbers<uint16_t> {
  using FloatNumbers::FloatNumbers;
};

// One thread's share of a row: vectors a stripe apart, of those that the row's memory is divided into, or, if
// `shift` is 0, the row.
template <class Order, int kElements_>
class RowNumbers {
 public:
  using Bits = typename Order::Bits;
  using Number = typename Numbers<Order>::Number;
  static constexpr int kElements = kElements_;
  static constexpr int kInVector = kPerVector<Bits>;
  static constexpr int kVectors = kElements / kInVector;
  static_assert(kElements % kInVector == 0, "whole vectors");

  // Where a thread's elements lie.
  struct Places {
    int first, step;

    // Of element number i, in ascending order of i.
    __device__ __forceinline__ int index(unsigned i) const {
      return first + static_cast<int>(i / kInVector) * step + static_cast<int>(i % kInVector);
    }
  };

  // The row's beginning in its first vector.
  __device__ static int shift_of(const Bits* row) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(row) % kVectorBytes / sizeof(Bits));
  }

  // A thread's vectors as they come from memory: nothing waits for them until they are made numbers.
  struct Loaded {
    Places places;
    Vector<Bits> vectors[kVectors];

    // `place`: of the thread's vector in a stripe of `stripe`. `cols` and the shift are no more than kVectors
    // stripes have elements.
    __device__ __forceinline__ Loaded(const Bits* row, int cols, int place, int stripe,
                                      const Numbers<Order>& numbers, int shift = 0)
        : places{place * kInVector - shift, stripe * kInVector} {
      const bool aligned = shift == shift_of(row);
      const auto first_of = [&](int v) { return places.first + v * places.step; };
      const auto is_whole = [&](int v) {
        return aligned && first_of(v) >= 0 && first_of(v) + kInVector <= cols;
      };
      // Winners are read once more.
      const auto load = [&](int v) { vectors[v] = load_vector<Reading::kAgain>(row + first_of(v)); };
      if (__all_sync(~0u, is_whole(0) && is_whole(kVectors - 1))) {
#pragma unroll
        for (int v = 0; v < kVectors; ++v) load(v);
      } else {
        // Lanes that went another way would wait for the loads of those that do not.
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
          vectors[v] = vector_of(numbers.nothing());
          if (is_whole(v)) load(v);
        }
        if (__any_sync(~0u, !aligned || shift != 0 || cols % kInVector != 0)) {
#pragma unroll
          for (int v = 0; v < kVectors; ++v) {
            if (!is_whole(v) && first_of(v) < cols) {
              vectors[v] = load_elements(row, first_of(v), cols, numbers.nothing());
            }
          }
        }
      }
    }
  };

  __device__ __forceinline__ RowNumbers(const Loaded& loaded, const Numbers<Order>& numbers)
      : places(loaded.places) {
    numbers.convert(number, [&](int i) { return loaded.vectors[i / kInVector][i % kInVector]; });
  }
  __device__ __forceinline__ RowNumbers(const Bits* row, int cols, int place, int stripe,
                                        const Numbers<Order>& numbers, int shift = 0)
      : RowNumbers(Loaded(row, cols, place, stripe, numbers, shift), numbers) {}

  // Makes those without a bit what stands for no element.
  __device__ __forceinline__ void keep(uint32_t bits, const Numbers<Order>& numbers) {
    Number nothing[1];
    numbers.convert(nothing, [&](int) { return numbers.nothing(); });
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if ((bits >> i & 1) == 0) number[i] = nothing[0];
    }
  }

  __device__ __forceinline__ int index(unsigned i) const { return places.index(i); }

  Number number[kElements];
  const Places places;
};

}  // namespace gputopk::cuda
