// The last of a row's winners in its place, where their order is not wanted.
//
//  1. Each thread of a block keeps the worst of the entries that it reads, each warp finds the worst of its
//     threads', and each of them that of the block. No two entries have the same key and index, so one thread
//     knows that it is its own.
//  2. That thread swaps it with the entry at place k - 1.
//
// With many winners in few rows, a block reads a share of a row alone and writes down where its worst is. Of
// those places a second launch reads the entries.

#include "cuda/device/entries.cuh"
#include "cuda/device/launch.h"
#include "cuda/sort/rows.h"

namespace gputopk::cuda::sort {
namespace {

// Calls found(place, bits, index) in the one thread of the block that has the worst of `count` entries, whose
// places are place_of(i). When it is called all have been read.
template <class Index, class Order, class PlaceOf, class Found>
__device__ void find_worst(const Entries& entries, int64_t count, Order order, PlaceOf&& place_of,
                           Found&& found) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  constexpr int kItems = tuning::kLastItems;
  __shared__ Extended of_warps[tuning::kLastMaxThreads / 32];
  const int lane = static_cast<int>(threadIdx.x % 32), warps = static_cast<int>(blockDim.x / 32);

  Extended worst = Selection<Word, Index>::highest();
  Bits worst_bits{};
  int64_t worst_place = -1;  // there is none
  for (int64_t first = threadIdx.x; first < count; first += int64_t{kItems} * blockDim.x) {
    Bits bits[kItems];
    Index indices[kItems];
    int64_t places[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int64_t at = first + int64_t{i} * blockDim.x;
      places[i] = at < count ? place_of(at) : -1;
      if (at < count) read_entry(entries, places[i], bits[i], indices[i]);
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (places[i] < 0) continue;
      const Extended own{order(bits[i]), static_cast<Index>(~indices[i])};
      if (worst_place >= 0 && !(own < worst)) continue;
      worst = own;
      worst_bits = bits[i];
      worst_place = places[i];
    }
  }

  const Extended of_warp = least_of_warp(worst);
  if (lane == 0) of_warps[threadIdx.x / 32] = of_warp;
  __syncthreads();  // all warps have theirs, and no entry is read after this
  const Extended of_block = least_of_warp(of_warps[min(lane, warps - 1)]);
  if (worst_place < 0 || worst.key != of_block.key || worst.reversed != of_block.reversed) return;
  found(worst_place, worst_bits, static_cast<Index>(~worst.reversed));
}

// Where the worst of a share of a row's winners is.
template <class Index, class Order>
__global__ void __launch_bounds__(tuning::kLastMaxThreads)
    find_worst_of_shares(Entries winners, int64_t k, int blocks_per_row, int64_t share, Order order,
                         int64_t* places) {
  const int64_t row = blockIdx.x / blocks_per_row, begin = blockIdx.x % blocks_per_row * share;
  const int64_t count = min(share, k - begin);
  const Entries entries = entries_from<typename Order::Bits>(winners, row * k);
  follow_kernel_before();
  find_worst<Index>(
      entries, count, order, [&](int64_t i) { return begin + i; },
      [&](int64_t place, auto, Index) { places[blockIdx.x] = place; });
}

// Of a row's `count` winners, or of those at `count` places.
template <class Index, class Order>
__global__ void __launch_bounds__(tuning::kLastMaxThreads)
    put_last_in_place(Entries winners, int64_t first_row, int64_t k, const int64_t* places, int64_t count,
                      Order order) {
  using Bits = typename Order::Bits;
  const int64_t row = first_row + blockIdx.x;
  const Entries entries = entries_from<Bits>(winners, row * k);
  follow_kernel_before();
  find_worst<Index>(
      entries, count, order, [&](int64_t i) { return places == nullptr ? i : places[row * count + i]; },
      [&](int64_t place, Bits bits, Index index) {
        Bits other_bits;
        Index other_index;
        read_entry(entries, k - 1, other_bits, other_index);
        write_entry(entries, place, other_bits, other_index);
        write_entry(entries, k - 1, bits, index);
      });
}

template <class Index, class Order>
ErrorCode launch(const Problem& problem, const Entries& winners, const LastInPlace& step, Order order,
                 int64_t* places, Stream stream) {
  int64_t count = problem.k;
  int threads = step.threads;
  cudaError_t error = cudaSuccess;
  if (step.blocks_per_row > 1) {
    const int64_t share = (problem.k + step.blocks_per_row - 1) / step.blocks_per_row;
    error = launch_kernel(/*ahead=*/true, find_worst_of_shares<Index, Order>,
                          static_cast<unsigned>(problem.rows * step.blocks_per_row),
                          static_cast<unsigned>(threads), 0, stream, winners, problem.k, step.blocks_per_row,
                          share, order, places);
    count = step.blocks_per_row;
    threads = tuning::kLastPlacesThreads;
  } else {
    places = nullptr;
  }
  if (error != cudaSuccess) return error;
  return launch_block_a_row(problem.rows, [&](int64_t first, unsigned blocks) {
    return launch_kernel(/*ahead=*/true, put_last_in_place<Index, Order>, blocks,
                         static_cast<unsigned>(threads), 0, stream, winners, first, problem.k,
                         static_cast<const int64_t*>(places), count, order);
  });
}

}  // namespace

ErrorCode LastInPlace::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  const Entries winners{buffers.values, buffers.indices, problem.wide_indices};
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    return visit_index(problem.cols, [&](auto index) -> ErrorCode {
      return launch<decltype(index)>(problem, winners, *this, order, static_cast<int64_t*>(buffers.workspace),
                                     stream);
    });
  });
}

}  // namespace gputopk::cuda::sort
