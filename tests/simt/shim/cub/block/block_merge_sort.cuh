#pragma once

#include "cub/sort_in_storage.cuh"

namespace cub {

template <class Item, int kThreads, int kItems>
class BlockMergeSort {
 public:
  using TempStorage = simt::SortStorage<Item, kThreads, kItems>;

  explicit BlockMergeSort(TempStorage& storage) : storage_(storage) {}
  template <class Less>
  void Sort(Item (&items)[kItems], Less less) {
    simt::sort_in_storage(storage_, static_cast<int>(threadIdx.x), items, less, [] { __syncthreads(); });
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
