// Selection from scores that are computed as they are asked for and never stored: a functor in place of a
// pointer.
// Zhang, Naruse, Li, Wang: Parallel Top-K Algorithms on GPU (SC '23), section 4: a selection in one pass, by
// queues of candidates, can be merged with the kernel that makes them.
//
// Warps share `count()` positions by tiles of 32 or fewer, and each has a `Scores` of its own: `first(warp)`
// is where its first tile begins, `step()` how far on the next one does. It is called by whole warps, tile
// after tile:
//
//     uint32_t key = scores(tile);  // of position scores.position(tile)
//
// The larger key is the better; 0 says that there is nothing at this position, as it must at those from
// `count()` on. Among equal keys the lower position wins.
#pragma once

#include <cstdint>

#include "cuda/device/warp_queue.cuh"

namespace gputopk::cuda {

using ScoreEntry = EntryOf<uint32_t, uint32_t>;

// Visits what belongs to a warp of the positions of [0, count): visit(position, key).
template <class Scores, class Visit>
__device__ void visit_scores(Scores&& scores, int64_t count, int64_t warp, Visit&& visit) {
  for (int64_t tile = scores.first(warp); tile < count; tile += scores.step()) {
    visit(scores.position(tile), scores(tile));
  }
}

// Shared memory of select_scores, in bytes: each warp's queue, and later, in their place, half the lists.
template <int kItems>
constexpr size_t score_selection_bytes(int warps) {
  const size_t queues = warps * WarpQueue<uint64_t, kItems>::kSharedBytes;
  const size_t lists = (warps + 1) / 2 * WarpQueue<uint64_t, kItems>::kCapacity * sizeof(uint64_t);
  return queues > lists ? queues : lists;
}

// The best k <= 32 * kItems of fewer than 2^32 scores, by all threads of a block: warp number w of the block
// is number w of those that share the positions. `write(rank, key, position)` is called once for each rank
// below k, by one lane, with key 0 where there is nothing. Afterwards `shared` is free.
template <int kItems, class Scores, class Write>
__device__ void select_scores(Scores&& scores, int k, void* shared, Write&& write) {
  using Queue = WarpQueue<uint64_t, kItems>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  Queue queue(static_cast<char*>(shared) + warp * Queue::kSharedBytes, k);
  visit_scores(scores, scores.count(), warp, [&](int64_t position, uint32_t key) {
    queue.push(key != 0, ScoreEntry::pack(key, static_cast<uint32_t>(position)));
  });
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
