// Rows that a block sorts, a block each.

#include "cuda/device/block_sort.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/shared_memory.cuh"
#include "cuda/sort/rows.h"

namespace gputopk::cuda::sort {
namespace {

static_assert(sizeof(BlockScratch<uint64_t, uint64_t>) <= tuning::kSortStaticBytes);

template <class Order, class Index>
__global__ void __launch_bounds__(tuning::kSortMaxThreads)
    sort_each(Rows rows, int64_t first_row, Order order, int capacity) {
  using Bits = typename Order::Bits;
  __shared__ BlockScratch<typename KeyWord<Bits>::type, Index> scratch;
  const BlockMemory<Bits, Index> memory(dynamic_shared(), capacity);
  const int64_t row = first_row + blockIdx.x;
  const Entries from = entries_from<Bits>(rows.from, row * rows.from_stride);
  const Entries to = entries_from<Bits>(rows.to, row * rows.kept);
  follow_kernel_before();
  sort_in_block<kItems<Order, Index>, /*kPacks=*/true>(
      static_cast<int>(rows.entries), static_cast<int>(rows.kept), order, memory, scratch,
      [&](int i, Bits& bits, Index& index) { read_entry(from, i, bits, index); },
      [&](int rank, Bits bits, Index index) { write_entry(to, rank, bits, index); });
}

template <class Order, class Index>
ErrorCode launch(const Rows& rows, const Order& order, const Shape& shape, Stream stream) {
  const auto kernel = sort_each<Order, Index>;
  const size_t bytes = static_cast<size_t>(
      block_bytes(BlockMemory<typename Order::Bits, Index>::kEntryBytes, shape.capacity, shape.threads));
  static std::atomic<uint64_t> allowed;
  const cudaError_t error = allow_shared_memory(kernel, bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_block_a_row(rows.rows, [&](int64_t first, unsigned blocks) {
    return launch_kernel(/*ahead=*/true, kernel, blocks, static_cast<unsigned>(shape.threads), bytes, stream,
                         rows, first, order, shape.capacity);
  });
}

ErrorCode sort_rows(const Problem& problem, const Rows& rows, const Shape& shape, void* workspace,
                    Stream stream) {
  if (shape.parts == 1) return sort_whole(problem, rows, shape, stream);
  return sort_in_parts(problem, rows, shape, Memory(problem, shape, workspace), stream);
}

}  // namespace

ErrorCode sort_whole(const Problem& problem, const Rows& rows, const Shape& shape, Stream stream) {
  return visit_row_order(problem, rows, [&](auto order) {
    return visit_index(problem.cols, [&](auto index) -> ErrorCode {
      return launch<decltype(order), decltype(index)>(rows, order, shape, stream);
    });
  });
}

ErrorCode WholeRows::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  const Entries input{const_cast<void*>(buffers.input), nullptr, false};
  const Entries winners{buffers.values, buffers.indices, problem.wide_indices};
  // By index, where it is to be so, the step behind puts what is kept.
  const Rows rows{problem.rows,       problem.cols, problem.k,         input,
                  problem.row_stride, winners,      /*by_index=*/false};
  return sort_rows(problem, rows, shape, buffers.workspace, stream);
}

ErrorCode OrderRows::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  const Entries winners{buffers.values, buffers.indices, problem.wide_indices};
  const Rows rows{problem.rows, problem.k, problem.k, winners, problem.k, winners, problem.by_index};
  if (marks.words > 0) return order_by_marks(problem, rows, marks, stream);
  return sort_rows(problem, rows, shape, buffers.workspace, stream);
}

}  // namespace gputopk::cuda::sort
