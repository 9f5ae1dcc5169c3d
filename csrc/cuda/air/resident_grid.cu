// AIR top-k of rows that the SMs' shared memory holds: one launch and one read, for any k.
//
//   1. A row's blocks, which run together, load a part of it each, side by side, into shared memory, and
//      count a digit of it.
//   2. Digits narrow the range of the k-th best (device/held_row.cuh), until few candidates are left.
//   3. Each block adds its own to a list of the row's. What follows is a matter of what is wanted:
//      - A few winners: those above the candidates are listed with them, and each block ranks its share of
//        the list. So they are in order.
//      - More winners, or winners by index: each block says how many of its elements are better than all
//        candidates, finds the bound among the list, and how many winners the blocks before it have, and
//        writes its own behind those, by ascending index.
//      - The last winner alone: candidates alone are listed and ranked, and the one that is the last of those
//        still owed is written.
// Digits go on to the index, so ties are no case of their own, and a row of equals is narrowed at once.

#include <cooperative_groups.h>

#include <atomic>
#include <utility>

#include "core/key_order.h"
#include "core/visit_bits.h"
#include "cuda/air/air.h"
#include "cuda/air/numbers.h"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/held_row.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/resident_row.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/winner_writer.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda::air {
namespace {

constexpr int kThreads = tuning::kHeldThreads;

using Index = uint32_t;

// What is written of a row.
enum class Winners { kInOrder, kByIndex, kLast };

template <class Bits>
struct Params {
  const Bits* input;
  int64_t row_stride;
  int cols;
  int k;
  int index_bits;
  int blocks;  // of a row
  int part_vectors;
  Winners wanted;
  int ranked;  // entries of a list at most, but where winners are by index
  HeldLists<Bits> lists;
  WinnerWriter<Bits> output;
};

// Brings a part of a row into shared memory: meanwhile(), whose result is returned, is called while the first
// vectors are on their way, visit(bits, place) then sees each element.
template <class Part, class Bits = typename Part::Bits, class Meanwhile, class Visit>
__device__ __forceinline__ auto load_part(const Part& part, const Bits* row, Meanwhile&& meanwhile,
                                          Visit&& visit) {
  constexpr int kInFlight = tuning::kAirHeldInFlight, kWidth = Part::kWidth;
  const int count = part.count();
  const Bits* const begin = row + part.first;
  Vector<Bits> vectors[kInFlight];
  const auto load = [&](int i, int v) {
    if (v < count && part.is_whole(v)) vectors[i] = load_vector<Reading::kAgain>(begin + v * kWidth);
  };
#pragma unroll
  for (int i = 0; i < kInFlight; ++i) load(i, part.thread + i * kThreads);
  auto result = meanwhile();
#pragma unroll 1
  for (int first = part.thread; first < count; first += kInFlight * kThreads) {
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int v = first + i * kThreads;
      if (v >= count) break;
      if (part.is_whole(v)) {
        part.vectors[v] = vectors[i].words;
#pragma unroll
        for (int j = 0; j < kWidth; ++j) visit(vectors[i][j], v * kWidth + j);
      }
      load(i, v + kInFlight * kThreads);
    }
  }
  // The first one and the last.
#pragma unroll 1
  for (int v = 0; v < count; v = v == 0 && count > 1 ? count - 1 : count) {
    const int place = v * kWidth + part.thread;
    if (part.is_whole(v) || part.thread >= kWidth) continue;
    const bool is_there = place >= part.begin && place < part.end;
    const Bits bits = is_there ? begin[place] : Bits{};
    reinterpret_cast<Bits*>(part.vectors)[place] = bits;
    if (is_there) visit(bits, place);
  }
  return result;
}

template <class Order>
__global__ void __launch_bounds__(kThreads)
    select_row(const __grid_constant__ Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Part = HeldPart<Order>;
  using Extended = typename Part::Extended;
  using Lists = HeldLists<Bits>;
  __shared__ HeldScratch<Word> shared;
  uint32_t* const counters = reinterpret_cast<uint32_t*>(dynamic_shared());
  uint32_t* const of_list = counters + kHeldBins;  // a list's digits
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const BlockOfRow block = BlockOfRow::own(params.blocks);
  const Bits* const row = params.input + block.row * params.row_stride;
  const WinnerWriter<Bits> output = params.output.row(block.row, params.k);
  HeldState& state = params.lists.states[block.row];

  // The row's vectors begin where memory's do.
  const int shift = static_cast<int>(reinterpret_cast<uintptr_t>(row) % kVectorBytes / sizeof(Bits));
  const int64_t part_elements = int64_t{params.part_vectors} * Part::kWidth;
  const int64_t first = min(block.number * part_elements - shift, int64_t{params.cols});
  uint4* const vectors = reinterpret_cast<uint4*>(of_list + kHeldBins);
  const Part part{order,
                  static_cast<Index>(params.cols - 1),
                  first,
                  block.number == 0 ? shift : 0,
                  static_cast<int>(min(part_elements, params.cols - first)),
                  vectors,
                  reinterpret_cast<uint32_t*>(vectors + params.part_vectors)};

  // Step 1.
  constexpr Word kGreatest = static_cast<Word>(static_cast<Bits>(~Bits{0}));
  const bool in_order = params.wanted == Winners::kInOrder;
  HeldDigits<Part> digits(part, counters, state, params.blocks, block.number == 0, params.k, params.cols,
                          params.index_bits, /*least=*/0, kGreatest, /*with_better=*/in_order);
  auto& selection = digits.selection;
  clear_histogram(counters, kHeldBins);
  if (thread == 0) {
    shared.certain = shared.before = 0;
    shared.seen.reset();
  }
  const auto grid = cooperative_groups::this_grid();
  auto arrived = load_part(
      part, row,
      [&] {
        if (block.number == 0) state.clear();
        return grid.barrier_arrive();  // begins with a barrier: the block's counts are clear
      },
      [&](Bits bits, int place) { digits.count_first(order(bits), part.reversed(place)); });
  grid.barrier_wait(std::move(arrived));  // states are clear

  // Step 2.
  const uint64_t k = static_cast<uint64_t>(params.k);
  const uint64_t room = static_cast<uint64_t>(params.ranked);
  digits.narrow(shared, [&](auto& left) {
    switch (params.wanted) {
      case Winners::kInOrder: {
        left.settle_dense(part.last_index);
        return k - left.owed + left.candidates <= room;
      }
      case Winners::kByIndex: {
        return left.takes_all() || left.settle_dense(part.last_index) ||
               left.candidates <= static_cast<uint64_t>(Lists::kRoom);
      }
      default: {
        if (left.settle_dense(part.last_index)) {  // the last winner is the first of the range
          left.split = left.low;
          left.owed = left.candidates = 1;
        }
        return left.candidates <= room;
      }
    }
  });

  // Step 3.
  const bool by_index = params.wanted == Winners::kByIndex, all_win = by_index && selection.takes_all();
  Word* const keys = params.lists.keys + block.row * Lists::kRoom;
  Index* const reversed = params.lists.reversed + block.row * Lists::kRoom;
  digits.each_left([&](const Extended& x) {
    if (!in_order && !digits.is_candidate(x)) return;
    if (all_win) {
      ++digits.certain;
      return;
    }
    const uint32_t at = atomicAdd(&state.listed, 1u);
    keys[at] = x.key;
    reversed[at] = x.reversed;
  });
  const HeldList<Bits> own(counters);
  const auto index_of = [&](const Extended& x) { return static_cast<Index>(part.last_index - x.reversed); };
  if (!by_index) {
    digits.add_up.barrier.wait();
    const int listed = static_cast<int>((in_order ? k - selection.owed : 0) + selection.candidates);
    own.fetch(params.lists, block.row, listed);
    __syncthreads();  // the list is there

    // An entry each warp.
#pragma unroll 1
    for (int i = block.number + thread / 32 * params.blocks; i < listed; i += kThreads / 32 * params.blocks) {
      const Extended x = own[i];
      uint32_t better = 0;
#pragma unroll 1
      for (int j = lane; j < listed; j += 32) better += x < own[j];
      better = __reduce_add_sync(~0u, better);
      const bool wins = in_order ? better < k : better + 1 == selection.owed;
      if (wins && lane == 0) output.write(in_order ? better : k - 1, row[index_of(x)], index_of(x));
    }
    return;
  }

  const uint32_t certain = __reduce_add_sync(~0u, digits.certain);
  if (lane == 0) atomicAdd(&shared.certain, certain);
  __syncthreads();  // all warps have added
  uint32_t* const of_blocks = params.lists.certain + block.row * params.blocks;
  if (thread == 0) of_blocks[block.number] = shared.certain;
  digits.add_up.barrier.wait();
  uint32_t before = 0;
  if (thread < block.number) before = __ldcg(of_blocks + thread);
  Extended bound = selection.low;
  if (!all_win) {
    const int count = static_cast<int>(selection.candidates);
    own.fetch(params.lists, block.row, count);
    __syncthreads();  // the list is there
    bound = bound_of_list(own, selection, digits.index_bits_left(), of_list, shared);
    if (thread < count) {
      before += !(own[thread] < bound) && static_cast<int64_t>(index_of(own[thread])) < first;
    }
  }
  before = __reduce_add_sync(~0u, before);
  if (lane == 0 && before > 0) atomicAdd(&shared.before, before);
  part.choose_reaching(bound);
  __syncthreads();  // winners are chosen, and those before them counted
  part.each_in_order(shared.before, shared.warp_sums,
                     [&](int64_t at, int place) { output.write(at, part.value(place), first + place); });
}

template <class Order>
ErrorCode launch(const ResidentGrid& config, const Problem& problem, const Buffers& buffers, Order order,
                 Stream stream) {
  using Bits = typename Order::Bits;
  static_assert(sizeof(HeldScratch<uint64_t>) <= tuning::kHeldStaticBytes);
  Params<Bits> params{};
  params.input = static_cast<const Bits*>(buffers.input);
  params.row_stride = problem.row_stride;
  params.cols = static_cast<int>(problem.cols);
  params.k = static_cast<int>(problem.k);
  params.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
  params.blocks = config.blocks;
  params.part_vectors = config.part_vectors;
  params.wanted = problem.last_alone ? Winners::kLast
                  : config.by_index  ? Winners::kByIndex
                                     : Winners::kInOrder;
  params.ranked = config.ranked;
  Workspace workspace(buffers.workspace);
  params.lists.carve(workspace, problem.rows, config.blocks);
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};

  const auto kernel = select_row<Order>;
  const size_t bytes = static_cast<size_t>(tuning::held_bytes(config.part_vectors, sizeof(Bits)));
  static std::atomic<uint64_t> allowed;
  const cudaError_t error = allow_shared_memory(kernel, bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_together(kernel, static_cast<unsigned>(problem.rows * config.blocks), kThreads, bytes, stream,
                         params, order);
}

}  // namespace

size_t ResidentGrid::workspace_bytes(const Problem& problem) const {
  return visit_bits(dtype_bytes(problem.dtype), [&](auto bits) {
    Workspace workspace;
    HeldLists<decltype(bits)>{}.carve(workspace, problem.rows, blocks);
    return workspace.bytes();
  });
}

bool ResidentGrid::lacked_room(ErrorCode error) { return lacks_room(error); }

ErrorCode ResidentGrid::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude,
                         [&](auto order) { return launch(*this, problem, buffers, order, stream); });
}

}  // namespace gputopk::cuda::air
