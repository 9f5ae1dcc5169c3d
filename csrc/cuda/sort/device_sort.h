// CUB's device-wide radix sort: stable, and ascending by the lowest bits of unsigned keys.
#pragma once

#include "core/problem.h"
#include "cuda/sort/sort.h"
#include "cuda/stream.h"
#include "cuda/workspace.h"

namespace gputopk::cuda::sort {

// Entries go back and forth between two buffers.
struct SortBuffers {
  void* keys[2];
  uint32_t* indices[2];  // null: keys alone
  int current;           // which of the two has the entries
};

// Keys have 1, 2, 4 or 8 bytes, those without indices 8. An error where CUB asks for more than
// sort.temporary_bytes.
ErrorCode sort_on_device(const DeviceSort& sort, int key_bytes, SortBuffers& buffers, void* temporary,
                         Stream stream);

// The key of a winner among those of all rows: the row, the complement of the value's key, so that better
// values come first, and the index, each in as many bits as it takes.
struct SortKeys {
  int row_bits, key_bits, index_bits;

  explicit SortKeys(const Problem& problem)
      : row_bits(bit_width(static_cast<uint64_t>(problem.rows - 1))),
        key_bits(8 * dtype_bytes(problem.dtype)),
        index_bits(bit_width(static_cast<uint64_t>(problem.cols - 1))) {}

  int bits() const { return row_bits + key_bits + index_bits; }
  bool fit() const { return key_bits <= 32 && bits() <= 64; }
};

// The workspace of rows that are sorted one after the other.
struct RowMemory {
  SortBuffers buffers{};
  void* temporary;
  size_t bytes;

  RowMemory(const DeviceSort& sort, int key_bytes, void* base) {
    Workspace workspace(base);
    for (void*& keys : buffers.keys) keys = workspace.take<char>(sort.entries * key_bytes);
    for (uint32_t*& indices : buffers.indices) indices = workspace.take<uint32_t>(sort.entries);
    temporary = workspace.take<char>(static_cast<int64_t>(sort.temporary_bytes));
    bytes = workspace.bytes();
  }
};

// The workspace of winners that are sorted together. Their indices in the output, of 64 bits, give way to
// keys, so that one more buffer of those is enough.
struct OrderMemory {
  uint64_t* keys;
  void* temporary;
  size_t bytes;

  OrderMemory(const DeviceSort& sort, void* base) {
    Workspace workspace(base);
    keys = workspace.take<uint64_t>(sort.entries);
    temporary = workspace.take<char>(static_cast<int64_t>(sort.temporary_bytes));
    bytes = workspace.bytes();
  }
};

ErrorCode order_by_device_sort(const Problem& problem, const Buffers& buffers, const DeviceSort& sort,
                               Stream stream);

}  // namespace gputopk::cuda::sort
