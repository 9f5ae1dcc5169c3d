// AIR top-k of rows that one block each keeps in registers: one read, one launch, and winners in order, as
// resident_selection.cuh has it.

#include <cuda_runtime_api.h>

#include <atomic>

#include "core/key_order.h"
#include "cuda/air/air.h"
#include "cuda/air/numbers.h"
#include "cuda/air/resident_selection.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/winner_writer.cuh"

namespace gputopk::cuda::air {
namespace {

template <class Bits>
struct Params : ResidentParams {
  const Bits* input;
  int64_t row_stride;
  WinnerWriter<Bits> output;
};

template <class Bits>
struct WriteWinner {
  const Bits* input;
  int k;
  WinnerWriter<Bits> output;

  __device__ __forceinline__ void operator()(int rank, Index index) const {
    if (rank < k) output.write(rank, input[index], index);
  }
};

template <class Order, int kElements>
__global__ void __launch_bounds__(tuning::kAirResidentMaxThreads, tuning::kAirResidentBlocks)
    select_resident_row(const __grid_constant__ Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  __shared__ Shared<Order> shared;
  const BlockMemory<Bits, Index> memory = memory_of<Bits>(dynamic_shared(), params.room);
  const int64_t row = blockIdx.x;
  const Bits* const input = params.input + row * params.row_stride;
  const WriteWinner<Bits> write{input, params.k, params.output.row(row, params.k)};
  select_in_block<kElements>(params, input, order, memory, shared, write);
}

template <class Order, int kElements>
cudaError_t launch(const ResidentRow& config, const Problem& problem, const Buffers& buffers, Order order,
                   cudaStream_t stream) {
  using Bits = typename Order::Bits;
  Params<Bits> params{};
  static_cast<ResidentParams&>(params) = ResidentParams::of(config, problem);
  params.input = static_cast<const Bits*>(buffers.input);
  params.row_stride = problem.row_stride;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  if (problem.rows > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
  static std::atomic<uint64_t> allowed{0};
  const auto kernel = select_resident_row<Order, kElements>;
  const size_t bytes = static_cast<size_t>(config.list_bytes(problem));
  const cudaError_t error = allow_shared_memory(kernel, bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_kernel(/*ahead=*/false, kernel, static_cast<unsigned>(problem.rows),
                       static_cast<unsigned>(config.threads), bytes, stream, params, order);
}

}  // namespace

ErrorCode ResidentRow::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Order = decltype(order);
    if constexpr (Order::kBits < 64) {
      if (elements == 32) return launch<Order, 32>(*this, problem, buffers, order, stream);
    }
    return launch<Order, 16>(*this, problem, buffers, order, stream);
  });
}

}  // namespace gputopk::cuda::air
