// A block puts a list of entries in shared memory in order and writes the k best.
#pragma once

#include <cstdint>

#include "cuda/device/list_sort.cuh"
#include "cuda/device/warp_sort.cuh"

namespace gputopk::cuda {

// The same by one warp, of up to 32 * kItems entries.
template <int kItems, class Entry, class Write>
__device__ __forceinline__ void write_in_order_by_warp(PaddedList<Entry> list, int listed, int k,
                                                       Write&& write) {
  Entry entries[kItems];
  const int lane = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int at = 32 * i + lane;
    entries[i] = at < listed ? list[at] : Entry{0};
  }
  sort_warp</*kDescending=*/true>(entries);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int rank = lane * kItems + i;
    if (rank < k) write(rank, entries[i]);
  }
}

// write(rank, entry), best first. The list has room for a power of two of entries, `listed` of them are
// there, and k is no more. By all threads of a block.
template <class Entry, class Write>
__device__ __forceinline__ void write_in_order(PaddedList<Entry> list, int listed, int k, Write&& write) {
  if (listed <= 128) {
    if (threadIdx.x >= 32) return;
    if (listed <= 32) return write_in_order_by_warp<1>(list, listed, k, write);
    if (listed <= 64) return write_in_order_by_warp<2>(list, listed, k, write);
    return write_in_order_by_warp<4>(list, listed, k, write);
  }
  int size = 256;
  while (size < listed) size *= 2;
  for (int i = listed + static_cast<int>(threadIdx.x); i < size; i += static_cast<int>(blockDim.x))
    list[i] = 0;
  __syncthreads();  // the list is filled up
  sort_list(list, size, BlockItems{});
  for (int rank = static_cast<int>(threadIdx.x); rank < k; rank += static_cast<int>(blockDim.x)) {
    write(rank, list[rank]);
  }
}

}  // namespace gputopk::cuda
