// The loop of a block over what its threads do in turn.
#pragma once

namespace gputopk::cuda {

// Calls visit(i) for each i from 0 to end - 1, by the threads of a block in turn, without a barrier. A loop
// of few turns, as most of those over shared memory are: the compiler would take several at once, and divide
// to find how many there are, which takes longer than they do.
template <class Count, class Visit>
__device__ __forceinline__ void each_in_block(Count end, Visit&& visit) {
#pragma unroll 1
  for (Count i = static_cast<Count>(threadIdx.x); i < end; i += static_cast<Count>(blockDim.x)) visit(i);
}

}  // namespace gputopk::cuda
