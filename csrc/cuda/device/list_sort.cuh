// Bitonic sort of a list in shared memory by one block.
// Shanbhag, Pirk, Madden: Efficient Top-K Query Processing on Massively Parallel Hardware (SIGMOD '18),
// section 4.3: several elements a thread, so that up to three steps of the network share one trip to shared
// memory, and padding, so that the trips are free of bank conflicts.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/key_order.h"  // GPUTOPK_HOST_DEVICE

namespace gputopk::cuda {

// Where the network compares: at a stage of runs of `size`, values `stride` apart, of which the lower place
// gets the greater one where the run descends. A sort takes stages of 2, 4, ... `size`, and within a stage
// strides of size / 2, ... 2, 1.
GPUTOPK_HOST_DEVICE bool run_descends(int place, int size) { return (place & size) == 0; }

// A list with a place left free behind every 16.
template <class Entry>
class PaddedList {
 public:
  static constexpr int kUnpadded = 16;
  static constexpr int places(int entries) { return entries + entries / kUnpadded; }

  GPUTOPK_HOST_DEVICE explicit PaddedList(Entry* memory) : memory_(memory) {}
  GPUTOPK_HOST_DEVICE Entry& operator[](int i) const { return memory_[i + i / kUnpadded]; }

 private:
  Entry* memory_;
};

// kSteps strides of a stage for the 2^kSteps entries that number `item` has to itself: `least` is the last of
// the strides. `whole`: all stages up to 2^kSteps, of entries side by side.
template <int kSteps, bool kWhole, class List>
GPUTOPK_HOST_DEVICE void sort_item(const List& list, int item, int size, int least) {
  constexpr int kEntries = 1 << kSteps;
  const int low = item & (least - 1);
  const int base = (item - low) * kEntries + low;
  std::remove_reference_t<decltype(list[0])> entries[kEntries];
#pragma unroll
  for (int i = 0; i < kEntries; ++i) entries[i] = list[base + i * least];
  const auto exchange = [&](int i, int stride, bool descends) {
    const auto first = entries[i], second = entries[i + stride];
    const bool stays = (first > second) == descends;
    entries[i] = stays ? first : second;
    entries[i + stride] = stays ? second : first;
  };
  const auto strides = [&](int own_size) {
#pragma unroll
    for (int stride = kEntries / 2; stride > 0; stride /= 2) {
      if (stride >= own_size) continue;
#pragma unroll
      for (int i = 0; i < kEntries; ++i) {
        if ((i & stride) == 0)
          exchange(i, stride, run_descends(kWhole ? base + i : base, kWhole ? own_size : size));
      }
    }
  };
  if constexpr (kWhole) {
#pragma unroll
    for (int own_size = 2; own_size <= kEntries; own_size *= 2) strides(own_size);
  } else {
    strides(kEntries);
  }
#pragma unroll
  for (int i = 0; i < kEntries; ++i) list[base + i * least] = entries[i];
}

// Sorts the first `size` entries, best first. `size`: a power of two, 8 at least. `each(items, work)` calls
// work(item) for all of so many items, in any order, and waits for them: the threads of a block, or, on the
// host, a loop.
template <class List, class Each>
GPUTOPK_HOST_DEVICE void sort_list(const List& list, int size, Each&& each) {
  each(size / 8, [&](int item) { sort_item<3, true>(list, item, 8, 1); });
  for (int run = 16, strides = 4; run <= size; run *= 2, ++strides) {
    int greatest = run / 2;
    if (strides % 3 == 1) {
      each(size / 2, [&](int item) { sort_item<1, false>(list, item, run, greatest); });
      greatest /= 2;
    } else if (strides % 3 == 2) {
      each(size / 4, [&](int item) { sort_item<2, false>(list, item, run, greatest / 2); });
      greatest /= 4;
    }
    for (; greatest > 0; greatest /= 8) {
      each(size / 8, [&](int item) { sort_item<3, false>(list, item, run, greatest / 4); });
    }
  }
}

#ifdef __CUDACC__
// The `each` of a block's threads.
struct BlockItems {
  template <class Work>
  __device__ void operator()(int items, Work&& work) const {
    for (int item = static_cast<int>(threadIdx.x); item < items; item += static_cast<int>(blockDim.x)) {
      work(item);
    }
    __syncthreads();  // the next trip finds what this one wrote
  }
};
#endif

}  // namespace gputopk::cuda
