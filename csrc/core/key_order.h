// value -> ordered unsigned key. NaN, zero, largest and magnitude live in this file and nowhere else.
//
// A key is as wide as its value, and a larger key is always the better element: a select loop compares
// unsigned integers and knows nothing of dtypes or flags. Equal values have equal keys (-0 and +0, all
// NaNs), so a key cannot be decoded; outputs are copied from the input.
//
// The order is data, not code: a few masks that a kernel takes by value. Code is instantiated for the
// eight combinations of width and integer | floating.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/problem.h"

#ifdef __CUDACC__
#define GPUTOPK_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define GPUTOPK_HOST_DEVICE inline __attribute__((always_inline))
#endif

namespace gputopk {

// An element's distance from the least of a range of keys in three instructions, without its key: for
// patterns whose keys are in the range, key - least; for all others, more than the range is wide.
template <class Word>
struct KeyDistance {
  Word keep, mirror, origin;

  GPUTOPK_HOST_DEVICE Word operator()(Word bits) const {
    return static_cast<Word>(static_cast<Word>((bits & keep) ^ mirror) - origin);
  }
  // The pattern at a distance, where none loses a bit.
  GPUTOPK_HOST_DEVICE bool keeps_all() const { return keep == static_cast<Word>(~Word{0}); }
  GPUTOPK_HOST_DEVICE Word bits_at(Word distance) const {
    return static_cast<Word>(static_cast<Word>(distance + origin) ^ mirror);
  }
};

template <class Bits_, bool kFloating_>
struct KeyOrder {
  using Bits = Bits_;
  static constexpr bool kFloating = kFloating_;
  static constexpr int kBits = 8 * sizeof(Bits);

  Bits signed_mask;    // the sign bit where a set sign means "negate", else 0
  Bits offset;         // what lifts the least value of the order to key 0
  Bits max_magnitude;  // floating: the largest magnitude that is not NaN
  Bits flip;           // all ones when the smallest are wanted

  GPUTOPK_HOST_DEVICE Bits operator()(Bits bits) const {
#ifdef __CUDA_ARCH__
    using Word = std::conditional_t<sizeof(Bits) == 8, uint64_t, uint32_t>;  // no narrower registers
#else
    using Word = Bits;  // so that a vector holds as many as it can
#endif
    constexpr Word kMagnitude = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
    // All ones where the value is negated.
    const Word negate =
        static_cast<Word>(Word{0} - static_cast<Word>(static_cast<Word>(bits & signed_mask) >> (kBits - 1)));
    const Word magnitude = kFloating ? static_cast<Word>(bits & kMagnitude) : static_cast<Word>(bits);
    // Sign and magnitude to two's complement, where -0 and +0 meet.
    Word key = static_cast<Word>(static_cast<Word>((magnitude ^ negate) - negate) + offset);
    if constexpr (kFloating) {
      // -inf is 0 and +inf is 2 x max_magnitude; a NaN is beyond, or, if negative, wraps around to there.
      const Word nan_key = static_cast<Word>(2 * max_magnitude + 1);
      key = key < nan_key ? key : nan_key;
    }
    return static_cast<Bits>(key ^ flip);
  }

  // All keys are equal: every magnitude's, lifted by one, is cut off there. So entries go by their index.
  GPUTOPK_HOST_DEVICE static KeyOrder of_equals() {
    static_assert(kFloating);
    return {/*signed_mask=*/0, /*offset=*/1, /*max_magnitude=*/0, /*flip=*/0};
  }

  // A pattern whose key no other's is below: what a row is filled up with behind its last element.
  GPUTOPK_HOST_DEVICE Bits worst() const {
    constexpr Bits kAll = static_cast<Bits>(~Bits{0});
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << (kBits - 1));
    if constexpr (kFloating) {
      if (flip != 0) return static_cast<Bits>(kAll ^ kSign);  // NaN
      return signed_mask == 0 ? Bits{0} : static_cast<Bits>(kSign | max_magnitude);
    } else {
      return signed_mask == 0 ? static_cast<Bits>(offset ^ flip) : static_cast<Bits>(flip & kSign);
    }
  }

  // Whether the keys of [least, most] come from bit patterns along which the key moves in steps of one, and
  // then their distance. True unless the range holds zero or NaN, or magnitudes of two's complement.
  template <class Word>
  GPUTOPK_HOST_DEVICE bool distance_from(Word least, Word most, KeyDistance<Word>& distance) const {
    constexpr Word kAll = static_cast<Word>(~Word{0});
    // The range before the flip.
    const Word low = flip ? static_cast<Word>(flip - most) : least;
    const Word high = flip ? static_cast<Word>(flip - least) : most;
    if constexpr (kFloating) {
      constexpr Word kSign = static_cast<Word>(Word{1} << (kBits - 1));
      const bool by_magnitude = signed_mask == 0;
      distance.keep = by_magnitude ? static_cast<Word>(kSign - 1) : kAll;
      if (high > static_cast<Word>(2 * Word{max_magnitude})) return false;
      const bool positive = by_magnitude ? low >= offset : low > offset;
      if (!positive && high >= offset) return false;
      // The patterns of the range's ends; negative values fall as their pattern grows.
      const Word at_low =
          positive ? static_cast<Word>(low - offset) : static_cast<Word>(kSign + (offset - low));
      const Word at_high =
          positive ? static_cast<Word>(high - offset) : static_cast<Word>(kSign + (offset - high));
      const bool key_rises = positive == (flip == 0);
      distance.mirror = key_rises ? Word{0} : kAll;
      distance.origin = static_cast<Word>((flip ? at_high : at_low) ^ distance.mirror);
    } else {
      if (signed_mask != 0) return false;
      distance.keep = kAll;
      distance.mirror = static_cast<Word>(flip ? offset ^ kAll : offset);
      distance.origin = static_cast<Word>(flip ? ~high : low);
    }
    return true;
  }
};

// The bits of the largest magnitude that is not NaN: infinity, or 448 in float8_e4m3fn, which has none.
constexpr uint64_t max_magnitude_bits(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3: return 0x7E;
    case DType::kFloat8E5M2: return 0x7C;
    case DType::kFloat16: return 0x7C00;
    case DType::kBFloat16: return 0x7F80;
    case DType::kFloat32: return 0x7F800000;
    case DType::kFloat64: return 0x7FF0000000000000;
    default: return 0;
  }
}

constexpr bool is_signed_integer(DType dtype) {
  return dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32 || dtype == DType::kInt64;
}

template <class Bits, bool kFloating>
GPUTOPK_HOST_DEVICE KeyOrder<Bits, kFloating> make_key_order(DType dtype, bool largest, bool magnitude) {
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  KeyOrder<Bits, kFloating> order{};
  if (kFloating) {
    order.signed_mask = magnitude ? Bits{0} : kSign;
    order.offset = static_cast<Bits>(max_magnitude_bits(dtype));
  } else {
    // |INT_MIN| is 2^(bits-1), which fits the unsigned key, so it is the largest magnitude.
    order.signed_mask = magnitude && is_signed_integer(dtype) ? kSign : Bits{0};
    order.offset = !magnitude && is_signed_integer(dtype) ? kSign : Bits{0};
  }
  order.max_magnitude = static_cast<Bits>(max_magnitude_bits(dtype));
  order.flip = largest ? Bits{0} : static_cast<Bits>(~Bits{0});
  return order;
}

// Calls visitor(KeyOrder) with an order in which all values of the dtype are equal.
template <class Visitor>
auto visit_equals(DType dtype, Visitor&& visitor) {
  switch (dtype_bytes(dtype)) {
    case 1: return visitor(KeyOrder<uint8_t, true>::of_equals());
    case 2: return visitor(KeyOrder<uint16_t, true>::of_equals());
    case 4: return visitor(KeyOrder<uint32_t, true>::of_equals());
    default: return visitor(KeyOrder<uint64_t, true>::of_equals());
  }
}

// Calls visitor(KeyOrder) with the one of the eight instances that serves the dtype.
template <class Visitor>
GPUTOPK_HOST_DEVICE auto visit_key_order(DType dtype, bool largest, bool magnitude, Visitor&& visitor) {
  const auto visit_width = [&](auto floating) {
    constexpr bool kFloating = decltype(floating)::value;
    switch (dtype_bytes(dtype)) {
      case 1: return visitor(make_key_order<uint8_t, kFloating>(dtype, largest, magnitude));
      case 2: return visitor(make_key_order<uint16_t, kFloating>(dtype, largest, magnitude));
      case 4: return visitor(make_key_order<uint32_t, kFloating>(dtype, largest, magnitude));
      default: return visitor(make_key_order<uint64_t, kFloating>(dtype, largest, magnitude));
    }
  };
  return is_floating(dtype) ? visit_width(std::true_type{}) : visit_width(std::false_type{});
}

}  // namespace gputopk
