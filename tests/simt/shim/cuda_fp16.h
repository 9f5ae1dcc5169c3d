// float16 as far as it is used: to a number and back.
#pragma once

#include "simt.h"

struct __half {
  unsigned short bits;
};
inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline float __half2float(__half half) { return static_cast<float>(simt::bits_as<_Float16>(half.bits)); }
inline unsigned short __half_as_ushort(__half half) { return half.bits; }
inline __half __float2half_rn(float number) {
  return {simt::bits_as<unsigned short>(static_cast<_Float16>(number))};
}
struct __half2 {
  __half x, y;
};
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
inline unsigned __hgtu2_mask(__half2 a, __half2 b) {
  const auto above = [](__half x, __half y) { return !(__half2float(x) <= __half2float(y)) ? 0xFFFFu : 0; };
  return above(a.x, b.x) | above(a.y, b.y) << 16;
}
