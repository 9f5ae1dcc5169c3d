// A kernel's dynamic shared memory.
#pragma once

namespace gputopk::cuda {

// All of it, from its first byte, 16-byte aligned: a kernel calls this once and hands out the parts.
__device__ inline unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char memory[];
  return memory;
}

}  // namespace gputopk::cuda
