// Rows in parts: a sample of a row gives splitters; every entry is dealt out to the part between two of them;
// a block sorts each part. Splitters are extended keys, which no two entries share, so that equal keys go to
// several parts as others do, and no input fills one part alone. A part that is too large for a block in
// spite of that is sorted chunk by chunk, or digit by digit in memory.

#include <algorithm>

#include "cuda/device/block_sort.cuh"
#include "cuda/device/dealt_entries.cuh"
#include "cuda/device/large_part.cuh"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/sample.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/sort/rows.h"
#include "cuda/sort/splitters.cuh"

namespace gputopk::cuda::sort {
namespace {

// What count_parts counts with, in front of its splitters.
constexpr int aligned_counts(int parts) { return (4 * parts + 15) / 16 * 16; }

// What all kernels here know.
struct Params {
  Rows rows;
  Shape shape;
  Memory memory;

  template <class Word>
  __device__ Word* splitter_keys(int64_t row) const {
    return static_cast<Word*>(memory.splitter_keys) + row * shape.parts;
  }
  template <class Index>
  __device__ Index* splitter_indices(int64_t row) const {
    return static_cast<Index*>(memory.splitter_indices) + row * shape.parts;
  }
  template <class Word>
  __device__ Word* sample_keys(int64_t row) const {
    return static_cast<Word*>(memory.sample_keys) + row * shape.sample_chunk * shape.sample_blocks;
  }
  template <class Index>
  __device__ Index* sample_indices(int64_t row) const {
    return static_cast<Index*>(memory.sample_indices) + row * shape.sample_chunk * shape.sample_blocks;
  }
  // From number `first` of a row's on.
  template <class Bits, class Index>
  __device__ DealtEntries<Bits, Index> dealt(int64_t row, int64_t first) const {
    return {memory.values, memory.indices, row * rows.entries + first};
  }
  template <class Bits>
  __device__ Entries from_of(int64_t row) const {
    return entries_from<Bits>(rows.from, row * rows.from_stride);
  }
};

// ---- The sample ----

// Of a sample of so many entries, splitter number p is the one of that rank of which p parts are better. (Of
// fewer entries than parts, several are one.)
template <class Word, class Index>
__device__ void write_splitters(const Params& params, int64_t row, int sampled, int rank, Word key,
                                Index index) {
  const int parts = params.shape.parts;
  for (int part = (rank * parts + sampled - 1) / sampled; part < parts && part * sampled / parts == rank;
       ++part) {
    params.splitter_keys<Word>(row)[part] = key;
    params.splitter_indices<Index>(row)[part] = index;
  }
}

// A block sorts each chunk of a row's sample.
template <class Order, class Index>
__global__ void __launch_bounds__(tuning::kSortMaxThreads) sort_sample(Params params, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  __shared__ BlockScratch<Word, Index> scratch;
  const int parts = params.shape.parts, chunk = params.shape.sample_chunk;
  const int blocks = params.shape.sample_blocks;
  const BlockMemory<Bits, Index> memory(dynamic_shared(), (chunk + 63) / 64 * 64);
  const int block = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks));
  const int64_t row = blockIdx.x / static_cast<unsigned>(blocks);
  const Entries from = params.from_of<Bits>(row);
  Word* const keys = params.sample_keys<Word>(row) + block * chunk;
  Index* const indices = params.sample_indices<Index>(row) + block * chunk;
  follow_kernel_before();
  if (block == 0) {
    for (int p = static_cast<int>(threadIdx.x); p < parts; p += static_cast<int>(blockDim.x)) {
      params.memory.counts[row * parts + p] = 0;
    }
    if (threadIdx.x == 0) params.memory.arrived[row] = 0;
  }
  const Strata strata = Strata::of(params.rows.entries, int64_t{chunk} * blocks);
  sort_in_block<kItems<Order, Index>, /*kPacks=*/true>(
      chunk, chunk, order, memory, scratch,
      [&](int i, Bits& bits, Index& index) {
        read_entry(from, strata.entry_of(static_cast<uint32_t>(i * blocks + block)), bits, index);
      },
      [&](int rank, Bits bits, Index index) {
        if (blocks == 1) {
          write_splitters<Word>(params, row, chunk, rank, order(bits), index);
        } else {
          keys[rank] = order(bits);
          indices[rank] = index;
        }
      });
}

// How many entries of a chunk come before one: kCount chunks side by side, as each look waits for memory.
template <int kCount, class Word, class Index>
__device__ void count_before(Word key, Index index, const Word* keys, const Index* indices, int chunk,
                             const int (&firsts)[kCount], int (&before)[kCount]) {
  const auto is_before = [&](int i) {
    const Word other = keys[i];
    return other > key || (other == key && indices[i] < index) ? 1 : 0;
  };
#pragma unroll
  for (int e = 0; e < kCount; ++e) before[e] = 0;
  for (int step = chunk / 2; step > 0; step /= 2) {
#pragma unroll
    for (int e = 0; e < kCount; ++e) before[e] += is_before(firsts[e] + before[e] + step - 1) * step;
  }
#pragma unroll
  for (int e = 0; e < kCount; ++e) before[e] += is_before(firsts[e] + before[e]);
}

// An entry's rank in a sample is what comes before it in all of its chunks. A block ranks adjacent entries of
// a chunk: a warp looks for all of its own in one other chunk at a time, at places that are near each other.
template <class Word, class Index>
__global__ void __launch_bounds__(tuning::kSortRankThreads) rank_sample(Params params) {
  constexpr int kCount = tuning::kSortSearches, kEntries = tuning::kSortRanked;
  __shared__ int ranks[kEntries];
  const int chunk = params.shape.sample_chunk, chunks = params.shape.sample_blocks;
  const int sampled = chunk * chunks, blocks = sampled / kEntries;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int first = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks)) * kEntries;
  const int64_t row = blockIdx.x / static_cast<unsigned>(blocks);
  const Word* const keys = params.sample_keys<Word>(row);
  const Index* const indices = params.sample_indices<Index>(row);
  for (int i = thread; i < kEntries; i += threads) ranks[i] = 0;
  __syncthreads();  // ranks are zero
  follow_kernel_before();
  const int own = thread % kEntries, step = threads / kEntries;
  const Word key = keys[first + own];
  const Index index = indices[first + own];
  for (int other = thread / kEntries; other < chunks; other += kCount * step) {
    int firsts[kCount], before[kCount];
#pragma unroll
    for (int e = 0; e < kCount; ++e) firsts[e] = min(other + e * step, chunks - 1) * chunk;
    count_before(key, index, keys, indices, chunk, firsts, before);
    int sum = 0;
#pragma unroll
    for (int e = 0; e < kCount; ++e) sum += other + e * step < chunks ? before[e] : 0;
    atomicAdd(ranks + own, sum);
  }
  __syncthreads();  // all ranks are known
  if (thread < kEntries) write_splitters(params, row, sampled, ranks[own], key, index);
}

// ---- Dealing out ----

// Where a row's parts start, once all entries are counted. By all threads of a block.
__device__ inline void start_parts(const Params& params, int64_t row) {
  __shared__ unsigned long long warp_sums[tuning::kSortDealThreads / 32];
  constexpr int kMost = tuning::kSortMaxParts / tuning::kSortDealThreads;
  const int parts = params.shape.parts, warp = static_cast<int>(threadIdx.x / 32);
  const int first = static_cast<int>(threadIdx.x) * kMost;  // of those of this thread
  const unsigned long long* const counts = params.memory.counts + row * parts;
  unsigned long long* const starts = params.memory.starts + row * parts;
  unsigned long long own[kMost], sum = 0;
#pragma unroll
  for (int i = 0; i < kMost; ++i) own[i] = first + i < parts ? counts[first + i] : 0;
#pragma unroll
  for (int i = 0; i < kMost; ++i) sum += own[i];
  unsigned long long so_far = sum;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const unsigned long long other = __shfl_up_sync(~0u, so_far, distance);
    if (static_cast<int>(threadIdx.x % 32) >= distance) so_far += other;
  }
  if (threadIdx.x % 32 == 31) warp_sums[warp] = so_far;
  __syncthreads();  // all warps have theirs
  unsigned long long start = so_far - sum;
  for (int w = 0; w < warp; ++w) start += warp_sums[w];
  const uint64_t kept = static_cast<uint64_t>(params.rows.kept);
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    if (first + i >= parts) break;
    starts[first + i] = start;
    const unsigned long long end = start + own[i];
    if (start < kept && (end >= kept || first + i == parts - 1)) {
      params.memory.needed[row] = static_cast<uint32_t>(first + i + 1);
    }
    start = end;
  }
}

// Finds the part of each entry, and counts them; the last block of a row finds where parts start, and how
// many of them have entries that are kept.
template <class Order, class Index>
__global__ void __launch_bounds__(tuning::kSortDealThreads, tuning::kSortDealBlocksPerSm)
    count_parts(Params params, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  __shared__ typename Splitters<Order, Index>::Scratch scratch;
  const int parts = params.shape.parts, blocks = params.shape.blocks_per_row;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  uint32_t* const counts = reinterpret_cast<uint32_t*>(dynamic_shared());
  const int64_t row = blockIdx.x / blocks, block = blockIdx.x % blocks;
  const Entries from = params.from_of<Bits>(row);
  unsigned long long* const row_counts = params.memory.counts + row * parts;
  uint16_t* const of_entries = params.memory.parts + row * params.rows.entries;
  for (int p = thread; p < parts; p += threads) counts[p] = 0;
  follow_kernel_before();
  const Splitters<Order, Index> splitters(dynamic_shared() + aligned_counts(parts), parts, order,
                                          params.splitter_keys<Word>(row),
                                          params.splitter_indices<Index>(row), scratch);
  constexpr int kCount = tuning::kSortSearches;
  const int64_t entries = params.rows.entries, tile = params.shape.tile;
  for (int64_t begin = block * tile; begin < entries; begin += tile * blocks) {
    const int count = static_cast<int>(min(entries - begin, tile));
    uint16_t* const of_tile = of_entries + begin;
    for (int first = thread; first < count; first += kCount * threads) {
      Bits bits[kCount];
      Word keys[kCount];
      Index indices[kCount];
      int part[kCount];
#pragma unroll
      for (int e = 0; e < kCount; ++e) {
        read_entry(from, begin + min(first + e * threads, count - 1), bits[e], indices[e]);
      }
#pragma unroll
      for (int e = 0; e < kCount; ++e) keys[e] = order(bits[e]);
      splitters.parts_of(keys, indices, part);
#pragma unroll
      for (int e = 0; e < kCount; ++e) {
        if (first + e * threads < count) {
          atomicAdd(counts + part[e], 1u);
          of_tile[first + e * threads] = static_cast<uint16_t>(part[e]);
        }
      }
    }
  }
  __syncthreads();
  for (int p = thread; p < parts; p += threads) {
    if (counts[p] > 0) atomicAdd(row_counts + p, static_cast<unsigned long long>(counts[p]));
  }
  if (is_last_block(params.memory.arrived + row, static_cast<uint32_t>(blocks))) start_parts(params, row);
}

// The shared memory of deal_parts, deal_bytes of it.
template <class Bits, class Index>
struct DealMemory {
  uint32_t* bins;
  Index* shifts;  // from an entry's place in the tile to that in the row; a lower one wraps around
  Index* indices;
  Bits* values;
  uint16_t* part;

  // The bins' vectors first, and then from wide to narrow.
  __device__ DealMemory(unsigned char* base, int parts, int tile) {
    bins = reinterpret_cast<uint32_t*>(base);
    unsigned char* const entries = base + sizeof(uint32_t) * (bins_of(parts) + 4);
    constexpr bool kWideValues = sizeof(Bits) > sizeof(Index);
    values = reinterpret_cast<Bits*>(kWideValues ? entries : entries + sizeof(Index) * (parts + tile));
    shifts = reinterpret_cast<Index*>(kWideValues ? entries + sizeof(Bits) * tile : entries);
    indices = shifts + parts;
    part =
        reinterpret_cast<uint16_t*>(entries + sizeof(Index) * parts + (sizeof(Index) + sizeof(Bits)) * tile);
  }
};

// Brings every entry to its part, but for those that come behind all that are kept. A tile is put in the
// order of its parts first, so that what goes to a part is written together.
template <class Order, class Index>
__global__ void __launch_bounds__(tuning::kSortDealThreads, tuning::kSortDealBlocksPerSm)
    deal_parts(Params params) {
  using Bits = typename Order::Bits;
  constexpr int kItemsHere = kItems<Order, Index>;
  constexpr uint32_t kNowhere = ~0u;
  __shared__ uint32_t warp_sums[32];
  const int parts = params.shape.parts, blocks = params.shape.blocks_per_row, tile = params.shape.tile;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const DealMemory<Bits, Index> memory(dynamic_shared(), parts, tile);
  const int64_t row = blockIdx.x / blocks, entries = params.rows.entries;
  const Entries from = params.from_of<Bits>(row);
  const DealtEntries<Bits, Index> to = params.dealt<Bits, Index>(row, 0);
  unsigned long long* const starts = params.memory.starts + row * parts;
  const uint16_t* const of_entries = params.memory.parts + row * entries;
  const int bin_count = bins_of(parts);
  follow_kernel_before();
  const int needed = static_cast<int>(params.memory.needed[row]);

  for (int64_t first = static_cast<int64_t>(blockIdx.x % blocks) * tile; first < entries;
       first += int64_t{tile} * blocks) {
    const int count = static_cast<int>(min(entries - first, static_cast<int64_t>(tile)));
    for (int i = thread; i < bin_count; i += threads) memory.bins[i] = 0;
    __syncthreads();  // bins are clear
    Bits bits[kItemsHere];
    Index indices[kItemsHere];
    uint32_t places[kItemsHere];  // the part, and how many came to it before
#pragma unroll
    for (int e = 0; e < kItemsHere; ++e) {
      const int64_t at = first + min(thread + e * threads, count - 1);
      read_entry(from, at, bits[e], indices[e]);
      places[e] = of_entries[at];
    }
#pragma unroll
    for (int e = 0; e < kItemsHere; ++e) {
      const int part = static_cast<int>(places[e]);
      const bool goes = thread + e * threads < count && part < needed;
      places[e] = goes ? places[e] << 16 | atomicAdd(memory.bins + part, 1u) : kNowhere;
    }
    __syncthreads();
    start_bins(memory.bins, bin_count, warp_sums);
    // By those who come first, so that what several blocks write meets while it is on its way to memory.
    for (int p = thread; p < needed; p += threads) {
      const uint32_t start = memory.bins[p], own = memory.bins[p + 1] - start;
      if (own > 0) {
        memory.shifts[p] =
            static_cast<Index>(atomicAdd(starts + p, static_cast<unsigned long long>(own)) - start);
      }
    }
#pragma unroll
    for (int e = 0; e < kItemsHere; ++e) {
      if (places[e] != kNowhere) {
        const uint32_t part = places[e] >> 16;
        const int at = static_cast<int>(memory.bins[part] + (places[e] & 0xFFFF));
        memory.values[at] = bits[e];
        memory.indices[at] = indices[e];
        memory.part[at] = static_cast<uint16_t>(part);
      }
    }
    __syncthreads();
    const int going = static_cast<int>(memory.bins[bin_count]);
    for (int i = thread; i < going; i += threads) {
      const Index at = memory.shifts[memory.part[i]] + static_cast<Index>(i);
      to.write(static_cast<int64_t>(at), memory.values[i], memory.indices[i]);
    }
    __syncthreads();  // the next tile comes to where this one is
  }
}

// ---- The parts ----

static_assert(sizeof(BlockScratch<uint64_t, uint64_t>) + sizeof(LargePartScratch<uint64_t>) <=
              tuning::kSortStaticBytes);

template <class Order, class Index>
__global__ void __launch_bounds__(tuning::kSortMaxThreads)
    sort_parts(Params params, int64_t cols, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  __shared__ BlockScratch<Word, Index> scratch;
  __shared__ LargePartScratch<Word> large;
  const int parts = params.shape.parts, capacity = params.shape.capacity;
  const BlockMemory<Bits, Index> memory(dynamic_shared(), capacity);
  const int64_t row = blockIdx.x / parts, part = blockIdx.x % parts;
  follow_kernel_before();
  if (part >= params.memory.needed[row]) return;
  // Dealing has brought every start to its part's end.
  const int64_t end = static_cast<int64_t>(params.memory.starts[row * parts + part]);
  const int64_t count = static_cast<int64_t>(params.memory.counts[row * parts + part]);
  const int64_t start = end - count, kept = min(count, params.rows.kept - start);
  if (kept == 0) return;
  const DealtEntries<Bits, Index> from = params.dealt<Bits, Index>(row, start);
  const Entries to = entries_from<Bits>(params.rows.to, row * params.rows.kept + start);
  if (count > capacity) {
    if (!sort_part_in_chunks<Order, Index>(count, kept, capacity, order, from, to, memory, scratch,
                                           large.chunks)) {
      sort_part_in_memory<Order, Index>(count, kept, cols, order, from, to, memory.counters, scratch, large);
    }
    return;
  }
  sort_in_block<kItems<Order, Index>, /*kPacks=*/true>(
      static_cast<int>(count), static_cast<int>(kept), order, memory, scratch,
      [&](int i, Bits& bits, Index& index) { from.read(i, bits, index); },
      [&](int rank, Bits bits, Index index) { write_entry(to, rank, bits, index); });
}

// ---- Launches ----

template <class Order, class Index>
ErrorCode launch(const Problem& problem, const Params& params, const Order& order, Stream stream) {
  constexpr int kEntryBytes = BlockMemory<typename Order::Bits, Index>::kEntryBytes;
  const Shape& shape = params.shape;
  using Word = typename KeyWord<typename Order::Bits>::type;
  static std::atomic<uint64_t> sample_allowed, count_allowed, deal_allowed, parts_allowed;
  const unsigned rows = static_cast<unsigned>(params.rows.rows);
  const unsigned sample_blocks = rows * static_cast<unsigned>(shape.sample_blocks);
  const unsigned deal_blocks = rows * static_cast<unsigned>(shape.blocks_per_row);

  size_t bytes = static_cast<size_t>(sample_bytes(kEntryBytes, shape.sample_chunk));
  cudaError_t error = allow_shared_memory(sort_sample<Order, Index>, bytes, sample_allowed);
  if (error != cudaSuccess) return error;
  error = launch_kernel(/*ahead=*/true, sort_sample<Order, Index>, sample_blocks,
                        static_cast<unsigned>(shape.sample_threads), bytes, stream, params, order);
  if (error == cudaSuccess && shape.sample_blocks > 1) {
    const int64_t sampled = int64_t{shape.sample_blocks} * shape.sample_chunk;
    error = launch_kernel(/*ahead=*/true, rank_sample<Word, Index>,
                          rows * static_cast<unsigned>(sampled / tuning::kSortRanked),
                          tuning::kSortRankThreads, /*shared_bytes=*/0, stream, params);
  }
  if (error != cudaSuccess) return error;

  bytes = static_cast<size_t>(aligned_counts(shape.parts) + Splitters<Order, Index>::bytes(shape.parts));
  error = allow_shared_memory(count_parts<Order, Index>, bytes, count_allowed);
  if (error != cudaSuccess) return error;
  error = launch_kernel(/*ahead=*/true, count_parts<Order, Index>, deal_blocks, tuning::kSortDealThreads,
                        bytes, stream, params, order);
  if (error != cudaSuccess) return error;

  bytes = static_cast<size_t>(deal_bytes(kEntryBytes, sizeof(Index), shape.parts, shape.tile));
  error = allow_shared_memory(deal_parts<Order, Index>, bytes, deal_allowed);
  if (error != cudaSuccess) return error;
  error = launch_kernel(/*ahead=*/true, deal_parts<Order, Index>, deal_blocks, tuning::kSortDealThreads,
                        bytes, stream, params);
  if (error != cudaSuccess) return error;

  bytes = static_cast<size_t>(block_bytes(kEntryBytes, shape.capacity, shape.threads));
  error = allow_shared_memory(sort_parts<Order, Index>, bytes, parts_allowed);
  if (error != cudaSuccess) return error;
  return launch_kernel(/*ahead=*/true, sort_parts<Order, Index>, rows * static_cast<unsigned>(shape.parts),
                       static_cast<unsigned>(shape.threads), bytes, stream, params, problem.cols, order);
}

}  // namespace

ErrorCode sort_in_parts(const Problem& problem, const Rows& rows, const Shape& shape, const Memory& memory,
                        Stream stream) {
  const Params params{rows, shape, memory};
  return visit_row_order(problem, rows, [&](auto order) {
    return visit_index(problem.cols, [&](auto index) -> ErrorCode {
      return launch<decltype(order), decltype(index)>(problem, params, order, stream);
    });
  });
}

}  // namespace gputopk::cuda::sort
