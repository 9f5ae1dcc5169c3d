// A bound from a row's maxima: elements in registers fall into groups, and where each of W warps, or blocks,
// has ceil(k / W) maxima that reach a bound, k elements do. A warp sorts its maxima, a block counts them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/block_loop.cuh"
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

// A lane's elements fall into classes by their place in its vectors. Where classes share a maximum, it is
// with those of lanes far away: so winners that lie side by side fall to different maxima.
template <class Compared, class Number>
struct Maxima {
  Number of_class[kMostMaxima];

  template <int kElements>
  __device__ __forceinline__ explicit Maxima(const Number (&numbers)[kElements]) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      Number& own = of_class[i % kMostMaxima];
      own = i < kMostMaxima ? numbers[i] : Compared::greater(own, numbers[i]);
    }
  }
  __device__ __forceinline__ void fours(Number (&best)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) best[i] = Compared::greater(of_class[i], of_class[i + 4]);
  }
  __device__ __forceinline__ void pairs(Number (&best)[2]) const {
    Number four[4];
    fours(four);
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < 2; ++i) best[i] = Compared::greater(four[i], shuffle(four[i + 2], (lane + 16) % 32));
  }
  __device__ __forceinline__ Number one() const {
    Number pair[2];
    pairs(pair);
    const int lane = static_cast<int>(threadIdx.x % 32);
    return Compared::greater(pair[0], shuffle(pair[1], (lane + 8) % 32));
  }
};

// The bound of a warp; the greatest is lane 0's.
template <class Compared, class Number, int kElements>
__device__ __forceinline__ WarpBound<Number> bound_of_warp(const Number (&numbers)[kElements], int maxima,
                                                           int rank) {
  Maxima<Compared, Number> all(numbers);
  if (maxima == kMostMaxima) return bound_of_rank(all.of_class, rank);
  Number fours[4], pairs[2];
  if (maxima == 4) {
    all.fours(fours);
    return bound_of_rank(fours, rank);
  }
  if (maxima == 2) {
    all.pairs(pairs);
    return bound_of_rank(pairs, rank);
  }
  Number one[1] = {all.one()};
  return bound_of_rank(one, rank);
}

// The least and the greatest of the keys that a block's threads have, the same in all of them. `of_warps` is
// in shared memory.
template <class Word>
struct KeySpan {
  Word least, greatest;

  __device__ static KeySpan none() { return {static_cast<Word>(~Word{0}), 0}; }
  __device__ void see(Word key) {
    least = min(least, key);
    greatest = max(greatest, key);
  }
  __device__ KeySpan over_warp() const { return {warp_min(least), warp_max(greatest)}; }
  __device__ KeySpan over_block(KeySpan* of_warps) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const KeySpan own = over_warp();
    if (lane == 0) of_warps[threadIdx.x / 32] = own;
    __syncthreads();  // all warps have theirs
    return of_warps[min(lane, static_cast<int>(blockDim.x / 32) - 1)].over_warp();
  }
};

inline constexpr int kBoundBits = 7;
template <class Word>
inline constexpr int kCountsOfBound =
    (8 * static_cast<int>(sizeof(Word)) + kBoundBits - 1) / kBoundBits << kBoundBits;

template <class Word>
struct BlockBound {
  Word key, greatest;
  int reaching;  // of the block's keys
  int of_bin;    // of these, that share the key's last bin: its equals, where more reach it than were to
};

// The `divide` of a bound that divides nothing.
struct Undivided {
  template <class Word>
  __device__ void operator()(Word, int, int, const int (&)[4]) const {}
};

// The `add_up` of a bound among keys that are all one block's.
struct OfOneBlock {
  static constexpr bool kOneBlock = true;
  __device__ void operator()(uint32_t*, int) const {
    __syncthreads();  // all have counted
  }
};

// A key that `rank` of the block's keys are or exceed, and no more than `slack` beyond, unless more are equal
// to it: digit after digit of `span`, which so many lie in, and not below. each(visit) calls visit(key) with
// each of the thread's own. divide(low, shift, so_far, count) sees the first digit: bins of 2^shift keys from
// `low` on, a lane four, the greatest first, their counts, and how many keys reach the last of them. By all
// threads of the block, with a barrier before; `counts`, kCountsOfBound<Word> zeros, and `of_warps` are in
// shared memory. Keys may be several blocks': then add_up(counts, bins) makes their sums of all blocks'
// counts.
template <class Word, class Each, class Divide, class AddUp = OfOneBlock>
__device__ __forceinline__ BlockBound<Word> bound_within(const KeySpan<Word>& span, Each&& each, int rank,
                                                         int slack, Divide&& divide, uint32_t* counts,
                                                         KeySpan<Word>* of_warps, AddUp&& add_up = AddUp{}) {
  constexpr int kBins = 1 << kBoundBits;
  static_assert(kBins == 4 * 32, "a vector a lane");
  const int lane = static_cast<int>(threadIdx.x % 32);
  Word low = span.least, width = span.greatest - span.least;
  int above = 0;  // keys, of all that are in no bin any more
  for (bool is_first = true;; is_first = false, counts += kBins) {
    const int shift = max(bits_of(width) - kBoundBits, 0);
    const Word end = low + width;
    each([&](Word key) {
      if (low <= key && key - low <= width) atomicAdd(counts + static_cast<int>((key - low) >> shift), 1u);
    });
    add_up(counts, kBins);
    // Lanes have four bins each, the greatest first.
    const int first = kBins - 4 * lane - 4;
    const uint4 own = *reinterpret_cast<const uint4*>(counts + first);
    const int count[4] = {static_cast<int>(own.w), static_cast<int>(own.z), static_cast<int>(own.y),
                          static_cast<int>(own.x)};
    const int so_far = above + sum_so_far(count[0] + count[1] + count[2] + count[3]);
    if (is_first) divide(low, shift, so_far, count);
    // The first bin that so many reach, how many that are, and how many lie in it.
    const int target = __ffs(static_cast<int>(__ballot_sync(~0u, so_far >= rank))) - 1;
    int bin = first, reaching = so_far, of_bin = count[3];
#pragma unroll
    for (int i = 3; i > 0; --i) {
      if (bin != first + 3 - i || reaching - count[i] < rank) break;
      reaching -= count[i];
      of_bin = count[i - 1];
      ++bin;
    }
    of_bin = __shfl_sync(~0u, of_bin, target);
    reaching = __shfl_sync(~0u, reaching, target);
    low += static_cast<Word>(__shfl_sync(~0u, bin, target)) << shift;
    if (shift == 0 || reaching <= rank + slack) return {low, span.greatest, reaching, of_bin};
    // The last bin may reach beyond the range, where keys are counted as above.
    width = min(static_cast<Word>((Word{1} << shift) - 1), static_cast<Word>(end - low));
    above = reaching - of_bin;
    if (!std::decay_t<AddUp>::kOneBlock || of_bin <= rank / 2) continue;
    // So many are few values, or one.
    KeySpan<Word> seen = KeySpan<Word>::none();
    each([&](Word key) {
      if (low <= key && key - low <= width) seen.see(key);
    });
    const KeySpan<Word> of_bin_alone = seen.over_block(of_warps);
    low = of_bin_alone.least;
    width = of_bin_alone.greatest - low;
    if (width == 0) return {low, span.greatest, reaching, of_bin};
  }
}

// The same of the least span that holds what all threads have as their `own`; `counts` need not be zero.
template <class Word, class Each, class Divide>
__device__ __forceinline__ BlockBound<Word> bound_of_block(const KeySpan<Word>& own, Each&& each, int rank,
                                                           int slack, Divide&& divide, uint32_t* counts,
                                                           KeySpan<Word>* of_warps) {
  each_in_block(kCountsOfBound<Word>, [&](int i) { counts[i] = 0; });
  const KeySpan<Word> span = own.over_block(of_warps);  // and the counts are zero
  return bound_within<Word>(span, each, rank, slack, divide, counts, of_warps);
}

// Of what `count` warps have found, at `bounds`: the least bound, and the greatest. By whole warps, the same
// in all lanes, also among NaNs.
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
