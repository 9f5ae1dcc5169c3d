// What a bound from delegates in registers lets in, divided into parts that blocks of their own put in order.
// Common to resident_cluster.cu and resident_grid.cu.
#pragma once

#include <cstdint>

#include "cuda/delegate/numbers.h"

namespace gputopk::cuda::delegate {

constexpr int kParts = tuning::kResidentParts;
static_assert(kParts == 4, "a vector of counts");

// By how much the rank of a bound among delegates may exceed what it is to be.
GPUTOPK_HOST_DEVICE int slack_of_rank(int rank) {
  return tuning::kResidentLeastSlack + rank / tuning::kResidentRankSlack;
}

// A bound, and pivots between parts of what reaches it.
template <class Word>
struct Bounds {
  Word bound;
  Word pivots[kParts - 1];

  // Of a key that reaches it, the better, the lower.
  __device__ int part_of(Word key) const {
    int part = 0;
#pragma unroll
    for (int i = 0; i < kParts - 1; ++i) part += key < pivots[i];
    return part;
  }
};

// Entries of each part.
struct alignas(16) PartCounts {
  uint32_t of[kParts];

  __device__ uint32_t sum() const { return of[0] + of[1] + of[2] + of[3]; }
  __device__ uint32_t most() const { return max(max(of[0], of[1]), max(of[2], of[3])); }
  // Without an index, so that they stay in registers.
  __device__ uint32_t of_part(int part) const {
    uint32_t count = of[0];
#pragma unroll
    for (int p = 1; p < kParts; ++p) count = part == p ? of[p] : count;
    return count;
  }
  // In better parts.
  __device__ uint32_t before(int part) const {
    uint32_t count = 0;
#pragma unroll
    for (int p = 0; p < kParts; ++p) count += p < part ? of[p] : 0;
    return count;
  }
};

}  // namespace gputopk::cuda::delegate
