// Which entries a sample takes.
#pragma once

#include <cstdint>

namespace gputopk::cuda::sort {

// One entry of each of as many stretches as there are samples, somewhere in it. A fixed function of sizes.
__device__ inline int64_t sampled_entry(int i, int samples, int64_t entries) {
  const uint64_t length = static_cast<uint64_t>(entries) / samples;
  const uint64_t first = length * i + static_cast<uint64_t>(entries) % samples * i / samples;
  uint32_t mixed = static_cast<uint32_t>(i) * 2654435761u;
  mixed = (mixed ^ mixed >> 15) * 2246822519u;
  return static_cast<int64_t>(first + __umulhi(mixed ^ mixed >> 13, static_cast<uint32_t>(length)));
}

}  // namespace gputopk::cuda::sort
