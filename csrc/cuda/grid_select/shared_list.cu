// GridSelect with a list of candidates a block: k up to some thousands, every element read once.
// Zhang, Naruse, Li, Wang: Parallel Top-K Algorithms on GPU (SC '23), section 4. The paper keeps a warp's
// best k in registers, sorted, behind a queue; here a block keeps them in shared memory, unsorted, and the
// queue is the list's free end.
//
//   1. A block reads its part of the row tile by tile. An element is a candidate if its extended key (see
//      device/selection.cuh) is at or above the bound: some element that k of the row, itself included,
//      reach. The first bound comes from the maxima of the threads' shares of the first tile.
//   2. Candidates are pushed to the list in two steps: ballots place those for which there is room; where a
//      list overflows, threads remember which did not fit, the block prunes the list to the k best, which
//      raises the bound, and the rest follow. So any input is right, and a hostile one is only slower.
//   3. Blocks of one row share their bounds and never wait: each publishes an entry that at least
//      ceil(k / blocks) of its own elements reach. The least that all blocks have published is a bound of the
//      row, which one thread of every block reads once a tile.
//   4. A block stores what reaches the newest bound, k entries at most. The last block of a group of blocks
//      merges the group's entries, by step 2, and the last group's the groups'.
//   5. The row's last block writes the k best: ranked against each other where k is small, else unordered.
//
// Tiles are visited in steps of a prime, so that a block's first tiles are a sample of the whole row and a
// sorted row costs little more than a shuffled one. Ties need no case of their own: once the list is full of
// one value, the bound has an index, and elements behind it are passed over.

#include "cuda/grid_select/grid_select.h"

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "core/key_order.h"
#include "cuda/device/element_source.cuh"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/shared_list.cuh"
#include "cuda/device/winner_writer.cuh"
#include "cuda/grid_select/numbers.h"
#include "cuda/workspace.h"

namespace gputopk::cuda::grid_select {
namespace {

using tuning::kGridListMaxThreads;

template <class Bits, class Index>
struct Params {
  using Word = typename KeyWord<Bits>::type;

  const Bits* input;
  int64_t rows;
  int64_t row_stride;
  int64_t cols;
  int k;
  int blocks_per_row;
  int blocks_per_group;
  int groups;  // of a row
  int quota;   // elements of a block that reach what it publishes
  int capacity;
  int digit_bits;
  int index_bits;
  int slack;  // entries beyond k that a list may keep when it is pruned
  int first_review;
  int review_growth;
  bool in_order;
  WinnerWriter<Bits> output;

  // Workspace of rows with several blocks. The first four are zero before the launch.
  unsigned long long* row_bounds;    // one a row, packed
  unsigned long long* block_bounds;  // one a block, packed; 0: nothing published
  unsigned long long* stored;        // entries in each group's buffer, then in the row's
  uint32_t* arrived;                 // blocks that have stored theirs, then groups
  Word* keys;                        // k entries a block and a group of each row
  Index* reversed;

  __device__ int64_t counter(int64_t row, int group) const { return row * (groups + 1) + group; }
};

// ---- Bounds ----

// A bound in one word, so that no reader sees half of one: its highest 64 bits. Rounded down a bound is still
// a bound; the lowest of all is 0.
template <class Word, class Index>
__device__ unsigned long long pack(const ExtendedKey<Word, Index>& bound, int index_bits) {
  if constexpr (sizeof(Word) == 8) {
    return bound.key;
  } else {
    const int dropped = index_bits > 32 ? index_bits - 32 : 0;
    return static_cast<unsigned long long>(bound.key) << 32 |
           static_cast<uint32_t>(bound.reversed >> dropped);
  }
}

template <class Word, class Index>
__device__ ExtendedKey<Word, Index> unpack(unsigned long long packed, int index_bits) {
  if constexpr (sizeof(Word) == 8) {
    return {static_cast<Word>(packed), Index{0}};
  } else {
    const int dropped = index_bits > 32 ? index_bits - 32 : 0;
    return {static_cast<Word>(packed >> 32),
            static_cast<Index>(static_cast<Index>(static_cast<uint32_t>(packed)) << dropped)};
  }
}

__device__ inline unsigned long long load_shared_word(const unsigned long long* word) {
  return *static_cast<const volatile unsigned long long*>(word);  // other blocks write it
}

// ---- One block ----

// The maxima of a warp's lanes, best in lane 0: a bitonic network across the lanes.
template <class Word>
__device__ Word sort_descending(Word value) {
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (unsigned size = 2; size <= 32; size *= 2) {
#pragma unroll
    for (unsigned step = size / 2; step > 0; step /= 2) {
      const Word other = __shfl_xor_sync(~0u, value, step);
      const bool takes_greater = ((lane & step) == 0) == ((lane & size) == 0);
      value = takes_greater ? max(value, other) : min(value, other);
    }
  }
  return value;
}

// A block at work on one row, which it shares with others or not. All its methods are called by all threads
// of the block together.
template <class Bits, class Index, bool kShares>
class Selector {
 public:
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;

  __device__ Selector(const Params<Bits, Index>& params, int64_t row, int part)
      : params_(params),
        list_{params.capacity, params.digit_bits, params.index_bits},
        row_bound_(params.row_bounds + row),
        block_bounds_(params.block_bounds + row * params.blocks_per_row),
        part_(part) {
    clear();
  }

  // Steps 1 to 3: adds to the list all of the source's elements that can win.
  template <class Source>
  __device__ void take(Source source) {
    __shared__ unsigned long long newest[2];  // of the row's bounds; two, for threads that are a step behind
    const uint32_t steps = source.steps();
    uint32_t next_review = static_cast<uint32_t>(params_.first_review);
    bool starts = source.has_tiles();
    for (uint32_t step = 1; step <= steps; ++step) {
      typename Source::Tile tile;
      source.load(tile);
      // Asked for now, waited for after this step; by one thread, as all threads of the GPU would ask for the
      // same word.
      unsigned long long asked = 0;
      if (kShares && threadIdx.x == 0) asked = load_shared_word(row_bound_);
      if constexpr (Source::kReadsRow) {
        if (starts) start_bound(source.best_key(tile));
        starts = false;
      }
      uint32_t chosen = source.probe(tile, bound_);
      for (;;) {
        chosen = push(source, tile, chosen);
        if (threadIdx.x == 0) newest[step % 2] = asked;
        // All warps prune or none does, and none pushes on before the list has been pruned.
        if (!__syncthreads_or(chosen != 0)) break;
        prune(params_.slack);
        source.reload(tile);  // rather than keep it in registers that every tile would pay for
      }
      if (kShares) raise(unpacked(newest[step % 2]));
      if constexpr (Source::kReadsRow) {
        if (step == next_review && step < steps) {
          next_review *= static_cast<uint32_t>(params_.review_growth);
          review(params_.slack, /*publishes=*/true);
        }
      }
    }
  }

  // Step 4: stores the list, at most k entries, behind those that other blocks have stored in the buffer.
  // True in the last of `members` blocks: its list is empty then, and `total` is what the buffer holds.
  __device__ bool hand_over(bool publishes, int64_t counter, int members, Word* keys, Index* reversed,
                            int64_t& total) {
    __shared__ unsigned long long base;
    raise(unpacked(load_shared_word(row_bound_)));
    review(/*slack=*/0, publishes);
    const int entries = list_.entries();
    if (threadIdx.x == 0) {
      base = atomicAdd(params_.stored + counter, static_cast<unsigned long long>(entries));
    }
    __syncthreads();  // the place is known
    for (int i = static_cast<int>(threadIdx.x); i < entries; i += static_cast<int>(blockDim.x)) {
      const Extended x = list_[i];
      keys[base + i] = x.key;
      reversed[base + i] = x.reversed;
    }
    if (!is_last_block(params_.arrived + counter, static_cast<uint32_t>(members))) return false;
    total = static_cast<int64_t>(__ldcg(params_.stored + counter));
    clear();
    return true;
  }

  // Step 5.
  template <class Order>
  __device__ void write(const Order&, const Bits* input, const WinnerWriter<Bits>& output) {
    const Index last_index = static_cast<Index>(params_.cols - 1);
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const int k = params_.k;
    // Every entry is compared with every other: a few more than k cost less than another digit.
    const int spare = params_.in_order ? k / 4 + tuning::kGridListSpareRanked : 0;
    if (list_.entries() > k + spare) prune(spare);
    const int entries = list_.entries();
    for (int i = thread; i < entries; i += threads) {
      const Extended x = list_[i];
      int at = i;
      if (params_.in_order) {
        at = 0;
#pragma unroll 4
        for (int other = 0; other < entries; ++other) at += x < list_[other];
        if (at >= k) continue;
      }
      const Index index = static_cast<Index>(last_index - x.reversed);
      output.write(at, input[index], static_cast<int64_t>(index));
    }
  }

 private:
  __device__ void raise(const Extended& bound) { bound_ = bound_ < bound ? bound : bound_; }
  __device__ Extended unpacked(unsigned long long packed) const {
    return unpack<Word, Index>(packed, params_.index_bits);
  }

  __device__ void clear() {
    if (threadIdx.x == 0) List<Word, Index>::count() = 0;
    __syncthreads();  // no warp pushes before
  }

  // Pushes the chosen elements that reach the bound, and returns those for which there was no room.
  template <class Source>
  __device__ uint32_t push(const Source& source, const typename Source::Tile& tile, uint32_t chosen) const {
    while (__any_sync(~0u, chosen != 0)) {
      const int at = chosen != 0 ? __ffs(static_cast<int>(chosen)) - 1 : 0;
      const Extended x = source.element(tile, at);
      bool full;
      if (list_.push(chosen != 0 && !(x < bound_), x, full)) chosen &= chosen - 1;
      if (full) break;
    }
    return chosen;
  }

  __device__ void prune(int slack) {
    const int entries = list_.entries();
    if (entries > params_.k) raise(bound_of_list(list_, entries, params_.k, slack));
    keep_from(list_, entries, bound_);
  }

  // Brings the bounds up to date, and the list with them. `publishes`: the list is of this block's own part.
  __device__ void review(int slack, bool publishes) {
    const int entries = list_.entries();
    const int quota = params_.quota;
    if (kShares && publishes && entries >= quota) {
      publish(bound_of_list(list_, entries, quota, quota / 4));
    }
    if (entries > params_.k) {
      const Extended bound = bound_of_list(list_, entries, params_.k, slack);
      if (kShares && threadIdx.x == 0) atomicMax(row_bound_, pack(bound, params_.index_bits));
      raise(bound);
    }
    keep_from(list_, entries, bound_);
  }

  // `bound` is one that `quota` elements of this block's part reach.
  __device__ void publish(const Extended& bound) {
    __shared__ unsigned long long least;
    const int thread = static_cast<int>(threadIdx.x), blocks = params_.blocks_per_row;
    const unsigned long long packed = pack(bound, params_.index_bits);
    if (thread == 0) {
      least = ~0ull;
      atomicMax(block_bounds_ + part_, packed);
    }
    __syncthreads();  // `least` is reset before any warp adds to it
    unsigned long long own = ~0ull;
    for (int i = thread; i < blocks; i += static_cast<int>(blockDim.x)) {
      const unsigned long long published = load_shared_word(block_bounds_ + i);
      own = min(own, i == part_ ? max(published, packed) : published);
    }
    own = warp_min(own);
    if (thread % 32 == 0) atomicMin(&least, own);
    __syncthreads();  // all warps have added
    const unsigned long long of_all = least;
    if (thread == 0 && of_all > 0) atomicMax(row_bound_, of_all);
    raise(unpacked(of_all));
  }

  // A first bound, from the best key of each thread's share of the first tile: the least, over the warps, of
  // their ceil(k / warps)-th best, which k elements reach.
  __device__ void start_bound(Word best) {
    __shared__ Word of_k[32], of_quota[32];
    const int warps = static_cast<int>(blockDim.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int rank_of_k = (params_.k + warps - 1) / warps - 1;
    const int rank_of_quota = (params_.quota + warps - 1) / warps - 1;
    const bool has_k = rank_of_k < 32, has_quota = kShares && rank_of_quota < 32;
    if (!has_k && !has_quota) return;
    const Word sorted = sort_descending(best);
    const Word own_of_k = __shfl_sync(~0u, sorted, min(rank_of_k, 31));
    const Word own_of_quota = __shfl_sync(~0u, sorted, min(rank_of_quota, 31));
    if (lane == 0) {
      of_k[warp] = own_of_k;
      of_quota[warp] = own_of_quota;
    }
    __syncthreads();  // all warps have told theirs
    const Word none = static_cast<Word>(~Word{0});
    if (has_k) raise({warp_min(lane < warps ? of_k[lane] : none), Index{0}});
    if (has_quota) publish({warp_min(lane < warps ? of_quota[lane] : none), Index{0}});
  }

  const Params<Bits, Index>& params_;
  List<Word, Index> list_;
  unsigned long long* row_bound_;
  unsigned long long* block_bounds_;
  int part_;
  Extended bound_{};  // threads that have seen different bounds of the row may differ
};

template <bool kShares, class Order, class Index>
__device__ void select_row(const Params<typename Order::Bits, Index>& params, const Order& order, int64_t row,
                           int part) {
  using Bits = typename Order::Bits;
  const Bits* const input = params.input + row * params.row_stride;
  const int blocks = params.blocks_per_row, groups = params.groups;
  // A short row's bound rises all the time.
  using Filter = std::conditional_t<kShares, BoundFilter<Order>, KeyFilter<Order>>;
  Selector<Bits, Index, kShares> selector(params, row, part);
  selector.take(RowTiles<Order, Index, Filter>(input, params.cols, part, blocks, order));

  const int levels = !kShares ? 0 : groups == 1 ? 1 : 2;
  for (int level = 0; level < levels; ++level) {
    // The groups' buffers lie one behind the other, a place of k entries for each block; then the row's.
    const int group = level == 0 ? part / params.blocks_per_group : groups;
    const int first = level == 0 ? group * params.blocks_per_group : blocks;
    const int members = level == 0 ? min(params.blocks_per_group, blocks - first) : groups;
    const int64_t buffer = (row * (blocks + groups) + first) * params.k;
    int64_t total = 0;
    if (!selector.hand_over(/*publishes=*/level == 0, params.counter(row, group), members,
                            params.keys + buffer, params.reversed + buffer, total)) {
      return;
    }
    selector.take(StoredEntries<typename KeyWord<Bits>::type, Index>(params.keys + buffer,
                                                                     params.reversed + buffer, total));
  }
  selector.write(order, input, params.output.row(row, params.k));
}

template <class Order, class Index, bool kShares>
__global__ void __launch_bounds__(kGridListMaxThreads, tuning::kGridListBlocksPerSm)
    select_rows(Params<typename Order::Bits, Index> params, Order order) {
  const int blocks = params.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x) % blocks;
  for (int64_t row = blockIdx.x / blocks; row < params.rows; row += gridDim.x / blocks) {
    select_row<kShares>(params, order, row, part);
    __syncthreads();  // the next row's list replaces this one's
  }
}

// ---- Host ----

// One blob: what must be zero first, then the buffers. Nothing where a row has one block.
template <class Bits, class Index>
size_t carve(const SharedList& config, const Problem& problem, void* base, Params<Bits, Index>& params,
             size_t& zeroed_bytes) {
  using Word = typename KeyWord<Bits>::type;
  params.blocks_per_row = config.blocks_per_row;
  params.blocks_per_group = config.blocks_per_group;
  params.groups = (config.blocks_per_row + config.blocks_per_group - 1) / config.blocks_per_group;
  Workspace workspace(base);
  zeroed_bytes = 0;
  if (config.blocks_per_row == 1) return 0;
  const int64_t buffers = problem.rows * (params.groups + 1);
  params.row_bounds = workspace.take<unsigned long long>(problem.rows);
  params.block_bounds = workspace.take<unsigned long long>(problem.rows * config.blocks_per_row);
  params.stored = workspace.take<unsigned long long>(buffers);
  params.arrived = workspace.take<uint32_t>(buffers);
  zeroed_bytes = workspace.bytes();
  const int64_t entries = problem.rows * (config.blocks_per_row + params.groups) * problem.k;
  params.keys = workspace.take<Word>(entries);
  params.reversed = workspace.take<Index>(entries);
  return workspace.bytes();
}

template <class Order, class Index>
cudaError_t launch(const SharedList& config, const Problem& problem, const Buffers& buffers, Order order,
                   cudaStream_t stream) {
  using Bits = typename Order::Bits;
  Params<Bits, Index> params{};
  params.input = static_cast<const Bits*>(buffers.input);
  params.rows = problem.rows;
  params.row_stride = problem.row_stride;
  params.cols = problem.cols;
  params.k = static_cast<int>(problem.k);
  params.quota = static_cast<int>((problem.k + config.blocks_per_row - 1) / config.blocks_per_row);
  params.capacity = config.capacity;
  params.digit_bits = config.digit_bits;
  params.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
  params.slack = std::min(params.k / 8, (params.capacity - params.k) / 4);
  params.first_review = config.first_review;
  params.review_growth = config.review_growth;
  params.in_order = config.ranks_winners;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  size_t zeroed_bytes = 0;
  carve(config, problem, buffers.workspace, params, zeroed_bytes);

  cudaError_t error = cudaSuccess;
  if (zeroed_bytes > 0) {
    error = cudaMemsetAsync(buffers.workspace, 0, zeroed_bytes, stream);
    if (error != cudaSuccess) return error;
  }
  constexpr int64_t kMostBlocks = 0x7FFFFFFF;
  // Rows that share blocks are taken one after the other, which blocks that share a row cannot do: a row's
  // last block is still at work when its others are done.
  if (config.blocks_per_row > 1 && problem.rows > kMostBlocks / config.blocks_per_row) {
    return cudaErrorInvalidConfiguration;
  }
  const unsigned blocks = static_cast<unsigned>(std::min(problem.rows, kMostBlocks / config.blocks_per_row) *
                                                config.blocks_per_row);
  const size_t bytes = list_bytes<typename KeyWord<Bits>::type, Index>(config.capacity, config.digit_bits);
  const bool shares = config.blocks_per_row > 1;
  const auto kernel = shares ? select_rows<Order, Index, true> : select_rows<Order, Index, false>;
  static std::atomic<uint64_t> allowed_sharing, allowed_alone;
  error = allow_shared_memory(kernel, bytes, shares ? allowed_sharing : allowed_alone);
  if (error != cudaSuccess) return error;
  return launch_kernel(/*ahead=*/false, kernel, blocks, static_cast<unsigned>(config.threads), bytes, stream,
                       params, order);
}

}  // namespace

size_t SharedList::workspace_bytes(const Problem& problem) const {
  return visit_key_order(problem.dtype, true, false, [&](auto order) {
    using Bits = typename decltype(order)::Bits;
    return visit_index(problem.cols, [&](auto index) {
      Params<Bits, decltype(index)> params{};
      size_t zeroed_bytes = 0;
      return carve(*this, problem, nullptr, params, zeroed_bytes);
    });
  });
}

ErrorCode SharedList::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    return visit_index(problem.cols, [&](auto index) {
      return launch<decltype(order), decltype(index)>(*this, problem, buffers, order, stream);
    });
  });
}

}  // namespace gputopk::cuda::grid_select
