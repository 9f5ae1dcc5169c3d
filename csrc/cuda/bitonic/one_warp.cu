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
// Of windows, a team finds its row's length, k and candidates on the device; what is none is as what lies
// behind the row's end, and is never listed.
// Rows that do not lie side by side come in tiles: a block brings in as many as fill lines of memory, with
// all their elements, and its warps take them from shared memory one after the other.

#include "cuda/bitonic/bitonic.h"

#include <cuda_runtime_api.h>

#include "core/key_order.h"
#include "cuda/bitonic/numbers.h"
#include "cuda/device/launch.h"
#include "cuda/device/resident_row.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/square_block.cuh"
#include "cuda/device/warp_sort.cuh"
#include "cuda/device/window_writer.cuh"
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
  return Team<kLanes>::from(item_at(maxima, place % kMaxima), place / kMaxima);
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
// many. Teams whose `count` is `room` or less are left as they are. `present`: a bit for each element that
// may be listed; the others are 0.
template <int kLanes, class Share, class Entry>
__device__ __forceinline__ int list_crowded(const Share& share, int k, int room, typename Share::Held bound,
                                            int count, uint32_t present, Entry* list) {
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
      equal += share.held[i] == low && (present >> i & 1) != 0;
    }
    const int so_far = One::sum_so_far(greater | equal << 16);
    const int all = One::from(so_far, kLanes - 1);
    int g = greater_before + (so_far & 0xFFFF) - greater, e = equal_before + (so_far >> 16) - equal;
#pragma unroll
    for (int i = v * Share::kInVector; i < (v + 1) * Share::kInVector; ++i) {
      const bool is_greater = share.held[i] > low;
      const bool is_equal = share.held[i] == low && (present >> i & 1) != 0;
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

constexpr uint32_t kAllPresent = ~0u;

// Steps 2 to 4 of a team's row: write(rank, index) for each winner of a row that `is_own`. By whole warps.
template <int kLanes, class Share, class Entry, class Write>
__device__ __forceinline__ void select_row(const Share& share, uint32_t present, int maxima, int k,
                                           Entry* list, bool is_own, Write&& write_winner) {
  using Bits = typename Share::Bits;
  using One = Team<kLanes>;
  constexpr int kRoom = tuning::kOneWarpListPerLane * kLanes;
  // So a bound that what lies behind the row's end reaches, as all elements do, is a crowded one.
  static_assert(Share::kElements > tuning::kOneWarpListPerLane);
  const auto bound = bound_of<kLanes>(share, maxima, k);

  uint32_t reaching = 0;
#pragma unroll
  for (int i = 0; i < Share::kElements; ++i) {
    if (share.held[i] >= bound) reaching |= 1u << i;
  }
  reaching &= present;
  const int own = __popc(reaching);
  const int so_far = One::sum_so_far(own);
  int listed = One::from(so_far, kLanes - 1);
  if (__any_sync(~0u, listed > kRoom)) {
    listed = list_crowded<kLanes>(share, k, kRoom, bound, listed, present, list);
  } else {
    Entry* at = list + (so_far - own);
#pragma unroll
    for (int i = 0; i < Share::kElements; ++i) {
      const bool reaches = (reaching >> i & 1) != 0;
      if (reaches) Resident<Bits>::store(at, share.held[i], share.index(i));
      at += reaches;
    }
  }
  // Pairs are compared: the last one is whole.
  if (One::member() == 0 && listed % 2 == 1) list[listed] = 0;
  __syncwarp();  // the list is whole

  if (!is_own) return;
  const auto write = [&](Entry entry, int rank) {
    if (rank < k) write_winner(rank, Resident<Bits>::index(entry));
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

// Those of a block's teams.
template <class Bits, int kLanes>
using Lists =
    typename Resident<Bits>::Entry[tuning::kOneWarpThreads / kLanes][tuning::kOneWarpListPerLane * kLanes];

template <class Order, int kLanes, int kElements>
__global__ void __launch_bounds__(tuning::kOneWarpThreads,
                                  tuning::one_warp_blocks(sizeof(typename Order::Bits), kElements))
    select_rows(Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Share = RowShare<Order, kElements>;
  __shared__ __align__(16) Lists<Bits, kLanes> lists;

  const int team = static_cast<int>(threadIdx.x / kLanes);
  const int64_t own_row = static_cast<int64_t>(blockIdx.x) * (tuning::kOneWarpThreads / kLanes) + team;
  const int64_t row = min(own_row, params.rows - 1);  // a team without a row does the last one's work again
  const Bits* const input = params.input + row * params.row_stride;
  const WinnerWriter<Bits> output = params.output.row(row, params.k);
  const Share share(input, params.cols, Team<kLanes>::member(), kLanes, order);
  select_row<kLanes>(share, kAllPresent, params.maxima, params.k, lists[team], own_row < params.rows,
                     [&](int rank, uint32_t index) { output.write(rank, input[index], index); });
}

// A bit for each of a lane's elements that is a candidate.
template <class Share>
__device__ __forceinline__ uint32_t candidates_of(const Share& share, const RowCandidates& candidates,
                                                  int cols) {
  uint32_t present = 0;
#pragma unroll
  for (int v = 0; v < Share::kVectors; ++v) {
    const int first = static_cast<int>(share.index(v * Share::kInVector));
    if (first >= cols) continue;
    const uint32_t bits = candidates.of(first, Share::kInVector);
    const int left = cols - first;
    present |= (left < Share::kInVector ? bits & ((1u << left) - 1) : bits) << (v * Share::kInVector);
  }
  return present;
}

template <class Order, int kLanes, int kElements>
__global__ void __launch_bounds__(tuning::kOneWarpThreads,
                                  tuning::one_warp_blocks(sizeof(typename Order::Bits), kElements))
    select_windows(const __grid_constant__ Params<typename Order::Bits> params,
                   const __grid_constant__ WindowRows rows, Order order) {
  using Bits = typename Order::Bits;
  using Share = RowShare<Order, kElements>;
  __shared__ __align__(16) Lists<Bits, kLanes> lists;

  const int team = static_cast<int>(threadIdx.x / kLanes), member = Team<kLanes>::member();
  const int64_t own_row = static_cast<int64_t>(blockIdx.x) * (tuning::kOneWarpThreads / kLanes) + team;
  const bool is_own = own_row < params.rows;
  const int64_t row = min(own_row, params.rows - 1);
  const Window window = rows.of(row);
  const int cols = static_cast<int>(window.length), k = static_cast<int>(window.k);
  const Bits* const input = params.input + row * params.row_stride + window.start;
  const RowCandidates candidates = rows.candidates.of(row);
  const bool by_position = rows.any_order && k == rows.count_of(row, window);

  Share share(input, cols, member, kLanes, order);
  uint32_t present = kAllPresent;
  if (candidates.bits != nullptr) {
    present = candidates_of(share, candidates, cols);
    share.keep(present);
  }
  const WindowWriter<Bits> output(rows, row, params.output.row(row, params.k));
  // Of the first candidates in a row, as many have lower positions as stand before.
  const auto position_rank = [&](uint32_t index) {
    if (candidates.bits == nullptr) return static_cast<int>(index);
    int rank = 0;
    for (uint32_t word = 0; word <= index / 32; ++word) {
      const uint32_t bits = candidates.bits[word];
      rank += __popc(word < index / 32 ? bits : bits & ((1u << index % 32) - 1));
    }
    return rank;
  };
  select_row<kLanes>(share, present, params.maxima, max(k, 1), lists[team], is_own,
                     [&](int rank, uint32_t index) {
                       if (rank < k)
                         output.write(by_position ? position_rank(index) : rank, input[index], index);
                     });
  if (is_own) output.finish(k, params.k, member, kLanes);
}

template <class Bits>
struct TileParams : Params<Bits> {
  RowLayout rows_in, rows_out;
  bool whole;    // lies_in_squares
  int row_bits;  // of a tile's rows
  int pitch;     // of its rows, in elements
};

// By all threads: the tile's rows from memory, to rows of adjacent elements. Lanes side by side have squares
// of a row side by side: those of eight of them then lie in different banks, as `pitch` is an odd number of
// vectors.
template <class Bits>
__device__ __forceinline__ void load_tile(const TileParams<Bits>& params, int64_t first_row, int rows,
                                          Bits* tile) {
  using Square = SquareBlock<Bits>;
  constexpr int kSide = Square::kSide;
  const int side_bits = bit_width(kSide) - 1;
  const int col_bits = 5 - (params.row_bits - side_bits);  // of the number of lanes along a row
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row = (lane >> col_bits) << side_bits;
  if (row >= rows) return;
  const int step = (tuning::kOneWarpThreads / 32) << (col_bits + side_bits);
  // A square at a time: two on their way take registers for which fewer blocks would have room.
#pragma unroll 1
  for (int col = ((warp << col_bits) + (lane & ((1 << col_bits) - 1))) << side_bits; col < params.cols;
       col += step) {
    const Square square(params.input, params.rows_in, params.whole, first_row + row, rows - row, col,
                        params.cols - col);
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      *reinterpret_cast<typename Square::Words*>(tile + (row + r) * params.pitch + col) = square.row(r);
    }
  }
}

template <class Order, int kLanes, int kElements>
__global__ void __launch_bounds__(tuning::kOneWarpThreads,
                                  tuning::one_warp_blocks(sizeof(typename Order::Bits), kElements))
    select_tiles(TileParams<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Share = RowShare<Order, kElements>;
  constexpr int kTeams = tuning::kOneWarpThreads / kLanes;
  __shared__ __align__(16) Lists<Bits, kLanes> lists;

  const int k = params.k;
  Bits* const tile = reinterpret_cast<Bits*>(dynamic_shared());
  // Winners of the tile, rank by rank: their indices.
  uint16_t* const winners = reinterpret_cast<uint16_t*>(tile + (params.pitch << params.row_bits));
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) << params.row_bits;
  const int rows = static_cast<int>(min(params.rows - first_row, int64_t{1} << params.row_bits));
  load_tile(params, first_row, rows, tile);
  __syncthreads();  // the tile is there

  const int team = static_cast<int>(threadIdx.x / kLanes);
  // All teams of a warp take as many turns: those without a row do another's work again.
  for (int first = 0; first < rows; first += kTeams) {
    const int row = min(first + team, rows - 1);
    const Share share(tile + row * params.pitch, params.cols, Team<kLanes>::member(), kLanes, order);
    select_row<kLanes>(share, kAllPresent, params.maxima, k, lists[team], first + team < rows,
                       [&](int rank, uint32_t index) {
                         winners[(rank << params.row_bits) + row] = static_cast<uint16_t>(index);
                       });
    __syncwarp();  // the list has been read
  }
  __syncthreads();  // all winners are there

  const int own = static_cast<int>(threadIdx.x);
  const auto write = [&](int row, int rank, int64_t place) {
    const int index = winners[(rank << params.row_bits) + row];
    params.output.write(place, tile[row * params.pitch + index], index);
  };
  if (params.rows_out.is_plain()) {
    for (int i = own; i < rows * k; i += tuning::kOneWarpThreads) write(i / k, i % k, first_row * k + i);
    return;
  }
  // Along the rows, which lie side by side in the outputs.
  const int row = own & ((1 << params.row_bits) - 1);
  if (row >= rows) return;
  const int64_t place = params.rows_out.row(first_row + row);
  for (int rank = own >> params.row_bits; rank < k; rank += tuning::kOneWarpThreads >> params.row_bits) {
    write(row, rank, place + rank * params.rows_out.col_stride);
  }
}

template <class Bits>
void fill_params(Params<Bits>& params, const OneWarp& config, const Problem& problem,
                 const Buffers& buffers) {
  params.input = static_cast<const Bits*>(buffers.input);
  params.rows = problem.rows;
  params.row_stride = problem.row_stride;
  params.cols = static_cast<int>(problem.cols);
  params.k = static_cast<int>(problem.k);
  params.maxima = config.maxima;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
}

template <class Order, int kLanes, int kElements>
cudaError_t launch(const OneWarp& config, const StridedProblem& strided, const Buffers& buffers, Order order,
                   cudaStream_t stream) {
  using Bits = typename Order::Bits;
  const Problem& problem = strided.problem;
  if (strided.is_plain()) {
    Params<Bits> params{};
    fill_params(params, config, problem, buffers);
    constexpr int kRowsABlock = tuning::kOneWarpThreads / kLanes;
    const int64_t blocks = (problem.rows + kRowsABlock - 1) / kRowsABlock;
    if (blocks > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
    return launch_kernel(/*ahead=*/false, select_rows<Order, kLanes, kElements>,
                         static_cast<unsigned>(blocks), tuning::kOneWarpThreads, 0, stream, params, order);
  }
  TileParams<Bits> params{};
  fill_params(params, config, problem, buffers);
  params.rows_in = strided.input;
  params.rows_out = strided.outputs;
  params.whole = lies_in_squares(strided.input, buffers.input, sizeof(Bits));
  params.row_bits = config.tile_row_bits;
  const int vectors = (params.cols + kPerVector<Bits> - 1) / kPerVector<Bits>;
  params.pitch = (vectors | 1) * kPerVector<Bits>;
  const int64_t blocks = (problem.rows + (1 << params.row_bits) - 1) >> params.row_bits;
  if (blocks > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
  const size_t shared = (static_cast<size_t>(params.pitch) * sizeof(Bits) + problem.k * sizeof(uint16_t))
                        << params.row_bits;
  const auto kernel = select_tiles<Order, kLanes, kElements>;
  static std::atomic<uint64_t> allowed{0};
  const cudaError_t error = allow_shared_memory(kernel, shared, allowed);
  if (error != cudaSuccess) return error;
  return launch_kernel(/*ahead=*/false, kernel, static_cast<unsigned>(blocks), tuning::kOneWarpThreads,
                       shared, stream, params, order);
}

}  // namespace

ErrorCode OneWarp::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return run_strided(plain(problem), buffers, stream);
}

namespace {

template <int kNumber>
using Int = std::integral_constant<int, kNumber>;

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

}  // namespace

ErrorCode OneWarp::run_strided(const StridedProblem& strided, const Buffers& buffers, Stream stream) const {
  return visit_shape(*this, strided.problem, [&](auto lanes, auto elements, auto order) -> ErrorCode {
    return launch<decltype(order), lanes, elements>(*this, strided, buffers, order, stream);
  });
}

ErrorCode OneWarp::run_windows(const Problem& problem, const WindowRows& rows, const Buffers& buffers,
                               Stream stream) const {
  return visit_shape(*this, problem, [&](auto lanes, auto elements, auto order) -> ErrorCode {
    Params<typename decltype(order)::Bits> params{};
    fill_params(params, *this, problem, buffers);
    params.row_stride = rows.row_stride;
    constexpr int kRowsABlock = tuning::kOneWarpThreads / lanes;
    const int64_t blocks = (problem.rows + kRowsABlock - 1) / kRowsABlock;
    if (blocks > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
    return launch_kernel(/*ahead=*/false, select_windows<decltype(order), lanes, elements>,
                         static_cast<unsigned>(blocks), tuning::kOneWarpThreads, 0, stream, params, rows,
                         order);
  });
}

}  // namespace gputopk::cuda::bitonic
