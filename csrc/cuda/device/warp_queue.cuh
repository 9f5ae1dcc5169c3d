// The k best entries that one warp has seen: a sorted list in registers behind a queue of new ones.
// Zhang, Naruse, Li, Wang: Parallel Top-K Algorithms on GPU (SC '23), section 4; the list and its merges are
// WarpSelect's (Johnson, Douze, Jegou: Billion-scale similarity search with GPUs, section 4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/device/entry.cuh"
#include "cuda/device/warp_sort.cuh"

namespace gputopk::cuda {

// Everything below is inlined: a list stays in registers only where no call takes its address.

// Its kCapacity best entries, best first, of which the k first are asked for. Everything is called by all
// lanes of the warp together.
template <class Entry_, int kItems_>
class WarpList {
 public:
  using Entry = Entry_;
  static constexpr int kItems = kItems_;
  static constexpr int kCapacity = 32 * kItems;

  // `k` <= kCapacity.
  __device__ __forceinline__ explicit WarpList(int k) : k_(k) {}

  // An entry must be greater to matter. The same in all lanes.
  __device__ __forceinline__ Entry threshold() const { return threshold_; }

  // Makes it known that at least k entries of the row, or of what else is selected from, are `bound` or
  // greater, and that this warp has seen `bound` if it is one of its own.
  __device__ __forceinline__ void raise(Entry bound) {
    if (bound > threshold_) threshold_ = bound;
  }

  // This lane's i-th entry, which has the rank lane * kItems + i. 0: there are no so many.
  __device__ __forceinline__ Entry entry(int i) const { return list_[i]; }
  // The entry of a rank, in all lanes.
  __device__ __forceinline__ Entry ranked(int rank) const { return value_at(list_, rank); }

  __device__ __forceinline__ void store(Entry* to) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) to[lane() * kItems + i] = list_[i];
  }

  // Merges a list that another warp has stored.
  __device__ __forceinline__ void merge(const Entry* from) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const Entry other = from[kCapacity - 1 - (lane() * kItems + i)];
      if (other > list_[i]) list_[i] = other;
    }
    restore_order();
  }

 protected:
  __device__ __forceinline__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ __forceinline__ static unsigned lanes_below() { return (1u << lane()) - 1; }

  // Sorts 32 * kNew entries, 0 where there is none, and merges them.
  template <int kNew>
  __device__ __forceinline__ void insert(Entry (&fresh)[kNew]) {
    static_assert(kNew <= kItems && kItems % kNew == 0, "new entries meet the last of the list");
    sort_warp</*kDescending=*/false>(fresh);
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      Entry other = fresh[i % kNew];
      if constexpr (kNew < kItems) {
        const int place = lane() * kItems + i - (kCapacity - 32 * kNew);
        other = shuffle(other, place < 0 ? 0 : place / kNew);
        if (place < 0) other = 0;
      }
      if (other > list_[i]) list_[i] = other;
    }
    restore_order();
  }

 private:
  // A descending and an ascending sequence leave, place by place, their greater halves, and bitonic.
  __device__ __forceinline__ void restore_order() {
    merge_runs<kCapacity / 2>(list_, /*descends=*/true);
    raise(value_at(list_, k_ - 1));
  }

  int k_;
  Entry threshold_ = 0;
  Entry list_[kItems] = {};
};

// Entries of a batch that is sorted and merged at once: a lane's share. Few, so that a list soon has a good
// threshold; a merge costs as much for a full batch as for one entry.
template <int kItems>
inline constexpr int kBatchItems = kItems < 2 ? kItems : 2;

// The list behind one queue of the warp in shared memory, filled by the two-step insertion.
template <class Entry, int kItems>
class WarpQueue : public WarpList<Entry, kItems> {
  using List = WarpList<Entry, kItems>;
  static constexpr int kBatch = kBatchItems<kItems>;
  static constexpr int kQueue = 32 * kBatch;  // a full warp's entries at least: what is left over fits

 public:
  static constexpr size_t kSharedBytes = kQueue * sizeof(Entry);

  // `shared` is kSharedBytes of this warp's own, 16-byte aligned.
  __device__ __forceinline__ WarpQueue(void* shared, int k) : List(k), queue_(static_cast<Entry*>(shared)) {}

  // Takes the entries of the lanes that say so, if they are above the threshold. True if the list changed.
  __device__ __forceinline__ bool push(bool take, Entry entry) {
    take = take && entry > this->threshold();
    const unsigned takers = __ballot_sync(~0u, take);
    if (takers == 0) return false;
    const int place = count_ + __popc(takers & this->lanes_below());
    if (take && place < kQueue) queue_[place] = entry;
    count_ += __popc(takers);
    if (count_ < kQueue) return false;
    count_ = kQueue;
    flush();
    // The second step: those that found no place, if they still matter.
    take = take && place >= kQueue && entry > this->threshold();
    const unsigned rest = __ballot_sync(~0u, take);
    if (take) queue_[__popc(rest & this->lanes_below())] = entry;
    count_ = __popc(rest);
    return true;
  }

  // The same while nothing has been pushed, and for fewer than 32 takers: short, as nothing can be full.
  __device__ __forceinline__ void push_first(bool take, Entry entry) {
    take = take && entry > this->threshold();
    const unsigned takers = __ballot_sync(~0u, take);
    if (take) queue_[__popc(takers & this->lanes_below())] = entry;
    count_ = __popc(takers);
  }

  // What is queued goes into the list.
  __device__ __forceinline__ void flush() {
    if (count_ == 0) return;
    __syncwarp();  // the lanes' entries are in shared memory
    Entry fresh[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int place = this->lane() * kBatch + i;
      fresh[i] = place < count_ ? queue_[place] : Entry{0};
    }
    __syncwarp();  // and have been read before the next ones arrive
    this->insert(fresh);
    count_ = 0;
  }

 private:
  Entry* queue_;
  int count_ = 0;  // the same in all lanes
};

// The same with a queue a lane in registers, merged when any lane's is full: WarpSelect's own, which the
// paper's figure 11 compares.
template <class Entry, int kItems>
class ThreadQueues : public WarpList<Entry, kItems> {
  using List = WarpList<Entry, kItems>;
  static constexpr int kBatch = kBatchItems<kItems>;
  static constexpr int kSlots = kItems <= 2 ? 2 : 4;

 public:
  static constexpr size_t kSharedBytes = 0;

  __device__ __forceinline__ ThreadQueues(void*, int k) : List(k) {}

  __device__ __forceinline__ bool push(bool take, Entry entry) {
    take = take && entry > this->threshold();
    if (take) {
#pragma unroll
      for (int slot = kSlots - 1; slot > 0; --slot) queue_[slot] = queue_[slot - 1];
      queue_[0] = entry;
      ++count_;
    }
    if (!__any_sync(~0u, count_ == kSlots)) return false;
    flush();
    return true;
  }

  __device__ __forceinline__ void push_first(bool take, Entry entry) {
    if (!take || entry <= this->threshold()) return;
    queue_[0] = entry;
    count_ = 1;
  }

  __device__ __forceinline__ void flush() {
#pragma unroll
    for (int first = 0; first < kSlots; first += kBatch) {
      Entry fresh[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) fresh[i] = queue_[first + i];
      this->insert(fresh);
    }
#pragma unroll
    for (Entry& entry : queue_) entry = 0;
    count_ = 0;
  }

 private:
  Entry queue_[kSlots] = {};
  int count_ = 0;  // this lane's
};

// Merges the lists of the block's first `warps` warps, flushed, into that of warp 0, in pairs. By all threads
// of the block. `shared` has room for (warps + 1) / 2 lists, and may be where the queues were.
template <class Entry, int kItems>
__device__ __forceinline__ void merge_lists(WarpList<Entry, kItems>& list, int warps, Entry* shared) {
  constexpr int kCapacity = WarpList<Entry, kItems>::kCapacity;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int width = 1; width < warps; width *= 2) {
    Entry* const handed = shared + warp / (2 * width) * kCapacity;
    __syncthreads();  // queues, and the lists of the round before, have been read
    if (warp < warps && warp % (2 * width) == width) list.store(handed);
    __syncthreads();  // the lists are there
    if (warp % (2 * width) == 0 && warp + width < warps) list.merge(handed);
  }
}

}  // namespace gputopk::cuda
