// The k best entries that one warp has seen: a sorted list in registers behind a queue of new ones.
// Zhang, Naruse, Li, Wang: Parallel Top-K Algorithms on GPU (SC '23), section 4; the list and its merges are
// WarpSelect's (Johnson, Douze, Jegou: Billion-scale similarity search with GPUs, section 4).
//
// An entry is one unsigned number whose order is the whole contract: the key above the inverted index, so
// that of equal keys the lower index is the greater entry, and no two elements of a row share one. Rows are
// shorter than an Index can count, so an inverted index is never 0: entry 0 stands for "nothing", and is less
// than every element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/device/selection.cuh"

namespace gputopk::cuda {

// How elements are packed into entries, and back. `Index` is uint32_t in rows of fewer than 2^32 elements.
template <class Bits, class Index>
struct EntryOf {
  using Word = typename KeyWord<Bits>::type;
  using type = std::conditional_t<sizeof(Word) + sizeof(Index) <= 8, uint64_t, unsigned __int128>;
  static constexpr int kIndexBits = 8 * sizeof(Index);

  __device__ static type pack(Word key, Index index) {
    return static_cast<type>(key) << kIndexBits | static_cast<Index>(~index);
  }
  // Greater than no element of this key, and than all elements of lesser keys.
  __device__ static type below(Word key) { return static_cast<type>(key) << kIndexBits; }
  __device__ static Word key(type entry) { return static_cast<Word>(entry >> kIndexBits); }
  __device__ static Index index(type entry) { return static_cast<Index>(~static_cast<Index>(entry)); }
};

// Everything below is inlined: a list stays in registers only where no call takes its address.

// ---- Networks over the 32 * kItems values of a warp: value number lane * kItems + i is item i of its lane
// ----

template <class T>
__device__ __forceinline__ T shuffle(T value, int lane) {
  if constexpr (sizeof(T) == 16) {
    const uint64_t high = __shfl_sync(~0u, static_cast<uint64_t>(value >> 64), lane);
    const uint64_t low = __shfl_sync(~0u, static_cast<uint64_t>(value), lane);
    return static_cast<T>(high) << 64 | low;
  } else {
    return __shfl_sync(~0u, value, lane);
  }
}

template <class T>
__device__ __forceinline__ T shuffle_xor(T value, int mask) {
  if constexpr (sizeof(T) == 16) {
    const uint64_t high = __shfl_xor_sync(~0u, static_cast<uint64_t>(value >> 64), mask);
    const uint64_t low = __shfl_xor_sync(~0u, static_cast<uint64_t>(value), mask);
    return static_cast<T>(high) << 64 | low;
  } else {
    return __shfl_xor_sync(~0u, value, mask);
  }
}

// One stage of a bitonic merge of runs of kSize values, which come out descending and ascending in turn:
// values kStride apart change places where they are out of order.
template <int kSize, int kStride, bool kDescending, class T, int kItems>
__device__ __forceinline__ void exchange(T (&items)[kItems]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool run_descends = kDescending == ((lane & kSize / kItems) == 0);
  if constexpr (kStride >= kItems) {
    const bool takes_greater = ((lane & kStride / kItems) == 0) == run_descends;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const T other = shuffle_xor(items[i], kStride / kItems);
      items[i] = (items[i] > other) == takes_greater ? items[i] : other;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (i & kStride) continue;
      const bool descends = kSize < kItems ? kDescending == ((i & kSize) == 0) : run_descends;
      const T low = items[i], high = items[i + kStride];
      const bool stays = (low > high) == descends;
      items[i] = stays ? low : high;
      items[i + kStride] = stays ? high : low;
    }
  }
}

template <int kSize, int kStride, bool kDescending, class T, int kItems>
__device__ __forceinline__ void merge_runs(T (&items)[kItems]) {
  exchange<kSize, kStride, kDescending>(items);
  if constexpr (kStride > 1) merge_runs<kSize, kStride / 2, kDescending>(items);
}

template <int kSize, bool kDescending, class T, int kItems>
__device__ __forceinline__ void sort_runs(T (&items)[kItems]) {
  if constexpr (kSize > 2) sort_runs<kSize / 2, kDescending>(items);
  merge_runs<kSize, kSize / 2, kDescending>(items);
}

// Bitonic sort of the warp's values.
template <bool kDescending, class T, int kItems>
__device__ __forceinline__ void sort_warp(T (&items)[kItems]) {
  sort_runs<32 * kItems, kDescending>(items);
}

// Value number `rank` of the warp's, in all lanes; the same rank in all of them.
template <class T, int kItems>
__device__ __forceinline__ T value_at(const T (&items)[kItems], int rank) {
  T value = 0;  // gathered by masks: of a chain of conditions the compiler makes an array in memory
#pragma unroll
  for (int i = 0; i < kItems; ++i) value |= items[i] & (T{0} - static_cast<T>(rank % kItems == i));
  return shuffle(value, rank / kItems);
}

// ---- The list ----

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
    merge_runs<kCapacity, kCapacity / 2, /*kDescending=*/true>(list_);
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
