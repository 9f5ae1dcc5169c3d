// The winners of all rows, put in order at once by CUB's device-wide radix sort. A winner's row, key and
// index are one number of as many bits as they take (SortKeys), which no two share; the indices in the output
// give way to these numbers, and come back in order. A value is what its key is of, or is copied from the
// input where that is not one pattern alone.

#include "core/key_order.h"
#include "cuda/device/launch.h"
#include "cuda/device/split.h"
#include "cuda/sort/device_sort.h"
#include "cuda/sort/numbers.h"

namespace gputopk::cuda::sort {
namespace {

constexpr int kThreads = tuning::kDeviceSortThreads, kItems = tuning::kDeviceSortItems;
constexpr int64_t kTile = int64_t{kThreads} * kItems;

// A thread's entries, and their rows, which begin every k entries: `count` of all.
template <class Bits>
struct Winners {
  Bits* values;
  uint64_t* numbers;  // or indices
  int64_t count;
  uint32_t k;
};

template <class Order, class Bits>
__global__ void __launch_bounds__(kThreads)
    make_numbers(Winners<Bits> winners, SortKeys layout, Order order) {
  const int64_t first = blockIdx.x * kTile + threadIdx.x;
  follow_kernel_before();
  Bits bits[kItems];
  uint64_t index[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (first + i * kThreads >= winners.count) continue;
    bits[i] = winners.values[first + i * kThreads];
    index[i] = winners.numbers[first + i * kThreads];
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int64_t at = first + i * kThreads;
    if (at >= winners.count) return;
    const uint64_t row = static_cast<uint32_t>(at) / winners.k;
    const uint64_t key = static_cast<Bits>(~order(bits[i]));
    winners.numbers[at] = (row << layout.key_bits | key) << layout.index_bits | index[i];
  }
}

template <class Order, class Bits>
__global__ void __launch_bounds__(kThreads)
    write_winners(const uint64_t* numbers, Winners<Bits> winners, SortKeys layout, Order order,
                  const Bits* input, int64_t row_stride) {
  const int64_t first = blockIdx.x * kTile + threadIdx.x;
  follow_kernel_before();
  uint64_t number[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (first + i * kThreads < winners.count) number[i] = numbers[first + i * kThreads];
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int64_t at = first + i * kThreads;
    if (at >= winners.count) return;
    const uint64_t index = number[i] & ((uint64_t{1} << layout.index_bits) - 1);
    const Bits key = static_cast<Bits>(~(number[i] >> layout.index_bits));
    Bits value;
    if (!order.only_pattern_of(key, value)) {
      const int64_t row = static_cast<uint32_t>(at) / winners.k;
      value = input[row * row_stride + static_cast<int64_t>(index)];
    }
    winners.values[at] = value;
    winners.numbers[at] = index;  // where `numbers` is the same, this entry alone was read from here
  }
}

template <class Order>
ErrorCode order_winners(const Problem& problem, const Buffers& buffers, const DeviceSort& sort,
                        const Order& order, Stream stream) {
  using Bits = typename Order::Bits;
  const OrderMemory memory(sort, buffers.workspace);
  const SortKeys layout(problem);
  const Winners<Bits> winners{static_cast<Bits*>(buffers.values), static_cast<uint64_t*>(buffers.indices),
                              sort.entries, static_cast<uint32_t>(problem.k)};
  const unsigned blocks = static_cast<unsigned>(divide_up(sort.entries, kTile));
  ErrorCode error = launch_kernel(/*ahead=*/true, make_numbers<Order, Bits>, blocks, kThreads, 0, stream,
                                  winners, layout, order);
  if (error != 0) return error;
  SortBuffers sorted{{winners.numbers, memory.keys}, {}, 0};
  error = sort_on_device(sort, sizeof(uint64_t), sorted, memory.temporary, stream);
  if (error != 0) return error;
  return launch_kernel(/*ahead=*/false, write_winners<Order, Bits>, blocks, kThreads, 0, stream,
                       static_cast<const uint64_t*>(sorted.keys[sorted.current]), winners, layout, order,
                       static_cast<const Bits*>(buffers.input), problem.row_stride);
}

}  // namespace

ErrorCode order_by_device_sort(const Problem& problem, const Buffers& buffers, const DeviceSort& sort,
                               Stream stream) {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) -> ErrorCode {
    if constexpr (sizeof(order.flip) < 8) {
      return order_winners(problem, buffers, sort, order, stream);
    } else {
      return cudaErrorInvalidValue;  // no plan asks for it: SortKeys::fit
    }
  });
}

}  // namespace gputopk::cuda::sort
