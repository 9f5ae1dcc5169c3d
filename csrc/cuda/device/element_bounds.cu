#include "cuda/device/element_bounds.cuh"

#include <atomic>

#include "core/key_order.h"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/list_selection.cuh"
#include "cuda/device/shared_memory.cuh"

namespace gputopk::cuda {
namespace {

// Dynamic shared memory: a histogram and the block's part of the sample.
template <class Bits, class Index>
constexpr size_t find_bytes(const ElementSample& sample) {
  return sizeof(uint32_t) * kListBins +
         sizeof(ExtendedKey<typename KeyWord<Bits>::type, Index>) * elements_of_block(sample);
}

// The candidates of both ranks, from 1, among a selection's few. `memory` has room for three numbers more
// than there are candidates. As narrow_in_list.
template <class Word, class Index, class Entry>
__device__ FoundBounds<Word, Index> bounds_by_comparing(int count, const Selection<Word, Index>& selection,
                                                        uint64_t lower, uint64_t upper, uint32_t* memory,
                                                        Entry&& entry) {
  uint32_t &listed = memory[0], &of_lower = memory[1], &of_upper = memory[2];
  uint32_t* const numbers = memory + 3;  // of the candidates
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  if (thread == 0) listed = 0;
  __syncthreads();  // nothing is listed
  for (int i = thread; i < count; i += threads) {
    const ExtendedKey<Word, Index> x = entry(i);
    if (!(x < selection.low) && !(selection.split < x)) {
      numbers[atomicAdd(&listed, 1u)] = static_cast<uint32_t>(i);
    }
  }
  __syncthreads();  // all are listed
  const int candidates = static_cast<int>(listed), lane = thread % 32;
  for (int own = thread / 32; own < candidates; own += threads / 32) {
    const ExtendedKey<Word, Index> x = entry(static_cast<int>(numbers[own]));
    uint32_t better = 0;
    for (int i = lane; i < candidates; i += 32) better += x < entry(static_cast<int>(numbers[i]));
    better = __reduce_add_sync(~0u, better);
    if (lane == 0 && better + 1 == lower) of_lower = numbers[own];
    if (lane == 0 && better + 1 == upper) of_upper = numbers[own];
  }
  __syncthreads();  // both are found
  return {entry(static_cast<int>(of_lower)), entry(static_cast<int>(of_upper))};
}

// The entries of both ranks in a block's list. As bound_in_list.
template <class Word, class Index, class Entry>
__device__ FoundBounds<Word, Index> bounds_in_list(int count, const BoundRanks& ranks, int index_bits,
                                                   uint32_t* histogram, ListSelectionScratch<Word>& scratch,
                                                   Entry&& entry) {
  using RowSelection = Selection<Word, Index>;
  const auto first =
      ListDigit<Word, Index>::counted(count, index_bits, kListDigitBits, histogram, scratch, entry);
  const bool has_lower = ranks.lower <= count, has_upper = ranks.upper > 0;
  FoundBounds<Word, Index> found{{0, 0}, RowSelection::highest()};
  RowSelection lower{}, upper{};
  if (has_lower) lower = first.selection_of(static_cast<uint64_t>(ranks.lower), histogram, scratch);
  if (has_upper) upper = first.selection_of(static_cast<uint64_t>(ranks.upper), histogram, scratch);
  if (has_lower && has_upper) {
    // Mostly they are in one bin or two, which have few entries.
    RowSelection both = lower;
    both.split = upper.split;
    const uint64_t above = static_cast<uint64_t>(ranks.upper) - upper.owed;
    both.candidates = static_cast<uint64_t>(ranks.lower) - lower.owed + lower.candidates - above;
    if (both.candidates <= kListCompared) {
      return bounds_by_comparing(count, both, static_cast<uint64_t>(ranks.lower) - above, upper.owed,
                                 histogram, entry);
    }
  }
  const auto resolve = [&](const RowSelection& selection) {
    return narrow_in_list(count, selection, /*slack=*/0, kListDigitBits, first.key_bits, first.index_bits,
                          histogram, scratch.target, entry);
  };
  if (has_lower) found.lower = resolve(lower);
  if (has_upper) found.upper = resolve(upper);
  return found;
}

template <class Order, class Index>
__global__ void __launch_bounds__(tuning::kTwoBoundsThreads)
    find_in_sample(RadixPasses<typename Order::Bits, Index> params,
                   BoundSample<typename Order::Bits, Index> sample, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  constexpr int kElements = tuning::kTwoBoundsElements;
  __shared__ ListSelectionScratch<Word> scratch;
  __shared__ FoundBounds<Word, Index> finds[tuning::kTwoBoundsMostBlocks];
  __shared__ int better_finds[tuning::kTwoBoundsMostBlocks], worse_finds[tuning::kTwoBoundsMostBlocks];
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic_shared());
  Extended* const local = reinterpret_cast<Extended*>(histogram + kListBins);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int blocks = sample.places.sample.blocks, elements = kElements * threads;
  const int64_t row = blockIdx.x / static_cast<unsigned>(blocks);
  const int number = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks));
  const Bits* const input = params.input + row * params.row_stride;
  const Index last_index = static_cast<Index>(params.cols - 1);
  let_next_kernel_start();
  const int head = RowShape<Bits>(input, params.cols).head;
  int64_t at[kElements];
  Bits loaded[kElements];
#pragma unroll
  for (int i = 0; i < kElements; ++i) at[i] = sample.places.at(head, number, i);
  if (sample.elements == nullptr) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) loaded[i] = input[at[i]];
  } else {
    wait_for_kernel_before();  // the elements are there
    const Bits* const of_block = sample.elements + int64_t{blockIdx.x} * elements;
#pragma unroll
    for (int i = 0; i < kElements; ++i) loaded[i] = of_block[i * threads + thread];
  }
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    local[i * threads + thread] = {order(loaded[i]),
                                   static_cast<Index>(last_index - static_cast<Index>(at[i]))};
  }
  find_key_range</*kInFlight=*/kElements>(elements, scratch, [&](int i) { return local[i].key; });
  FoundBounds<Word, Index>* const of_row = sample.found + row * blocks;
  const BoundRanks& ranks = sample.ranks;
  const auto found = bounds_in_list<Word, Index>(elements, ranks, params.index_bits, histogram, scratch,
                                                 [&](int i) { return local[i]; });
  if (thread == 0) of_row[number] = found;
  wait_for_kernel_before();  // the row's state is zero
  auto& state = params.states[row];
  if (thread == 0) {
    atomicMax(&state.greatest, static_cast<unsigned long long>(scratch.range.greatest));
  }
  if (!is_last_block(&state.arrived, static_cast<uint32_t>(blocks))) return;
  if (thread < blocks) {
    const FoundBounds<Word, Index>& theirs = of_row[thread];
    finds[thread] = {{__ldcg(&theirs.lower.key), __ldcg(&theirs.lower.reversed)},
                     {__ldcg(&theirs.upper.key), __ldcg(&theirs.upper.reversed)}};
    better_finds[thread] = worse_finds[thread] = 0;
  }
  __syncthreads();  // the finds are there
  // Places from the best upper bound down, and from the worst lower bound up: a thread counts some of one's.
  const int own = thread % blocks, step = threads / blocks;
  int better = 0, worse = 0;
  for (int i = thread / blocks; i < blocks; i += step) {
    const FoundBounds<Word, Index>& other = finds[i];
    better += finds[own].upper < other.upper || (!(other.upper < finds[own].upper) && i < own);
    worse += other.lower < finds[own].lower || (!(finds[own].lower < other.lower) && i < own);
  }
  if (better > 0) atomicAdd(better_finds + own, better);
  if (worse > 0) atomicAdd(worse_finds + own, worse);
  __syncthreads();  // the places are known
  if (thread >= blocks) return;
  if (worse_finds[thread] == ranks.place) state.bound = finds[thread].lower;
  if (better_finds[thread] == ranks.place) state.upper = finds[thread].upper;
}

}  // namespace

template <class Order, class Index>
cudaError_t find_bounds(const RadixPasses<typename Order::Bits, Index>& params,
                        const BoundSample<typename Order::Bits, Index>& sample, Order order, int64_t rows,
                        bool ahead, cudaStream_t stream) {
  using Bits = typename Order::Bits;
  const ElementSample& size = sample.places.sample;
  if (rows > 0x7FFFFFFF / size.blocks) return cudaErrorInvalidConfiguration;
  static std::atomic<uint64_t> allowed;
  const size_t bytes = find_bytes<Bits, Index>(size);
  const cudaError_t error = allow_shared_memory(find_in_sample<Order, Index>, bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_kernel(ahead, find_in_sample<Order, Index>, static_cast<unsigned>(rows * size.blocks),
                       static_cast<unsigned>(size.threads), bytes, stream, params, sample, order);
}

#define GPUTOPK_FIND_BOUNDS(Bits, kFloating)                                                               \
  template cudaError_t find_bounds(const RadixPasses<Bits, uint32_t>&, const BoundSample<Bits, uint32_t>&, \
                                   KeyOrder<Bits, kFloating>, int64_t, bool, cudaStream_t);                \
  template cudaError_t find_bounds(const RadixPasses<Bits, uint64_t>&, const BoundSample<Bits, uint64_t>&, \
                                   KeyOrder<Bits, kFloating>, int64_t, bool, cudaStream_t);
GPUTOPK_FIND_BOUNDS(uint8_t, false)
GPUTOPK_FIND_BOUNDS(uint8_t, true)
GPUTOPK_FIND_BOUNDS(uint16_t, false)
GPUTOPK_FIND_BOUNDS(uint16_t, true)
GPUTOPK_FIND_BOUNDS(uint32_t, false)
GPUTOPK_FIND_BOUNDS(uint32_t, true)
GPUTOPK_FIND_BOUNDS(uint64_t, false)
GPUTOPK_FIND_BOUNDS(uint64_t, true)
#undef GPUTOPK_FIND_BOUNDS

}  // namespace gputopk::cuda
