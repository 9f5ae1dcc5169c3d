// What stands in for CUB's sorts of a warp's or block's items: one thread sorts them all in shared memory.
#pragma once

#include <algorithm>

#include "simt.h"

namespace simt {

template <class Item, int kThreads, int kItems>
struct SortStorage {
  Item items[kThreads * kItems];
};

// Item i of thread t is number t * kItems + i. `wait` is a barrier of the kThreads threads.
template <class Item, int kThreads, int kItems, class Less, class Wait>
void sort_in_storage(SortStorage<Item, kThreads, kItems>& storage, int thread, Item (&items)[kItems], Less less,
                     Wait&& wait) {
  for (int i = 0; i < kItems; ++i) storage.items[thread * kItems + i] = items[i];
  wait();
  if (thread == 0) std::stable_sort(storage.items, storage.items + kThreads * kItems, less);
  wait();
  for (int i = 0; i < kItems; ++i) items[i] = storage.items[thread * kItems + i];
}

}  // namespace simt
