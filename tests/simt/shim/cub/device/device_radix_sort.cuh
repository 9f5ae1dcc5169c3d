// CUB's device-wide radix sort as far as csrc/cuda uses it. What it does is in emulator/radix_sort.cpp.
#pragma once

#include <type_traits>

#include "cuda_runtime_api.h"

namespace simt {

struct RadixSort {
  void* keys[2];
  void* values[2];  // null: there are none
  int key_bytes, value_bytes, current;
  int64_t items;
  int begin_bit, end_bit;
};
// Puts the sort at the stream's end, and says in `current` where its result will be. Without `temporary` the
// size of that is all that is asked for.
cudaError_t radix_sort(RadixSort& sort, void* temporary, size_t& bytes);

}  // namespace simt

namespace cub {

template <class T>
struct DoubleBuffer {
  T* d_buffers[2];
  int selector = 0;

  DoubleBuffer(T* current, T* alternate) : d_buffers{current, alternate} {}
};

struct DeviceRadixSort {
  template <class Key, class Value, class Count>
  static cudaError_t SortPairs(void* temporary, size_t& bytes, DoubleBuffer<Key>& keys,
                               DoubleBuffer<Value>& values, Count items, int begin_bit, int end_bit,
                               cudaStream_t) {
    static_assert(std::is_unsigned_v<Key>, "the emulator sorts unsigned keys alone");
    simt::RadixSort sort{{keys.d_buffers[0], keys.d_buffers[1]},
                         {values.d_buffers[0], values.d_buffers[1]},
                         sizeof(Key),
                         sizeof(Value),
                         keys.selector,
                         static_cast<int64_t>(items),
                         begin_bit,
                         end_bit};
    const cudaError_t error = simt::radix_sort(sort, temporary, bytes);
    keys.selector = values.selector = sort.current;
    return error;
  }

  template <class Key, class Count>
  static cudaError_t SortKeys(void* temporary, size_t& bytes, DoubleBuffer<Key>& keys, Count items,
                              int begin_bit, int end_bit, cudaStream_t stream) {
    DoubleBuffer<Key> none(nullptr, nullptr);
    none.selector = keys.selector;
    return SortPairs(temporary, bytes, keys, none, items, begin_bit, end_bit, stream);
  }
};

}  // namespace cub
