// A sparsification of rows that the SMs' shared memory holds: one launch, in which each element is read once
// and written once.
//
//   1. A row's blocks, which run together, accumulate a part of it each, side by side, into shared memory,
//      and count a digit of the magnitudes' keys.
//   2. AIR's digits narrow the range of the k-th best: blocks' counts are added up in memory, behind a
//      barrier of the row. From the second digit on a block looks at those of its elements alone that were
//      left, the chosen, a bit for each.
//   3. Where few candidates are left, each block adds its own to a list of the row's, and says how many of
//      its elements are better than all of them. While it waits for the others, it stores what lies in lines
//      of which nothing is chosen, unless those are few, with zeros in winners' places. Then it finds the
//      bound among the list, and how many winners the blocks before it have. Where all that are left win,
//      there is no list.
//   4. It stores the rest, and writes winners in order of index. Where none of a row's is finite, all else
//      that is not becomes zero too.
// Digits go on to the index, so ties are no case of their own.

#include <cooperative_groups.h>

#include <atomic>
#include <utility>

#include "core/key_order.h"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/held_row.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/shared_memory.cuh"
#include "cuda/sparsify/numbers.h"
#include "cuda/sparsify/row_sum.cuh"
#include "cuda/sparsify/sparsify.h"
#include "cuda/workspace.h"

namespace gputopk::cuda::sparsify {
namespace {

constexpr int kThreads = tuning::kHeldThreads;

template <class Bits>
struct Params {
  int blocks;  // of a row
  int part_vectors;
  int index_bits;
  HeldLists<Bits> lists;
  Winners<Bits> winners;
};

// A block's part of a row.
template <class Rows, class Order>
struct Part : HeldPart<Order> {
  using Held = HeldPart<Order>;
  using Bits = typename Order::Bits;
  using Word = typename Held::Word;
  using Held::chosen;
  using Held::chosen_of;
  using Held::count;
  using Held::end;
  using Held::first;
  using Held::kWidth;
  using Held::order;
  using Held::present;
  using Held::thread;
  using Held::vectors;
  static constexpr int kInFlight = tuning::held_in_flight(Rows::kHasMomentum);

  const Rows& sums;

  // The vectors of shared memory have their choice behind them.
  __device__ Part(const Rows& rows, const Order& order, int64_t first, int elements, uint4* vectors,
                  int part_vectors)
      : Held{order,       static_cast<Index>(rows.sum.cols - 1),
             first,
             /*begin=*/0, elements,
             vectors,     reinterpret_cast<uint32_t*>(vectors + part_vectors)},
        sums(rows) {}

  // meanwhile(), whose result is returned, is called while the first elements are on their way; visit(bits)
  // then sees each.
  template <class Meanwhile, class Visit>
  __device__ __forceinline__ auto accumulate(Meanwhile&& meanwhile, Visit&& visit) const {
    const int whole = end / kWidth;
    typename Rows::template Loaded<kWidth> x[kInFlight];
    const auto load = [&](int i, int vector) {
      if (vector < whole) sums.load(first + int64_t{vector} * kWidth, x[i]);
    };
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) load(i, thread + i * kThreads);
    auto result = meanwhile();
    for (int begin = thread; begin < whole; begin += kInFlight * kThreads) {
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int vector = begin + i * kThreads;
        if (vector >= whole) break;
        sums.accumulate(x[i]);
        sums.store_momentum(first + int64_t{vector} * kWidth, x[i]);
        vectors[vector] = x[i].vector().words;
#pragma unroll
        for (int j = 0; j < kWidth; ++j) visit(x[i].self.at[j]);
        load(i, vector + kInFlight * kThreads);
      }
    }
    const int place = whole * kWidth + thread;
    if (whole == count() || thread >= kWidth) return result;
    typename Rows::template Loaded<1> one;
    one.self.at[0] = 0;
    if (place < end) {
      sums.load(first + place, one);
      sums.accumulate(one);
      sums.store_momentum(first + place, one);
      visit(one.self.at[0]);
    }
    reinterpret_cast<Bits*>(vectors)[place] = one.self.at[0];
    return result;
  }

  // Stores the vectors of lines of which nothing is chosen, with zeros in the places of what is above `high`,
  // which is chosen from then on. (Infinity and NaN share a first digit: what is not finite and does not win
  // has been chosen.) A bit for each other vector that the thread has, as it has them in `accumulate`. By
  // whole warps.
  __device__ __forceinline__ uint32_t store_decided(Word high) const {
    constexpr int kOfLine = tuning::kHeldVectorsOfLine;
    static_assert(kOfLine < 32 && 32 % kOfLine == 0);
    const int lane = thread % 32, first_of_line = lane / kOfLine * kOfLine;
    uint32_t left = 0;
    for (int v = thread, turn = 0; v - lane < count(); v += kThreads, ++turn) {
      const bool is_there = v < count();
      const unsigned undecided = __ballot_sync(~0u, is_there && chosen_of(chosen, v) != 0);
      if (!is_there) continue;
      if ((undecided >> first_of_line & ((1u << kOfLine) - 1)) != 0) {
        left |= 1u << turn;
      } else {
        store_vector(v, /*drops=*/false, [&](Word key, int) { return key > high; });
      }
    }
    return left;
  }
  // All that it has.
  __device__ __forceinline__ uint32_t all_left() const {
    const int turns = (count() - thread + kThreads - 1) / kThreads;
    return turns > 0 ? ~0u >> (32 - turns) : 0;
  }
  // The same of these: what reaches the bound wins.
  __device__ __forceinline__ void store_left(uint32_t left, const Extended<Bits>& bound) const {
    // Elements of the bound's key reach it up to there.
    const int64_t bound_at = sums.sum.cols - 1 - static_cast<int64_t>(bound.reversed) - first;
    const bool drops = bound.key >= order(order.max_magnitude);
#pragma unroll 1
    for (; left != 0; left &= left - 1) {
      const int v = thread + (__ffs(static_cast<int>(left)) - 1) * kThreads;
      const int64_t behind = bound_at - int64_t{v} * kWidth;  // the vector's first element
      if (behind >= 0 && behind < kWidth - 1) {
        store_vector(v, drops,
                     [&](Word key, int j) { return key > bound.key || (key == bound.key && j <= behind); });
      } else {
        const Word least = behind < 0 ? bound.key + 1 : bound.key;
        store_vector(v, drops, [&](Word key, int) { return key >= least; });
      }
    }
  }

 private:
  template <class Wins>
  __device__ __forceinline__ void store_vector(int vector, bool drops, Wins&& is_winner) const {
    sparsify::Vector<Bits, kWidth> x;
    *reinterpret_cast<uint4*>(x.at) = vectors[vector];
    uint32_t wins = 0;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      if (is_winner(static_cast<Word>(order(x.at[j])), j)) wins |= 1u << j;
    }
    wins &= present(vector);
    uint32_t zeros = wins;
    if (drops) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        if (order(x.at[j]) >= order(order.max_magnitude)) zeros |= 1u << j;
      }
      zeros &= present(vector);
    }
    chosen_of(chosen, vector) = static_cast<typename Held::Chosen>(wins);
    store(vector, x, zeros);
  }

  __device__ __forceinline__ void store(int vector, sparsify::Vector<Bits, kWidth>& x, uint32_t zeros) const {
    const int64_t col = first + int64_t{vector} * kWidth;
    if (sums.sum.add == nullptr && zeros == 0) return;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      if (zeros >> j & 1) x.at[j] = 0;
    }
    if (present(vector) == (1u << kWidth) - 1) {
      x.store(sums.self(col));
    } else {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        if (present(vector) >> j & 1) *sums.self(col + j) = x.at[j];
      }
    }
    if constexpr (Rows::kHasMomentum) {
      for (; zeros != 0; zeros &= zeros - 1) *sums.momentum(col + __ffs(static_cast<int>(zeros)) - 1) = 0;
    }
  }
};

template <class Self, class Add, bool kMomentum>
__global__ void __launch_bounds__(kThreads)
    sparsify_row(const __grid_constant__ Params<typename Self::Bits> params, Sum<Self, Add> sum) {
  using Bits = typename Self::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Order = KeyOrder<Bits, true>;
  using Rows = RowSum<Self, Add, kMomentum>;
  using Row = Part<Rows, Order>;
  using Lists = HeldLists<Bits>;
  __shared__ HeldScratch<Word> shared;
  uint32_t* const counters = reinterpret_cast<uint32_t*>(dynamic_shared());
  uint32_t* const of_list = counters + kHeldBins;  // a list's digits

  // Known to the compiler.
  const Order order = make_key_order<Bits, true>(Self::kDType, /*largest=*/true, /*magnitude=*/true);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const BlockOfRow block = BlockOfRow::own(params.blocks);
  const int64_t row = block.row;
  const int number = block.number;
  const Rows sums(sum, row);
  const int64_t part_elements = int64_t{params.part_vectors} * Row::kWidth;
  const int64_t first = min(number * part_elements, sum.cols);
  const Row part(sums, order, first, static_cast<int>(min(part_elements, sum.cols - first)),
                 reinterpret_cast<uint4*>(of_list + kHeldBins), params.part_vectors);
  HeldState& state = params.lists.states[row];

  // Step 1. The first digit is of the whole range of keys.
  const Word least = order(Bits{0}), greatest = order(static_cast<Bits>(order.max_magnitude + 1));  // a NaN
  HeldDigits<Row> digits(part, counters, state, params.blocks, number == 0, params.winners.k, sum.cols,
                         params.index_bits, least, greatest, /*with_better=*/false);
  const auto& selection = digits.selection;
  clear_histogram(counters, kHeldBins);
  if (thread == 0) {
    shared.certain = shared.before = 0;
    shared.seen.reset();
  }
  const auto grid = cooperative_groups::this_grid();
  auto arrived = part.accumulate(
      [&] {
        if (number == 0) state.clear();
        return grid.barrier_arrive();  // begins with a barrier: the block's counts are clear
      },
      [&](Bits bits) { digits.count_first(order(bits), /*reversed=*/0); });
  grid.barrier_wait(std::move(arrived));  // states are clear

  // Step 2.
  int64_t chosen = 0;  // by all blocks
  digits.narrow(shared, [&](auto& left) {
    const bool is_enough = left.takes_all() || left.settle_dense(part.last_index) ||
                           left.candidates <= static_cast<uint64_t>(Lists::kRoom);
    if (!digits.has_chosen) chosen = static_cast<int64_t>(left.candidates);
    return is_enough;
  });

  // Step 3.
  const bool all_win = selection.takes_all();
  Word* const keys = params.lists.keys + row * Lists::kRoom;
  Index* const reversed = params.lists.reversed + row * Lists::kRoom;
  digits.each_candidate([&](const Extended<Bits>& x) {
    if (all_win) {
      ++digits.certain;
    } else {
      const uint32_t at = atomicAdd(&state.listed, 1u);
      keys[at] = x.key;
      reversed[at] = x.reversed;
    }
  });
  const uint32_t certain = __reduce_add_sync(~0u, digits.certain);
  if (lane == 0) atomicAdd(&shared.certain, certain);
  __syncthreads();  // all warps have added
  uint32_t* const of_blocks = params.lists.certain + row * params.blocks;
  if (thread == 0) of_blocks[number] = shared.certain;
  digits.add_up.barrier.arrive();
  const uint32_t left = chosen * Row::kWidth * tuning::kHeldUndecided > sum.cols
                            ? part.all_left()
                            : part.store_decided(digits.chosen_to);
  digits.add_up.barrier.wait_for_all();
  Extended<Bits> bound = selection.low;
  uint32_t before = 0;
  if (thread < number) before = __ldcg(of_blocks + thread);
  if (!all_win) {
    const HeldList<Bits> list(counters);
    const int count = static_cast<int>(selection.candidates);
    list.fetch(params.lists, row, count);
    __syncthreads();  // the list is there
    bound = bound_of_list(list, selection, digits.index_bits_left(), of_list, shared);
    if (thread < count) {
      before +=
          !(list[thread] < bound) && static_cast<int64_t>(part.last_index - list[thread].reversed) < first;
    }
  }
  before = __reduce_add_sync(~0u, before);
  if (lane == 0 && before > 0) atomicAdd(&shared.before, before);

  // Step 4.
  part.store_left(left, bound);
  __syncthreads();  // winners are chosen, and those before them counted
  const Winners<Bits>& winners = params.winners;
  part.each_in_order(row * winners.k + shared.before, shared.warp_sums, [&](int64_t at, int place) {
    winners.values[at] = part.value(place);
    winners.write_index(at, first + place);
  });
}

template <class Self, class Add, bool kMomentum>
cudaError_t launch(const Resident& config, const SparsifyProblem& problem, const SparsifyBuffers& buffers,
                   cudaStream_t stream) {
  using Bits = typename Self::Bits;
  static_assert(sizeof(HeldScratch<uint64_t>) <= tuning::kHeldStaticBytes);
  Params<Bits> params{};
  params.blocks = config.blocks;
  params.part_vectors = config.part_vectors;
  params.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
  params.winners = winners_of<Bits>(problem, buffers);
  Workspace workspace(buffers.workspace);
  params.lists.carve(workspace, problem.rows, config.blocks);
  static std::atomic<uint64_t> allowed;
  const auto kernel = sparsify_row<Self, Add, kMomentum>;
  const size_t bytes = static_cast<size_t>(tuning::held_bytes(config.part_vectors, sizeof(Bits)));
  const cudaError_t error = allow_shared_memory(kernel, bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_together(kernel, static_cast<unsigned>(problem.rows * config.blocks), kThreads, bytes, stream,
                         params, sum_of<Self, Add>(problem, buffers, /*as_one_row=*/false));
}

}  // namespace

size_t Resident::workspace_bytes(const SparsifyProblem& problem) const {
  return visit_sum(problem, [&](auto self, auto) {
    Workspace workspace;
    HeldLists<typename decltype(self)::Bits>{}.carve(workspace, problem.rows, blocks);
    return workspace.bytes();
  });
}

bool Resident::lacked_room(ErrorCode error) { return lacks_room(error); }

ErrorCode Resident::run(const SparsifyProblem& problem, const SparsifyBuffers& buffers, Stream stream) const {
  return visit_sum(problem, [&](auto self, auto add) -> ErrorCode {
    using Self = decltype(self);
    using Add = decltype(add);
    return problem.update == Update::kMomentum ? launch<Self, Add, true>(*this, problem, buffers, stream)
                                               : launch<Self, Add, false>(*this, problem, buffers, stream);
  });
}

}  // namespace gputopk::cuda::sparsify
