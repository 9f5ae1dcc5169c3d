// What a team of lanes does with a row in its registers: bitonic/one_warp.cu says how it goes. Common to rows
// side by side, one_warp.cu and one_warp_kept.cu, rows apart, one_warp_tiles.cu, and windows,
// one_warp_windows.cu.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "core/key_order.h"
#include "cuda/bitonic/bitonic.h"
#include "cuda/bitonic/numbers.h"
#include "cuda/device/equals.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/list_ranks.cuh"
#include "cuda/device/maxima_bound.cuh"
#include "cuda/device/resident_row.cuh"
#include "cuda/device/row_numbers.cuh"
#include "cuda/device/team.cuh"
#include "cuda/device/warp_sort.cuh"
#include "cuda/device/winner_writer.cuh"

namespace gputopk::cuda::bitonic {

template <int kNumber>
using Int = std::integral_constant<int, kNumber>;

template <class Bits>
struct Params {
  const Bits* input;
  int64_t rows;
  int64_t row_stride;
  int cols;
  int k;
  int maxima;
  WinnerWriter<Bits> output;
};

// The k-th best of a row's maxima, and whether so many are equal to it as crowd a list.
template <class Number>
struct Bound {
  Number number;
  bool has_equals;
};

// Of kLanes * kMaxima maxima; the k-th best is, with NaNs among them, less: of a NaN and a number the network
// makes that number twice, so no place comes by more than as many maxima reach.
template <int kLanes, class Compared, int kMaxima, class Number>
__device__ __forceinline__ Bound<Number> kth_best(Number (&maxima)[kMaxima], int k) {
  sort_lanes<kLanes>(maxima);
  const auto at = [&](int place) {
    return Team<kLanes>::from(item_at(maxima, place % kMaxima), place / kMaxima);
  };
  const Number best = at(0), kth = at(k - 1);
  const int many = tuning::one_warp_many_equals(k);
  const Number behind = at(min(k - 1 + many, kLanes * kMaxima - 1));
  return {kth, Compared::is_equal(behind, kth) || (k > many && Compared::is_equal(best, kth))};
}

// The maxima of a lane's elements in turn.
template <class Compared, class Number, int kMaxima, int kElements>
__device__ __forceinline__ void take_maxima(Number (&maxima)[kMaxima], const Number (&numbers)[kElements]) {
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    maxima[i % kMaxima] = i < kMaxima ? numbers[i] : Compared::greater(maxima[i % kMaxima], numbers[i]);
  }
}

// Step 2. A lane's elements fall into four or eight classes by their place in its vectors. Where classes
// share a maximum, it is with those of lanes far away: so winners that lie side by side fall to different
// maxima.
template <int kLanes, class Compared, class Number, int kElements>
__device__ __forceinline__ Bound<Number> bound_of(const Number (&numbers)[kElements], int maxima, int k) {
  constexpr int kClasses = 4;
  if constexpr (tuning::one_warp_most_k_per_lane(kLanes) > 2) {
    if (maxima == 2 * kClasses) {
      Number best[2 * kClasses];
      take_maxima<Compared>(best, numbers);
      return kth_best<kLanes, Compared>(best, k);
    }
  }
  Number best[kClasses];
  take_maxima<Compared>(best, numbers);
  if (maxima == kClasses) return kth_best<kLanes, Compared>(best, k);
  Number pairs[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    pairs[i] = Compared::greater(best[i], Team<kLanes>::rotate(best[i + 2], kLanes / 2));
  }
  if (maxima == 2) return kth_best<kLanes, Compared>(pairs, k);
  Number one[1] = {Compared::greater(pairs[0], Team<kLanes>::rotate(pairs[1], kLanes / 4))};
  return kth_best<kLanes, Compared>(one, k);
}

// A lane's elements among which the winners are, a bit each: all of one word, and of the other, which are
// equal and worse, those of the row's lowest indices.
struct Chosen {
  uint32_t above, equals;
};

// For rows that crowd. Bisects the range of keys until k to `room` elements are above one, or the k-th best
// is found. `present`: a bit for each element that may be listed. The row is loaded anew, as keys.
template <int kLanes, int kElements, class Order>
__device__ __noinline__ Chosen choose_by_keys(const typename Order::Bits* input, int cols, Order order, int k,
                                              int room, uint32_t present) {
  using Share = RowShare<Order, kElements>;
  using Held = typename Share::Held;
  using One = Team<kLanes>;
  Share share(input, cols, One::member(), kLanes, order);
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    if (share.index(i) >= static_cast<uint32_t>(cols)) present &= ~(1u << i);
  }
  share.keep(present);  // so nothing that is not there is above any key
  const auto count_above = [&](Held key) {
    int own = 0;
#pragma unroll
    for (int i = 0; i < kElements; ++i) own += share.held[i] > key;
    return One::sum(own);
  };
  // k elements or more reach `low`, fewer are above `high`.
  Held low = 0, high = share.held[0];
#pragma unroll
  for (int i = 1; i < kElements; ++i) high = max(high, share.held[i]);
  high = One::greatest(high);
  bool has_room = false, done = false;
  Held probe = low;  // the first one finds a k-th best that is the worst there is
  while (__any_sync(~0u, !done)) {
    const int above = count_above(probe);
    if (!done) {
      has_room = k <= above && above <= room;
      if (above < k) {
        high = probe;
      } else {
        low = has_room ? probe : probe + 1;
      }
      done = has_room || low == high;
      probe = low + (high - low) / 2;
    }
  }
  Chosen chosen{0, 0};
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    if (share.held[i] > low) chosen.above |= 1u << i;
    if (!has_room && share.held[i] == low) chosen.equals |= 1u << i;
  }
  chosen.equals &= present;
  return chosen;
}

// What a team lists, of which no two have one place in the order.
template <class Bits, int kLanes>
struct alignas(16) List {
  static constexpr int kPerLane = tuning::one_warp_list_per_lane(kLanes), kRoom = kPerLane * kLanes;
  using Key = typename Resident<Bits>::Held;

  Key keys[kRoom];
  uint16_t indices[kRoom];
};

// Step 3. A list of a team's elements with a bit: lane after lane, of which `before` says how many those
// before this one have.
template <class Share>
__device__ __forceinline__ void list_by_lane(const Share& share, uint32_t chosen, int before,
                                             uint16_t* indices) {
  for (uint16_t* at = indices + before; chosen != 0; ++at) {
    const int i = 31 - __clz(static_cast<int>(chosen));
    *at = static_cast<uint16_t>(share.index(i));
    chosen ^= 1u << i;
  }
}
constexpr uint32_t kAllPresent = ~0u;

template <class Share>
__device__ __forceinline__ uint32_t elements_of_row(const Share& share, int cols) {
  return choose<Share::kElements>([&](int i) { return share.index(i) < cols; });
}

// What is chosen where a row of the warp crowds: of others, `reaching`, what reaches the bound.
template <int kLanes, class Order, class Share, class Number>
__device__ __forceinline__ Chosen choose_of_crowd(const typename Order::Bits* input, int cols,
                                                  const Order& order, const Share& share, uint32_t present,
                                                  int k, int room, Number bound, bool crowded,
                                                  uint32_t reaching, int listed) {
  using Compared = Numbers<Order>;
  using One = Team<kLanes>;
  Chosen chosen{reaching, 0};
  int above = 0;
#pragma unroll 1
  for (int turn = 0;; ++turn) {
    if (crowded) {
      chosen.above =
          choose<Share::kElements>([&](int i) { return Compared::is_above(share.number[i], bound); }) &
          present;
    }
    above = One::sum(__popc(chosen.above));
    // Of few values, the next one may be the k-th best.
    const bool raises =
        crowded && above >= k && (listed > room || listed - above > tuning::one_warp_many_equals(k));
    if (turn == tuning::kOneWarpTurns || !__any_sync(~0u, raises)) break;
    Number next = Compared::beyond();
#pragma unroll
    for (int i = 0; i < Share::kElements; ++i) {
      if (chosen.above >> i & 1) next = Compared::lesser(next, share.number[i]);
    }
    next = One::reduce(next, [](Number x, Number y) { return Compared::lesser(x, y); });
    if (raises) {
      bound = next;
      reaching = chosen.above;
      listed = above;
    }
  }
  bool found = !crowded;
  if (crowded && above < k && Compared(order).is_bound(bound)) {
    chosen.equals = reaching & ~chosen.above;
    found = true;
  } else if (crowded && listed <= room) {
    chosen.above = reaching;
    found = true;
  }
  if (__any_sync(~0u, !found)) {
    const Chosen by_keys = choose_by_keys<kLanes, Share::kElements>(input, cols, order, k, room, present);
    if (!found) chosen = by_keys;
  }
  return chosen;
}

// Steps 2 to 4 of a team's row: write_winner(rank, bits, index) for each winner of a row that `is_own`. By
// whole warps.
template <int kLanes, class Order, class Share, class Write>
__device__ __forceinline__ void select_row(const typename Order::Bits* input, int cols, const Order& order,
                                           const Share& share, uint32_t present, int maxima, int k,
                                           List<typename Order::Bits, kLanes>& list, bool is_own,
                                           Write&& write_winner) {
  using Compared = Numbers<Order>;
  constexpr int kPerLane = tuning::one_warp_list_per_lane(kLanes), kRoom = kPerLane * kLanes;
  // So a bound that what lies behind the row's end reaches, as all elements do, is a crowded one.
  static_assert(Share::kElements > kPerLane);
  const auto write = [&](int rank, typename Order::Bits bits, uint32_t index) {
    if (is_own && rank < k) write_winner(rank, bits, index);
  };
  uint32_t chosen = 0;
  int so_far = 0, listed = 0;
  const auto count = [&](uint32_t elements) {
    chosen = elements;
    so_far = sum_so_far<kLanes>(__popc(elements));
    listed = Team<kLanes>::from(so_far, kLanes - 1);
  };
  // Where a lane has more elements, rows are longer than any list: their kernels do without the code.
  if constexpr (Share::kElements <= 16) {
    if (maxima == 0 && !__any_sync(~0u, present != kAllPresent)) {
      const int most = kLanes == 32 ? cols : static_cast<int>(__reduce_max_sync(~0u, cols));
      if (most <= 2 * kLanes) {
        write_row_ranked<kLanes, 2>(input, order, list.keys, cols, write);
      } else {
        write_row_ranked<kLanes, kPerLane>(input, order, list.keys, cols, write);
      }
      return;
    }
  }
  if (maxima == 0) {
    count(elements_of_row(share, cols) & present);
  } else {
    const auto [bound, has_equals] = bound_of<kLanes, Compared>(share.number, maxima, k);
    count(choose<Share::kElements>(
              [&, bound = bound](int i) { return Compared::reaches(share.number[i], bound); }) &
          present);
    const bool crowded = has_equals || listed > tuning::one_warp_crowded(kRoom, kLanes, k);
    if (__any_sync(~0u, crowded)) {
      const Chosen of_row = choose_of_crowd<kLanes>(input, cols, order, share, present, k, kRoom, bound,
                                                    crowded, chosen, listed);
      count(of_row.above);
      uint16_t* const equals = list.indices + listed;
      const int of_equals = visit_lowest<kLanes, Share>(of_row.equals, k - listed, [&](int place, int i) {
        equals[place] = static_cast<uint16_t>(share.index(i));
      });
      __syncwarp();  // they are listed
      for (int place = Team<kLanes>::member(); place < of_equals; place += kLanes) {
        write(listed + place, input[equals[place]], equals[place]);
      }
    }
  }

  list_by_lane(share, chosen, so_far - __popc(chosen), list.indices);
  __syncwarp();  // the list is whole
  const int most = kLanes == 32 ? listed : static_cast<int>(__reduce_max_sync(~0u, listed));
  const auto write_list = [&](auto items) {
    write_ranked<kLanes, decltype(items)::value>(input, order, list.keys, list.indices, listed, write);
  };
  if (most == 0) return;
  if (most <= kLanes) {
    write_list(Int<1>{});
  } else if (most <= 2 * kLanes) {
    write_list(Int<2>{});
  } else if (kPerLane == 4 || most <= 4 * kLanes) {
    write_list(Int<4>{});
  } else if constexpr (kPerLane == 8) {
    write_list(Int<8>{});
  }
}

// Winners of a team's row, marked in shared memory: a bit each.
template <int kLanes>
struct Marks {
  uint32_t words[kLanes];  // of 32 elements, as many as a row has at most

  // By the team, around what marks winners.
  __device__ void clear() {
    words[Team<kLanes>::member()] = 0;
    __syncwarp();  // no bit is set
  }
  __device__ void mark(uint32_t index) { atomicOr(words + index / 32, 1u << index % 32); }

  // From that of element `first` on, by a number of elements that divides 32; behind mark and a barrier.
  __device__ uint32_t from(int first) const { return words[first / 32] >> first % 32; }

  // Calls write(place, index) for each winner, in ascending order of both.
  template <class Write>
  __device__ void visit(Write&& write) const {
    __syncwarp();  // all are marked
    const int member = Team<kLanes>::member();
    uint32_t own = words[member];
    int place = sum_so_far<kLanes>(__popc(own)) - __popc(own);
    for (; own != 0; own &= own - 1, ++place) {
      write(place, 32 * member + __ffs(static_cast<int>(own)) - 1);
    }
  }
};

template <class Bits>
Params<Bits> params_of(const OneWarp& config, const Problem& problem, const Buffers& buffers) {
  return {static_cast<const Bits*>(buffers.input),
          problem.rows,
          problem.row_stride,
          static_cast<int>(problem.cols),
          static_cast<int>(problem.k),
          config.maxima,
          {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices}};
}

// A launch of a kernel whose teams of so many lanes have a row each.
template <class Kernel, class... Arguments>
ErrorCode launch_teams(Kernel* kernel, int lanes, int64_t rows, Stream stream,
                       const Arguments&... arguments) {
  const int64_t rows_a_block = tuning::kOneWarpThreads / lanes;
  const int64_t blocks = (rows + rows_a_block - 1) / rows_a_block;
  if (blocks > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
  return launch_kernel(/*ahead=*/false, kernel, static_cast<unsigned>(blocks), tuning::kOneWarpThreads, 0,
                       stream, arguments...);
}

// run(lanes, elements, order) with the config's shape as constants.
template <class Run>
ErrorCode visit_shape(const OneWarp& config, const Problem& problem, Run&& run) {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Order = decltype(order);
    if constexpr (Order::kBits > 8) {  // a vector of bytes is 16 elements
      if (config.lanes == 8 && config.elements == 8) return run(Int<8>{}, Int<8>{}, order);
    }
    if (config.lanes == 8) return run(Int<8>{}, Int<16>{}, order);
    if (config.lanes == 16) return run(Int<16>{}, Int<16>{}, order);
    if (config.elements == 16) return run(Int<32>{}, Int<16>{}, order);
    return run(Int<32>{}, Int<32>{}, order);
  });
}

}  // namespace gputopk::cuda::bitonic
