// Rows that are sorted whole, one after the other, by CUB's device-wide radix sort:
//   1. each element's key, complemented so that the best come first, and its index: the position;
//   2. CUB sorts them by key; it is stable, so equal keys stay in order of index;
//   3. the first k are written. Most keys are of one pattern alone, which is the value. Where a key is that
//   of
//      several, entries of it lie side by side in order of index, and values are copied from the input.

#include "core/key_order.h"
#include "cuda/device/launch.h"
#include "cuda/device/split.h"
#include "cuda/device/winner_writer.cuh"
#include "cuda/sort/device_sort.h"
#include "cuda/sort/numbers.h"

namespace gputopk::cuda::sort {
namespace {

constexpr int kThreads = tuning::kDeviceSortThreads, kItems = tuning::kDeviceSortItems;
constexpr int64_t kTile = int64_t{kThreads} * kItems;

template <class Order, class Bits>
__global__ void __launch_bounds__(kThreads)
    make_keys(const Bits* row, int64_t cols, Order order, Bits* keys, uint32_t* indices) {
  const int64_t first = blockIdx.x * kTile + threadIdx.x;
  follow_kernel_before();
  Bits bits[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (first + i * kThreads < cols) bits[i] = row[first + i * kThreads];
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int64_t at = first + i * kThreads;
    if (at >= cols) return;
    keys[at] = static_cast<Bits>(~order(bits[i]));
    indices[at] = static_cast<uint32_t>(at);
  }
}

template <class Order, class Bits>
__global__ void __launch_bounds__(kThreads)
    write_winners(const Bits* keys, const uint32_t* indices, int64_t k, Order order, const Bits* row,
                  WinnerWriter<Bits> output) {
  const int64_t first = blockIdx.x * kTile + threadIdx.x;
  follow_kernel_before();
  Bits key[kItems];
  uint32_t index[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (first + i * kThreads >= k) continue;
    key[i] = static_cast<Bits>(~keys[first + i * kThreads]);
    index[i] = indices[first + i * kThreads];
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int64_t at = first + i * kThreads;
    if (at >= k) return;
    Bits value;
    if (!order.only_pattern_of(key[i], value)) value = row[index[i]];
    output.write(at, value, index[i]);
  }
}

template <class Order>
ErrorCode sort_row(const Problem& problem, const Buffers& buffers, int64_t row, const DeviceSort& sort,
                   const RowMemory& memory, const Order& order, Stream stream) {
  using Bits = typename Order::Bits;
  const Bits* const input = static_cast<const Bits*>(buffers.input) + row * problem.row_stride;
  const WinnerWriter<Bits> output{static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  SortBuffers sorted = memory.buffers;
  const auto blocks = [](int64_t entries) { return static_cast<unsigned>(divide_up(entries, kTile)); };
  ErrorCode error =
      launch_kernel(/*ahead=*/true, make_keys<Order, Bits>, blocks(problem.cols), kThreads, 0, stream, input,
                    problem.cols, order, static_cast<Bits*>(sorted.keys[0]), sorted.indices[0]);
  if (error != 0) return error;
  error = sort_on_device(sort, sizeof(Bits), sorted, memory.temporary, stream);
  if (error != 0) return error;
  return launch_kernel(/*ahead=*/false, write_winners<Order, Bits>, blocks(problem.k), kThreads, 0, stream,
                       static_cast<const Bits*>(sorted.keys[sorted.current]),
                       static_cast<const uint32_t*>(sorted.indices[sorted.current]), problem.k, order, input,
                       output.row(row, problem.k));
}

}  // namespace

ErrorCode DeviceRows::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  const RowMemory memory(sort, dtype_bytes(problem.dtype), buffers.workspace);
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) -> ErrorCode {
    ErrorCode error = 0;
    for (int64_t row = 0; row < problem.rows && error == 0; ++row) {
      error = sort_row(problem, buffers, row, sort, memory, order, stream);
    }
    return error;
  });
}

}  // namespace gputopk::cuda::sort
