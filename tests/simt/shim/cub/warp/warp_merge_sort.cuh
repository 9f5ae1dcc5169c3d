#pragma once

#include "cub/sort_in_storage.cuh"

namespace cub {

template <class Item, int kItems, int kLanes>
class WarpMergeSort {
 public:
  static_assert(kLanes == 32, "whole warps");
  using TempStorage = simt::SortStorage<Item, kLanes, kItems>;

  explicit WarpMergeSort(TempStorage& storage) : storage_(storage) {}
  template <class Less>
  void Sort(Item (&items)[kItems], Less less) {
    simt::sort_in_storage(storage_, static_cast<int>(threadIdx.x) % kLanes, items, less, [] { __syncwarp(); });
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
