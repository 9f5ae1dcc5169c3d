// What a warp that accumulates chunks has in shared memory: for the plan, which asks whether it fits.
#pragma once

#include "cuda/sparsify/numbers.h"

namespace gputopk::cuda::sparsify {

// A byte for each vector of a chunk, the places of those elements that reach a bound, and, where there are
// two bounds, the elements.
constexpr int chunk_bytes(int element_bytes, int chunk, bool two_sided) {
  return chunk * element_bytes / 16 + chunk * 2 + (two_sided ? chunk * element_bytes : 0);
}

// And what is between two bounds, with its indices, on its way out.
constexpr int between_bytes(int element_bytes) { return (tuning::kBetweenStaged + 32) * (element_bytes + 4); }

constexpr int chunk_warp_bytes(int element_bytes, int chunk, bool two_sided) {
  const int bytes = chunk_bytes(element_bytes, chunk, two_sided);
  return (bytes + (two_sided ? between_bytes(element_bytes) : 0) + 15) / 16 * 16;
}

}  // namespace gputopk::cuda::sparsify
