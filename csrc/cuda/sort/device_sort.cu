// The one unit that instantiates CUB's device-wide radix sort: for five kinds of entries, as each takes
// seconds to compile and a tenth of a megabyte.

#include "cuda/sort/device_sort.h"

#include <cub/device/device_radix_sort.cuh>

namespace gputopk::cuda::sort {
namespace {

template <class Key>
cudaError_t sort_pairs(SortBuffers& buffers, uint32_t entries, int bits, void* temporary, size_t& bytes,
                       cudaStream_t stream) {
  cub::DoubleBuffer<Key> keys(static_cast<Key*>(buffers.keys[0]), static_cast<Key*>(buffers.keys[1]));
  cub::DoubleBuffer<uint32_t> indices(buffers.indices[0], buffers.indices[1]);
  keys.selector = indices.selector = buffers.current;
  const cudaError_t error =
      cub::DeviceRadixSort::SortPairs(temporary, bytes, keys, indices, entries, 0, bits, stream);
  buffers.current = keys.selector;
  return error;
}

cudaError_t sort_keys(SortBuffers& buffers, uint32_t entries, int bits, void* temporary, size_t& bytes,
                      cudaStream_t stream) {
  cub::DoubleBuffer<uint64_t> keys(static_cast<uint64_t*>(buffers.keys[0]),
                                   static_cast<uint64_t*>(buffers.keys[1]));
  keys.selector = buffers.current;
  const cudaError_t error = cub::DeviceRadixSort::SortKeys(temporary, bytes, keys, entries, 0, bits, stream);
  buffers.current = keys.selector;
  return error;
}

// Without `temporary` only the size is asked for.
cudaError_t call_cub(SortBuffers& buffers, int key_bytes, bool with_indices, int64_t entries, int bits,
                     void* temporary, size_t& bytes, cudaStream_t stream) {
  const uint32_t count = static_cast<uint32_t>(entries);
  if (!with_indices) return sort_keys(buffers, count, bits, temporary, bytes, stream);
  switch (key_bytes) {
    case 1: return sort_pairs<uint8_t>(buffers, count, bits, temporary, bytes, stream);
    case 2: return sort_pairs<uint16_t>(buffers, count, bits, temporary, bytes, stream);
    case 4: return sort_pairs<uint32_t>(buffers, count, bits, temporary, bytes, stream);
    default: return sort_pairs<uint64_t>(buffers, count, bits, temporary, bytes, stream);
  }
}

}  // namespace

size_t device_sort_bytes(int key_bytes, bool with_indices, int64_t entries) {
  SortBuffers none{};
  size_t bytes = 0;
  if (call_cub(none, key_bytes, with_indices, entries, 8 * key_bytes, nullptr, bytes, nullptr) ==
      cudaSuccess) {
    return bytes;
  }
  cudaGetLastError();  // not left for the next call to find
  return 0;
}

ErrorCode sort_on_device(const DeviceSort& sort, int key_bytes, SortBuffers& buffers, void* temporary,
                         Stream stream) {
  const bool with_indices = buffers.indices[0] != nullptr;
  SortBuffers none{};
  size_t bytes = 0;
  // CUB itself does not look whether it was given what it asked for.
  const cudaError_t error =
      call_cub(none, key_bytes, with_indices, sort.entries, sort.bits, nullptr, bytes, stream);
  if (error != cudaSuccess) return error;
  if (bytes > sort.temporary_bytes) return cudaErrorInvalidValue;
  bytes = sort.temporary_bytes;
  return call_cub(buffers, key_bytes, with_indices, sort.entries, sort.bits, temporary, bytes, stream);
}

}  // namespace gputopk::cuda::sort
