// Sparsification of a gradient:
//
//   1. accumulate: self, and momentum, with what is added, in 16-byte vectors, each element read and written
//      once.
//   2. The top-k of the house selects by magnitude, in any order, and another one puts the winners' indices
//      in ascending order: sparsify.cpp, by the plan.
//   3. take: values are copied from self, and zeros put in their places.
//   4. drop: error feedback would keep an infinity or a NaN for ever. They win, so they have been taken
//      unless a row has more than k: then no winner of it is finite, and the row is looked through. Any other
//      row costs one read of its first winners.
// No kernel starts ahead of the one before it: each changes in place what that reads or writes.

#include "cuda/sparsify/sparsify.h"

#include "core/key_order.h"
#include "cuda/device/launch.h"
#include "cuda/sparsify/numbers.h"
#include "cuda/sparsify/sum.cuh"
#include "cuda/sparsify/winners.cuh"

namespace gputopk::cuda::sparsify {
namespace {

constexpr int kThreads = tuning::kSparsifyThreads;
constexpr int kInFlight = tuning::kSparsifyInFlight;

// ---- 1. Accumulate ----

// Vectors are numbered over all rows; the last of a row may be a part of one.
template <class Self, class Add, int kWidth>
__global__ void __launch_bounds__(kThreads) accumulate_vectors(Sum<Self, Add> sum) {
  using Bits = typename Self::Bits;
  const int64_t row_vectors = (sum.cols + kWidth - 1) / kWidth, count = sum.rows * row_vectors;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t step_rows = step / row_vectors, step_vectors = step % row_vectors;
  int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  int64_t row = at / row_vectors, vector = at % row_vectors;
  while (at < count) {
    Vector<Bits, kWidth> self[kInFlight], momentum[kInFlight];
    Vector<typename Add::Bits, kWidth> add[kInFlight];
    int64_t rows[kInFlight], cols[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      rows[i] = row;
      cols[i] = vector * kWidth;
      if (at + i * step < count && cols[i] + kWidth <= sum.cols) {
        self[i].load(sum.self + row * sum.self_stride + cols[i]);
        add[i].load(sum.add + row * sum.add_stride + cols[i]);
        if (sum.momentum != nullptr) momentum[i].load(sum.momentum + row * sum.momentum_stride + cols[i]);
      }
      row += step_rows;
      vector += step_vectors;
      if (vector >= row_vectors) {
        vector -= row_vectors;
        ++row;
      }
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (at + i * step >= count) continue;
      Bits* const self_at = sum.self + rows[i] * sum.self_stride + cols[i];
      Bits* const momentum_at =
          sum.momentum == nullptr ? nullptr : sum.momentum + rows[i] * sum.momentum_stride + cols[i];
      if (cols[i] + kWidth <= sum.cols) {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) add_one(sum, self[i].at[j], add[i].at[j], momentum[i].at[j]);
        self[i].store(self_at);
        if (momentum_at != nullptr) momentum[i].store(momentum_at);
        continue;
      }
      for (int64_t j = 0; cols[i] + j < sum.cols; ++j) {
        Bits none{}, &momentum_of = momentum_at == nullptr ? none : momentum_at[j];
        add_one(sum, self_at[j], sum.add[rows[i] * sum.add_stride + cols[i] + j], momentum_of);
      }
    }
    at += kInFlight * step;
  }
}

template <class Self, class Add>
ErrorCode launch_sum(const Config& config, const SparsifyProblem& problem, const SparsifyBuffers& buffers,
                     Stream stream) {
  using Bits = typename Self::Bits;
  constexpr int kVector = 16 / sizeof(Bits);
  const Sum<Self, Add> sum = sum_of<Self, Add>(problem, buffers, is_dense(problem));
  const auto kernel =
      config.width == 1 ? accumulate_vectors<Self, Add, 1> : accumulate_vectors<Self, Add, kVector>;
  return launch_kernel(/*ahead=*/false, kernel, static_cast<unsigned>(config.accumulate_blocks), kThreads, 0,
                       stream, sum);
}

// ---- 3. and 4. Take and drop ----

template <class Bits>
__global__ void __launch_bounds__(kThreads) take_winners(Winners<Bits> winners) {
  const int64_t count = winners.rows * winners.k, step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t row = i / winners.k, col = winners.index(i);
    winners.values[i] = winners.self[row * winners.self_stride + col];
    winners.clear(row, col);
  }
}

// Blocks share a row where rows are fewer. Key order: of a finite magnitude the key is below `infinity`.
template <class Bits>
__global__ void __launch_bounds__(kThreads)
    drop_from_rows(Winners<Bits> winners, KeyOrder<Bits, true> order, int64_t blocks_per_row) {
  const auto is_finite = [&](Bits bits) { return order(bits) < order(order.max_magnitude); };
  const int64_t part = blockIdx.x % blocks_per_row;
  for (int64_t row = blockIdx.x / blocks_per_row; row < winners.rows; row += gridDim.x / blocks_per_row) {
    bool keeps = false;
    for (int64_t begin = 0; begin < winners.k && !keeps; begin += kThreads) {
      const int64_t i = begin + threadIdx.x;
      // The same in all threads, which are done with the row before together.
      keeps = __syncthreads_or(i < winners.k && is_finite(winners.values[row * winners.k + i]));
    }
    if (keeps) continue;
    for (int64_t col = part * kThreads + threadIdx.x; col < winners.cols; col += blocks_per_row * kThreads) {
      if (!is_finite(winners.self[row * winners.self_stride + col])) winners.clear(row, col);
    }
  }
}

template <class Visitor>
ErrorCode visit_bits(DType dtype, Visitor&& visitor) {
  switch (dtype_bytes(dtype)) {
    case 2: return visitor(uint16_t{});
    case 4: return visitor(uint32_t{});
    default: return visitor(uint64_t{});
  }
}

}  // namespace

ErrorCode accumulate(const Config& config, const SparsifyProblem& problem, const SparsifyBuffers& buffers,
                     Stream stream) {
  return visit_sum(problem, [&](auto self, auto add) {
    return launch_sum<decltype(self), decltype(add)>(config, problem, buffers, stream);
  });
}

ErrorCode take(const Config& config, const SparsifyProblem& problem, const SparsifyBuffers& buffers,
               Stream stream) {
  return visit_bits(problem.dtype, [&](auto bits) -> ErrorCode {
    using Bits = decltype(bits);
    return launch_kernel(/*ahead=*/false, take_winners<Bits>, static_cast<unsigned>(config.take_blocks),
                         kThreads, 0, stream, winners_of<Bits>(problem, buffers));
  });
}

ErrorCode drop_what_is_not_finite(const Config& config, const SparsifyProblem& problem,
                                  const SparsifyBuffers& buffers, Stream stream) {
  return visit_bits(problem.dtype, [&](auto bits) -> ErrorCode {
    using Bits = decltype(bits);
    const auto order = make_key_order<Bits, true>(problem.dtype, /*largest=*/true, /*magnitude=*/true);
    const int64_t blocks_per_row = problem.rows < config.drop_blocks ? config.drop_blocks / problem.rows : 1;
    const unsigned blocks = static_cast<unsigned>(config.drop_blocks / blocks_per_row * blocks_per_row);
    return launch_kernel(/*ahead=*/false, drop_from_rows<Bits>, blocks, kThreads, 0, stream,
                         winners_of<Bits>(problem, buffers), order, blocks_per_row);
  });
}

}  // namespace gputopk::cuda::sparsify
