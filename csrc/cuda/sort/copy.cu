// Rows of which all is wanted, in any order: values are copied, and an index is the position.

#include "cuda/device/launch.h"
#include "cuda/device/winner_writer.cuh"
#include "cuda/sort/numbers.h"
#include "cuda/sort/sort.h"

namespace gputopk::cuda::sort {
namespace {

template <class Bits>
__global__ void __launch_bounds__(tuning::kCopyThreads)
    copy_rows(const Bits* input, int64_t rows, int64_t cols, int64_t row_stride, WinnerWriter<Bits> output) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * tuning::kCopyThreads, count = rows * cols;
  const int64_t step_rows = step / cols, step_cols = step % cols;
  int64_t at = static_cast<int64_t>(blockIdx.x) * tuning::kCopyThreads + threadIdx.x;
  int64_t row = at / cols, col = at % cols;
  follow_kernel_before();
  while (at < count) {
    Bits values[tuning::kCopyItems];
    int64_t cols_of[tuning::kCopyItems];
#pragma unroll
    for (int i = 0; i < tuning::kCopyItems; ++i) {
      if (at + i * step < count) values[i] = input[row * row_stride + col];
      cols_of[i] = col;
      row += step_rows;
      col += step_cols;
      if (col >= cols) {
        col -= cols;
        ++row;
      }
    }
#pragma unroll
    for (int i = 0; i < tuning::kCopyItems; ++i) {
      if (at + i * step < count) output.write(at + i * step, values[i], cols_of[i]);
    }
    at += tuning::kCopyItems * step;
  }
}

}  // namespace

ErrorCode Copy::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  const auto copy = [&](auto bits) -> ErrorCode {
    using Bits = decltype(bits);
    const WinnerWriter<Bits> output{static_cast<Bits*>(buffers.values), buffers.indices,
                                    problem.wide_indices};
    return launch_kernel(/*ahead=*/true, copy_rows<Bits>, static_cast<unsigned>(blocks), tuning::kCopyThreads,
                         0, stream, static_cast<const Bits*>(buffers.input), problem.rows, problem.cols,
                         problem.row_stride, output);
  };
  switch (dtype_bytes(problem.dtype)) {
    case 1: return copy(uint8_t{});
    case 2: return copy(uint16_t{});
    case 4: return copy(uint32_t{});
    default: return copy(uint64_t{});
  }
}

}  // namespace gputopk::cuda::sort
