// AIR top-k with one cluster of blocks a row.
// Zhang, Naruse, Li, Wang: Parallel Top-K Algorithms on GPU (SC '23), section 3, within one thread block
// cluster: the same digits of the same extended keys as many_blocks.cu, but the blocks of a row add up
// histograms in each other's shared memory, with barriers of a quarter of a microsecond where many_blocks.cu
// has launches.
//
//   1. Each block counts the first digit of its part of the row, and sums its bins by groups. Then each adds
//      up, over all blocks, the groups, finds the one that holds the target digit, and adds up its bins. All
//      do the same, for telling each other would take two barriers more.
//   2. While the candidates are more than fit a block's list, and more than are owed (early stop), the row
//      is read again to count their next digit. Digits are of the range that the keys counted last really
//      have, so that rows of one value, or of few, take one or two.
//   3. A last read writes the winners and lists the candidates that are left, each block its own.
//   4. While the candidates are too many to rank, their next digit is counted from the lists.
//   5. What step 4 has decided is written. Every block is given all candidates that are left, and ranks its
//      share of them: those win that have few enough better ones.
// Where k is small, step 3 lists the winners too, and step 5, which knows every rank, writes them in order.
// Where the last winner alone is wanted, nothing stops before few candidates are left, the others are neither
// listed nor written, and step 5 writes the one whose rank it is.
//
// Reads after the first come from L1, or from L2 where parts are long. It loses to one_block.cu where rows
// are enough to give every SM one, and to many_blocks.cu where a row is too long for the SMs of one cluster.

#include "cuda/air/air.h"

#include <algorithm>
#include <atomic>

#include "core/key_order.h"
#include "cuda/air/numbers.h"
#include "cuda/device/cluster.cuh"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/key_range.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/list_selection.cuh"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/row_digits.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/warp.cuh"
#include "cuda/device/winner_writer.cuh"

namespace gputopk::cuda::air {
namespace {

using Index = uint32_t;
constexpr int kMostBlocks = tuning::kAirClusterMostBlocks;

template <class Bits>
struct Params {
  const Bits* input;
  int64_t row_stride;
  int64_t cols;
  int64_t part_cols;  // of the row, a block's
  int64_t k;
  int digit_bits;
  int index_bits;
  uint64_t most_ranked;
  bool ranks_winners;
  bool last_alone;
  WinnerWriter<Bits> output;
};

// Dynamic shared memory, in this order: the block's candidates; all candidates that are ranked; the block's
// histogram.
template <class Bits>
struct Memory {
  using Extended = ExtendedKey<typename KeyWord<Bits>::type, Index>;
  static constexpr uint64_t kList = tuning::kAirClusterListBytes / sizeof(Extended);
  static constexpr uint64_t kRanked = tuning::kAirClusterMostRanked;
  static_assert(kList >= kRanked, "what is ranked is listed first");

  Extended* list;
  Extended* ranked;
  uint32_t* histogram;

  __device__ explicit Memory(unsigned char* base)
      : list(reinterpret_cast<Extended*>(base)),
        ranked(list + kList),
        histogram(reinterpret_cast<uint32_t*>(ranked + kRanked)) {}

  static size_t bytes(int digit_bits) {
    return (kList + kRanked) * sizeof(Extended) + (sizeof(uint32_t) << digit_bits);
  }
};

// The bins of a histogram in groups: what holds the target is found in two steps, each of so few counts that
// every block can add them up over all blocks for itself.
constexpr int kMostGroups = 64, kMostGroupBins = 128;
static_assert(tuning::kAirClusterMaxDigitBits <= 13, "groups have at most kMostGroupBins");

template <class Word>
struct Scratch {
  // What other blocks reach: this block's bins by groups, and the keys it has counted; and in the first
  // block, winners written and candidates ranked by the whole cluster.
  uint32_t groups[kMostGroups];
  KeyRange<Word> range;
  uint32_t winners_placed, candidates_placed;
  // Of all blocks together: the groups, and the bins of one; the keys.
  uint32_t group_sums[kMostGroups], bin_sums[kMostGroupBins];
  Word least_of_all, greatest_of_all;
};

struct Found {
  int at;
  uint32_t above, count;
};

// Of the `size` counts that each block has at `counts`, added up over the blocks, the last one that `owed`
// are at or above. By all threads of the block; the same in all. `sums` is memory, and zero.
template <int kMostCounts>
__device__ Found find_over_blocks(uint32_t* counts, int size, uint32_t owed, uint32_t* sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int blocks = Cluster::blocks(), log2_blocks = 31 - __clz(blocks), runs = (size + 31) / 32;
  // A warp reads runs of one block each, blocks begin with different ones.
  for (int i = warp; i < runs * blocks; i += static_cast<int>(blockDim.x) / 32) {
    const int block = (i + Cluster::rank()) & (blocks - 1), at = (i >> log2_blocks) * 32 + lane;
    const uint32_t count = at < size ? Cluster::of_block(counts, block)[at] : 0;
    if (count > 0) atomicAdd(sums + at, count);
  }
  __syncthreads();  // the sums are there

  // Every warp for itself, a lane some adjacent ones, from the last down.
  constexpr int kOwn = kMostCounts / 32;
  uint32_t own[kOwn], total = 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int at = size - 1 - (lane * kOwn + i);
    own[i] = at >= 0 ? sums[at] : 0;
    total += own[i];
  }
  uint32_t reached = total;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const uint32_t other = __shfl_up_sync(~0u, reached, step);
    if (lane >= step) reached += other;
  }
  Found found{size - 1 - lane * kOwn, reached - total, own[0]};
#pragma unroll
  for (int i = 1; i < kOwn; ++i) {
    if (found.above + found.count >= owed) continue;
    found = {found.at - 1, found.above + found.count, own[i]};
  }
  const int holder = __ffs(static_cast<int>(__ballot_sync(~0u, reached >= owed))) - 1;
  return {__shfl_sync(~0u, found.at, holder), __shfl_sync(~0u, found.above, holder),
          __shfl_sync(~0u, found.count, holder)};
}

// By one warp: the keys that all blocks have counted.
template <class Word>
__device__ void find_range_of_all(Scratch<Word>& scratch) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  SeenKeys<Word> seen;
  if (lane < Cluster::blocks()) {
    const KeyRange<Word>* const theirs = Cluster::of_block(&scratch.range, lane);
    seen = {static_cast<Word>(theirs->least), static_cast<Word>(theirs->greatest)};
  }
  seen = seen.of_warp();
  if (lane == 0) {
    scratch.least_of_all = seen.least;
    scratch.greatest_of_all = seen.greatest;
  }
}

// The digit of all blocks' histograms that holds the candidate number `owed`, and, of the block's own
// elements, how many have a greater one, or the digit itself if all that have it are owed, the sum over its
// threads. By all threads of all blocks, which then
// have to wait before a histogram changes; the digit is the same in all. `seen` are the keys that a thread
// has counted, and then those that all have.
template <class Word>
__device__ Found find_target_digit_of_cluster(uint32_t* histogram, int bins, uint32_t owed,
                                              Scratch<Word>& scratch, SeenKeys<Word>& seen,
                                              uint32_t& own_winners) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int groups = min(bins, kMostGroups), group_bins = bins / groups;
  scratch.range.add(seen);
  __syncthreads();  // all warps have counted
  for (int group = warp; group < groups; group += static_cast<int>(blockDim.x) / 32) {
    uint32_t sum = 0;
    for (int bin = lane; bin < group_bins; bin += 32) sum += histogram[group * group_bins + bin];
    sum = __reduce_add_sync(~0u, sum);
    if (lane == 0) scratch.groups[group] = sum;
  }
  Cluster::arrive();
  Cluster::wait();  // all blocks have counted
  if (warp == 0) find_range_of_all(scratch);
  const Found group = find_over_blocks<kMostGroups>(scratch.groups, groups, owed, scratch.group_sums);
  uint32_t* const its_bins = histogram + group.at * group_bins;
  const Found bin =
      find_over_blocks<kMostGroupBins>(its_bins, group_bins, owed - group.above, scratch.bin_sums);
  const int threads = static_cast<int>(blockDim.x);
  seen = {scratch.least_of_all, scratch.greatest_of_all};
  const uint32_t above = group.above + bin.above;
  const int least_bin = bin.at + (above + bin.count == owed ? 0 : 1);
  own_winners = 0;
  for (int i = thread; i < groups; i += threads) own_winners += i > group.at ? scratch.groups[i] : 0;
  for (int i = thread; i < group_bins; i += threads) own_winners += i >= least_bin ? its_bins[i] : 0;
  Cluster::arrive();  // this thread has read the histograms
  return {group.at * group_bins + bin.at, above, bin.count};
}

// Places in a count of the cluster's for what the lanes of a warp have; returns the first. By whole warps.
__device__ uint32_t reserve(uint32_t* count_of_cluster, uint32_t wanted) {
  uint32_t first = 0;
  if (threadIdx.x % 32 == 0 && wanted > 0) first = atomicAdd(Cluster::of_block(count_of_cluster, 0), wanted);
  return __shfl_sync(~0u, first, 0);
}

// As x < y: in half the instructions where both words are one number.
template <class Word>
__device__ bool is_less(const ExtendedKey<Word, Index>& x, const ExtendedKey<Word, Index>& y) {
  if constexpr (sizeof(Word) == 4) {
    return (uint64_t{x.key} << 32 | x.reversed) < (uint64_t{y.key} << 32 | y.reversed);
  } else {
    return x < y;
  }
}

template <class Order>
__global__ void __launch_bounds__(tuning::kAirClusterMaxThreads)
    select_row(Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  unsigned char* const dynamic = dynamic_shared();
  __shared__ Scratch<Word> scratch;
  __shared__ uint32_t listed, reserved, next_place;  // by this block: entries, and places for winners
  const Memory<Bits> memory(dynamic);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32, blocks = Cluster::blocks(), rank = Cluster::rank();

  const int64_t row = blockIdx.x / static_cast<unsigned>(blocks);
  const int64_t first = min(rank * params.part_cols, params.cols);
  const int64_t part_cols = min(params.part_cols, params.cols - first);
  const Bits* const input = params.input + row * params.row_stride;
  const Bits* const part = input + first;
  const WinnerWriter<Bits> output = params.output.row(row, params.k);
  const Index last_index = static_cast<Index>(params.cols - 1);
  const Index reversed = last_index - static_cast<Index>(first);
  if (thread == 0) scratch.winners_placed = scratch.candidates_placed = listed = reserved = 0;

  auto selection = Selection<Word, Index>::whole_row(params.k, params.cols);
  Digit digit = digit_of_pass(1, params.digit_bits, Order::kBits, params.index_bits);
  bool first_digit = true;
  uint32_t decided = 0;  // winners that digits have decided: the sum over the block's threads is its own
  // Counts a digit by count(seen), and narrows the selection.
  const auto narrow = [&](auto&& count) {
    if (!first_digit) {
      digit = next_digit(selection, digit, params.digit_bits, params.index_bits);
      Cluster::wait();  // all blocks have read this one's histogram
    }
    const int bins = 1 << digit.width();
    clear_histogram(memory.histogram, bins);
    for (int i = thread; i < kMostGroups; i += threads) scratch.group_sums[i] = 0;
    for (int i = thread; i < kMostGroupBins; i += threads) scratch.bin_sums[i] = 0;
    if (thread == 0) scratch.range.reset();
    __syncthreads();  // no thread counts into bins that another has yet to clear
    SeenKeys<Word> seen;
    count(seen);
    uint32_t own_winners;
    const Found target = find_target_digit_of_cluster(
        memory.histogram, bins, static_cast<uint32_t>(selection.owed), scratch, seen, own_winners);
    selection.narrow(digit, static_cast<uint32_t>(target.at), target.above, target.count);
    selection.tighten(seen.least, seen.greatest);
    decided += own_winners;
    first_digit = false;
  };
  // Who wins is known; which of them is the last, is not.
  const auto settled = [&] { return selection.takes_all() && !params.last_alone; };
  // What there is to rank, if no more digits are resolved.
  const auto to_rank = [&]() -> uint64_t {
    if (params.ranks_winners) return params.k - selection.owed + selection.candidates;
    return settled() ? 0 : selection.candidates;
  };
  const auto wins_unranked = [&](const Extended& x) {
    return !params.ranks_winners && (settled() || selection.split < x);
  };

  // Steps 1 and 2.
  bool dense = false;
  do {
    narrow([&](SeenKeys<Word>& seen) {
      if (first_digit) {
        count_first_digit(order, part, part_cols, reversed, digit, memory.histogram, seen);
      } else {
        count_next_digit(order, part, part_cols, reversed, selection, digit, memory.histogram, seen);
      }
    });
    dense = !selection.takes_all() && selection.settle_dense(last_index);
  } while (!settled() && to_rank() > Memory<Bits>::kList);

  // Step 3. Those that win of a dense range have their places by their indices.
  if (!params.ranks_winners && !params.last_alone) {
    decided = __reduce_add_sync(~0u, decided);
    if (thread % 32 == 0 && decided > 0) atomicAdd(&reserved, decided);
    __syncthreads();
    if (thread == 0) next_place = atomicAdd(Cluster::of_block(&scratch.winners_placed, 0), reserved);
    __syncthreads();  // the block's first place is known
  }
  const auto list_entry = [&](const Extended& x) { memory.list[atomicAdd(&listed, 1u)] = x; };
  if (params.last_alone) {
    visit_candidates_of(order, part, part_cols, reversed, selection, list_entry);
  } else {
    visit_at_least(order, part, part_cols, reversed, selection.low, [&](Bits bits, const Extended& x) {
      if (!wins_unranked(x)) {
        list_entry(x);
        return;
      }
      const bool by_index = dense && !(selection.split < x);
      const uint32_t at =
          by_index ? static_cast<uint32_t>(params.k - selection.owed) + (x.reversed - selection.low.reversed)
                   : atomicAdd(&next_place, 1u);
      output.write(at, bits, last_index - x.reversed);
    });
  }
  __syncthreads();  // the list is whole
  const int entries = static_cast<int>(listed);

  // Step 4.
  while (to_rank() > params.most_ranked) {
    narrow([&](SeenKeys<Word>& seen) {
      count_in_list(entries, selection, digit, memory.histogram, seen, [&](int i) { return memory.list[i]; });
    });
  }

  // Step 5. What step 4 decided needs no rank. Calls visit(entry, wins, ranks) for each of the warp's.
  const auto visit_list = [&](auto&& visit) {
    for (int base = thread - lane; base < entries; base += threads) {
      const Extended x = memory.list[min(base + lane, entries - 1)];
      const bool stays = base + lane < entries && !(x < selection.low);
      const bool wins = stays && wins_unranked(x);
      visit(x, wins, stays && !wins);
    }
  };
  uint32_t winners = 0, candidates = 0;
  visit_list([&](const Extended&, bool wins, bool ranks) {
    winners += __popc(__ballot_sync(~0u, wins));
    candidates += __popc(__ballot_sync(~0u, ranks));
  });
  uint32_t winner_at = reserve(&scratch.winners_placed, winners);
  uint32_t candidate_at = reserve(&scratch.candidates_placed, candidates);
  visit_list([&](const Extended& x, bool wins, bool ranks) {
    const unsigned winning = __ballot_sync(~0u, wins), ranking = __ballot_sync(~0u, ranks);
    const unsigned below = (1u << lane) - 1;
    if (wins && !params.last_alone) {
      const Index index = last_index - x.reversed;
      output.write(winner_at + __popc(winning & below), input[index], index);
    }
    if (ranks) {
      const uint32_t at = candidate_at + __popc(ranking & below);
      for (int block = 0; block < blocks; ++block) Cluster::of_block(memory.ranked, block)[at] = x;
    }
    winner_at += __popc(winning);
    candidate_at += __popc(ranking);
  });
  Cluster::wait();  // of the last digit
  Cluster::arrive();
  Cluster::wait();  // every block has all candidates, and needs no other's memory any more

  // So many lanes compare one candidate with all others.
  constexpr int kLanes = 8;
  const int ranked = static_cast<int>(to_rank()), sublane = lane % kLanes;
  const int64_t before = params.ranks_winners ? 0 : params.k - static_cast<int64_t>(selection.owed);
  for (int base = (rank * threads + thread - lane) / kLanes; base < ranked;
       base += blocks * threads / kLanes) {
    const int i = base + lane / kLanes;
    const Extended x = memory.ranked[min(i, ranked - 1)];
    uint32_t better = 0;
#pragma unroll 8
    for (int other = sublane; other < ranked; other += kLanes) {
      better += is_less(x, memory.ranked[other]);
    }
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) better += __shfl_xor_sync(~0u, better, step);
    const int64_t at = before + better;
    if (sublane != 0 || i >= ranked) continue;
    if (params.last_alone ? at != params.k - 1 : at >= params.k) continue;
    const Index index = last_index - x.reversed;
    output.write(at, input[index], index);
  }
}

template <class Order>
ErrorCode launch(const OneCluster& config, const Problem& problem, const Buffers& buffers, Order order,
                 Stream stream) {
  using Bits = typename Order::Bits;
  Params<Bits> params{};
  params.input = static_cast<const Bits*>(buffers.input);
  params.row_stride = problem.row_stride;
  params.cols = problem.cols;
  params.part_cols = part_of_cluster(problem.cols, config.blocks, sizeof(Bits));
  params.k = problem.k;
  params.digit_bits = config.digit_bits;
  params.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
  params.most_ranked = static_cast<uint64_t>(config.ranked);
  params.ranks_winners = config.ranks_winners;
  params.last_alone = problem.last_alone && !config.ranks_winners;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};

  constexpr int64_t kMostBlocksOfGrid = 0x7FFFFFFF;
  if (problem.rows > kMostBlocksOfGrid / config.blocks) return cudaErrorInvalidConfiguration;
  const unsigned blocks = static_cast<unsigned>(problem.rows * config.blocks);
  const size_t shared_bytes = Memory<Bits>::bytes(config.digit_bits);
  static std::atomic<uint64_t> allowed, allowed_clusters;
  cudaError_t error = allow_shared_memory(select_row<Order>, shared_bytes, allowed);
  if (error != cudaSuccess) return error;
  error = allow_large_clusters(select_row<Order>, allowed_clusters);
  if (error != cudaSuccess) return error;
  return launch_clusters(/*ahead=*/false, static_cast<unsigned>(config.blocks), select_row<Order>, blocks,
                         static_cast<unsigned>(config.threads), shared_bytes, stream, params, order);
}

}  // namespace

ErrorCode OneCluster::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    return launch_with_room(
        *this, [&](const OneCluster& config) { return launch(config, problem, buffers, order, stream); });
  });
}

int OneCluster::most_blocks() {
  using Order = KeyOrder<uint32_t, true>;
  const auto kernel = select_row<Order>;
  if (!runs_code_of_sm_90(kernel)) return 1;
  const size_t shared_bytes = Memory<Order::Bits>::bytes(tuning::kAirClusterDigitBits);
  std::atomic<uint64_t> allowed{0}, allowed_clusters{0};
  cudaLaunchConfig_t config{};
  config.gridDim = kMostBlocks;
  config.blockDim = tuning::kAirClusterMaxThreads;
  config.dynamicSmemBytes = shared_bytes;
  int blocks = 0;
  if (allow_shared_memory(kernel, shared_bytes, allowed) != cudaSuccess ||
      allow_large_clusters(kernel, allowed_clusters) != cudaSuccess ||
      cudaOccupancyMaxPotentialClusterSize(&blocks, kernel, &config) != cudaSuccess) {
    cudaGetLastError();  // not left for the next call to find
    return 1;
  }
  return std::clamp(blocks, 1, kMostBlocks);
}

}  // namespace gputopk::cuda::air
