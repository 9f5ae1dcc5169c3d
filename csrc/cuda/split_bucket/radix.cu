// Split-bucket top-k by digits: a tile's buckets are the bins of a digit.
// "Optimizing top-K and selection algorithms on GPUs by split-bucket partition" (2024), section 3.3.1.
//
//   1. Collect: a block holds its tile in registers, and counts a digit of the range that its keys have in
//      shared memory.
//   2. Select: the bins from the best down to that of the k-th best go on. Where they hold more than the
//      cutoff, step 1 repeats within that bin.
//   3. Merge: what goes on is written where this tile has its place, filled up to the cutoff, so that no tile
//      waits for another.
// The three are one kernel, and what it writes is the next one's input, until a row has one tile left.
// The paper's digits are 8 bits from the highest of the key down; ours are of the range that is there, and go
// on into the index, so that rows of equals end as all others do.

#include "cuda/device/key_range.cuh"
#include "cuda/device/range_bins.cuh"
#include "cuda/split_bucket/tiles.cuh"

namespace gputopk::cuda::split_bucket {
namespace {

template <class Word>
struct Shared {
  KeyRange<Word> range;
  TargetDigit<uint32_t> target;
  uint32_t present;
  uint32_t listed;
  __align__(16) uint32_t histogram[1 << tuning::kSplitDigitBits];
};

// Steps 1 and 2: a bound that the tile's k best reach and no more than `cutoff`, or all elements where those
// are no more.
template <class Tile, class Word = typename Tile::Word>
__device__ __forceinline__ typename Tile::Entry bound_of_tile(const Tile& tile, int k, int cutoff,
                                                              Shared<Word>& shared) {
  using Entry = typename Tile::Entry;
  constexpr int kBits = tuning::kSplitDigitBits;
  SeenKeys<Word> seen;
#pragma unroll
  for (int i = 0; i < Tile::kElements; ++i) {
    if (tile.present() & 1u << i) seen.see(tile.key(i));
  }
  clear_histogram(shared.histogram, 1 << kBits);
  if (threadIdx.x == 0) {
    shared.range.reset();
    shared.present = shared.listed = 0;
  }
  __syncthreads();  // counts and range are reset
  shared.range.add(seen);
  const unsigned present = __reduce_add_sync(~0u, static_cast<unsigned>(__popc(tile.present())));
  if (threadIdx.x % 32 == 0) atomicAdd(&shared.present, present);
  __syncthreads();  // all warps have added
  if (shared.present <= static_cast<uint32_t>(cutoff)) return 1;

  constexpr int kIndexBits = PackOf<Word>::kIndexBits;
  const Entry least = static_cast<Word>(shared.range.least),
              greatest = static_cast<Word>(shared.range.greatest);
  Bounds<Entry> bounds{least << kIndexBits, greatest << kIndexBits | static_cast<Word>(~Word{0}), 0};
  for (;;) {
    int shift = 0;
    const auto target = find_bin(bounds, k, kBits, shift, shared.histogram, shared.target, [&](auto&& count) {
      tile.each([&](int i, Entry entry) {
        if (tile.present() & 1u << i) count(entry);
      });
    });
    bounds.narrow(target, shift);
    if (bounds.taken + static_cast<int>(target.count) <= cutoff) return bounds.low;
    clear_histogram(shared.histogram, 1 << kBits);
    __syncthreads();  // no thread counts into bins that another has yet to clear
  }
}

template <class Tile, class Level>
__device__ __forceinline__ void reduce(const Tile& tile, const Level& level) {
  __shared__ Shared<typename Tile::Word> shared;
  const PaddedList<typename Tile::Entry> list(reinterpret_cast<typename Tile::Entry*>(dynamic_shared()));
  const auto bound = bound_of_tile(tile, static_cast<int>(level.problem.k), level.cutoff, shared);
  hand_on(level, list, list_elements(tile, reaching(tile, bound), list, shared.listed));
}

template <class Word>
using Rows = Level<Word, /*kWindows=*/false>;

template <class Order, class Word>
__global__ void __launch_bounds__(tuning::kSplitMostThreads,
                                  tuning::kSplitThreadsPerSm / tuning::kSplitMostThreads)
    reduce_row_by_digits(const __grid_constant__ Rows<Word> level, const __grid_constant__ Order order) {
  let_next_kernel_start();
  reduce(RowTile<Order, Rows<Word>>(level, order), level);
}

template <class Word>
__global__ void __launch_bounds__(tuning::kSplitMostThreads,
                                  tuning::kSplitThreadsPerSm / tuning::kSplitMostThreads)
    reduce_entries_by_digits(const __grid_constant__ Rows<Word> level) {
  follow_kernel_before();
  reduce(EntryTile<Rows<Word>>(level), level);
}

template <class Order, class Word>
cudaError_t launch(const Radix& config, const Problem& problem, const Buffers& buffers, Order order,
                   cudaStream_t stream) {
  const Memory<Word> memory(problem, config.split, /*has_nodes=*/false, buffers.workspace);
  const unsigned threads = static_cast<unsigned>(config.split.threads);
  const size_t bytes = list_bytes<EntryOfWord<Word>>(config.split.cutoff);
  return run_levels(
      first_level<Rows<Word>>(problem, buffers, config.split, memory), memory,
      [&](const Rows<Word>& level, unsigned blocks) {
        return launch_kernel(/*ahead=*/false, reduce_row_by_digits<Order, Word>, blocks, threads, bytes,
                             stream, level, order);
      },
      [&](const Rows<Word>& level, unsigned blocks) {
        return launch_kernel(/*ahead=*/true, reduce_entries_by_digits<Word>, blocks, kEntryThreads, bytes,
                             stream, level);
      });
}

}  // namespace

size_t Radix::workspace_bytes(const Problem& problem) const {
  const auto bytes_of = [&](auto word) {
    return Memory<decltype(word)>(problem, split, /*has_nodes=*/false, nullptr).bytes;
  };
  return is_wide(problem) ? bytes_of(uint64_t{}) : bytes_of(uint32_t{});
}

ErrorCode Radix::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_kernel(problem, is_wide(problem), [&](auto order, auto word) {
    return launch<decltype(order), decltype(word)>(*this, problem, buffers, order, stream);
  });
}

}  // namespace gputopk::cuda::split_bucket
