// Bitonic top-k of short rows: a row in the registers of one warp, or of a half or quarter of it.
//
//   1. The lanes load the row and take the maxima of their elements.
//   2. A bitonic network sorts the maxima: the k-th best of them is a bound that k elements reach, and, as
//      there are twice as many maxima or more, few others.
//   3. What reaches the bound is listed in shared memory.
//   4. Listed elements are ranked, by counting those that are better, or, where they are many, by a bitonic
//      network again; those of rank below k are written in their place: in order, whatever was asked for.
// A row whose elements crowd at the bound, by their values or by their places, would list too many: a
// bisection between the bound and the greatest key then finds a better one, or the k-th key itself, and of
// its equals those of the lowest indices are listed.

#include "cuda/bitonic/bitonic.h"

#include <cuda_runtime_api.h>

#include "core/key_order.h"
#include "cuda/bitonic/numbers.h"
#include "cuda/device/launch.h"
#include "cuda/device/resident_row.cuh"
#include "cuda/device/warp_sort.cuh"
#include "cuda/device/winner_writer.cuh"

namespace gputopk::cuda::bitonic {
namespace {

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

// The kLanes lanes that share a row. All lanes of the warp call everything together.
template <int kLanes>
struct Team {
  __device__ static int member() { return static_cast<int>(threadIdx.x % kLanes); }
  __device__ static int first_lane() { return static_cast<int>(threadIdx.x % 32 & ~(kLanes - 1)); }

  template <class T>
  __device__ static T from(T value, int member) {
    return shuffle(value, first_lane() + member);
  }
  template <class T>
  __device__ static T rotate(T value, int by) {
    return from(value, (member() + by) & (kLanes - 1));
  }
  template <class T>
  __device__ static T greatest(T value) {
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) value = max(value, shuffle_xor(value, step));
    return value;
  }
  __device__ static int sum(int value) {
    if constexpr (kLanes == 32) {
      return static_cast<int>(__reduce_add_sync(~0u, static_cast<unsigned>(value)));
    } else {
#pragma unroll
      for (int step = kLanes / 2; step > 0; step /= 2) value += shuffle_xor(value, step);
      return value;
    }
  }
  // Of this member's value and those of the members before it.
  __device__ static int sum_so_far(int value) {
#pragma unroll
    for (int step = 1; step < kLanes; step *= 2) {
      const int other = __shfl_up_sync(~0u, value, step);
      if (member() >= step) value += other;
    }
    return value;
  }
};

// The k-th best of kLanes * kMaxima maxima.
template <int kLanes, int kMaxima, class Held>
__device__ __forceinline__ Held kth_best(Held (&maxima)[kMaxima], int k) {
  constexpr int kSize = kLanes * kMaxima;
  sort_runs<kSize, /*kDescending=*/true>(maxima);
  // Every other team's run ascends.
  const bool ascends = (Team<kLanes>::first_lane() & kLanes) != 0 && kLanes < 32;
  const int place = ascends ? kSize - k : k - 1;
  Held value = maxima[0];
#pragma unroll
  for (int i = 1; i < kMaxima; ++i) {
    if (place % kMaxima == i) value = maxima[i];
  }
  return Team<kLanes>::from(value, place / kMaxima);
}

// Step 2. A lane's elements fall into four classes by their place in its vectors. Where classes share a
// maximum, it is with those of lanes far away: so winners that lie side by side fall to different maxima.
template <int kLanes, class Share>
__device__ __forceinline__ typename Share::Held bound_of(const Share& share, int maxima, int k) {
  using Held = typename Share::Held;
  constexpr int kClasses = 4;
  Held best[kClasses];
#pragma unroll
  for (int i = 0; i < Share::kElements; ++i) {
    best[i % kClasses] = i < kClasses ? share.held[i] : max(best[i % kClasses], share.held[i]);
  }
  if (maxima == kClasses) return kth_best<kLanes>(best, k);
  Held pairs[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) pairs[i] = max(best[i], Team<kLanes>::rotate(best[i + 2], kLanes / 2));
  if (maxima == 2) return kth_best<kLanes>(pairs, k);
  Held one[1] = {max(pairs[0], Team<kLanes>::rotate(pairs[1], kLanes / 4))};
  return kth_best<kLanes>(one, k);
}

// Raises a bound that more than `room` elements reach, until it is reached by k to `room` or is the k-th
// best's, and lists what reaches it; of the k-th best's equals, those of the lowest indices. Returns how
// many. Teams whose `count` is `room` or less are left as they are.
template <int kLanes, class Share, class Entry>
__device__ __forceinline__ int list_crowded(const Share& share, int k, int room, typename Share::Held bound,
                                            int count, Entry* list) {
  using Held = typename Share::Held;
  using One = Team<kLanes>;
  const auto count_above = [&](Held key) {
    int own = 0;
#pragma unroll
    for (int i = 0; i < Share::kElements; ++i) own += share.held[i] > key;
    return One::sum(own);
  };

  // k elements or more reach `low`, fewer are above `high`. The first probe finds a k-th best that crowds.
  Held low = bound, high = share.held[0];
#pragma unroll
  for (int i = 1; i < Share::kElements; ++i) high = max(high, share.held[i]);
  high = One::greatest(high);
  bool done = count <= room;
  Held probe = low;
  while (__any_sync(~0u, !done)) {
    const int above = count_above(probe);
    if (!done) {
      if (above < k) {
        high = probe;
      } else {
        low = probe + 1;
        count = above;
      }
      done = count <= room || low == high;
      probe = low + (high - low) / 2;
    }
  }
  const int above_low = count_above(low);
  const int equals = count <= room ? room : k - above_low;  // to be listed at most

  int greater_before = 0, equal_before = 0;  // in the row
#pragma unroll
  for (int v = 0; v < Share::kVectors; ++v) {
    int greater = 0, equal = 0;
#pragma unroll
    for (int i = v * Share::kInVector; i < (v + 1) * Share::kInVector; ++i) {
      greater += share.held[i] > low;
      equal += share.held[i] == low;
    }
    const int so_far = One::sum_so_far(greater | equal << 16);
    const int all = One::from(so_far, kLanes - 1);
    int g = greater_before + (so_far & 0xFFFF) - greater, e = equal_before + (so_far >> 16) - equal;
#pragma unroll
    for (int i = v * Share::kInVector; i < (v + 1) * Share::kInVector; ++i) {
      const bool is_greater = share.held[i] > low, is_equal = share.held[i] == low;
      if (is_greater || (is_equal && e < equals)) {
        Resident<typename Share::Bits>::store(list + (g + min(e, equals)), share.held[i], share.index(i));
      }
      g += is_greater;
      e += is_equal;
    }
    greater_before += all & 0xFFFF;
    equal_before += all >> 16;
  }
  return greater_before + min(equal_before, equals);
}

// Step 4 for few: write(entry, rank) for each.
template <int kLanes, class Entry, class Write>
__device__ __forceinline__ void write_ranked(const Entry* list, int listed, Write&& write) {
  struct alignas(sizeof(Entry) < 16 ? 2 * sizeof(Entry) : 16) Pair {
    Entry first, second;
  };
  const Pair* const pairs = reinterpret_cast<const Pair*>(list);
  // Two of a lane's a turn, at one reading of the list.
  for (int i = Team<kLanes>::member(); i < listed; i += 2 * kLanes) {
    const bool has_second = i + kLanes < listed;
    const Entry first = list[i], second = has_second ? list[i + kLanes] : first;
    int better_first = 0, better_second = 0;
    for (int p = 0; 2 * p < listed; ++p) {
      const Pair others = pairs[p];
      better_first += (first < others.first) + (first < others.second);
      if constexpr (kLanes < 32) better_second += (second < others.first) + (second < others.second);
    }
    write(first, better_first);
    if (has_second) write(second, better_second);
  }
}

// Step 4 for many, of a whole warp: a bitonic network sorts them.
template <int kItems, class Entry, class Write>
__device__ __forceinline__ void write_sorted(const Entry* list, int listed, Write&& write) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  Entry entries[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) entries[i] = 32 * i + lane < listed ? list[32 * i + lane] : Entry{0};
  sort_warp</*kDescending=*/true>(entries);
#pragma unroll
  for (int i = 0; i < kItems; ++i) write(entries[i], lane * kItems + i);
}

template <class Order, int kLanes, int kElements>
__global__ void __launch_bounds__(tuning::kOneWarpThreads,
                                  tuning::one_warp_blocks(sizeof(typename Order::Bits), kElements))
    select_rows(Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Entry = typename Resident<Bits>::Entry;
  using Share = RowShare<Order, kElements>;
  using One = Team<kLanes>;
  constexpr int kRowsAWarp = 32 / kLanes, kWarps = tuning::kOneWarpThreads / 32;
  constexpr int kRoom = tuning::kOneWarpListPerLane * kLanes;
  // So a bound that what lies behind the row's end reaches, as all elements do, is a crowded one.
  static_assert(kElements > tuning::kOneWarpListPerLane);
  __shared__ __align__(16) Entry lists[kWarps * kRowsAWarp][kRoom];

  const int team = static_cast<int>(threadIdx.x / kLanes);
  const int64_t own_row = static_cast<int64_t>(blockIdx.x) * (kWarps * kRowsAWarp) + team;
  const int64_t row = min(own_row, params.rows - 1);  // a team without a row does the last one's work again
  const Bits* const input = params.input + row * params.row_stride;
  Entry* const list = lists[team];

  const Share share(input, params.cols, One::member(), kLanes, order);
  const auto bound = bound_of<kLanes>(share, params.maxima, params.k);

  uint32_t reaching = 0;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    if (share.held[i] >= bound) reaching |= 1u << i;
  }
  const int own = __popc(reaching);
  const int so_far = One::sum_so_far(own);
  int listed = One::from(so_far, kLanes - 1);
  if (__any_sync(~0u, listed > kRoom)) {
    listed = list_crowded<kLanes>(share, params.k, kRoom, bound, listed, list);
  } else {
    Entry* at = list + (so_far - own);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const bool reaches = (reaching >> i & 1) != 0;
      if (reaches) Resident<Bits>::store(at, share.held[i], share.index(i));
      at += reaches;
    }
  }
  // Pairs are compared: the last one is whole.
  if (One::member() == 0 && listed % 2 == 1) list[listed] = 0;
  __syncwarp();  // the list is whole

  if (own_row >= params.rows) return;
  const WinnerWriter<Bits> output = params.output.row(row, params.k);
  const auto write = [&](Entry entry, int rank) {
    if (rank >= params.k) return;
    const uint32_t index = Resident<Bits>::index(entry);
    output.write(rank, input[index], index);
  };
  if constexpr (kLanes == 32) {
    if (listed > tuning::kOneWarpRanked) {
      if (listed <= 32) return write_sorted<1>(list, listed, write);
      if (listed <= 64) return write_sorted<2>(list, listed, write);
      return write_sorted<4>(list, listed, write);
    }
  }
  write_ranked<kLanes>(list, listed, write);
}

template <class Order, int kLanes, int kElements>
cudaError_t launch(const OneWarp& config, const Problem& problem, const Buffers& buffers, Order order,
                   cudaStream_t stream) {
  using Bits = typename Order::Bits;
  Params<Bits> params{};
  params.input = static_cast<const Bits*>(buffers.input);
  params.rows = problem.rows;
  params.row_stride = problem.row_stride;
  params.cols = static_cast<int>(problem.cols);
  params.k = static_cast<int>(problem.k);
  params.maxima = config.maxima;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  constexpr int kRowsABlock = tuning::kOneWarpThreads / kLanes;
  const int64_t blocks = (problem.rows + kRowsABlock - 1) / kRowsABlock;
  if (blocks > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
  return launch_kernel(/*ahead=*/false, select_rows<Order, kLanes, kElements>, static_cast<unsigned>(blocks),
                       tuning::kOneWarpThreads, 0, stream, params, order);
}

}  // namespace

ErrorCode OneWarp::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Order = decltype(order);
    if constexpr (Order::kBits > 8) {  // a vector of bytes is 16 elements
      if (lanes == 8 && elements == 8) return launch<Order, 8, 8>(*this, problem, buffers, order, stream);
    }
    if (lanes == 8) return launch<Order, 8, 16>(*this, problem, buffers, order, stream);
    if (lanes == 16) return launch<Order, 16, 16>(*this, problem, buffers, order, stream);
    if (elements == 16) return launch<Order, 32, 16>(*this, problem, buffers, order, stream);
    return launch<Order, 32, 32>(*this, problem, buffers, order, stream);
  });
}

}  // namespace gputopk::cuda::bitonic
