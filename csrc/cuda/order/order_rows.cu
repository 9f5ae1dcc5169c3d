// Puts each row's winners in order.
//
// An entry is one unsigned number, (row, inverted key, index) from the top down, so that ascending entries
// are the contract's order: rows apart, best key first, equal keys by index. No two entries are equal. Three
// ways, by size:
//   rank   few entries in all: every entry counts the lesser ones of its row, over the whole GPU. As many
//          comparisons as k squared, but nothing waits for anything.
//   merge  rows that fit one block: CUB's merge sort, short rows by a warp, several together.
//   radix  the rest: CUB's device radix sort of all rows at once.
// Values are copied again, from the input, by index.

#include "cuda/order/order.h"

#include <algorithm>
#include <cub/block/block_merge_sort.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/warp/warp_merge_sort.cuh>

#include "core/key_order.h"
#include "cuda/device/launch.h"
#include "cuda/device/shared_memory.cuh"
#include "cuda/order/numbers.h"
#include "cuda/workspace.h"

namespace gputopk::cuda::order_rows {
namespace {

using Narrow = uint64_t;
using Wide = unsigned __int128;

// How an entry is laid out for one problem.
struct Layout {
  int index_bits, key_bits, row_bits;  // row_bits: 0 where rows are sorted apart

  // `rows`: how many are sorted together.
  Layout(const Problem& problem, int64_t rows)
      : index_bits(bit_width(static_cast<uint64_t>(problem.cols - 1))),
        key_bits(8 * dtype_bytes(problem.dtype)),
        row_bits(bit_width(static_cast<uint64_t>(rows - 1))) {}

  int bits() const { return index_bits + key_bits + row_bits; }
};

// Calls visitor(Entry) with the narrower type that holds the layout. One bit stays free, so that padding is
// greater than every entry.
template <class Visitor>
auto visit_entry(const Layout& layout, Visitor&& visitor) {
  return layout.bits() < 64 ? visitor(Narrow{}) : visitor(Wide{});
}

// The kernels are not instantiated for each dtype: a few winners can afford a switch.
struct Params {
  Problem problem;
  const void* from_values;
  const void* from_indices;
  Buffers to;
  int index_bits;

  template <class Entry>
  __device__ Entry entry(int64_t at, int64_t row) const {
    const int64_t index = problem.wide_indices ? static_cast<const int64_t*>(from_indices)[at]
                                               : static_cast<const int32_t*>(from_indices)[at];
    return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
      using Bits = typename decltype(order)::Bits;
      const Bits inverted = static_cast<Bits>(~order(static_cast<const Bits*>(from_values)[at]));
      const Entry row_part = static_cast<Entry>(row)
                             << (8 * sizeof(Bits) - 1) << 1;  // a shift by 64 is undefined
      return static_cast<Entry>((row_part | inverted) << index_bits | static_cast<Entry>(index));
    });
  }

  template <class Entry>
  __device__ void write(int64_t at, int64_t row, Entry entry) const {
    const int64_t index = static_cast<int64_t>(entry & ((Entry{1} << index_bits) - 1));
    if (problem.wide_indices) {
      static_cast<int64_t*>(to.indices)[at] = index;
    } else {
      static_cast<int32_t*>(to.indices)[at] = static_cast<int32_t>(index);
    }
    const int64_t from = row * problem.row_stride + index;
    switch (dtype_bytes(problem.dtype)) {
      case 1: return copy<uint8_t>(at, from);
      case 2: return copy<uint16_t>(at, from);
      case 4: return copy<uint32_t>(at, from);
      default: return copy<uint64_t>(at, from);
    }
  }

 private:
  template <class Bits>
  __device__ void copy(int64_t at, int64_t from) const {
    static_cast<Bits*>(to.values)[at] = static_cast<const Bits*>(to.input)[from];
  }
};

unsigned blocks_for(int64_t count, int64_t per_block) {
  constexpr int64_t kMostBlocks = 1 << 20;  // the kernels stride over what is left
  return static_cast<unsigned>(std::min((count + per_block - 1) / per_block, kMostBlocks));
}

// ---- rank ----

constexpr int kRankThreads = 256;
constexpr int kRankWarps = kRankThreads / 32;
constexpr int kRankedByWarp = 2;  // entries that a warp compares with each one it reads
constexpr int kRankedByBlock = kRankWarps * kRankedByWarp;

template <class Entry>
__global__ void __launch_bounds__(kRankThreads) rank_entries(Params params, int blocks_per_row) {
  unsigned char* const dynamic = dynamic_shared();
  Entry* const entries = reinterpret_cast<Entry*>(dynamic);
  const int k = static_cast<int>(params.problem.k);
  const int64_t row = blockIdx.x / blocks_per_row;
  const int first = static_cast<int>(blockIdx.x % blocks_per_row) * kRankedByBlock;
  for (int i = static_cast<int>(threadIdx.x); i < k; i += kRankThreads) {
    entries[i] = params.entry<Entry>(row * k + i, 0);
  }
  __syncthreads();

  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  Entry own[kRankedByWarp];
  unsigned lesser[kRankedByWarp] = {};
#pragma unroll
  for (int e = 0; e < kRankedByWarp; ++e) own[e] = entries[min(first + warp * kRankedByWarp + e, k - 1)];
  for (int i = lane; i < k; i += 32) {
    const Entry other = entries[i];
#pragma unroll
    for (int e = 0; e < kRankedByWarp; ++e) lesser[e] += other < own[e];
  }
#pragma unroll
  for (int e = 0; e < kRankedByWarp; ++e) {
    const unsigned rank = __reduce_add_sync(~0u, lesser[e]);
    if (lane == 0 && first + warp * kRankedByWarp + e < k) params.write(row * k + rank, row, own[e]);
  }
}

bool ranks(const Problem& problem) {
  return problem.k <= tuning::kOrderBlockMaxK && problem.k >= tuning::kOrderRankMinK &&
         problem.rows * problem.k * problem.k <= tuning::kOrderRankMaxComparisons;
}

template <class Entry>
ErrorCode run_rank(const Params& params, Stream stream) {
  const Problem& problem = params.problem;
  const int blocks_per_row = static_cast<int>((problem.k + kRankedByBlock - 1) / kRankedByBlock);
  const size_t shared_bytes = sizeof(Entry) * static_cast<size_t>(problem.k);
  static std::atomic<uint64_t> allowed;
  const cudaError_t error = allow_shared_memory(rank_entries<Entry>, shared_bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_kernel(/*ahead=*/false, rank_entries<Entry>,
                       static_cast<unsigned>(problem.rows * blocks_per_row), kRankThreads, shared_bytes,
                       stream, params, blocks_per_row);
}

// ---- merge ----

struct Less {
  template <class Entry>
  __device__ bool operator()(const Entry& a, const Entry& b) const {
    return a < b;
  }
};

// A block sorts kCapacity entries of one row; or, up to kWarpCapacity entries, each of its warps does, of as
// many short rows as fit: their numbers lead the entries, so that one sort keeps them apart.
constexpr int kWarpCapacity = 256;
constexpr int kWarpsPerBlock = 4;

template <class Entry, int kCapacity>
struct MergeShape {
  static constexpr bool kByWarp = kCapacity <= kWarpCapacity;
  static constexpr int kSorters = kByWarp ? kWarpsPerBlock : 1;  // in a block
  static constexpr int kItems = kByWarp ? kCapacity / 32 : 8;
  static constexpr int kThreads = kCapacity / kItems;  // of a sorter
  using Sort = std::conditional_t<kByWarp, cub::WarpMergeSort<Entry, kItems, 32>,
                                  cub::BlockMergeSort<Entry, kThreads, kItems>>;
  using Storage = typename Sort::TempStorage[kSorters];
};

template <class Entry, int kCapacity>
__global__ void __launch_bounds__(
    MergeShape<Entry, kCapacity>::kThreads* MergeShape<Entry, kCapacity>::kSorters)
    merge_entries(Params params, int rows_per_sorter) {
  using Shape = MergeShape<Entry, kCapacity>;
  unsigned char* const dynamic = dynamic_shared();
  auto& storage = *reinterpret_cast<typename Shape::Storage*>(dynamic);
  const int sorter = static_cast<int>(threadIdx.x) / Shape::kThreads;
  const int thread = static_cast<int>(threadIdx.x) % Shape::kThreads;
  const int k = static_cast<int>(params.problem.k);
  const int64_t rows = params.problem.rows;
  const int64_t step = static_cast<int64_t>(gridDim.x) * Shape::kSorters * rows_per_sorter;
  for (int64_t first_row = (static_cast<int64_t>(blockIdx.x) * Shape::kSorters + sorter) * rows_per_sorter;
       first_row < rows; first_row += step) {
    const int count = k * static_cast<int>(min(rows - first_row, static_cast<int64_t>(rows_per_sorter)));
    Entry entries[Shape::kItems];
#pragma unroll
    for (int i = 0; i < Shape::kItems; ++i) {
      // Any arrangement will do before the sort: this one reads coalesced.
      const int at = i * Shape::kThreads + thread;
      entries[i] =
          at < count ? params.entry<Entry>(first_row * k + at, at / k) : static_cast<Entry>(~Entry{0});
    }
    typename Shape::Sort(storage[sorter]).Sort(entries, Less{});
#pragma unroll
    for (int i = 0; i < Shape::kItems; ++i) {
      const int at = thread * Shape::kItems + i;
      if (at < count) params.write(first_row * k + at, first_row + at / k, entries[i]);
    }
    if (Shape::kByWarp) {
      __syncwarp();  // the next rows' sort reuses the storage
    } else {
      __syncthreads();
    }
  }
}

template <class Entry, int kCapacity>
ErrorCode launch_merge(const Params& params, int rows_per_sorter, Stream stream) {
  using Shape = MergeShape<Entry, kCapacity>;
  constexpr size_t kSharedBytes = sizeof(typename Shape::Storage);
  static std::atomic<uint64_t> allowed;
  const cudaError_t error = allow_shared_memory(merge_entries<Entry, kCapacity>, kSharedBytes, allowed);
  if (error != cudaSuccess) return error;
  const unsigned blocks = blocks_for(params.problem.rows, int64_t{rows_per_sorter} * Shape::kSorters);
  return launch_kernel(/*ahead=*/false, merge_entries<Entry, kCapacity>, blocks,
                       Shape::kThreads * Shape::kSorters, kSharedBytes, stream, params, rows_per_sorter);
}

// Rows that one sorter takes together: as many as a warp has lanes for.
int merge_rows(const Problem& problem) {
  return static_cast<int>(std::max<int64_t>(1, std::min(problem.rows, 32 / problem.k)));
}

template <class Entry>
ErrorCode run_merge(const Params& params, int rows_per_sorter, Stream stream) {
  const int64_t k = params.problem.k;
  if (k <= 32) return launch_merge<Entry, 32>(params, rows_per_sorter, stream);
  if (k <= 128) return launch_merge<Entry, 128>(params, rows_per_sorter, stream);
  if (k <= kWarpCapacity) return launch_merge<Entry, kWarpCapacity>(params, rows_per_sorter, stream);
  if (k <= 1024) return launch_merge<Entry, 1024>(params, rows_per_sorter, stream);
  if (k <= 2048) return launch_merge<Entry, 2048>(params, rows_per_sorter, stream);
  return launch_merge<Entry, tuning::kOrderBlockMaxK>(params, rows_per_sorter, stream);
}

// ---- radix ----

constexpr int kRadixThreads = 256;

template <class Entry>
__global__ void __launch_bounds__(kRadixThreads) make_entries(Params params, Entry* entries) {
  const int64_t count = params.problem.rows * params.problem.k;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kRadixThreads;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * kRadixThreads + threadIdx.x; at < count; at += step) {
    entries[at] = params.entry<Entry>(at, at / params.problem.k);
  }
}

template <class Entry>
__global__ void __launch_bounds__(kRadixThreads) write_entries(Params params, const Entry* entries) {
  const int64_t count = params.problem.rows * params.problem.k;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kRadixThreads;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * kRadixThreads + threadIdx.x; at < count; at += step) {
    params.write(at, at / params.problem.k, entries[at]);
  }
}

// CUB's own memory, and two arrays that it goes back and forth between.
template <class Entry>
struct RadixMemory {
  Entry* entries[2];
  char* temporary;
  cudaError_t error;  // of asking CUB
  size_t temporary_bytes = 0;
  size_t bytes = 0;

  RadixMemory(const Problem& problem, void* base) {
    const int64_t count = problem.rows * problem.k;
    cub::DoubleBuffer<Entry> none;
    error = cub::DeviceRadixSort::SortKeys(nullptr, temporary_bytes, none, count, 0,
                                           Layout(problem, problem.rows).bits());
    Workspace workspace(base);
    for (Entry*& array : entries) array = workspace.take<Entry>(count);
    temporary = workspace.take<char>(static_cast<int64_t>(temporary_bytes));
    bytes = workspace.bytes();
  }
};

template <class Entry>
ErrorCode run_radix(const Params& params, Stream stream) {
  const Problem& problem = params.problem;
  RadixMemory<Entry> memory(problem, params.to.workspace);
  if (memory.error != cudaSuccess) return memory.error;
  const int64_t count = problem.rows * problem.k;
  const unsigned blocks = blocks_for(count, kRadixThreads);
  cudaError_t error = launch_kernel(/*ahead=*/false, make_entries<Entry>, blocks, kRadixThreads, 0, stream,
                                    params, memory.entries[0]);
  if (error != cudaSuccess) return error;
  cub::DoubleBuffer<Entry> entries(memory.entries[0], memory.entries[1]);
  error = cub::DeviceRadixSort::SortKeys(memory.temporary, memory.temporary_bytes, entries, count, 0,
                                         Layout(problem, problem.rows).bits(), stream);
  if (error != cudaSuccess) return error;
  return launch_kernel(/*ahead=*/false, write_entries<Entry>, blocks, kRadixThreads, 0, stream, params,
                       entries.Current());
}

}  // namespace

size_t workspace_bytes(const Problem& problem) {
  if (problem.k <= tuning::kOrderBlockMaxK) return 0;
  return visit_entry(Layout(problem, problem.rows),
                     [&](auto entry) { return RadixMemory<decltype(entry)>(problem, nullptr).bytes; });
}

ErrorCode run(const Problem& problem, const void* values, const void* indices, const Buffers& buffers,
              Stream stream) {
  const bool rank = ranks(problem);
  const int rows_per_sorter = merge_rows(problem);
  const bool radix = problem.k > tuning::kOrderBlockMaxK;
  const Layout layout(problem, radix ? problem.rows : rank ? 1 : rows_per_sorter);
  const Params params{problem, values, indices, buffers, layout.index_bits};
  return visit_entry(layout, [&](auto entry) {
    using Entry = decltype(entry);
    if (rank) return run_rank<Entry>(params, stream);
    return radix ? run_radix<Entry>(params, stream) : run_merge<Entry>(params, rows_per_sorter, stream);
  });
}

}  // namespace gputopk::cuda::order_rows
