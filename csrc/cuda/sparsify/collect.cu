// The winners of a sparsification in ascending order of index, where they are so many that looking at every
// element of a row twice more costs less than sorting their indices.
//
//   1. least_winner: the worst of the winners that a selection has found, in any order. What is no worse
//   wins.
//   2. count_winners: how many each tile of a row has.
//   3. place_tiles: where each tile's go.
//   4. collect_winners: tiles are read again, their winners written in order, and zeros put in their places.
// A winner's rank is one number: its key above its reversed index, as extended keys are ordered.

#include <algorithm>

#include "core/key_order.h"
#include "cuda/device/launch.h"
#include "cuda/device/split.h"
#include "cuda/sparsify/numbers.h"
#include "cuda/sparsify/sparsify.h"
#include "cuda/sparsify/winners.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda::sparsify {
namespace {

constexpr int kThreads = tuning::kSparsifyThreads;
constexpr int kInFlight = tuning::kSparsifyInFlight;
constexpr int kWarps = kThreads / 32;

template <class Bits>
__device__ uint64_t rank_of(const KeyOrder<Bits, true>& order, Bits bits, int64_t index) {
  return uint64_t{order(bits)} << 32 | ~static_cast<uint32_t>(index);
}

template <class Bits>
__global__ void __launch_bounds__(kThreads) least_winner(Winners<Bits> winners, KeyOrder<Bits, true> order,
                                                         int64_t blocks_per_row, unsigned long long* bounds) {
  const int64_t row = blockIdx.x / blocks_per_row, part = blockIdx.x % blocks_per_row;
  uint64_t least = ~uint64_t{0};
  for (int64_t i = part * kThreads + threadIdx.x; i < winners.k; i += blocks_per_row * kThreads) {
    const int64_t at = row * winners.k + i;
    least = min(least, rank_of(order, winners.values[at], winners.index(at)));
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) least = min(least, __shfl_xor_sync(~0u, least, step));
  if (threadIdx.x % 32 == 0) atomicMin(bounds + row, static_cast<unsigned long long>(least));
}

// A thread's elements of a tile: kInFlight vectors of kWidth, each kThreads * kWidth behind the one before.
template <class Bits, int kWidth>
struct TileShare {
  Vector<Bits, kWidth> vectors[kInFlight];
  uint32_t wins[kInFlight] = {};  // a bit for each element

  __device__ static int64_t offset(int v) { return v * int64_t{kThreads} * kWidth; }

  // `first`: the column of this thread's first.
  __device__ TileShare(const Winners<Bits>& winners, const KeyOrder<Bits, true>& order, uint64_t bound,
                       int64_t row, int64_t first) {
    const Bits* const from = winners.self + row * winners.self_stride;
#pragma unroll
    for (int v = 0; v < kInFlight; ++v) {
      const int64_t col = first + offset(v);
      if (col + kWidth <= winners.cols) {
        vectors[v].load(from + col);
      } else {
        for (int j = 0; j < kWidth; ++j) vectors[v].at[j] = col + j < winners.cols ? from[col + j] : Bits{};
      }
    }
#pragma unroll
    for (int v = 0; v < kInFlight; ++v) {
      const int64_t col = first + offset(v);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        const bool is_winner = rank_of(order, vectors[v].at[j], col + j) >= bound;
        if (is_winner && col + j < winners.cols) wins[v] |= 1u << j;
      }
    }
  }

  // Of each vector, 16 bits each.
  __device__ uint64_t counts() const {
    static_assert(kInFlight == 4 && kThreads * kWidth < 1 << 16);
    uint64_t counts = 0;
#pragma unroll
    for (int v = 0; v < kInFlight; ++v) counts |= static_cast<uint64_t>(__popc(wins[v])) << (16 * v);
    return counts;
  }
};

constexpr int64_t turn_elements(int width) { return int64_t{kThreads} * width * kInFlight; }

template <class Bits, int kWidth>
__global__ void __launch_bounds__(kThreads)
    count_winners(Winners<Bits> winners, KeyOrder<Bits, true> order, Collecting collecting) {
  const int64_t row = blockIdx.x / collecting.tiles, tile = blockIdx.x % collecting.tiles;
  const int64_t begin = tile * tuning::kCollectTile;
  const int64_t end = min(begin + tuning::kCollectTile, winners.cols);
  const uint64_t bound = collecting.bounds[row];
  int count = 0;
  for (int64_t turn = begin; turn < end; turn += turn_elements(kWidth)) {
    const TileShare<Bits, kWidth> share(winners, order, bound, row, turn + threadIdx.x * kWidth);
#pragma unroll
    for (int v = 0; v < kInFlight; ++v) count += __popc(share.wins[v]);
  }
  __shared__ unsigned of_warps[kWarps];
  const unsigned of_warp = __reduce_add_sync(~0u, static_cast<unsigned>(count));
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = of_warp;
  __syncthreads();  // all warps have counted
  if (threadIdx.x != 0) return;
  int64_t all = 0;
  for (int warp = 0; warp < kWarps; ++warp) all += of_warps[warp];
  collecting.places[blockIdx.x] = all;
}

// What the threads before this one have in all, and what all have. By all threads of a block, whose turns
// take the two rows of `of_warps` by turns: one barrier a turn.
template <class Count>
struct Sums {
  Count before, all;

  __device__ __forceinline__ Sums(Count own, Count (&of_warps)[kWarps]) : all(0) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    Count so_far = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const Count other = __shfl_up_sync(~0u, so_far, step);
      if (lane >= step) so_far += other;
    }
    if (lane == 31) of_warps[warp] = so_far;
    __syncthreads();  // all warps have added up, and are done with the turn before the last
    for (int other = 0; other < kWarps; ++other) {
      if (other < warp) so_far += of_warps[other];
      all += of_warps[other];
    }
    before = so_far - own;
  }
};

// From counts of tiles to how many winners are before each. A block a row.
__global__ void __launch_bounds__(kThreads) place_tiles(Collecting collecting) {
  __shared__ int64_t of_warps[2][kWarps];
  int64_t* const places = collecting.places + blockIdx.x * collecting.tiles;
  int64_t before = 0;
  for (int64_t begin = 0, turn = 0; begin < collecting.tiles; begin += kThreads, turn ^= 1) {
    const int64_t tile = begin + threadIdx.x;
    const int64_t own = tile < collecting.tiles ? places[tile] : 0;
    const Sums<int64_t> sums(own, of_warps[turn]);
    if (tile < collecting.tiles) places[tile] = before + sums.before;
    before += sums.all;
  }
}

template <class Bits, int kWidth>
__global__ void __launch_bounds__(kThreads)
    collect_winners(Winners<Bits> winners, KeyOrder<Bits, true> order, Collecting collecting) {
  __shared__ uint64_t of_warps[2][kWarps];
  const int64_t row = blockIdx.x / collecting.tiles, tile = blockIdx.x % collecting.tiles;
  const int64_t begin = tile * tuning::kCollectTile;
  const int64_t end = min(begin + tuning::kCollectTile, winners.cols);
  const uint64_t bound = collecting.bounds[row];
  int64_t place = row * winners.k + collecting.places[blockIdx.x];
  int parity = 0;
  for (int64_t turn = begin; turn < end; turn += turn_elements(kWidth), parity ^= 1) {
    using Share = TileShare<Bits, kWidth>;
    const int64_t first = turn + threadIdx.x * kWidth;
    const Share share(winners, order, bound, row, first);
    // Four counts at once: none of them reaches 2^16.
    const Sums<uint64_t> sums(share.counts(), of_warps[parity]);
#pragma unroll
    for (int v = 0; v < kInFlight; ++v) {
      int64_t at = place + static_cast<int64_t>(sums.before >> (16 * v) & 0xFFFF);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        if ((share.wins[v] >> j & 1) == 0) continue;
        const int64_t col = first + Share::offset(v) + j;
        winners.values[at] = share.vectors[v].at[j];
        winners.write_index(at, col);
        winners.clear(row, col);
        ++at;
      }
      place += static_cast<int64_t>(sums.all >> (16 * v) & 0xFFFF);
    }
  }
}

template <class Bits>
ErrorCode launch(const Config& config, const SparsifyProblem& problem, const SparsifyBuffers& buffers,
                 const void* found, const Collecting& collecting, Stream stream) {
  constexpr int kVector = 16 / sizeof(Bits);
  const auto order = make_key_order<Bits, true>(problem.dtype, /*largest=*/true, /*magnitude=*/true);
  Winners<Bits> winners = winners_of<Bits>(problem, buffers);
  cudaError_t error =
      cudaMemsetAsync(collecting.bounds, 0xFF, problem.rows * sizeof(unsigned long long), stream);
  if (error != cudaSuccess) return error;
  winners.indices = const_cast<void*>(found);
  const int64_t per_row = std::max<int64_t>(1, config.take_blocks / problem.rows);
  error = launch_kernel(/*ahead=*/false, least_winner<Bits>, static_cast<unsigned>(problem.rows * per_row),
                        kThreads, 0, stream, winners, order, per_row, collecting.bounds);
  if (error != cudaSuccess) return error;
  winners.indices = buffers.indices;
  const unsigned tiles = static_cast<unsigned>(problem.rows * collecting.tiles);
  const bool wide = config.width > 1;
  error = launch_kernel(/*ahead=*/false, wide ? count_winners<Bits, kVector> : count_winners<Bits, 1>, tiles,
                        kThreads, 0, stream, winners, order, collecting);
  if (error != cudaSuccess) return error;
  error = launch_kernel(/*ahead=*/false, place_tiles, static_cast<unsigned>(problem.rows), kThreads, 0,
                        stream, collecting);
  if (error != cudaSuccess) return error;
  return launch_kernel(/*ahead=*/false, wide ? collect_winners<Bits, kVector> : collect_winners<Bits, 1>,
                       tiles, kThreads, 0, stream, winners, order, collecting);
}

}  // namespace

ErrorCode collect(const Config& config, const SparsifyProblem& problem, const SparsifyBuffers& buffers,
                  const void* found, const Collecting& collecting, Stream stream) {
  return dtype_bytes(problem.dtype) == 2
             ? launch<uint16_t>(config, problem, buffers, found, collecting, stream)
             : launch<uint32_t>(config, problem, buffers, found, collecting, stream);
}

}  // namespace gputopk::cuda::sparsify
