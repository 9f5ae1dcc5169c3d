// bfloat16 as far as it is used: from numbers, to the nearest, ties to even.
#pragma once

#include "simt.h"

struct __nv_bfloat16 {
  unsigned short bits;
};
inline __nv_bfloat16 __float2bfloat16_rn(float number) {
  const unsigned bits = simt::bits_as<unsigned>(number);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {0x7FFF};
  return {static_cast<unsigned short>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}
struct __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
inline float __bfloat162float(__nv_bfloat16 x) {
  return simt::bits_as<float>(static_cast<unsigned>(x.bits) << 16);
}
inline unsigned __hgtu2_mask(__nv_bfloat162 a, __nv_bfloat162 b) {
  const auto above = [](__nv_bfloat16 x, __nv_bfloat16 y) {
    return !(__bfloat162float(x) <= __bfloat162float(y)) ? 0xFFFFu : 0;
  };
  return above(a.x, b.x) | above(a.y, b.y) << 16;
}
