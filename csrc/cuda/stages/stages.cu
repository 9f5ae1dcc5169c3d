// Selection by several keys, in two kernels of little work:
//
//   settle: a thread a row looks for the first winner that equals the last.
//   join:   a block a row has its winners' keys in shared memory, sorts their places there by a bitonic
//           network, and writes the outputs.

#include "cuda/stages/stages.h"

#include <algorithm>

#include "cuda/device/launch.h"
#include "cuda/device/shared_memory.cuh"
#include "cuda/stages/numbers.h"

namespace gputopk::cuda::stages {
namespace {

template <class Order>
__global__ void __launch_bounds__(tuning::kSettleThreads)
    settle_rows(Stage stage, StageBuffers buffers, Order order) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * tuning::kSettleThreads + threadIdx.x;
  if (row < stage.rows) settle_row(stage, buffers, row, order);
}

// A row's winners, in shared memory: of which there is room for a power of two.
class Winners {
 public:
  static constexpr size_t bytes(int keys, int room) {
    return static_cast<size_t>(room) * (keys * sizeof(uint64_t) + sizeof(uint32_t) + sizeof(uint16_t));
  }

  __device__ Winners(int keys, int room)
      : keys_(reinterpret_cast<uint64_t*>(dynamic_shared())),
        indices_(reinterpret_cast<uint32_t*>(keys_ + keys * room)),
        places_(reinterpret_cast<uint16_t*>(indices_ + room)),
        key_count_(keys),
        room_(room) {}

  // By all threads, with a barrier behind.
  __device__ void load(const JoinedRow& row) {
    total_ = row.total;
    size_ = 2;
    while (size_ < total_) size_ *= 2;
    for (int i = static_cast<int>(threadIdx.x); i < size_; i += static_cast<int>(blockDim.x)) {
      places_[i] = static_cast<uint16_t>(i);
      if (i >= total_) continue;
      const int64_t index = row.index(i);
      indices_[i] = static_cast<uint32_t>(index);
      for (int key = 0; key < key_count_; ++key) {
        keys_[key * room_ + i] = row.problem.columns[key].key(row.row, index);
      }
    }
    __syncthreads();  // winners are there
  }

  // By all threads, with a barrier behind.
  __device__ void sort(bool by_index) {
    for (int size = 2; size <= size_; size *= 2) {
      for (int stride = size / 2; stride > 0; stride /= 2) {
        for (int pair = static_cast<int>(threadIdx.x); pair < size_ / 2;
             pair += static_cast<int>(blockDim.x)) {
          const int i = 2 * pair - pair % stride, j = i + stride;
          const bool in_turn = (i & size) == 0;
          const uint16_t first = places_[i], second = places_[j];
          if (in_turn ? stands_before(second, first, by_index) : stands_before(first, second, by_index)) {
            places_[i] = second;
            places_[j] = first;
          }
        }
        __syncthreads();  // the stage's pairs are in turn
      }
    }
  }

  __device__ int64_t index(int i) const { return indices_[places_[i]]; }

 private:
  // Behind all winners come the places that have none.
  __device__ bool stands_before(int a, int b, bool by_index) const {
    if (a >= total_ || b >= total_) return a < total_;
    if (!by_index) {
      for (int key = 0; key < key_count_; ++key) {
        const uint64_t x = keys_[key * room_ + a], y = keys_[key * room_ + b];
        if (x != y) return x > y;
      }
    }
    return indices_[a] < indices_[b];
  }

  uint64_t* keys_;     // keys x room
  uint32_t* indices_;  // room
  uint16_t* places_;   // of winners, in order
  int key_count_, room_;
  int total_, size_;  // total <= size <= room, a power of two
};

// `room`: 0 where winners are not put in order.
__global__ void __launch_bounds__(tuning::kJoinMostThreads)
    join_rows(const __grid_constant__ JoinProblem problem, const __grid_constant__ JoinBuffers buffers,
              int room) {
  Winners winners(problem.keys, room);
  for (int64_t r = blockIdx.x; r < problem.rows; r += gridDim.x) {
    const JoinedRow row(problem, buffers, r);
    if (room > 0) {
      winners.load(row);
      winners.sort(problem.order == WinnerOrder::kByIndex);
    }
    for (int64_t i = threadIdx.x; i < problem.k; i += blockDim.x) {
      int64_t index = -1;
      if (i < row.total) index = room > 0 ? winners.index(static_cast<int>(i)) : row.index(i);
      row.write(i, index);
    }
    if (threadIdx.x == 0) buffers.totals[r] = row.total;
    __syncthreads();  // the winners have been read
  }
}

}  // namespace

int64_t most_ordered() { return tuning::kJoinMostOrdered; }

ErrorCode settle(const Stage& stage, const StageBuffers& buffers, Stream stream) {
  const int64_t blocks = (stage.rows + tuning::kSettleThreads - 1) / tuning::kSettleThreads;
  if (blocks > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
  return visit_key_order(stage.dtype, stage.largest, stage.magnitude, [&](auto order) -> ErrorCode {
    return launch_kernel(/*ahead=*/false, settle_rows<decltype(order)>, static_cast<unsigned>(blocks),
                         tuning::kSettleThreads, 0, stream, stage, buffers, order);
  });
}

ErrorCode join(const JoinProblem& problem, const JoinBuffers& buffers, Stream stream) {
  int room = 0;
  if (problem.order != WinnerOrder::kAny) {
    if (problem.most > most_ordered()) return cudaErrorInvalidConfiguration;
    room = 2;
    while (room < problem.most) room *= 2;
  }
  const size_t shared = Winners::bytes(problem.keys, room);
  static std::atomic<uint64_t> allowed{0};
  const cudaError_t error = allow_shared_memory(join_rows, shared, allowed);
  if (error != cudaSuccess) return error;
  const int threads =
      std::clamp(static_cast<int>(std::min<int64_t>(problem.k, 2 * tuning::kJoinMostThreads)) / 2, 32,
                 tuning::kJoinMostThreads);
  const int64_t blocks = std::min<int64_t>(problem.rows, 0x7FFFFFFF);
  return launch_kernel(/*ahead=*/false, join_rows, static_cast<unsigned>(blocks),
                       static_cast<unsigned>((threads + 31) / 32 * 32), shared, stream, problem, buffers,
                       room);
}

}  // namespace gputopk::cuda::stages
