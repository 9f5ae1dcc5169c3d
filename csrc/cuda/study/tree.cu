// Search-tree top-k over several kernels, a baseline: sample select.
// Ribizel, Anzt: Parallel Selection on GPUs (Parallel Computing 91, 2020), as the split-bucket paper has it
// for its TK_StP ("Optimizing top-K and selection algorithms on GPUs by split-bucket partition", 2024,
// sections 2.2 and 4.1). A level is three kernels:
//
//   1. A block a row sorts a sample of the candidates, which are all elements at first, and makes a search
//      tree of every fourth.
//   2. All blocks find each candidate's bucket, between two of those, and count it in shared memory. The
//      row's last block finds the bucket with the k-th element.
//   3. All blocks write the elements of the buckets above, which win, and store those of the bucket: the next
//      candidates.
//
// Behind the levels one block finishes the few that are left. Entries are compared, of which no two are
// equal: so rows of equals are divided like all others.
//
// There are as many levels as a row should need, and a row that needs fewer leaves the rest nothing to do. A
// sample promises nothing, though: an input made for it can leave nearly all of the row each time. So the
// block that finishes takes any number of candidates, from the row where they are more than a buffer holds,
// and by digits: an entry has no more than 96 bits, so that 9 of them always do.

#include <algorithm>

#include "core/key_order.h"
#include "cuda/baselines.h"
#include "cuda/device/entry.cuh"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/list_sort.cuh"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/sample.cuh"
#include "cuda/device/warp.cuh"
#include "cuda/device/winner_writer.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda {
namespace {

constexpr int kSteps = 8;  // from the tree's root to a bucket
constexpr int kBuckets = 1 << kSteps;
constexpr int kSample = 1024;
constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kBlocksPerSm = 2;
constexpr int64_t kLeastPerBlock = 4 * kThreads;
constexpr int kStaged = 32;  // entries that a warp writes out together
// A bucket is stored if it has at most this share of the row. It nearly always has.
constexpr int kStoredShare = 4;
// Candidates that a block finishes: levels cost three launches each.
constexpr uint32_t kFew = 4096;
static_assert(kSample <= kFew, "a sample takes each candidate once");
// How many times fewer candidates a level is counted on to leave: a bucket is rarely four times the average.
constexpr int64_t kLevelGain = kBuckets / 4;
constexpr int kDigitBits = 11;  // of the finishing block

template <class Bits>
using EntryType = typename EntryOf<Bits, uint32_t>::type;

// The candidates of one row.
template <class Entry>
struct Candidates {
  // low <= candidates <= high < winners, which have been written.
  Entry low, high;
  uint32_t owed;  // winners among them; 0: all have been written
  uint32_t count;
  bool stored;  // in a buffer; else they are those of the row
  int buffer;   // of two

  // Nothing is left for a level.
  __device__ bool settled() const { return owed == 0 || count <= kFew; }
  __device__ bool have(Entry x) const { return low <= x && x <= high; }
  __device__ bool all_win() const { return owed == count; }
};

// One a row, all zero at first.
template <class Entry>
struct RowState {
  Candidates<Entry> now, next;
  uint32_t counts[kBuckets];
  unsigned long long written, buffered;
  uint32_t arrived;
};

// Splitters in the order of a search from the root: the children of node i are 2 i and 2 i + 1. Bucket b has
// what is greater than b of them.
template <class Entry>
struct Tree {
  Entry nodes[kBuckets];  // there is no number 0

  // Where the splitter is that `rank` others are below.
  __device__ static int node_of(int rank) {
    const int height = __ffs(rank + 1) - 1;  // above the lowest nodes
    return (kBuckets / 2 >> height) + ((rank + 1) >> (height + 1));
  }
  __device__ Entry splitter(int rank) const { return nodes[node_of(rank)]; }
};

// The same in shared memory: keys, which tell most elements' buckets, and entries.
template <class Bits>
struct SharedTree {
  using Word = typename KeyWord<Bits>::type;
  using Entry = EntryType<Bits>;
  Word keys[kBuckets];
  Entry entries[kBuckets];

  // By all threads of a block, with a barrier behind.
  __device__ void load(const Tree<Entry>& tree) {
    for (int i = static_cast<int>(threadIdx.x); i < kBuckets; i += kThreads) {
      const Entry entry = i > 0 ? tree.nodes[i] : Entry{0};
      entries[i] = entry;
      keys[i] = EntryOf<Bits, uint32_t>::key(entry);
    }
  }

  __device__ int bucket(Entry x) const {
    const Word key = EntryOf<Bits, uint32_t>::key(x);
    int node = 1;
    bool met = false;  // a splitter of this key
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const Word other = keys[node];
      met |= other == key;
      node = 2 * node + (other < key ? 1 : 0);
    }
    if (met) {
      node = 1;
      for (int step = 0; step < kSteps; ++step) node = 2 * node + (entries[node] < x ? 1 : 0);
    }
    return node - kBuckets;
  }
};

template <class Order>
struct Params {
  using Bits = typename Order::Bits;
  using Entry = EntryType<Bits>;

  const Bits* input;
  int64_t row_stride, cols;
  uint32_t k;
  int blocks_per_row;
  Order order;
  WinnerWriter<Bits> output;
  int64_t capacity;  // of a buffer

  RowState<Entry>* states;
  Tree<Entry>* trees;
  CandidateBuffer<Bits, uint32_t> buffers[2];

  void carve(Workspace& workspace, int64_t rows) {
    states = workspace.take<RowState<Entry>>(rows);
    trees = workspace.take<Tree<Entry>>(rows);
    for (auto& buffer : buffers) {
      buffer.values = workspace.take<Bits>(rows * capacity);
      buffer.indices = workspace.take<uint32_t>(rows * capacity);
    }
  }

  __device__ int64_t row() const { return blockIdx.x / blocks_per_row; }
  __device__ int part() const { return static_cast<int>(blockIdx.x % blocks_per_row); }
  __device__ const Bits* row_input() const { return input + row() * row_stride; }
  __device__ RowState<Entry>& state() const { return states[row()]; }
  __device__ CandidateBuffer<Bits, uint32_t> buffer(int which) const {
    const auto& all = which == 0 ? buffers[0] : buffers[1];
    return {all.values + row() * capacity, all.indices + row() * capacity};
  }
  __device__ Entry entry(Bits bits, int64_t index) const {
    return EntryOf<Bits, uint32_t>::pack(order(bits), static_cast<uint32_t>(index));
  }
  // Before so many levels.
  __device__ Candidates<Entry> candidates(int levels) const {
    if (levels > 0) return state().now;
    constexpr int kUnused = 8 * static_cast<int>(sizeof(Entry) - sizeof(Bits) - sizeof(uint32_t));
    return {0, static_cast<Entry>(~Entry{0} >> kUnused), k, static_cast<uint32_t>(cols), false, 0};
  }
};

// Visits the candidates, and others: look(bits, index) says whether to visit, visit(bits, index, chosen) is
// called by whole warps.
template <class Order, class Entry, class Look, class Visit>
__device__ void visit_candidates_of(const Params<Order>& params, const Candidates<Entry>& candidates,
                                    Look&& look, Visit&& visit) {
  using Bits = typename Order::Bits;
  if (candidates.stored) {
    const CandidateBuffer<Bits, uint32_t> source = params.buffer(candidates.buffer);
    visit_candidates(
        source.values, source.indices, candidates.count, params.part(), params.blocks_per_row,
        [&](Bits bits, uint32_t index, bool valid) { return valid && look(bits, index); }, visit);
  } else {
    visit_row<Reading::kOnce>(
        params.row_input(), params.cols, params.part(), params.blocks_per_row, AllTiles{},
        [&](const auto& elements, int64_t index, bool valid) {
          uint32_t chosen = 0;
#pragma unroll
          for (int i = 0; i < elements.kElements; ++i) {
            if (valid && look(elements[i], index + i)) chosen |= 1u << i;
          }
          return chosen;
        },
        visit);
  }
}

// Step 1.
template <class Order>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) build_tree(Params<Order> params, int level) {
  using Bits = typename Order::Bits;
  using Entry = EntryType<Bits>;
  __shared__ Entry memory[PaddedList<Entry>::places(kSample)];
  const PaddedList<Entry> samples(memory);
  follow_kernel_before();
  const Candidates<Entry> candidates = params.candidates(level);
  if (candidates.settled()) return;

  const Strata strata = Strata::of(candidates.stored ? candidates.count : params.cols, kSample);
  const CandidateBuffer<Bits, uint32_t> source = params.buffer(candidates.buffer);
  int sampled = 0;
  for (int i = static_cast<int>(threadIdx.x); i < kSample; i += kThreads) {
    const int64_t at = strata.entry_of(static_cast<uint32_t>(i));
    const Entry x = candidates.stored ? params.entry(source.values[at], source.indices[at])
                                      : params.entry(params.row_input()[at], at);
    // Those of the row that are no candidates come last.
    samples[i] = candidates.have(x) ? x : candidates.low;
    sampled += __syncthreads_count(candidates.have(x));
  }
  __syncthreads();  // the sample is whole
  sort_list(samples, kSample, BlockItems{});
  Tree<Entry>& tree = params.trees[params.row()];
  for (int rank = static_cast<int>(threadIdx.x); rank < kBuckets - 1; rank += kThreads) {
    tree.nodes[Tree<Entry>::node_of(rank)] = samples[(kBuckets - 1 - rank) * sampled / kBuckets];
  }
}

// Step 2.
template <class Order>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) count_buckets(Params<Order> params, int level) {
  using Bits = typename Order::Bits;
  using Entry = EntryType<Bits>;
  __shared__ SharedTree<Bits> tree;
  __shared__ __align__(16) uint32_t counts[kBuckets];
  __shared__ TargetDigitScratch<uint32_t> scratch;
  follow_kernel_before();
  const Candidates<Entry> candidates = params.candidates(level);
  if (candidates.settled()) return;

  const Tree<Entry>& of_row = params.trees[params.row()];
  tree.load(of_row);
  clear_histogram(counts, kBuckets);
  __syncthreads();  // the tree is there, and counts are zero
  visit_candidates_of(
      params, candidates,
      [&](Bits bits, int64_t index) {
        const Entry x = params.entry(bits, index);
        if (candidates.have(x)) atomicAdd(&counts[tree.bucket(x)], 1u);
        return false;
      },
      [](Bits, int64_t, bool) {});
  __syncthreads();  // all warps have counted
  RowState<Entry>& state = params.state();
  for (int i = static_cast<int>(threadIdx.x); i < kBuckets; i += kThreads) {
    if (counts[i] > 0) atomicAdd(&state.counts[i], counts[i]);
  }
  if (!is_last_block(&state.arrived, params.blocks_per_row)) return;

  for (int i = static_cast<int>(threadIdx.x); i < kBuckets; i += kThreads) {
    counts[i] = state.counts[i];
    state.counts[i] = 0;
  }
  __syncthreads();  // all counts are there
  const TargetDigit<uint32_t> target = find_target_digit(counts, kBuckets, candidates.owed, scratch);
  if (threadIdx.x != 0) return;
  const int bucket = static_cast<int>(target.digit);
  Candidates<Entry> next = candidates;
  if (bucket > 0) next.low = of_row.splitter(bucket - 1) + 1;
  if (bucket < kBuckets - 1) next.high = of_row.splitter(bucket);
  next.owed -= target.above;
  next.count = target.count;
  next.stored = next.count <= params.capacity;
  next.buffer = 1 - candidates.buffer;
  state.next = next;
}

// Step 3, and the last of the finishing block.
template <class Bits>
using Winners = StagedWriter<Bits, uint32_t, WinnerWriter<Bits>>;
template <class Bits>
using NextCandidates = StagedWriter<Bits, uint32_t, CandidateBuffer<Bits, uint32_t>>;

template <class Order>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) filter(Params<Order> params, int level) {
  using Bits = typename Order::Bits;
  using Entry = EntryType<Bits>;
  constexpr size_t kStageBytes = Winners<Bits>::bytes(kStaged);
  __shared__ __align__(16) unsigned char stages[2][kWarps * kStageBytes];
  __shared__ unsigned long long winner_counts[kWarps + 1], candidate_counts[kWarps + 1];
  follow_kernel_before();
  const Candidates<Entry> candidates = params.candidates(level);
  if (candidates.settled()) return;

  RowState<Entry>& state = params.state();
  const Candidates<Entry> next = state.next;
  const int at = static_cast<int>(threadIdx.x) / 32 * static_cast<int>(kStageBytes);
  Winners<Bits> winners(stages[0] + at, kStaged, params.output.row(params.row(), params.k), &state.written);
  NextCandidates<Bits> stored(stages[1] + at, kStaged, params.buffer(next.buffer), &state.buffered);
  const bool wanted = next.all_win() || next.stored;
  visit_candidates_of(
      params, candidates,
      [&](Bits bits, int64_t index) {
        const Entry x = params.entry(bits, index);
        return candidates.have(x) && (next.high < x || (wanted && next.low <= x));
      },
      [&](Bits bits, int64_t index, bool chosen) {
        const bool wins = next.all_win() || next.high < params.entry(bits, index);
        winners.push(chosen && wins, bits, static_cast<uint32_t>(index));
        stored.push(chosen && !wins, bits, static_cast<uint32_t>(index));
      });
  winners.publish(winner_counts);
  stored.publish(candidate_counts);
  __syncthreads();  // all warps have published
  if (threadIdx.x == 0) winners.reserve(winner_counts);
  if (threadIdx.x == 32) stored.reserve(candidate_counts);
  __syncthreads();  // places are reserved
  winners.finish(winner_counts);
  stored.finish(candidate_counts);

  if (!is_last_block(&state.arrived, params.blocks_per_row) || threadIdx.x != 0) return;
  state.now = next;
  if (next.all_win()) state.now.owed = 0;
  state.buffered = 0;
}

// By a block a row: divides the candidates by digits of their distance from the least that one can be, until
// all that are left win. A pass leaves kDigitBits less of an entry, and with none left there is one
// candidate.
template <class Order>
__global__ void __launch_bounds__(kThreads, 1) finish(Params<Order> params, int levels) {
  using Bits = typename Order::Bits;
  using Entry = EntryType<Bits>;
  constexpr size_t kStageBytes = Winners<Bits>::bytes(kStaged);
  __shared__ __align__(16) uint32_t histogram[1 << kDigitBits];
  __shared__ TargetDigitScratch<uint32_t> scratch;
  __shared__ __align__(16) unsigned char stages[kWarps * kStageBytes];
  __shared__ unsigned long long winner_counts[kWarps + 1];
  follow_kernel_before();
  const Candidates<Entry> candidates = params.candidates(levels);
  if (candidates.owed == 0) return;

  Candidates<Entry> left = candidates;
  while (!left.all_win()) {
    const int shift = max(bits_of(static_cast<Entry>(left.high - left.low)) - kDigitBits, 0);
    clear_histogram(histogram, 1 << kDigitBits);
    __syncthreads();  // no thread counts into bins that another has yet to clear
    visit_candidates_of(
        params, candidates,
        [&](Bits bits, int64_t index) {
          const Entry x = params.entry(bits, index);
          if (left.have(x)) atomicAdd(&histogram[static_cast<uint32_t>((x - left.low) >> shift)], 1u);
          return false;
        },
        [](Bits, int64_t, bool) {});
    __syncthreads();  // all have counted
    const TargetDigit<uint32_t> target = find_target_digit(histogram, 1 << kDigitBits, left.owed, scratch);
    left.low += static_cast<Entry>(target.digit) << shift;
    const Entry last = (Entry{1} << shift) - 1;
    if (last < left.high - left.low) left.high = left.low + last;  // or the last bin is cut off
    left.owed -= target.above;
    left.count = target.count;
  }

  unsigned char* const stage = stages + threadIdx.x / 32 * kStageBytes;
  Winners<Bits> winners(stage, kStaged, params.output.row(params.row(), params.k), &params.state().written);
  visit_candidates_of(
      params, candidates,
      [&](Bits bits, int64_t index) {
        const Entry x = params.entry(bits, index);
        return left.low <= x && x <= candidates.high;
      },
      [&](Bits bits, int64_t index, bool chosen) {
        winners.push(chosen, bits, static_cast<uint32_t>(index));
      });
  winners.publish(winner_counts);
  __syncthreads();  // all warps have published
  if (threadIdx.x == 0) winners.reserve(winner_counts);
  __syncthreads();  // places are reserved
  winners.finish(winner_counts);
}

template <class Order>
Params<Order> params_of(const Problem& problem, const Buffers& buffers, int blocks_per_row, Order order,
                        Workspace& workspace) {
  using Bits = typename Order::Bits;
  Params<Order> params{};
  params.input = static_cast<const Bits*>(buffers.input);
  params.row_stride = problem.row_stride;
  params.cols = problem.cols;
  params.k = static_cast<uint32_t>(problem.k);
  params.blocks_per_row = blocks_per_row;
  params.order = order;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  params.capacity = problem.cols / kStoredShare;
  params.carve(workspace, problem.rows);
  return params;
}

}  // namespace

SearchTree SearchTree::plan(const Problem& problem, const Device& device) {
  const int64_t resident = int64_t{kBlocksPerSm} * device.sm_count / problem.rows;
  SearchTree config{};
  config.blocks_per_row =
      static_cast<int>(std::clamp<int64_t>(problem.cols / kLeastPerBlock, 1, std::max<int64_t>(resident, 1)));
  for (int64_t left = problem.cols; left > kFew; left = (left + kLevelGain - 1) / kLevelGain) {
    ++config.levels;
  }
  return config;
}

size_t SearchTree::workspace_bytes(const Problem& problem) const {
  return visit_key_order(problem.dtype, true, false, [&](auto order) {
    Workspace workspace;
    params_of(problem, {}, blocks_per_row, order, workspace);
    return workspace.bytes();
  });
}

ErrorCode SearchTree::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) -> ErrorCode {
    using Order = decltype(order);
    Workspace workspace(buffers.workspace);
    const Params<Order> params = params_of(problem, buffers, blocks_per_row, order, workspace);
    Params<Order> of_block = params;  // of a kernel with a block a row
    of_block.blocks_per_row = 1;
    const size_t state_bytes = reinterpret_cast<char*>(params.trees) - reinterpret_cast<char*>(params.states);
    const unsigned rows = static_cast<unsigned>(problem.rows), blocks = rows * blocks_per_row;
    cudaError_t error = zero_workspace(buffers.workspace, state_bytes, /*ahead=*/true, stream);
    const auto launch = [&](auto kernel, unsigned grid, const Params<Order>& its, int level) {
      if (error != cudaSuccess) return;
      error = launch_kernel(/*ahead=*/true, kernel, grid, kThreads, 0, stream, its, level);
    };
    // A row that is settled leaves the rest of them nothing to do.
    for (int level = 0; level < levels; ++level) {
      launch(build_tree<Order>, rows, of_block, level);
      launch(count_buckets<Order>, blocks, params, level);
      launch(filter<Order>, blocks, params, level);
    }
    launch(finish<Order>, rows, of_block, levels);
    return error;
  });
}

}  // namespace gputopk::cuda
