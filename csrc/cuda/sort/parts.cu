// Rows in parts: a sample of a row gives splitters; every entry is dealt out to the part between two of them;
// a block sorts each part. Splitters are extended keys, which no two entries share, so that equal keys go to
// several parts as others do, and no input fills one part alone. A part that is too large for a block in
// spite of that is sorted chunk by chunk, or digit by digit in memory.

#include <algorithm>

#include "cuda/device/block_sort.cuh"
#include "cuda/device/cluster.cuh"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/list_selection.cuh"
#include "cuda/device/sample.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/sort/rows.h"

namespace gputopk::cuda::sort {
namespace {

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
  template <class Bits, class Index>
  __device__ Entries parts_of(int64_t row) const {
    return entries_from<Bits>({memory.values, memory.indices, sizeof(Index) == 8}, row * rows.entries);
  }
  template <class Bits>
  __device__ Entries from_of(int64_t row) const {
    return entries_from<Bits>(rows.from, row * rows.from_stride);
  }
};

// ---- The sample ----

// The chunks of a row's sample, each in order, one behind the other. Behind what sorts.
template <class Word, class Index>
struct SampleChunks {
  Word* keys;
  Index* indices;
  int chunk;  // entries of each: a power of two

  __device__ SampleChunks(uint32_t* base, int of_chunk, int blocks)
      : keys(reinterpret_cast<Word*>(base)),
        indices(reinterpret_cast<Index*>(keys + of_chunk * blocks)),
        chunk(of_chunk) {}

  // How many entries of the chunk from number `first` on come before number `own`.
  __device__ int before(int own, int first) const {
    const Word key = keys[own];
    const Index index = indices[own];
    const auto is_before = [&](int i) {
      const Word other = keys[i];
      return other > key || (other == key && indices[i] < index);
    };
    int at = first;
    for (int step = chunk / 2; step > 0; step /= 2) at += is_before(at + step - 1) ? step : 0;
    return at - first + (is_before(at) ? 1 : 0);
  }
};

// Each block of a row's cluster sorts a chunk of the sample, and then ranks that among all chunks: of the
// whole sample every so manyth entry is a splitter.
template <class Order, class Index>
__global__ void __launch_bounds__(tuning::kSortMaxThreads)
    find_splitters(Params params, Order order, int chunk, int blocks) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  __shared__ BlockScratch<Word, Index> scratch;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int parts = params.shape.parts, capacity = (chunk + 63) / 64 * 64;
  const BlockMemory<Bits, Index> memory(dynamic_shared(), capacity);
  const SampleChunks<Word, Index> sample(memory.counters + counters_of_block(capacity, threads), chunk,
                                         blocks);
  const int chunk_bits = bits_of(static_cast<uint32_t>(chunk - 1));
  const int block = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks));
  const int64_t row = blockIdx.x / static_cast<unsigned>(blocks), entries = params.rows.entries;
  const Entries from = params.from_of<Bits>(row);
  follow_kernel_before();
  if (block == 0) {
    for (int i = thread; i < parts; i += threads) params.memory.counts[row * parts + i] = 0;
    if (thread == 0) params.memory.arrived[row] = 0;
  }
  const Strata strata = Strata::of(entries, int64_t{chunk} * blocks);
  sort_in_block<kItems<Order, Index>>(
      chunk, chunk, order, memory, scratch,
      [&](int i, Bits& bits, Index& index) {
        read_entry(from, strata.entry_of(static_cast<uint32_t>(i * blocks + block)), bits, index);
      },
      [&](int rank, Bits bits, Index index) {
        sample.keys[block * chunk + rank] = order(bits);
        sample.indices[block * chunk + rank] = index;
      });
  Cluster::arrive();
  Cluster::wait();  // all chunks are in order
  // Several at a time, as each is a trip through the GPU.
  constexpr int kInFlight = 8;
  const int all = chunk * blocks;
  for (int i = thread; i < all; i += kInFlight * threads) {
    Word keys[kInFlight];
    Index indices[kInFlight];
#pragma unroll
    for (int e = 0; e < kInFlight; ++e) {
      const int at = min(i + e * threads, all - 1);
      keys[e] = Cluster::of_block(sample.keys, at >> chunk_bits)[at];
      indices[e] = Cluster::of_block(sample.indices, at >> chunk_bits)[at];
    }
#pragma unroll
    for (int e = 0; e < kInFlight; ++e) {
      const int at = i + e * threads;
      if (at >= all || at >> chunk_bits == block) continue;
      sample.keys[at] = keys[e];
      sample.indices[at] = indices[e];
    }
  }
  uint32_t* const ranks = memory.counters;
  for (int i = thread; i < chunk; i += threads) ranks[i] = static_cast<uint32_t>(i);
  Cluster::arrive();  // no other's chunk is looked at from here on
  __syncthreads();    // all are here
  for (int i = thread; i < all; i += threads) {
    const int own = i & (chunk - 1), other = i >> chunk_bits;
    if (other == block) continue;
    const int before = sample.before((block << chunk_bits) + own, other << chunk_bits);
    atomicAdd(ranks + own, static_cast<uint32_t>(before));
  }
  __syncthreads();  // all ranks are known
  for (int i = thread; i < chunk; i += threads) {
    // Splitter number p is the entry of that rank of which p parts are better. (Of fewer entries than parts,
    // several are one.)
    const int rank = static_cast<int>(ranks[i]);
    for (int part = (rank * parts + all - 1) / all; part < parts && part * all / parts == rank; ++part) {
      params.splitter_keys<Word>(row)[part] = sample.keys[block * chunk + i];
      params.splitter_indices<Index>(row)[part] = sample.indices[block * chunk + i];
    }
  }
  Cluster::wait();  // nor is this block's
}

// ---- Dealing out ----

// The splitters of a row in shared memory: part p ends with the entry before splitter p. They lie as the
// nodes of a search tree, level by level from number 1 on, so that lanes that search side by side look at
// neighbours: in order, they would meet in a few banks.
template <class Order, class Index>
struct Splitters {
  using Word = typename KeyWord<typename Order::Bits>::type;
  Word* keys;
  Index* indices;
  int parts;  // a power of two

  // A splitter takes 16 bytes of shared memory, whatever its type.
  __device__ Splitters(unsigned char* base, int count_of_parts)
      : keys(reinterpret_cast<Word*>(base)),
        indices(reinterpret_cast<Index*>(base + 8 * count_of_parts)),
        parts(count_of_parts) {}

  // By all threads of a block, a barrier before part_of.
  __device__ void load(const Word* row_keys, const Index* row_indices) {
    for (int node = static_cast<int>(threadIdx.x); node < parts; node += static_cast<int>(blockDim.x)) {
      if (node == 0) continue;
      const int level = bits_of(static_cast<uint32_t>(node)) - 1;
      const int first_of_level = 1 << level;
      const int splitter = (2 * (node - first_of_level) + 1) * (parts >> (level + 1)) - 1;
      keys[node] = row_keys[splitter + 1];
      indices[node] = row_indices[splitter + 1];
    }
  }

  // From a node to the next by the key alone; true if that leaves it open.
  __device__ bool descend(Word key, int& node) const {
    const Word other = keys[node];
    node = 2 * node + (key > other ? 0 : 1);
    return key == other;
  }

  __device__ int part_of(Word key, Index index) const {
    int node = 1;
    while (node < parts) {
      const Word other = keys[node];
      bool before = key > other;
      if (key == other) before = index < indices[node];
      node = 2 * node + (before ? 0 : 1);
    }
    return node - parts;
  }

  // Of several entries, side by side: a search alone waits for shared memory at every level. Those that
  // equal a splitter are searched for once more, with their index.
  template <int kCount>
  __device__ void parts_of(const Word (&keys_of)[kCount], const Index (&indices_of)[kCount],
                           int (&found)[kCount]) const {
    uint32_t equal = 0;
#pragma unroll
    for (int e = 0; e < kCount; ++e) found[e] = 1;
    for (int level = 1; level < parts; level *= 2) {
#pragma unroll
      for (int e = 0; e < kCount; ++e) {
        if (descend(keys_of[e], found[e])) equal |= 1u << e;
      }
    }
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      found[e] = equal >> e & 1 ? part_of(keys_of[e], indices_of[e]) : found[e] - parts;
    }
  }
};

// Finds the part of each entry, and counts them; the last block of a row finds where parts start, and how
// many of them have entries that are kept.
template <class Order, class Index>
__global__ void __launch_bounds__(tuning::kSortDealThreads, tuning::kSortDealBlocksPerSm)
    count_parts(Params params, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  const int parts = params.shape.parts, blocks = params.shape.blocks_per_row;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  unsigned char* const shared = dynamic_shared();
  Splitters<Order, Index> splitters(shared, parts);
  uint32_t* const counts = reinterpret_cast<uint32_t*>(shared + 16 * parts);
  const int64_t row = blockIdx.x / blocks, block = blockIdx.x % blocks;
  const Entries from = params.from_of<Bits>(row);
  unsigned long long* const row_counts = params.memory.counts + row * parts;
  uint16_t* const of_entries = params.memory.parts + row * params.rows.entries;
  for (int p = thread; p < parts; p += threads) counts[p] = 0;
  follow_kernel_before();
  splitters.load(params.splitter_keys<Word>(row), params.splitter_indices<Index>(row));
  __syncthreads();
  constexpr int kCount = tuning::kSortSearches;
  const int64_t step = int64_t{threads} * blocks, entries = params.rows.entries;
  for (int64_t first = block * threads + thread; first < entries; first += kCount * step) {
    Bits bits[kCount];
    Word keys[kCount];
    Index indices[kCount];
    int part[kCount];
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      read_entry(from, min(first + e * step, entries - 1), bits[e], indices[e]);
    }
#pragma unroll
    for (int e = 0; e < kCount; ++e) keys[e] = order(bits[e]);
    splitters.parts_of(keys, indices, part);
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      if (first + e * step < entries) {
        atomicAdd(counts + part[e], 1u);
        of_entries[first + e * step] = static_cast<uint16_t>(part[e]);
      }
    }
  }
  __syncthreads();
  for (int p = thread; p < parts; p += threads) {
    if (counts[p] > 0) atomicAdd(row_counts + p, static_cast<unsigned long long>(counts[p]));
  }
  if (!is_last_block(params.memory.arrived + row, static_cast<uint32_t>(blocks))) return;
  unsigned long long* const sums =
      reinterpret_cast<unsigned long long*>(shared);  // no splitter is needed now
  for (int p = thread; p < parts; p += threads) sums[p] = row_counts[p];
  __syncthreads();  // the first warp reads them all
  if (thread >= 32) return;
  unsigned long long start = 0;
  int needed = 0;
  for (int p = thread; p - thread < parts; p += 32) {
    const unsigned long long own = p < parts ? sums[p] : 0;
    unsigned long long inclusive = own;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const unsigned long long other = __shfl_up_sync(~0u, inclusive, distance);
      if (thread >= distance) inclusive += other;
    }
    const unsigned long long before = start + inclusive - own;
    if (p < parts) params.memory.starts[row * parts + p] = before;
    needed += __popc(__ballot_sync(~0u, p < parts && before < static_cast<uint64_t>(params.rows.kept)));
    start += __shfl_sync(~0u, inclusive, 31);
  }
  if (thread == 0) params.memory.needed[row] = static_cast<uint32_t>(needed);
}

// The shared memory of deal_parts, deal_bytes of it.
template <class Bits, class Index>
struct DealMemory {
  unsigned long long* shifts;  // from an entry's place in the tile to that in the row
  Index* indices;
  Bits* values;
  uint32_t* bins;
  uint16_t* part;

  __device__ DealMemory(unsigned char* base, int parts, int tile) {
    shifts = reinterpret_cast<unsigned long long*>(base);
    indices = reinterpret_cast<Index*>(shifts + parts);
    bins = reinterpret_cast<uint32_t*>(indices + tile);
    values = reinterpret_cast<Bits*>(bins + bins_for(parts) + 4);
    part = reinterpret_cast<uint16_t*>(reinterpret_cast<unsigned char*>(values) + sizeof(Bits) * tile);
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
  const Entries from = params.from_of<Bits>(row), to = params.parts_of<Bits, Index>(row);
  unsigned long long* const starts = params.memory.starts + row * parts;
  const uint16_t* const of_entries = params.memory.parts + row * entries;
  const int bin_count = bins_for(parts);
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
    start_bins(memory.bins, bin_count, warp_sums, nullptr);
    for (int p = thread; p < parts; p += threads) {
      const uint32_t start = memory.bins[p], own = memory.bins[p + 1] - start;
      if (own > 0) memory.shifts[p] = atomicAdd(starts + p, static_cast<unsigned long long>(own)) - start;
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
      write_entry(to, static_cast<int64_t>(memory.shifts[memory.part[i]] + i), memory.values[i],
                  memory.indices[i]);
    }
    __syncthreads();  // the next tile comes to where this one is
  }
}

// ---- The parts ----

// A part that is too large for a block is sorted in chunks that are not: adjacent bins of a digit of its
// range.
struct Chunks {
  int count;
  int bins[tuning::kSortMostChunks + 1];     // where each begins
  int entries[tuning::kSortMostChunks + 1];  // how many lie before it
  uint32_t brought;
};

template <class Word>
struct LargePartScratch {
  ListSelectionScratch<Word> selection;
  unsigned long long brought;
  Chunks chunks;
};

// Divides `bins` that begin where they say into chunks of at most `capacity` entries. False if one bin has
// more, or if there are too many. By all threads of a block.
__device__ inline bool divide_into_chunks(const uint32_t* bins, int count_of_bins, int capacity,
                                          Chunks& chunks) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  int first = 0, chunk = 0;
  if (thread == 0) chunks.bins[0] = chunks.entries[0] = 0;
  while (first < count_of_bins && chunk < tuning::kSortMostChunks) {
    const uint32_t most = bins[first] + static_cast<uint32_t>(capacity);
    for (int bin = first + thread; bin < count_of_bins; bin += threads) {
      if (bins[bin] <= most && (bin + 1 == count_of_bins || bins[bin + 1] > most)) {
        // All of the last bin, if that ends in time.
        const int end = bins[bin + 1] <= most ? bin + 1 : bin;
        chunks.bins[chunk + 1] = end;
        chunks.entries[chunk + 1] = static_cast<int>(bins[end]);
      }
    }
    __syncthreads();
    const int end = chunks.bins[++chunk];
    if (end == first) return false;
    first = end;
  }
  if (thread == 0) chunks.count = chunk;
  __syncthreads();
  return first == count_of_bins;
}

// False, and nothing is done, if the part does not fall into few chunks.
template <class Order, class Index, class Bits = typename Order::Bits>
__device__ __noinline__ bool sort_part_in_chunks(int64_t count, int64_t kept, int capacity, Order order,
                                                 Entries from, Entries to, BlockMemory<Bits, Index> memory,
                                                 BlockScratch<typename KeyWord<Bits>::type, Index>& scratch,
                                                 Chunks& chunks) {
  using Word = typename KeyWord<Bits>::type;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  if (count > int64_t{tuning::kSortMostChunks} * capacity) return false;
  const int count_of_bins = bins_for(capacity);
  clear_bins(memory.counters, count_of_bins);
  SeenEntries<Word, Index> seen{};
  for (int64_t i = thread; i < count; i += threads) {
    Bits bits;
    Index index;
    read_entry(from, i, bits, index);
    seen.see(order(bits), index);
  }
  // And the bins are clear.
  const auto all = DigitBins<Word, Index>::over(seen.range_over_block(scratch.of_warps), count_of_bins);
  for (int64_t i = thread; i < count; i += threads) {
    Bits bits;
    Index index;
    read_entry(from, i, bits, index);
    atomicAdd(memory.counters + all.of(order(bits), index), 1u);
  }
  __syncthreads();
  start_bins(memory.counters, count_of_bins, scratch.warp_sums, nullptr);
  if (!divide_into_chunks(memory.counters, count_of_bins, capacity, chunks)) return false;

  for (int chunk = 0; chunk < chunks.count && chunks.entries[chunk] < kept; ++chunk) {
    const uint32_t first = static_cast<uint32_t>(chunks.bins[chunk]);
    const uint32_t end = static_cast<uint32_t>(chunks.bins[chunk + 1]);
    const int before = chunks.entries[chunk], entries = chunks.entries[chunk + 1] - before;
    if (thread == 0) chunks.brought = 0;
    __syncthreads();  // the next chunk comes to where the last one was
    for (int64_t start = 0; start < count; start += threads) {
      Bits bits{};
      Index index{};
      bool of_chunk = false;
      if (start + thread < count) {
        read_entry(from, start + thread, bits, index);
        const uint32_t bin = all.of(order(bits), index);
        of_chunk = first <= bin && bin < end;
      }
      const unsigned with = __ballot_sync(~0u, of_chunk);
      uint32_t at = 0;
      if (thread % 32 == 0 && with != 0) at = atomicAdd(&chunks.brought, static_cast<uint32_t>(__popc(with)));
      at = __shfl_sync(~0u, at, 0) + static_cast<uint32_t>(__popc(with & ((1u << thread % 32) - 1)));
      if (of_chunk) {
        memory.values[at] = bits;
        memory.indices[at] = index;
      }
    }
    __syncthreads();
    sort_in_block<kItems<Order, Index>>(
        entries, static_cast<int>(min(int64_t{entries}, kept - before)), order, memory, scratch,
        [&](int i, Bits& bits, Index& index) {
          bits = memory.values[i];
          index = memory.indices[i];
        },
        [&](int rank, Bits bits, Index index) { write_entry(to, before + rank, bits, index); });
  }
  return true;
}

// The best `kept` of a part are brought to `to` and sorted by digits there and in `from`, of which nothing is
// left.
template <class Order, class Index>
__device__ __noinline__ void sort_part_in_memory(
    int64_t count, int64_t kept, int64_t cols, Order order, Entries from, Entries to, uint32_t* counters,
    BlockScratch<typename KeyWord<typename Order::Bits>::type, Index>& scratch,
    LargePartScratch<typename KeyWord<typename Order::Bits>::type>& large) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const Index last_index = static_cast<Index>(cols - 1);
  const auto entry = [&](int64_t i) {
    Bits bits;
    Index index;
    read_entry(from, i, bits, index);
    return Extended{order(bits), static_cast<Index>(last_index - index)};
  };
  Extended bound{0, 0};
  if (kept < count) {
    const int entries = static_cast<int>(count);
    find_key_range</*kInFlight=*/4>(entries, large.selection, [&](int i) { return entry(i).key; });
    bound = bound_in_list<Word, Index>(entries, static_cast<uint64_t>(kept), /*slack=*/0, bits_of(last_index),
                                       tuning::kSortDigitBits, counters, large.selection, entry);
  }
  if (thread == 0) large.brought = 0;
  __syncthreads();
  SeenEntries<Word, Index> seen{};
  for (int64_t i = thread; i < count; i += threads) {
    Bits bits;
    Index index;
    read_entry(from, i, bits, index);
    const Word key = order(bits);
    if (Extended{key, static_cast<Index>(last_index - index)} < bound) continue;
    seen.see(key, index);
    write_entry(to, static_cast<int64_t>(atomicAdd(&large.brought, 1ull)), bits, index);
  }
  const auto range = seen.range_over_block(scratch.of_warps);
  const Entries sorted =
      sort_by_digits<kItems<Order, Index>, Order, Index>(kept, order, to, from, range, counters);
  if (sorted.values == to.values) return;
  for (int64_t i = thread; i < kept; i += threads) {
    Bits bits;
    Index index;
    read_entry(sorted, i, bits, index);
    write_entry(to, i, bits, index);
  }
}

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
  const Entries from = entries_from<Bits>(params.parts_of<Bits, Index>(row), start);
  const Entries to = entries_from<Bits>(params.rows.to, row * params.rows.kept + start);
  if (count > capacity) {
    if (!sort_part_in_chunks<Order, Index>(count, kept, capacity, order, from, to, memory, scratch,
                                           large.chunks)) {
      sort_part_in_memory<Order, Index>(count, kept, cols, order, from, to, memory.counters, scratch, large);
    }
    return;
  }
  sort_in_block<kItems<Order, Index>>(
      static_cast<int>(count), static_cast<int>(kept), order, memory, scratch,
      [&](int i, Bits& bits, Index& index) { read_entry(from, i, bits, index); },
      [&](int rank, Bits bits, Index index) { write_entry(to, rank, bits, index); });
}

// ---- Launches ----

template <class Order, class Index>
ErrorCode launch(const Problem& problem, const Params& params, const Order& order, Stream stream) {
  constexpr int kEntryBytes = BlockMemory<typename Order::Bits, Index>::kEntryBytes;
  const Shape& shape = params.shape;
  static std::atomic<uint64_t> sample_allowed, clusters_allowed, deal_allowed, parts_allowed;
  const unsigned rows = static_cast<unsigned>(params.rows.rows);
  const unsigned deal_blocks = rows * static_cast<unsigned>(shape.blocks_per_row);

  // Where a context has no room for so large a cluster, there are fewer samples.
  struct Clusters {
    int blocks, threads;  // of each, and of a block
  };
  const ErrorCode unsampled =
      launch_with_room(Clusters{shape.sample_blocks, tuning::kSortMaxThreads}, [&](const Clusters& clusters) {
        constexpr int kWordBytes = sizeof(typename KeyWord<typename Order::Bits>::type) + sizeof(Index);
        const size_t bytes =
            static_cast<size_t>(sample_bytes(kEntryBytes, kWordBytes, shape.sample_chunk, clusters.blocks));
        return launch_cluster_a_row(/*ahead=*/true, clusters, params.rows.rows, find_splitters<Order, Index>,
                                    bytes, sample_allowed, clusters_allowed, stream, params, order,
                                    shape.sample_chunk);
      });
  if (unsampled != cudaSuccess) return unsampled;

  cudaError_t error =
      launch_kernel(/*ahead=*/true, count_parts<Order, Index>, deal_blocks, tuning::kSortDealThreads,
                    static_cast<size_t>(16 + 4) * shape.parts, stream, params, order);
  if (error != cudaSuccess) return error;

  size_t bytes = static_cast<size_t>(deal_bytes(kEntryBytes, shape.parts, shape.tile));
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
