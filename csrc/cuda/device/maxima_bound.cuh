// A bound from a row's maxima: elements in registers fall into groups, warps sort the maxima of theirs, and
// where each of W warps has ceil(k / W) maxima that reach a bound, k elements do.
#pragma once

#include <cstdint>

#include "cuda/device/row_numbers.cuh"
#include "cuda/device/warp.cuh"
#include "cuda/device/warp_sort.cuh"

namespace gputopk::cuda {

inline constexpr int kMostMaxima = 8;  // a thread

template <class Number>
struct WarpBound {
  Number bound, greatest;
};

// Of the warp's numbers, the one of this rank and the greatest.
template <int kMaxima, class Number>
__device__ __forceinline__ WarpBound<Number> bound_of_rank(Number (&maxima)[kMaxima], int rank) {
  sort_warp</*kDescending=*/true>(maxima);
  return {value_at(maxima, rank - 1), maxima[0]};
}

// The bound of a warp; the greatest is lane 0's. A lane's elements fall into classes by their place in its
// vectors. Where classes share a maximum, it is with those of lanes far away: so winners that lie side by
// side fall to different maxima.
template <class Compared, class Number, int kElements>
__device__ __forceinline__ WarpBound<Number> bound_of_warp(const Number (&numbers)[kElements], int maxima,
                                                           int rank) {
  Number best[kMostMaxima];
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    Number& own = best[i % kMostMaxima];
    own = i < kMostMaxima ? numbers[i] : Compared::greater(own, numbers[i]);
  }
  if (maxima == kMostMaxima) return bound_of_rank(best, rank);
  Number fours[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) fours[i] = Compared::greater(best[i], best[i + 4]);
  if (maxima == 4) return bound_of_rank(fours, rank);
  const int lane = static_cast<int>(threadIdx.x % 32);
  Number pairs[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) pairs[i] = Compared::greater(fours[i], shuffle(fours[i + 2], (lane + 16) % 32));
  if (maxima == 2) return bound_of_rank(pairs, rank);
  Number one[1] = {Compared::greater(pairs[0], shuffle(pairs[1], (lane + 8) % 32))};
  return bound_of_rank(one, rank);
}

// Of what `count` warps or blocks have found, at `bounds`: the least bound, and the greatest. By whole warps,
// the same in all lanes, also among NaNs.
template <class Compared, class Number = typename Compared::Number>
__device__ __forceinline__ WarpBound<Number> bound_of_all(const WarpBound<Number>* bounds, int count) {
  WarpBound<Number> all = bounds[min(static_cast<int>(threadIdx.x % 32), count - 1)];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    all.bound = Compared::lesser(all.bound, shuffle_xor(all.bound, step));
    all.greatest = Compared::greater(all.greatest, shuffle_xor(all.greatest, step));
  }
  return {shuffle(all.bound, 0), shuffle(all.greatest, 0)};
}

// The thread's elements that `is_chosen` chooses, a bit for each.
template <int kElements, class IsChosen>
__device__ __forceinline__ uint32_t choose(IsChosen&& is_chosen) {
  uint32_t chosen = 0;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    if (is_chosen(i)) chosen |= 1u << i;
  }
  return chosen;
}

// Lists the elements of which `reaching` has a bit, as far as there is room. By whole warps.
template <class IndexOf>
__device__ __forceinline__ void list_elements(uint32_t reaching, uint32_t room, uint32_t* list,
                                              uint32_t& listed, IndexOf&& index_of) {
  const int own = __popc(reaching), so_far = sum_so_far(own);
  uint32_t before = 0;
  if (threadIdx.x % 32 == 31 && so_far > 0) before = atomicAdd(&listed, static_cast<uint32_t>(so_far));
  if (__shfl_sync(~0u, so_far, 31) > static_cast<int>(room)) return;
  uint32_t at = __shfl_sync(~0u, before, 31) + static_cast<uint32_t>(so_far - own);
  for (; reaching != 0 && at < room; reaching &= reaching - 1) {
    list[at++] = static_cast<uint32_t>(index_of(__ffs(static_cast<int>(reaching)) - 1));
  }
}

}  // namespace gputopk::cuda
