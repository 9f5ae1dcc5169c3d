// A part of a row that is too large for a block to hold: sorted in chunks that are not, each adjacent bins of
// a digit of the part's range, or digit by digit in memory.
#pragma once

#include "cuda/device/block_sort.cuh"
#include "cuda/device/dealt_entries.cuh"
#include "cuda/device/list_selection.cuh"

namespace gputopk::cuda {

// A part is read once for every chunk of it: of more chunks, sorting by digits is no slower.
inline constexpr int kMostPartChunks = 32;

struct Chunks {
  int count;
  int bins[kMostPartChunks + 1];     // where each begins
  int entries[kMostPartChunks + 1];  // how many lie before it
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
  while (first < count_of_bins && chunk < kMostPartChunks) {
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
                                                 DealtEntries<Bits, Index> from, Entries to,
                                                 BlockMemory<Bits, Index> memory,
                                                 BlockScratch<typename KeyWord<Bits>::type, Index>& scratch,
                                                 Chunks& chunks) {
  using Word = typename KeyWord<Bits>::type;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  if (count > int64_t{kMostPartChunks} * capacity) return false;
  const int count_of_bins = bins_for(capacity);
  clear_bins(memory.counters, count_of_bins);
  SeenEntries<Word, Index> seen{};
  for (int64_t i = thread; i < count; i += threads) {
    Bits bits;
    Index index;
    from.read(i, bits, index);
    seen.see(order(bits), index);
  }
  // And the bins are clear.
  const auto all = DigitBins<Word, Index>::over(seen.range_over_block(scratch.of_warps), count_of_bins);
  for (int64_t i = thread; i < count; i += threads) {
    Bits bits;
    Index index;
    from.read(i, bits, index);
    atomicAdd(memory.counters + all.of(order(bits), index), 1u);
  }
  __syncthreads();
  start_bins(memory.counters, count_of_bins, scratch.warp_sums);
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
        from.read(start + thread, bits, index);
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
    sort_in_block<kItems<Order, Index>, /*kPacks=*/true>(
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
    int64_t count, int64_t kept, int64_t cols, Order order, DealtEntries<typename Order::Bits, Index> from,
    Entries to, uint32_t* counters,
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
    from.read(i, bits, index);
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
    from.read(i, bits, index);
    const Word key = order(bits);
    if (Extended{key, static_cast<Index>(last_index - index)} < bound) continue;
    seen.see(key, index);
    write_entry(to, static_cast<int64_t>(atomicAdd(&large.brought, 1ull)), bits, index);
  }
  const auto range = seen.range_over_block(scratch.of_warps);
  const Entries sorted = sort_by_digits<kItems<Order, Index>, Order, Index>(
      kept, order, to, from.memory_of(kept), range, counters);
  if (sorted.values == to.values) return;
  for (int64_t i = thread; i < kept; i += threads) {
    Bits bits;
    Index index;
    read_entry(sorted, i, bits, index);
    write_entry(to, i, bits, index);
  }
}

}  // namespace gputopk::cuda
