// Sorts by the host, at its turn in the stream. As CUB's, it wants the temporary bytes that it has asked for.
#pragma once

#include <algorithm>

#include "cuda_runtime_api.h"

namespace cub {

template <class T>
struct DoubleBuffer {
  T* buffers[2] = {nullptr, nullptr};
  int selector = 0;

  DoubleBuffer() = default;
  DoubleBuffer(T* current, T* alternate) : buffers{current, alternate} {}
  T* Current() { return buffers[selector]; }
  T* Alternate() { return buffers[selector ^ 1]; }
};

struct DeviceRadixSort {
  template <class Key>
  static cudaError_t SortKeys(void* temporary, size_t& temporary_bytes, DoubleBuffer<Key>& keys, int64_t count,
                              int begin_bit = 0, int end_bit = 8 * sizeof(Key), cudaStream_t = nullptr) {
    constexpr size_t kTemporaryBytes = 1000;  // a number that is no multiple of what the workspace aligns to
    if (temporary == nullptr) {
      temporary_bytes = kTemporaryBytes;
      return cudaSuccess;
    }
    if (temporary_bytes < kTemporaryBytes) return cudaErrorInvalidValue;
    Key* const from = keys.Current();
    Key* const to = keys.Alternate();
    keys.selector ^= 1;
    const Key all = static_cast<Key>(~Key{0});
    const int bits = end_bit - begin_bit;
    const Key mask = bits < static_cast<int>(8 * sizeof(Key)) ? static_cast<Key>((Key{1} << bits) - 1) : all;
    simt::launch_host_work([=] {
      simt::announce_host_access(temporary, kTemporaryBytes, /*writes=*/true);
      simt::announce_host_access(from, count * sizeof(Key), /*writes=*/false);
      simt::announce_host_access(to, count * sizeof(Key), /*writes=*/true);
      std::copy(from, from + count, to);
      std::stable_sort(to, to + count, [=](const Key& a, const Key& b) {
        return (a >> begin_bit & mask) < (b >> begin_bit & mask);
      });
    });
    return cudaSuccess;
  }
};

}  // namespace cub
