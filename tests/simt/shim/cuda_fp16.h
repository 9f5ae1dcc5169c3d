// float16 as far as it is used: read as a number.
#pragma once

#include "simt.h"

struct __half {
  unsigned short bits;
};
inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline float __half2float(__half half) { return static_cast<float>(simt::bits_as<_Float16>(half.bits)); }
