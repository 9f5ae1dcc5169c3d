// Which entries a sample takes.
#pragma once

#include <cstdint>

#include "core/key_order.h"  // GPUTOPK_HOST_DEVICE

namespace gputopk::cuda {

// One entry of each of so many strata of fewer than 2^47 entries, somewhere in it: a fixed function of sizes.
// There are as many entries as strata, or more.
struct Strata {
  uint64_t length;  // of a stratum, times 2^16: multiplied out, as divisions take longer than loads

  GPUTOPK_HOST_DEVICE static Strata of(int64_t entries, int64_t strata) {
    return {(static_cast<uint64_t>(entries) << 16) / static_cast<uint64_t>(strata)};
  }

#ifdef __CUDACC__
  __device__ int64_t entry_of(uint32_t stratum) const {
    const int64_t first = static_cast<int64_t>(stratum * length >> 16);
    const int64_t next = static_cast<int64_t>((stratum + 1) * length >> 16);
    return first + __umulhi(scrambled(stratum), static_cast<uint32_t>(next - first));
  }

 private:
  __device__ static uint32_t scrambled(uint32_t x) {
    // The constant, as 0 would stay 0: an entry that callers often make special.
    x = (x ^ 0x9E3779B9u ^ (x >> 16)) * 0x85EBCA6Bu;
    x = (x ^ (x >> 13)) * 0xC2B2AE35u;
    return x ^ (x >> 16);
  }
#endif
};

}  // namespace gputopk::cuda
