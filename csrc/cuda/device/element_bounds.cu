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
  const auto bound_of = [&](int rank) {
    return bound_in_list<Word, Index>(elements, static_cast<uint64_t>(rank), /*slack=*/0, params.index_bits,
                                      kListDigitBits, histogram, scratch, [&](int i) { return local[i]; });
  };
  const BoundRanks& ranks = sample.ranks;
  const Extended lower = ranks.lower <= elements ? bound_of(ranks.lower) : Extended{0, 0};
  const Extended upper = ranks.upper > 0 ? bound_of(ranks.upper) : Selection<Word, Index>::highest();

  FoundBounds<Word, Index>* const of_row = sample.found + row * blocks;
  if (thread == 0) of_row[number] = {lower, upper};
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
