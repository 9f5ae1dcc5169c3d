// Floating elements as they lie in memory, and as the numbers that they are computed with. Choices are masks:
// the compiler would not compute numbers for both sides of a branch, so loops with one would not become
// vectors.
#pragma once

#include <cstdint>

#include "core/problem.h"

namespace gputopk::cpu::GPUTOPK_CPU_LEVEL {

template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit copy");
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

inline uint32_t all_ones_if(bool holds) { return 0u - static_cast<uint32_t>(holds); }
inline uint32_t choose(uint32_t mask, uint32_t if_ones, uint32_t otherwise) {
  return (mask & if_ones) | (~mask & otherwise);
}

struct Float32Bits {
  using Bits = uint32_t;
  using Number = float;
  static float widen(uint32_t bits) { return bits_as<float>(bits); }
  static uint32_t narrow(float number) { return bits_as<uint32_t>(number); }
};

struct Float64Bits {
  using Bits = uint64_t;
  using Number = double;
  static double widen(uint64_t bits) { return bits_as<double>(bits); }
  static uint64_t narrow(double number) { return bits_as<uint64_t>(number); }
};

// Narrowed to the nearest, ties to even, as every processor does.
struct BFloat16Bits {
  using Bits = uint16_t;
  using Number = float;
  static float widen(uint16_t bits) { return bits_as<float>(uint32_t{bits} << 16); }
  static uint16_t narrow(float number) {
    const uint32_t bits = bits_as<uint32_t>(number);
    const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    const uint32_t nan = bits >> 16 | 0x40;  // quiet, so that no bit that is dropped made it one
    return static_cast<uint16_t>(choose(all_ones_if((bits & 0x7FFFFFFF) > 0x7F800000), nan, rounded));
  }
};

struct Float16Bits {
  using Bits = uint16_t;
  using Number = float;
  // Subnormals are put behind a leading one, which is then subtracted as a number.
  static float widen(uint16_t half) {
    constexpr uint32_t kBias = 112u << 23;
    const uint32_t magnitude = uint32_t{half & 0x7FFFu} << 13, sign = uint32_t{half & 0x8000u} << 16;
    const uint32_t exponent = magnitude & (0x1Fu << 23);
    const uint32_t normal = magnitude + kBias + (all_ones_if(exponent == (0x1Fu << 23)) & kBias);
    const uint32_t small = bits_as<uint32_t>(bits_as<float>(magnitude + (113u << 23)) - 0x1p-14f);
    return bits_as<float>(choose(all_ones_if(exponent == 0), small, normal) | sign);
  }
  // What is too small for a normal number is rounded by an addition whose last bit is a subnormal's.
  static uint16_t narrow(float number) {
    const uint32_t bits = bits_as<uint32_t>(number), magnitude = bits & 0x7FFFFFFF;
    const uint32_t sign = bits >> 16 & 0x8000;
    const uint32_t normal = (magnitude + 0xC8000FFFu + (magnitude >> 13 & 1)) >> 13;
    const uint32_t small = bits_as<uint32_t>(bits_as<float>(magnitude) + 0.5f) - 0x3F000000u;
    const uint32_t beyond = 0x7C00u | (all_ones_if(magnitude > 0x7F800000) & 0x0200u);
    const uint32_t finite = choose(all_ones_if(magnitude < 0x38800000), small, normal);
    return static_cast<uint16_t>(choose(all_ones_if(magnitude >= 0x47800000), beyond, finite) | sign);
  }
};

}  // namespace gputopk::cpu::GPUTOPK_CPU_LEVEL
