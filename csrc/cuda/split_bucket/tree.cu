// Split-bucket top-k by a search tree: a tile's buckets are what lies between nodes, which are elements.
// "Optimizing top-K and selection algorithms on GPUs by split-bucket partition" (2024), section 3.3.2.
//
//   1. A block a row draws a sample of it and takes three nodes from it: about as many of a tile's elements
//      reach the first as it can hand on, and kSplitNodeStep times as many each the next (task optimisation:
//      a kernel of its own).
//   2. A block holds its tile in registers, and takes the buckets, best first, until they have the k best;
//      those behind are not looked at (control flow optimisation). Where the last of them has too many, it is
//      divided by nodes from a sample of itself, and so on.
//   3. What goes on is written where this tile has its place, filled up to the cutoff.
// Steps 2 and 3 are one kernel, and what it writes is the next one's input, until a row has one tile left.
// Nodes are entries, of which no two are equal: so rows of equals are divided like all others.

#include <cmath>

#include "cuda/device/sample.cuh"
#include "cuda/device/study.h"
#include "cuda/split_bucket/tiles.cuh"

namespace gputopk::cuda::split_bucket {
namespace {

constexpr int kNodes = tuning::kSplitNodes;
constexpr int kRowSample = tuning::kSplitRowSample;
constexpr int kTileSample = tuning::kSplitTileSample;

// Which of `samples` elements, best first, about `wanted` of `elements` reach. One behind it is left, so that
// a node never has all elements above it.
__device__ inline int node_rank(float wanted, float elements, int samples) {
  const float rank = wanted * static_cast<float>(samples) / elements;
  return rank < 1 ? 0 : rank < static_cast<float>(samples - 1) ? static_cast<int>(rank) - 1 : samples - 2;
}

// ---- Step 1 ----

// `tile`: elements of one.
template <class Level, class Word = typename Level::Word>
__global__ void __launch_bounds__(tuning::kSplitMostThreads)
    build_tree(const __grid_constant__ Level level, float wanted, int tile, EntryOfWord<Word>* nodes) {
  let_next_kernel_start();
  using Entry = EntryOfWord<Word>;
  const PaddedList<Entry> samples(reinterpret_cast<Entry*>(dynamic_shared()));
  const Problem& problem = level.problem;
  const int64_t row = blockIdx.x;
  const Window window = level.window(row);
  const Strata strata = Strata::of(max(window.length, int64_t{kRowSample}), kRowSample);
  visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Bits = typename decltype(order)::Bits;
    if constexpr (sizeof(Bits) <= sizeof(Word)) {
      const Bits* const elements =
          static_cast<const Bits*>(level.buffers.input) + row * problem.row_stride + window.start;
      const RowCandidates candidates = level.candidates(row);
      for (int i = static_cast<int>(threadIdx.x); i < kRowSample; i += static_cast<int>(blockDim.x)) {
        const int64_t index = strata.entry_of(static_cast<uint32_t>(i));
        const bool is_candidate = index < window.length && candidates.has(index);
        samples[i] =
            is_candidate ? PackOf<Word>::pack(order(elements[index]), static_cast<Word>(index)) : Entry{0};
      }
    }
  });
  __syncthreads();  // the sample is whole
  sort_list(samples, kRowSample, BlockItems{});
  // Of what a window's tile has.
  const float elements = static_cast<float>(min(max(window.length, int64_t{kRowSample}), int64_t{tile}));
  if (threadIdx.x < kNodes) {
    for (unsigned node = 0; node < threadIdx.x; ++node) wanted *= tuning::kSplitNodeStep;
    nodes[row * kNodes + threadIdx.x] = samples[node_rank(wanted, elements, kRowSample)];
  }
}

// ---- Steps 2 and 3 ----

template <class Entry>
struct Shared {
  uint32_t listed;
  uint32_t counts[3];
  uint32_t sampled;
  Entry samples[kTileSample];
  Entry nodes[kNodes];
};

// Counts the bits that the threads of a block have set: one barrier a count.
class BlockCount {
 public:
  // `counts[0]` is zero.
  __device__ explicit BlockCount(uint32_t (&counts)[3]) : counts_(counts) {}

  __device__ int of(uint32_t bits) {
    const unsigned own = __reduce_add_sync(~0u, static_cast<unsigned>(__popc(bits)));
    const int next = turn_ == 2 ? 0 : turn_ + 1;
    if (threadIdx.x == 0) counts_[next] = 0;  // read by all two barriers ago
    if (threadIdx.x % 32 == 0 && own > 0) atomicAdd(&counts_[turn_], own);
    __syncthreads();  // all have added
    const int count = static_cast<int>(counts_[turn_]);
    turn_ = next;
    return count;
  }

 private:
  uint32_t (&counts_)[3];
  int turn_ = 0;
};

// Takes nodes from a sample of the `count` elements that are `left`: of each thread that has any, one.
template <class Tile, class Entry = typename Tile::Entry>
__device__ __forceinline__ void sample_tile(const Tile& tile, uint32_t left, float wanted, int count,
                                            Shared<Entry>& shared) {
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();  // nobody needs the last nodes any more
  if (thread == 0) shared.sampled = 0;
  __syncthreads();  // the count is zero
  if (left != 0) {
    // One that is neither the first nor the last of them all the time.
    const int turn = (thread * 7 + thread / 32) % 32;
    const uint32_t turned = __funnelshift_r(left, left, turn);
    const uint32_t place = atomicAdd(&shared.sampled, 1u);
    if (place < kTileSample) {
      shared.samples[place] = tile.entry_again((__ffs(static_cast<int>(turned)) - 1 + turn) % 32);
    }
  }
  __syncthreads();  // the sample is whole
  const int samples = min(static_cast<int>(shared.sampled), kTileSample);
  if (thread < samples) {
    const Entry own = shared.samples[thread];
    int rank = 0;
    for (int i = 0; i < samples; ++i) rank += shared.samples[i] > own;
#pragma unroll
    for (int node = 0; node < kNodes; ++node) {
      if (rank == node_rank(wanted, static_cast<float>(count), samples)) shared.nodes[node] = own;
      wanted *= tuning::kSplitNodeStep;
    }
  }
  __syncthreads();  // the nodes are there
}

template <class Tile, class Level>
__device__ __forceinline__ void reduce(const Tile& tile, const Level& level, float wanted,
                                       bool best_buckets_first) {
  using Entry = typename Tile::Entry;
  __shared__ Shared<Entry> shared;
  const int k = static_cast<int>(level.problem.k);
  const bool counts_all = kStudy && !best_buckets_first;
  if (threadIdx.x == 0) shared.listed = shared.counts[0] = 0;
  if (level.nodes != nullptr && threadIdx.x < kNodes) {
    shared.nodes[threadIdx.x] = level.nodes[level.row() * kNodes + threadIdx.x];
  }
  __syncthreads();  // counts are zero, and the nodes are there
  BlockCount block_count(shared.counts);

  // Of what threads hold: what goes on for sure, `taken` in all, and what is left to be divided.
  uint32_t sure = 0, left = tile.present();
  int taken = 0, left_count = -1;  // not yet counted
  for (bool has_nodes = level.nodes != nullptr;; has_nodes = false) {
    if (!has_nodes) {
      if (left_count < 0) left_count = block_count.of(left);
      if (taken + left_count <= level.cutoff) break;
      sample_tile(tile, left, wanted - static_cast<float>(taken), left_count, shared);
    }
    uint32_t above = 0, bucket = 0;
    int above_count = 0, bucket_count = 0;
    bool found = false;
#pragma unroll 1
    for (int node = 0; node < kNodes && (counts_all || !found); ++node) {
      const uint32_t reaches = reaching(tile, shared.nodes[node]) & left;
      const int count = block_count.of(reaches);
      if (found) continue;
      found = taken + count >= k;
      if (found) {
        bucket = reaches & ~above;
        bucket_count = count - above_count;
      } else {
        above = reaches;
        above_count = count;
      }
    }
    if (!found) {  // it is the bucket behind all nodes
      if (left_count < 0) left_count = block_count.of(left);
      bucket = left & ~above;
      bucket_count = left_count - above_count;
    }
    sure |= above;
    taken += above_count;
    left = bucket;
    left_count = bucket_count;
    if (taken + left_count <= level.cutoff) break;
  }
  const PaddedList<Entry> list(reinterpret_cast<Entry*>(dynamic_shared()));
  hand_on(level, list, list_elements(tile, sure | left, list, shared.listed));
}

template <class Order, class Level>
__global__ void __launch_bounds__(tuning::kSplitMostThreads,
                                  tuning::kSplitThreadsPerSm / tuning::kSplitMostThreads)
    reduce_row_by_tree(const __grid_constant__ Level level, const __grid_constant__ Order order, float wanted,
                       bool best_buckets_first) {
  let_next_kernel_start();
  const RowTile<Order, Level> tile(level, order);
  wait_for_kernel_before();  // the nodes
  reduce(tile, level, wanted, best_buckets_first);
}

template <class Level>
__global__ void __launch_bounds__(tuning::kSplitMostThreads,
                                  tuning::kSplitThreadsPerSm / tuning::kSplitMostThreads)
    reduce_entries_by_tree(const __grid_constant__ Level level, float wanted, bool best_buckets_first) {
  follow_kernel_before();
  reduce(EntryTile<Level>(level), level, wanted, best_buckets_first);
}

// ---- Host ----

// Elements that should reach a tile's first node: as far from k as from the cutoff.
float wanted_of(const Problem& problem, const Split& split) {
  return std::sqrt(static_cast<float>(problem.k) * static_cast<float>(split.cutoff));
}

// One tile is as good a sample of itself.
bool has_row_tree(const Tree& config, const Problem& problem) {
  return config.one_tree_a_row && problem.cols > row_tile(problem, config.split);
}

template <class Level, class Order, class Rows>
cudaError_t launch(const Tree& config, const Problem& problem, const Rows& rows, const Buffers& buffers,
                   Order order, cudaStream_t stream) {
  using Word = typename Level::Word;
  const bool has_tree = has_row_tree(config, problem);
  const Memory<Word> memory(problem, config.split, has_tree, buffers.workspace);
  Level first = first_level<Level>(problem, buffers, config.split, memory);
  first.rows = rows;
  const float wanted = wanted_of(problem, config.split);
  if (has_tree) {
    if (problem.rows > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
    const cudaError_t error =
        launch_kernel(/*ahead=*/false, build_tree<Level>, static_cast<unsigned>(problem.rows),
                      tuning::kSplitMostThreads, list_bytes<EntryOfWord<Word>>(kRowSample), stream, first,
                      wanted, static_cast<int>(row_tile(problem, config.split)), memory.nodes);
    if (error != cudaSuccess) return error;
  }
  const unsigned threads = static_cast<unsigned>(config.split.threads);
  const size_t bytes = list_bytes<EntryOfWord<Word>>(config.split.cutoff);
  return run_levels(
      first, memory,
      [&](const Level& level, unsigned blocks) {
        return launch_kernel(/*ahead=*/has_tree, reduce_row_by_tree<Order, Level>, blocks, threads, bytes,
                             stream, level, order, wanted, config.best_buckets_first);
      },
      [&](const Level& level, unsigned blocks) {
        return launch_kernel(/*ahead=*/true, reduce_entries_by_tree<Level>, blocks, kEntryThreads, bytes,
                             stream, level, wanted, config.best_buckets_first);
      });
}

}  // namespace

size_t Tree::workspace_bytes(const Problem& problem) const {
  const auto bytes_of = [&](auto word) {
    return Memory<decltype(word)>(problem, split, has_row_tree(*this, problem), nullptr).bytes;
  };
  return is_wide(problem) ? bytes_of(uint64_t{}) : bytes_of(uint32_t{});
}

ErrorCode Tree::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_kernel(problem, is_wide(problem), [&](auto order, auto word) {
    return launch<Level<decltype(word), false>>(*this, problem, Nothing{}, buffers, order, stream);
  });
}

ErrorCode Tree::run_windows(const Problem& problem, const WindowRows& rows, const Buffers& buffers,
                            Stream stream) const {
  return visit_kernel</*kMayBeWide=*/false>(problem, /*wide=*/false, [&](auto order, auto word) {
    return launch<Level<decltype(word), true>>(*this, problem, rows, buffers, order, stream);
  });
}

}  // namespace gputopk::cuda::split_bucket
