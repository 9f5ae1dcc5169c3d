// Selection from scores that are computed as they are asked for and never stored: a functor in place of a
// pointer.
// Zhang, Naruse, Li, Wang: Parallel Top-K Algorithms on GPU (SC '23), section 4: a selection in one pass, by
// queues of candidates, can be merged with the kernel that makes them.
//
// Each warp has a `Scores` of its own and calls it tile after tile of 32 positions or fewer:
//
//     uint32_t key = scores();  // of position scores.position(tile)
//
// The larger key is the better; 0 says that there is nothing at this position. Among equal keys the lower
// position wins.
#pragma once

#include <cstdint>

#include "cuda/device/warp_queue.cuh"

namespace gputopk::cuda {

using ScoreEntry = EntryOf<uint32_t, uint32_t>;

// Shared memory of select_scores, in bytes: each warp's queue, and later, in their place, half the lists.
template <int kItems>
constexpr size_t score_selection_bytes(int warps) {
  const size_t queues = warps * WarpQueue<uint64_t, kItems>::kSharedBytes;
  const size_t lists = (warps + 1) / 2 * WarpQueue<uint64_t, kItems>::kCapacity * sizeof(uint64_t);
  return queues > lists ? queues : lists;
}

// The best k <= 32 * kItems of `count` scores, fewer than 2^32, by all threads of a block: each warp's are
// tiles from `first` on that lie `step` apart. `write(rank, key, position)` is called once for each rank
// below k, by one lane, with key 0 where there is nothing. Afterwards `shared` is free.
template <int kItems, class Scores, class Write>
__device__ void select_scores(Scores&& scores, int64_t first, int64_t step, int64_t count, int k,
                              void* shared, Write&& write) {
  using Queue = WarpQueue<uint64_t, kItems>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  Queue queue(static_cast<char*>(shared) + warp * Queue::kSharedBytes, k);
  for (int64_t tile = first; tile < count; tile += step) {
    const uint32_t key = scores();
    queue.push(key != 0, ScoreEntry::pack(key, static_cast<uint32_t>(scores.position(tile))));
  }
  queue.flush();
  merge_lists(queue, warps, static_cast<uint64_t*>(shared));
  if (warp == 0) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int rank = lane * kItems + i;
      const uint64_t entry = queue.entry(i);
      if (rank < k) write(rank, ScoreEntry::key(entry), ScoreEntry::index(entry));
    }
  }
  __syncthreads();  // the last list handed over has been read
}

}  // namespace gputopk::cuda
