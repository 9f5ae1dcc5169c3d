// Blocks of a thread block cluster: their barrier, and each other's shared memory.
#pragma once

#include <cstdint>

namespace gputopk::cuda {

// Before compute capability 9.0 a cluster is one block.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
struct Cluster {
  __device__ static int blocks() { return static_cast<int>(__clusterSizeInBlocks()); }
  __device__ static int rank() { return static_cast<int>(__clusterRelativeBlockRank()); }
  // Which cluster of the grid it is.
  __device__ static int64_t number() { return __clusterIdx().x; }

  // A barrier in two halves, by all threads of all blocks that have not ended: what they wrote before
  // arriving is seen by all who have waited. No block may end before the others have done with its shared
  // memory, nor touch theirs before all have begun.
  __device__ static void arrive() { __cluster_barrier_arrive(); }
  __device__ static void wait() { __cluster_barrier_wait(); }
  // Arrives and tells the others no more than that this block has begun, and has opened its mailboxes: orders
  // nothing else. Each thread waits once before anything else of the cluster.
  __device__ static void begin() { __cluster_barrier_arrive_relaxed(); }

  // Where the block of that rank has what is at `mine` in this block's shared memory.
  template <class T>
  __device__ static T* of_block(T* mine, int rank) {
    return static_cast<T*>(__cluster_map_shared_rank(mine, static_cast<unsigned>(rank)));
  }
};
#else
struct Cluster {
  __device__ static int blocks() { return 1; }
  __device__ static int rank() { return 0; }
  __device__ static int64_t number() { return blockIdx.x; }
  __device__ static void arrive() { __syncthreads(); }
  __device__ static void wait() {}
  __device__ static void begin() { __syncthreads(); }
  template <class T>
  __device__ static T* of_block(T* mine, int) {
    return mine;
  }
};
#endif

}  // namespace gputopk::cuda
