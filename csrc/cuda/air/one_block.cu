// AIR top-k with one block a row.
// Zhang, Naruse, Li, Wang: Parallel Top-K Algorithms on GPU (SC '23), section 3, within one block: the same
// digits of the same extended keys as many_blocks.cu, but histogram, target digit and candidates never leave
// the SM, and the whole selection is one launch.
//
//   1. The row is read and its first digit counted.
//   2. The block finds the target digit and narrows the selection.
//   3. While the candidates are many, and more than are owed (early stop), the row is read again to count
//      their next digit, and step 2 repeats.
//   4. A last read writes the winners and lists the candidates that are left.
//   5. Of the listed elements those win that have few enough better ones: counted one by one, which for a few
//      is quicker than the digits that are left.
// Where order is wanted and k is small, step 4 lists the winners too, and step 5, which knows every rank,
// writes them in order. A row as short as the list is listed at once, and steps 1 to 4 are left out.
//
// Where the k-th element alone is wanted, nothing stops before few candidates are left, step 4 leaves winners
// out, and step 5 writes the one whose rank it is.
//
// Rows are a rectangle's, or windows that the block reads its row's place, length and k from. Behind the
// winners of a window come padding entries, worse than all others, so that a step that orders rows of k
// entries leaves them there.
//
// Reads after the first come from L1 or L2 where the rows of all blocks in flight fit there. It loses to
// many_blocks.cu where rows are fewer than the SMs and long, for each is bound to one SM.

#include "cuda/air/air.h"

#include <algorithm>

#include "core/key_order.h"
#include "cuda/air/numbers.h"
#include "cuda/device/key_range.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/row_digits.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/winner_writer.cuh"

namespace gputopk::cuda::air {
namespace {

using Index = uint32_t;

template <class Bits>
struct Params {
  const Bits* input;
  int64_t rows;
  int64_t places;  // of a row in the outputs
  int digit_bits;
  bool lists_winners;  // winners are listed with the candidates
  WinnerWriter<Bits> output;
};

// A row as its block knows it.
struct Row {
  int64_t begin;
  int64_t cols;
  int64_t k;
  int index_bits;
  bool listed;  // whole
};

// All rows are alike.
struct Rectangle {
  static constexpr bool kRagged = false;
  static constexpr int kResident = tuning::kAirBlockResident;
  int64_t row_stride;
  int64_t cols;
  int64_t k;
  int index_bits;
  bool lists_row;
  bool last_alone;

  __device__ bool kth_alone() const { return last_alone; }
  __device__ int64_t place_of_kth() const { return k - 1; }
  __device__ Row of(int64_t row) const { return {row * row_stride, cols, k, index_bits, lists_row}; }
};

struct Ragged {
  static constexpr bool kRagged = true;
  static constexpr int kResident = tuning::kAirBlockResidentRagged;
  WindowRows rows;
  uint64_t pad;  // in place of a k-th element that is not there

  __device__ bool kth_alone() const { return rows.kth_alone; }
  __device__ static int64_t place_of_kth() { return 0; }
  __device__ Row of(int64_t row) const {
    const Window window = rows.of(row);
    const int index_bits = window.length > 1 ? bits_of(static_cast<Index>(window.length - 1)) : 0;
    return {row * rows.row_stride + window.start, window.length, window.k, index_bits,
            window.length <= tuning::kAirBlockList};
  }
};

// What a window needs no selection for: padding, and rows of which all is wanted. True if that is all.
template <class Order, class Bits = typename Order::Bits>
__device__ bool write_unselected(const Params<Bits>& params, const Order& order, const Ragged& rows,
                                 const Row& row, const Bits* input, const WinnerWriter<Bits>& output) {
  const int64_t thread = threadIdx.x, threads = blockDim.x;
  if (rows.kth_alone()) {
    if (row.k == 0 && thread == 0) output.write(0, static_cast<Bits>(rows.pad), -1);
    return row.k == 0;
  }
  // No two padding entries are equal: each has a place in an order.
  for (int64_t i = row.k + thread; i < params.places; i += threads) {
    output.write(i, order.worst(), rows.rows.windows.cols + i);
  }
  if (row.k > 0 && (row.k < row.cols || params.lists_winners)) return false;
  for (int64_t i = thread; i < row.k; i += threads) output.write(i, input[i], i);
  return true;
}

// Steps 1 to 4, by all threads of the block, which all follow the selection.
template <class Order, class Rows, class Word = typename KeyWord<typename Order::Bits>::type>
__device__ void narrow_and_list(const Params<typename Order::Bits>& params, const Rows& rows, const Row& row,
                                const Order& order, const typename Order::Bits* input,
                                const WinnerWriter<typename Order::Bits>& output, uint32_t* histogram,
                                TargetDigitScratch<uint32_t>& scratch, KeyRange<Word> (&ranges)[2],
                                ExtendedKey<Word, Index>* list, uint32_t& written, uint32_t& listed,
                                Selection<Word, Index>& selection) {
  using Bits = typename Order::Bits;
  using Extended = ExtendedKey<Word, Index>;
  constexpr uint64_t kRanked = tuning::kAirBlockRanked;
  const Index last_index = static_cast<Index>(row.cols - 1);

  // Steps 1 to 3. The first count is most of the work and looks at no more than its digit.
  Digit digit = digit_of_pass(1, params.digit_bits, Order::kBits, row.index_bits);
  for (int pass = 1;; ++pass) {
    const bool first = pass == 1;
    KeyRange<Word>& range = ranges[pass % 2];  // a thread may still read that of the pass before
    clear_histogram(histogram, 1 << digit.width());
    if (threadIdx.x == 0) range.reset();
    __syncthreads();  // no thread counts into bins that another has yet to clear
    if (first) {
      SeesNothing nothing;
      count_first_digit(order, input, row.cols, last_index, digit, histogram, nothing);
    } else {
      SeenKeys<Word> seen;
      count_next_digit(order, input, row.cols, last_index, selection, digit, histogram, seen);
      range.add(seen);
    }
    __syncthreads();  // all warps have counted
    const TargetDigit<uint32_t> target =
        find_target_digit(histogram, 1 << digit.width(), selection.owed, scratch);
    selection.narrow(digit, target.digit, target.above, target.count);
    if (!first) selection.tighten(static_cast<Word>(range.least), static_cast<Word>(range.greatest));
    selection.settle_dense(last_index);
    if ((selection.takes_all() && !rows.kth_alone()) || selection.candidates <= kRanked) break;
    digit = next_digit(selection, digit, params.digit_bits, row.index_bits);
  }

  // Step 4.
  const auto list_entry = [&](const Extended& x) { list[atomicAdd(&listed, 1u)] = x; };
  if (rows.kth_alone()) {
    visit_candidates_of(order, input, row.cols, last_index, selection, list_entry);
  } else {
    visit_at_least(order, input, row.cols, last_index, selection.low, [&](Bits bits, const Extended& x) {
      if (!params.lists_winners && (selection.takes_all() || selection.split < x)) {
        output.write(atomicAdd(&written, 1u), bits, last_index - x.reversed);
      } else {
        list_entry(x);
      }
    });
  }
  __syncthreads();  // the list is whole
}

template <class Order, class Rows>
__global__ void __launch_bounds__(tuning::kAirBlockMaxThreads, Rows::kResident)
    select_row(Params<typename Order::Bits> params, Rows rows, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic_shared());
  __shared__ TargetDigitScratch<uint32_t> scratch;
  __shared__ KeyRange<Word> ranges[2];
  __shared__ Extended list[tuning::kAirBlockList];
  __shared__ uint32_t written, listed;

  for (int64_t number = blockIdx.x; number < params.rows; number += gridDim.x) {
    const Row row = rows.of(number);
    const Bits* const input = params.input + row.begin;
    const WinnerWriter<Bits> output = params.output.row(number, params.places);
    if constexpr (Rows::kRagged) {
      if (write_unselected(params, order, rows, row, input, output)) continue;
    }
    const Index last_index = static_cast<Index>(row.cols - 1);
    auto selection = Selection<Word, Index>::whole_row(row.k, row.cols);
    if (threadIdx.x == 0) written = listed = 0;
    __syncthreads();
    if (row.listed) {
      for (int i = static_cast<int>(threadIdx.x); i < row.cols; i += static_cast<int>(blockDim.x)) {
        list[i] = {order(input[i]), last_index - i};
      }
      if (threadIdx.x == 0) listed = static_cast<uint32_t>(row.cols);
      __syncthreads();  // the list is whole
    } else {
      narrow_and_list(params, rows, row, order, input, output, histogram, scratch, ranges, list, written,
                      listed, selection);
    }

    // Step 5. Written winners, if any, fill the places before these.
    const int64_t before =
        row.listed || params.lists_winners ? 0 : row.k - static_cast<int64_t>(selection.owed);
    const int candidates = static_cast<int>(listed);
    for (int i = static_cast<int>(threadIdx.x); i < candidates; i += static_cast<int>(blockDim.x)) {
      const Extended x = list[i];
      uint32_t better = 0;
#pragma unroll 8
      for (int other = 0; other < candidates; ++other) better += x < list[other];
      const int64_t rank = before + better;
      if (rows.kth_alone() ? rank != row.k - 1 : rank >= row.k) continue;
      const Index index = last_index - x.reversed;
      output.write(rows.kth_alone() ? rows.place_of_kth() : rank, input[index], index);
    }
    __syncthreads();  // the next row's counts and list replace these
  }
}

template <class Order, class Rows>
ErrorCode launch(const OneBlock& config, const Problem& problem, const Buffers& buffers, const Rows& rows,
                 Order order, Stream stream) {
  using Bits = typename Order::Bits;
  Params<Bits> params{};
  params.input = static_cast<const Bits*>(buffers.input);
  params.rows = problem.rows;
  params.places = problem.k;
  params.digit_bits = config.digit_bits;
  params.lists_winners = config.lists_winners;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  const unsigned blocks = static_cast<unsigned>(std::min<int64_t>(problem.rows, 0x7FFFFFFF));
  return launch_kernel(/*ahead=*/false, select_row<Order, Rows>, blocks,
                       static_cast<unsigned>(config.threads), sizeof(uint32_t) << config.digit_bits, stream,
                       params, rows, order);
}

}  // namespace

ErrorCode OneBlock::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  const Rectangle rows{problem.row_stride, problem.cols,
                       problem.k,          bit_width(static_cast<uint64_t>(problem.cols - 1)),
                       lists_row,          problem.last_alone && !lists_winners};
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude,
                         [&](auto order) { return launch(*this, problem, buffers, rows, order, stream); });
}

ErrorCode OneBlock::run_windows(const Problem& problem, const WindowRows& rows, const Buffers& buffers,
                                Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    const Ragged ragged{rows, pad_bits(problem.dtype, problem.largest, problem.magnitude)};
    return launch(*this, problem, buffers, ragged, order, stream);
  });
}

}  // namespace gputopk::cuda::air
