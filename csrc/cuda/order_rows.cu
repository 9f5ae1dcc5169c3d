// Puts each row's winners in order.
//
// An entry is one unsigned number, (row, inverted key, index) from the top down, so that ascending entries
// are the contract's order: rows apart, best key first, equal keys by index. Up to tuning::kOrderBlockMaxK
// winners a row, a block merges rows in shared memory; beyond that CUB's radix sort does
// all rows at once. Values are copied again from the input, by index.

#include "cuda/order_rows.h"

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>

#include "core/key_order.h"
#include "cuda/device/launch.h"
#include "cuda/device/winner_writer.cuh"
#include "cuda/tuning.h"
#include "cuda/workspace.h"

namespace gputopk::cuda::order_rows {
namespace {

using Narrow = uint64_t;
using Wide = unsigned __int128;

// How an entry is laid out for one problem.
struct Layout {
  int index_bits, key_bits, row_bits;  // row_bits: 0 where a block has one row's entries to itself

  Layout(const Problem& problem, bool with_row)
      : index_bits(bit_width(static_cast<uint64_t>(problem.cols - 1))),
        key_bits(8 * dtype_bytes(problem.dtype)),
        row_bits(with_row ? bit_width(static_cast<uint64_t>(problem.rows - 1)) : 0) {}

  int bits() const { return index_bits + key_bits + row_bits; }
};

// Calls visitor(Entry) with the narrower type that holds the layout.
template <class Visitor>
auto visit_entry(const Layout& layout, Visitor&& visitor) {
  return layout.bits() <= 64 ? visitor(Narrow{}) : visitor(Wide{});
}

template <class Bits>
struct Params {
  const Bits* input;
  int64_t rows;
  int64_t row_stride;
  int64_t k;
  int index_bits;
  WinnerWriter<Bits> output;
};

template <class Entry, class Order, class Bits>
__device__ Entry make_entry(const Params<Bits>& params, const Order& order, int64_t at, int64_t row) {
  const int64_t index = params.output.wide_indices ? static_cast<const int64_t*>(params.output.indices)[at]
                                                   : static_cast<const int32_t*>(params.output.indices)[at];
  const Bits inverted = static_cast<Bits>(~order(params.output.values[at]));
  // In two steps: a single shift by 64 bits is undefined for the narrow entry, where `row` is then 0.
  const Entry key = static_cast<Entry>(row) << (Order::kBits / 2) << (Order::kBits / 2) | inverted;
  return key << params.index_bits | static_cast<Entry>(index);
}

template <class Entry, class Bits>
__device__ void write_winner(const Params<Bits>& params, Entry entry, int64_t at, int64_t row) {
  const int64_t index = static_cast<int64_t>(entry & ((Entry{1} << params.index_bits) - 1));
  params.output.write(at, params.input[row * params.row_stride + index], index);
}

// Sorts segments of `length` entries each, a power of two, by merging runs of doubling width: an entry's
// place in the merged run is its place in its own run and the number of smaller entries in the other, found
// by binary search. That is as many steps as a sorting network has, but only one barrier a width. Returns
// which of the two arrays, of `count` entries each, holds the result.
template <class Entry>
__device__ Entry* merge_sort(Entry* from, Entry* to, int count, int length) {
  for (int width = 1; width < length; width *= 2) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
      const Entry entry = from[i];
      const int run = i & ~(width - 1);
      const Entry* const other = from + (run ^ width);
      const bool is_left = (run & width) == 0;
      int smaller = 0;
      for (int step = width; step > 0; step /= 2) {
        const int probe = smaller + step;
        // Padding is equal among itself: the left run's goes first.
        if (probe <= width && (is_left ? other[probe - 1] < entry : !(entry < other[probe - 1]))) smaller = probe;
      }
      to[(run & ~width) + (i - run) + smaller] = entry;
    }
    __syncthreads();  // the merged runs are whole
    Entry* const merged = to;
    to = from;
    from = merged;
  }
  return from;
}

template <class Entry, class Order>
__global__ void __launch_bounds__(tuning::kOrderThreads)
    sort_in_blocks(Params<typename Order::Bits> params, Order order, int length, int rows_per_block) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  const int count = length * rows_per_block;
  Entry* const entries = reinterpret_cast<Entry*>(dynamic);
  const int k = static_cast<int>(params.k);
  const int64_t groups = (params.rows + rows_per_block - 1) / rows_per_block;
  for (int64_t group = blockIdx.x; group < groups; group += gridDim.x) {
    const int64_t first_row = group * rows_per_block;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
      const int64_t row = first_row + i / length;
      const int rank = i % length;
      entries[i] = rank < k && row < params.rows ? make_entry<Entry>(params, order, row * k + rank, 0)
                                                 : static_cast<Entry>(~Entry{0});
    }
    __syncthreads();
    const Entry* const ordered = merge_sort(entries, entries + count, count, length);
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
      const int64_t row = first_row + i / length;
      const int rank = i % length;
      if (rank < k && row < params.rows) write_winner(params, ordered[i], row * k + rank, row);
    }
    __syncthreads();  // the next group's entries replace these
  }
}

template <class Entry, class Order>
__global__ void __launch_bounds__(tuning::kOrderThreads)
    make_entries(Params<typename Order::Bits> params, Order order, Entry* entries) {
  const int64_t count = params.rows * params.k;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {
    entries[at] = make_entry<Entry>(params, order, at, at / params.k);
  }
}

template <class Entry, class Bits>
__global__ void __launch_bounds__(tuning::kOrderThreads) write_winners(Params<Bits> params, const Entry* entries) {
  const int64_t count = params.rows * params.k;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {
    write_winner(params, entries[at], at, at / params.k);
  }
}

bool sorts_in_blocks(const Problem& problem) { return problem.k <= tuning::kOrderBlockMaxK; }

unsigned blocks_for(int64_t count, int64_t per_block) {
  constexpr int64_t kMostBlocks = 1 << 20;  // the kernels stride over what is left
  return static_cast<unsigned>(std::min((count + per_block - 1) / per_block, kMostBlocks));
}

template <class Entry, class Order>
cudaError_t run_in_blocks(const Problem& problem, const Params<typename Order::Bits>& params, Order order,
                          cudaStream_t stream) {
  int length = 1;
  while (length < problem.k) length *= 2;
  const int rows_per_block =
      static_cast<int>(std::min<int64_t>(problem.rows, std::max(1, tuning::kOrderThreads / length)));
  const int count = length * rows_per_block;
  const int threads = std::min(tuning::kOrderThreads, (count + 31) / 32 * 32);
  const size_t shared_bytes = 2 * sizeof(Entry) * static_cast<size_t>(count);
  static std::atomic<uint64_t> allowed;
  const cudaError_t error = allow_shared_memory(sort_in_blocks<Entry, Order>, shared_bytes, allowed);
  if (error != cudaSuccess) return error;
  sort_in_blocks<Entry, Order><<<blocks_for(problem.rows, rows_per_block), threads, shared_bytes, stream>>>(
      params, order, length, rows_per_block);
  return cudaGetLastError();
}

// CUB's sort of rows x k entries: its own memory, and two arrays that it goes back and forth between.
template <class Entry>
struct DeviceSort {
  Entry* entries[2];
  char* temporary;
  size_t temporary_bytes = 0;
  size_t workspace_bytes = 0;

  DeviceSort(const Problem& problem, void* base) {
    const int64_t count = problem.rows * problem.k;
    cub::DoubleBuffer<Entry> none;
    cub::DeviceRadixSort::SortKeys(nullptr, temporary_bytes, none, count, 0, Layout(problem, true).bits());
    Workspace workspace(base);
    for (Entry*& array : entries) array = workspace.take<Entry>(count);
    temporary = workspace.take<char>(static_cast<int64_t>(temporary_bytes));
    workspace_bytes = workspace.bytes();
  }
};

template <class Entry, class Order>
cudaError_t run_on_device(const Problem& problem, const Params<typename Order::Bits>& params, Order order,
                          void* workspace, cudaStream_t stream) {
  DeviceSort<Entry> sort(problem, workspace);
  const int64_t count = problem.rows * problem.k;
  const unsigned blocks = blocks_for(count, tuning::kOrderThreads);
  make_entries<Entry, Order><<<blocks, tuning::kOrderThreads, 0, stream>>>(params, order, sort.entries[0]);
  cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  cub::DoubleBuffer<Entry> entries(sort.entries[0], sort.entries[1]);
  error = cub::DeviceRadixSort::SortKeys(sort.temporary, sort.temporary_bytes, entries, count, 0,
                                         Layout(problem, true).bits(), stream);
  if (error != cudaSuccess) return error;
  write_winners<Entry><<<blocks, tuning::kOrderThreads, 0, stream>>>(params, entries.Current());
  return cudaGetLastError();
}

template <class Order>
cudaError_t launch(const Problem& problem, const Buffers& buffers, Order order, cudaStream_t stream) {
  using Bits = typename Order::Bits;
  const bool in_blocks = sorts_in_blocks(problem);
  const Layout layout(problem, !in_blocks);
  Params<Bits> params{};
  params.input = static_cast<const Bits*>(buffers.input);
  params.rows = problem.rows;
  params.row_stride = problem.row_stride;
  params.k = problem.k;
  params.index_bits = layout.index_bits;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  return visit_entry(layout, [&](auto entry) {
    using Entry = decltype(entry);
    return in_blocks ? run_in_blocks<Entry>(problem, params, order, stream)
                     : run_on_device<Entry>(problem, params, order, buffers.workspace, stream);
  });
}

}  // namespace

size_t workspace_bytes(const Problem& problem) {
  if (sorts_in_blocks(problem)) return 0;
  return visit_entry(Layout(problem, true),
                     [&](auto entry) { return DeviceSort<decltype(entry)>(problem, nullptr).workspace_bytes; });
}

ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude,
                         [&](auto order) { return launch(problem, buffers, order, stream); });
}

}  // namespace gputopk::cuda::order_rows
