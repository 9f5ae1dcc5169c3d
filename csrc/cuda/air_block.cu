// AIR top-k with one block a row.
// Zhang, Naruse, Li, Wang: Parallel Top-K Algorithms on GPU (SC '23), section 3, within one block: the same
// digits of the same extended keys as air.cu, but histogram, target digit and candidates never leave the SM.
//
//   1. The row is read once, turned into keys in shared memory, and its first digit counted on the way.
//   2. The block finds the target digit and narrows the selection.
//   3. While the candidates are many, and more than are owed (early stop), their next digit is counted from
//      shared memory and step 2 repeats.
//   4. One last look at the keys writes the winners and lists the candidates that are left. Values are
//      copied from the input, for keys cannot be decoded.
//   5. Of the listed candidates those win that have fewer than `owed` better ones: counted one by one, which
//      for a few is quicker than the digits that are left.
//
// Beside air.cu it saves launches and the second read. It loses when the rows are fewer than the SMs and
// long, for each is bound to one SM, and it cannot hold rows beyond tuning::kAirBlockMaxBytes.

#include "cuda/air_block.h"

#include <algorithm>

#include "core/key_order.h"
#include "cuda/device/launch.h"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/winner_writer.cuh"
#include "cuda/tuning.h"

namespace gputopk::cuda::air_block {
namespace {

using Index = uint32_t;  // a row fits in shared memory

template <class Bits>
struct Params {
  const Bits* input;
  int64_t rows;
  int64_t row_stride;
  int cols;
  int k;
  int digit_bits;
  int index_bits;
  WinnerWriter<Bits> output;
};

// Vectors of shared memory that hold a row of `cols` keys at any alignment.
template <class Bits>
constexpr int key_vectors(int64_t cols) {
  return static_cast<int>(cols / kPerVector<Bits>) + 2;
}

// The keys of loaded elements, packed as they were.
template <class Order>
__device__ Single<typename Order::Bits> map(const Single<typename Order::Bits>& value, const Order& order) {
  return {order(value.element)};
}
template <class Order>
__device__ Vector<typename Order::Bits> map(const Vector<typename Order::Bits>& values, const Order& order) {
  using Bits = typename Order::Bits;
  if constexpr (sizeof(Bits) == 8) {
    const Bits a = order(values[0]), b = order(values[1]);
    return {{static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32), static_cast<uint32_t>(b),
             static_cast<uint32_t>(b >> 32)}};
  } else {
    constexpr int kPerWord = 4 / static_cast<int>(sizeof(Bits));
    uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < kPerVector<Bits>; ++i) {
      words[i / kPerWord] |= static_cast<uint32_t>(order(values[i]))
                             << (i % kPerWord * 8 * static_cast<int>(sizeof(Bits)));
    }
    return {{words[0], words[1], words[2], words[3]}};
  }
}

// The keys of a row in shared memory, placed as the row is in global memory, so that both move in vectors.
template <class Bits>
struct RowKeys {
  Vector<Bits>* vectors;
  int count;    // vectors that hold keys
  int padding;  // elements before the first
  int cols;

  __device__ RowKeys(void* memory, const Bits* row, int cols)
      : vectors(static_cast<Vector<Bits>*>(memory)), cols(cols) {
    const RowShape<Bits> shape(row, cols);
    padding = shape.head == 0 ? 0 : kPerVector<Bits> - shape.head;
    count = (padding + cols + kPerVector<Bits> - 1) / kPerVector<Bits>;
  }

  __device__ void store(const Vector<Bits>& keys, int index) { vectors[(index + padding) / kPerVector<Bits>] = keys; }
  __device__ void store(const Single<Bits>& key, int index) {
    reinterpret_cast<Bits*>(vectors)[index + padding] = key.element;
  }

  // visit(key, index) for every key at or above `least`, spread over the block's threads.
  template <class Word, class Visit>
  __device__ void visit_from(Word least, Visit&& visit) const {
    for (int at = static_cast<int>(threadIdx.x); at < count; at += static_cast<int>(blockDim.x)) {
      const Vector<Bits> keys = vectors[at];
#pragma unroll
      for (int i = 0; i < kPerVector<Bits>; ++i) {
        const int index = at * kPerVector<Bits> + i - padding;
        if (keys[i] >= least && index >= 0 && index < cols) visit(static_cast<Word>(keys[i]), static_cast<Index>(index));
      }
    }
  }
};

template <class Order>
__global__ void __launch_bounds__(tuning::kAirBlockMaxThreads, tuning::kAirBlockResident)
    select_row(Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  constexpr int kListed = tuning::kAirBlockListed;
  extern __shared__ __align__(16) unsigned char dynamic[];
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic);
  void* const key_memory = dynamic + (sizeof(uint32_t) << params.digit_bits);
  __shared__ TargetDigitScratch<uint32_t> scratch;
  __shared__ Extended list[kListed];
  __shared__ uint32_t written, listed;
  const Index last_index = static_cast<Index>(params.cols - 1);

  for (int64_t row = blockIdx.x; row < params.rows; row += gridDim.x) {
    const Bits* const input = params.input + row * params.row_stride;
    RowKeys<Bits> keys(key_memory, input, params.cols);

    // Step 1.
    Digit digit = digit_of_pass(1, params.digit_bits, Order::kBits, params.index_bits);
    clear_histogram(histogram, 1 << digit.width());
    if (threadIdx.x == 0) written = listed = 0;
    __syncthreads();
    visit_row(
        input, params.cols, 0, params.cols, 0, 1,
        [&](const auto& elements, int64_t index, bool valid) -> uint32_t {
          if (!valid) return 0;
          const auto mapped = map(elements, order);
          keys.store(mapped, static_cast<int>(index));
#pragma unroll
          for (int i = 0; i < elements.kElements; ++i) {
            const Index reversed = last_index - static_cast<Index>(index) - i;
            atomicAdd(histogram + digit.of(static_cast<Word>(mapped[i]), reversed), 1u);
          }
          return 0;
        },
        [](Bits, int64_t, bool) {});
    __syncthreads();  // all keys and counts are in shared memory

    // Steps 2 and 3: every thread follows the selection.
    auto selection = Selection<Word, Index>::whole_row(params.k, params.cols);
    for (int pass = 1;; ++pass) {
      const TargetDigit<uint32_t> target =
          find_target_digit(histogram, 1 << digit.width(), selection.owed, scratch);
      selection.narrow(digit, target.digit, target.highest, target.above, target.count);
      if (selection.takes_all() || selection.candidates <= kListed) break;

      digit = digit_of_pass(pass + 1, params.digit_bits, Order::kBits, params.index_bits);
      clear_histogram(histogram, 1 << digit.width());
      __syncthreads();  // no thread counts into bins that another has yet to clear
      keys.visit_from(selection.low.key, [&](Word key, Index index) {
        const Extended x{key, last_index - index};
        if (x < selection.low || selection.split < x) return;
        atomicAdd(histogram + digit.of(static_cast<Word>(key - selection.low.key), x.reversed - selection.low.reversed),
                  1u);
      });
      __syncthreads();  // all warps have counted
    }

    // Step 4.
    const WinnerWriter<Bits> output = params.output.row(row, params.k);
    const bool takes_all = selection.takes_all();
    keys.visit_from(selection.low.key, [&](Word key, Index index) {
      const Extended x{key, last_index - index};
      if (x < selection.low) return;
      if (takes_all || selection.split < x) {
        output.write(atomicAdd(&written, 1u), input[index], index);
      } else {
        list[atomicAdd(&listed, 1u)] = x;
      }
    });
    __syncthreads();  // the list is whole; and the next row's keys may replace these

    // Step 5. The winners of step 4 fill the places before these.
    const int candidates = static_cast<int>(listed);
    for (int i = static_cast<int>(threadIdx.x); i < candidates; i += static_cast<int>(blockDim.x)) {
      const Extended x = list[i];
      uint32_t better = 0;
      for (int other = 0; other < candidates; ++other) better += x < list[other];
      if (better >= selection.owed) continue;
      const Index index = last_index - x.reversed;
      output.write(params.k - static_cast<int64_t>(selection.owed) + better, input[index], index);
    }
    __syncthreads();  // the next row's list replaces this one
  }
}

template <class Order>
cudaError_t launch(const Config& config, const Problem& problem, const Buffers& buffers, Order order,
                   cudaStream_t stream) {
  using Bits = typename Order::Bits;
  Params<Bits> params{};
  params.input = static_cast<const Bits*>(buffers.input);
  params.rows = problem.rows;
  params.row_stride = problem.row_stride;
  params.cols = static_cast<int>(problem.cols);
  params.k = static_cast<int>(problem.k);
  params.digit_bits = config.digit_bits;
  params.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};

  const size_t shared_bytes =
      (sizeof(uint32_t) << config.digit_bits) + kVectorBytes * static_cast<size_t>(key_vectors<Bits>(problem.cols));
  static std::atomic<uint64_t> allowed;
  const cudaError_t error = allow_shared_memory(select_row<Order>, shared_bytes, allowed);
  if (error != cudaSuccess) return error;
  const unsigned blocks = static_cast<unsigned>(std::min<int64_t>(problem.rows, 0x7FFFFFFF));
  select_row<Order><<<blocks, config.threads, shared_bytes, stream>>>(params, order);
  return cudaGetLastError();
}

}  // namespace

ErrorCode run(const Config& config, const Problem& problem, const Buffers& buffers, Stream stream) {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude,
                         [&](auto order) { return launch(config, problem, buffers, order, stream); });
}

}  // namespace gputopk::cuda::air_block
