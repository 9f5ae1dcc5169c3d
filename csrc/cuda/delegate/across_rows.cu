// Delegate top-k with a bound from a sample, of rows side by side, which are read across.
//
// Of a dimension other than the last, the elements of a column lie side by side and those of a row far apart.
// So a thread has some adjacent rows for its own and walks down their columns: memory is read once, by whole
// lines, and no row is copied. In three launches,
//   1. A block finds the bounds of rows side by side. Its threads keep the best of some elements of a row
//   that
//      lie far apart, its delegates; a warp puts those of a row in order.
//   2. All elements are read; what reaches its row's bound is added to the row's list.
//   3. A block a row puts the list in order and writes the k best.
// A list of fewer than k entries, or of more than there is room for, is found out by counting: the block then
// finds a bound by AIR's digits, and lists the row anew. So the result is exact for every row.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <type_traits>

#include "core/key_order.h"
#include "core/visit_bits.h"
#include "cuda/delegate/delegate.h"
#include "cuda/delegate/numbers.h"
#include "cuda/device/block_sort.cuh"
#include "cuda/device/entry.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/row_filter.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/sample.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/split.h"
#include "cuda/device/warp_sort.cuh"
#include "cuda/device/winner_writer.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda::delegate {
namespace {

using Index = uint32_t;
constexpr int kThreads = tuning::kAcrossThreads;

template <class Bits>
using Extended = ExtendedKey<typename KeyWord<Bits>::type, Index>;

// An element, written and read as a whole.
template <class Bits>
struct alignas(sizeof(Bits) == 8 ? 16 : 8) Candidate {
  typename KeyWord<Bits>::type value;
  Index index;

  __device__ Bits bits() const { return static_cast<Bits>(value); }
};

// Candidates of all rows, in memory.
template <class Bits>
struct Lists {
  Extended<Bits>* bounds;       // rows
  uint32_t* counts;             // rows; of more than `room` the list is of no use
  Candidate<Bits>* candidates;  // rows x room

  void carve(Workspace& workspace, int64_t rows, int room) {
    bounds = workspace.take<Extended<Bits>>(rows);
    counts = workspace.take<uint32_t>(rows);
    candidates = workspace.take<Candidate<Bits>>(rows * room);
  }
};

// What a thread reads at once of a column: a vector of adjacent rows, or one row's element.
template <class Loaded>
struct Load;
template <class Bits>
struct Load<Vector<Bits>> {
  __device__ static Vector<Bits> from(const Bits* first) { return load_vector<Reading::kOnce>(first); }
};
template <class Bits>
struct Load<Single<Bits>> {
  __device__ static Single<Bits> from(const Bits* first) { return {*first}; }
};

// Element number `at` of several, by selects: a register array has no run-time index.
template <class Bits, int kCount>
__device__ Bits element_at(const Vector<Bits> (&vectors)[kCount], int at) {
  return element_of(vectors, at);
}
template <class Bits, int kCount>
__device__ Bits element_at(const Single<Bits> (&singles)[kCount], int at) {
  Bits chosen = singles[0].element;
#pragma unroll
  for (int i = 1; i < kCount; ++i) {
    if (at == i) chosen = singles[i].element;
  }
  return chosen;
}

// Rows that lie side by side, inner_stride 1.
template <class Bits>
struct Params {
  const Bits* input;
  RowLayout layout;
  int64_t cols;
  int k;
  int room;  // candidates of a row
  Lists<Bits> lists;
  RowLayout outputs;
  WinnerWriter<Bits> output;

  __device__ Index last_index() const { return static_cast<Index>(cols - 1); }
};

// Of a row's elements, delegates x group are sampled, one of each stratum.
struct Sample {
  Strata strata;
  int group;  // elements of a delegate, as far apart as delegates are many
  int rank;   // of the bound among the delegates
};

// Blocks that share the rows of each outer row, so many vectors of them side by side.
struct Tiles {
  int across;  // vectors
  int64_t count;
};

// Threads with the same rows that share the elements of each delegate, where a block has as many.
__host__ __device__ constexpr int pieces_of(int across, int delegates) {
  return kThreads / across > delegates ? kThreads / across / delegates : 1;
}
// Rows begin in banks of their own.
__host__ __device__ constexpr int pitch_of(int across, int delegates) {
  return pieces_of(across, delegates) * delegates + 1;
}

// Step 1.
template <class Loaded, int kDelegates, class Order>
__global__ void __launch_bounds__(kThreads)
    find_bounds(const __grid_constant__ Params<typename Order::Bits> params, Sample sample, Tiles tiles,
                Order order) {
  using Bits = typename Order::Bits;
  using Entry = EntryOf<Bits, Index>;
  using Packed = typename Entry::type;
  constexpr int kRows = Loaded::kElements, kInFlight = tuning::across_in_flight(kRows);
  let_next_kernel_start();
  Packed* const delegates = reinterpret_cast<Packed*>(dynamic_shared());
  const int pieces = pieces_of(tiles.across, kDelegates), pitch = pitch_of(tiles.across, kDelegates);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int across = thread % tiles.across, down = thread / tiles.across, downs = kThreads / tiles.across;
  const int piece = down / kDelegates;
  const int64_t outer = blockIdx.x / tiles.count, tile = blockIdx.x % tiles.count;
  const int64_t tile_row = tile * tiles.across * kRows, inner = params.layout.inner;
  const int64_t row = tile_row + across * kRows;
  if (row < inner && down < downs && piece < pieces) {
    const Bits* const first = params.input + outer * params.layout.outer_stride + row;
    for (int delegate = down % kDelegates; delegate < kDelegates; delegate += downs) {
      Packed best[kRows] = {};
      for (int i = piece; i < sample.group; i += kInFlight * pieces) {
        Loaded loaded[kInFlight];
        Index cols[kInFlight];
#pragma unroll
        for (int f = 0; f < kInFlight; ++f) {
          const int number = i + f * pieces;
          if (number >= sample.group) continue;
          cols[f] = static_cast<Index>(
              sample.strata.entry_of(static_cast<uint32_t>(number * kDelegates + delegate)));
          loaded[f] = Load<Loaded>::from(first + cols[f] * params.layout.col_stride);
        }
#pragma unroll
        for (int f = 0; f < kInFlight; ++f) {
          if (i + f * pieces >= sample.group) continue;
#pragma unroll
          for (int e = 0; e < kRows; ++e) {
            const Packed own = Entry::pack(order(loaded[f][e]), cols[f]);
            if (own > best[e]) best[e] = own;
          }
        }
      }
#pragma unroll
      for (int e = 0; e < kRows; ++e) {
        delegates[(across * kRows + e) * pitch + piece * kDelegates + delegate] = best[e];
      }
    }
  }
  __syncthreads();  // all are there
  const int rows = static_cast<int>(min(int64_t{tiles.across} * kRows, inner - tile_row));
  for (int r = thread / 32; r < rows; r += kThreads / 32) {
    Packed own[kDelegates / 32];
#pragma unroll
    for (int i = 0; i < kDelegates / 32; ++i) {
      own[i] = delegates[r * pitch + i * 32 + lane];
      for (int other = 1; other < pieces; ++other) {
        const Packed its = delegates[r * pitch + other * kDelegates + i * 32 + lane];
        if (its > own[i]) own[i] = its;
      }
    }
    sort_warp</*kDescending=*/true>(own);
    const Packed bound = value_at(own, sample.rank - 1);
    if (lane == 0) {
      const int64_t number = outer * inner + tile_row + r;
      params.lists.bounds[number] = {Entry::key(bound), params.last_index() - Entry::index(bound)};
      params.lists.counts[number] = 0;
    }
  }
}

// How blocks share the elements of an outer row: by tiles of rows side by side, and parts of their columns. A
// lap is what lies side by side of one column, or, where rows without gaps are few, of as many as a block's
// threads have vectors: so the rows of a thread are the same in all laps.
struct Walk {
  Tiles tiles;
  int64_t width;         // elements of a lap
  int64_t lap_elements;  // from one lap to the next
  Index cols;            // of a lap
  Index laps;
  Index laps_of_part;
  int parts;
  int64_t elements;  // from the first to the last of an outer row
};

// What a warp's lanes have found, until there is a part of a list to write: so a row's list is asked for room
// once for several of them. A lane has kRows rows, those of other lanes too where there are few side by side.
template <class Bits, int kRows>
class RowStage {
 public:
  static constexpr int kRoom = tuning::kAcrossStaged;
  static constexpr int kMostRows = 32 * kRows;  // of a warp
  struct Memory {
    Candidate<Bits> found[kRoom];
    uint32_t starts[kMostRows];  // of what is written, in the lists
    uint32_t counts[kMostRows];  // of it; then of places that are left
    uint16_t rows[kRoom];        // of what was found, by their number in the warp
    uint16_t before[kRoom];      // how many of its row are written before it
  };

  __device__ explicit RowStage(Memory& memory) : memory_(memory) { clear(); }

  // By whole warps, as all that follows. Takes up to so many elements of each lane, and their bits away from
  // `reaching`: element(at) is number `at`, and row(at) its row's in the warp. write(), which is called
  // before where there is no room, is what follows.
  template <class Element, class Row, class Write>
  __device__ __forceinline__ void take(uint32_t& reaching, Element&& element, Row&& row, Write&& write) {
    const int own = min(__popc(reaching), kRoom / 32), so_far = sum_so_far(own);
    const int all = __shfl_sync(~0u, so_far, 31);
    if (count_ + all > kRoom) write();
    int at = count_ + so_far - own;
    for (const int end = at + own; at < end; ++at, reaching &= reaching - 1) {
      const int number = __ffs(static_cast<int>(reaching)) - 1;
      memory_.found[at] = element(number);
      memory_.rows[at] = static_cast<uint16_t>(row(number));
    }
    count_ += all;
  }

  // number_of(own) is the row's whose number in the warp is lane * kRows + own.
  template <class NumberOf>
  __device__ void write(const Lists<Bits>& lists, int room, NumberOf&& number_of) {
    const uint32_t all = static_cast<uint32_t>(room);
    __syncwarp();  // all entries are there
    for (int i = lane(); i < count_; i += 32) {
      memory_.before[i] = static_cast<uint16_t>(atomicAdd(memory_.counts + memory_.rows[i], 1u));
    }
    __syncwarp();  // all are counted
#pragma unroll
    for (int own = 0; own < kRows; ++own) {
      const int row = lane() * kRows + own;
      const uint32_t count = memory_.counts[row];
      if (count == 0) continue;
      const int64_t number = number_of(own);
      const uint32_t start = min(atomicAdd(lists.counts + number, count), all);
      memory_.starts[row] = static_cast<uint32_t>(number) * all + start;
      memory_.counts[row] = all - start;
    }
    __syncwarp();  // all rows have their places
    for (int i = lane(); i < count_; i += 32) {
      const int row = memory_.rows[i], before = memory_.before[i];
      if (before >= static_cast<int>(memory_.counts[row])) continue;
      lists.candidates[memory_.starts[row] + before] = memory_.found[i];
    }
    __syncwarp();  // they have been read
    clear();
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ void clear() {
#pragma unroll
    for (int row = 0; row < kRows; ++row) memory_.counts[lane() * kRows + row] = 0;
    count_ = 0;
  }

  Memory& memory_;
  int count_ = 0;
};

// One of the last elements of an outer row in laps, which are less than a vector; such laps have more columns
// than may be listed with a bound that they equal, and so each is compared by its own.
template <class Bits, class Order>
__device__ void list_one(const Params<Bits>& params, const Walk& walk, const Order& order, int64_t first_row,
                         const Bits* input, int64_t at) {
  const Index in_lap = static_cast<Index>(at % walk.lap_elements);
  const Index inner = static_cast<Index>(params.layout.inner);
  const Index col = static_cast<Index>(at / walk.lap_elements) * walk.cols + in_lap / inner;
  const int64_t row = first_row + in_lap % inner;
  const Extended<Bits> x{order(input[at]), params.last_index() - col};
  if (x < params.lists.bounds[row]) return;
  const uint32_t before = atomicAdd(params.lists.counts + row, 1u);
  if (before >= static_cast<uint32_t>(params.room)) return;
  params.lists.candidates[row * params.room + before] = {input[at], col};
}

// Step 2. `kInLaps`: of several columns each.
template <class Loaded, bool kInLaps, class Order>
__global__ void __launch_bounds__(kThreads, tuning::kAcrossReadersPerSm)
    list_candidates(const __grid_constant__ Params<typename Order::Bits> params,
                    const __grid_constant__ Walk walk, Order order) {
  using Bits = typename Order::Bits;
  constexpr int kRows = Loaded::kElements, kInFlight = tuning::across_in_flight(kRows);
  static_assert(kRows * kInFlight <= 32, "a bit each");
  using Stage = RowStage<Bits, kRows>;
  let_next_kernel_start();
  const int thread = static_cast<int>(threadIdx.x);
  const int across = thread % walk.tiles.across, down = thread / walk.tiles.across;
  const int downs = kThreads / walk.tiles.across;
  const int part = static_cast<int>(blockIdx.x) % walk.parts;
  const int64_t tile = blockIdx.x / walk.parts % walk.tiles.count;
  const int64_t outer = blockIdx.x / walk.parts / walk.tiles.count;
  const int64_t begin = (tile * walk.tiles.across + across) * kRows;  // in a lap
  const uint32_t inner = static_cast<uint32_t>(params.layout.inner);
  const int64_t first_row = outer * inner;
  const Bits* const input = params.input + outer * params.layout.outer_stride;
  const Index cols_of_lap = kInLaps ? walk.cols : 1;
  const auto row_of = [&](int e) {
    return kInLaps ? static_cast<int64_t>(static_cast<uint32_t>(begin + e) % inner) : begin + e;
  };
  // Rows' numbers in the warp: where few lie side by side, they are the same in all lanes.
  const int lane_row = thread % 32 * kRows;
  const bool few_rows = inner <= Stage::kMostRows;
  const int first_number = few_rows ? static_cast<int>(begin) : lane_row;
  const int64_t lane_first = first_row + (few_rows ? lane_row : begin);
  typename Stage::Memory* const stages = reinterpret_cast<typename Stage::Memory*>(dynamic_shared());
  Stage stage(stages[thread / 32]);
  // Of each element of the thread's vectors its row's number in the warp, and the columns of a lap before its
  // own: divisions take longer.
  uint32_t* const places = reinterpret_cast<uint32_t*>(stages + kThreads / 32) + thread * kRows;
  if constexpr (kInLaps) {
#pragma unroll
    for (int e = 0; e < kRows; ++e) {
      const uint32_t number = few_rows ? static_cast<uint32_t>(row_of(e)) : lane_row + e;
      places[e] = number << 16 | static_cast<uint32_t>(begin + e) / inner;
    }
  }
  const Index first_lap = part * walk.laps_of_part;
  const Index end_lap = first_lap + min(walk.laps_of_part, walk.laps - first_lap);
  // Laps in which the thread has a whole vector.
  const int64_t own = walk.elements - kRows - begin;  // behind the first of them
  const Index own_laps = own < 0 ? 0 : static_cast<Index>(own / walk.lap_elements + 1);
  const Index end = down < downs && begin < walk.width ? min(end_lap, own_laps) : 0;
  const Bits* next = input + begin + (first_lap + down) * walk.lap_elements;
  const int64_t stride = downs * walk.lap_elements;
  const auto write = [&] {
    stage.write(params.lists, params.room,
                [&](int own) { return kInLaps && !few_rows ? first_row + row_of(own) : lane_first + own; });
  };
  wait_for_kernel_before();

  // Elements of a bound's own key reach it up to its own column, or, where steps are short, up to the end of
  // the step that this is in: the same for all of the row's threads, as steps begin at multiples of their
  // laps.
  RowFilter<Order, Loaded> filter;
  Index raised_from = 0;  // the column at which a row's filter is to be raised
  const Index laps_of_step = kInFlight * downs, cols_of_step = laps_of_step * cols_of_lap;
  const bool tells_equals = kInLaps || cols_of_step > tuning::kAcrossMostEquals;
  for (Index step = first_lap; step < end_lap; step += laps_of_step) {
    const Index lap = step + down;
    Loaded loaded[kInFlight];
#pragma unroll
    for (int f = 0; f < kInFlight; ++f) {
      if (lap + f * downs < end) loaded[f] = Load<Loaded>::from(next);
      next += stride;
    }
    const Index first_col = step * cols_of_lap;
    if (lap < end && first_col >= raised_from) {
      raised_from = static_cast<Index>(-1);
#pragma unroll
      for (int e = 0; e < kRows; ++e) {
        const Extended<Bits> bound = params.lists.bounds[first_row + row_of(e)];
        const Index last = params.last_index() - bound.reversed;
        const bool behind = first_col > last;
        filter.raise(order, e, bound.key, behind);
        if (!behind) raised_from = min(raised_from, last + 1);
      }
    }
    uint32_t reaching = 0;
#pragma unroll
    for (int f = 0; f < kInFlight; ++f) {
      if (lap + f * downs < end) reaching |= filter.probe(order, loaded[f]) << f * kRows;
    }
    const auto found = [&](int at) -> Candidate<Bits> {
      const Index own = lap + at / kRows * downs;
      return {element_at(loaded, at), kInLaps ? own * walk.cols + (places[at % kRows] & 0xFFFF) : own};
    };
    if (tells_equals && raised_from - first_col < cols_of_step) {
      for (uint32_t left = reaching; left != 0; left &= left - 1) {
        const int at = __ffs(static_cast<int>(left)) - 1;
        const Candidate<Bits> own = found(at);
        const Extended<Bits> x{order(own.bits()), params.last_index() - own.index};
        if (x < params.lists.bounds[first_row + row_of(at % kRows)]) reaching &= ~(1u << at);
      }
    }
    const auto row = [&](int at) {
      return kInLaps ? static_cast<int>(places[at % kRows] >> 16) : first_number + at % kRows;
    };
    while (__any_sync(~0u, reaching != 0)) stage.take(reaching, found, row, write);
  }
  write();

  if (kInLaps && part == walk.parts - 1 && thread < walk.elements % kRows) {
    list_one(params, walk, order, first_row, input, walk.elements - 1 - thread);
  }
}

struct ListScratch {
  TargetDigitScratch<uint32_t> search;
  uint32_t listed;
};

// Where a sample misled: lists what reaches a bound that k of the row's elements reach, and no more than
// there is room for. Returns how many they are. `counters` has room for a digit's. By all threads of the
// block.
template <class Order, class Bits = typename Order::Bits>
__device__ __noinline__ uint32_t list_anew(const Params<Bits>& params, int64_t number, Order order,
                                           uint32_t* counters, ListScratch& scratch) {
  using Word = typename KeyWord<Bits>::type;
  constexpr int kBits = tuning::kAcrossDigitBits;
  static_assert((tuning::kAcrossOrderMinThreads / 32 + 1) * kDigits >= 1 << kBits, "there is room");
  const Bits* const row = params.input + params.layout.row(number);
  const int index_bits = bits_of(params.last_index());
  const auto visit_row = [&](auto&& visit) {
#pragma unroll 4
    for (int64_t col = threadIdx.x; col < params.cols; col += blockDim.x) {
      const Bits bits = row[col * params.layout.col_stride];
      visit(Extended<Bits>{order(bits), params.last_index() - static_cast<Index>(col)}, bits);
    }
  };
  auto selection =
      Selection<Word, Index>::whole_row(static_cast<uint64_t>(params.k), static_cast<uint64_t>(params.cols));
  Digit digit = digit_of_pass(1, kBits, Order::kBits, index_bits);
  do {
    const int bins = 1 << digit.width();
    clear_histogram(counters, bins);
    __syncthreads();  // no thread counts into bins that another has yet to clear
    visit_row([&](const Extended<Bits>& x, Bits) {
      if (x < selection.low || selection.split < x) return;
      atomicAdd(counters + digit.of(static_cast<Word>(x.key - selection.low.key),
                                    x.reversed - selection.low.reversed),
                1u);
    });
    __syncthreads();  // all have counted
    const TargetDigit<uint32_t> target = find_target_digit(counters, bins, selection.owed, scratch.search);
    selection.narrow(digit, target.digit, target.above, target.count);
    digit = next_digit(selection, digit, kBits, index_bits);
  } while (static_cast<uint64_t>(params.k) - selection.owed + selection.candidates >
           static_cast<uint64_t>(params.room));
  if (threadIdx.x == 0) scratch.listed = 0;
  __syncthreads();  // the count is zero
  visit_row([&](const Extended<Bits>& x, Bits bits) {
    if (x < selection.low) return;
    const int64_t at = number * params.room + atomicAdd(&scratch.listed, 1u);
    params.lists.candidates[at] = {bits, params.last_index() - x.reversed};
  });
  __syncthreads();  // the list is whole
  return scratch.listed;
}

// A row's list, put right where its sample misled, and how long it is. By all threads of the block.
template <class Order, class Bits = typename Order::Bits>
__device__ __forceinline__ int list_of(const Params<Bits>& params, int64_t number, const Order& order,
                                       uint32_t* counters, ListScratch& scratch) {
  const uint32_t count = params.lists.counts[number];
  const bool misled = count < static_cast<uint32_t>(params.k) || count > static_cast<uint32_t>(params.room);
  return static_cast<int>(misled ? list_anew(params, number, order, counters, scratch) : count);
}

// Step 3, by a block.
template <class Order>
__global__ void __launch_bounds__(tuning::kAcrossOrderMaxThreads)
    order_lists(const __grid_constant__ Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  __shared__ ListScratch scratch;
  __shared__ BlockScratch<typename KeyWord<Bits>::type, Index> sort;
  const BlockMemory<Bits, Index> memory(dynamic_shared(), params.room);
  const int64_t number = blockIdx.x;
  follow_kernel_before();
  const int count = list_of(params, number, order, memory.counters, scratch);
  const Candidate<Bits>* const candidates = params.lists.candidates + number * params.room;
  const int64_t output = params.outputs.row(number);
  sort_in_block<tuning::kAcrossItems>(
      count, params.k, order, memory, sort,
      [&](int i, Bits& bits, Index& index) {
        const Candidate<Bits> own = candidates[i];
        bits = own.bits();
        index = own.index;
      },
      [&](int rank, Bits bits, Index index) {
        params.output.write(output + rank * params.outputs.col_stride, bits, index);
      });
}

// The same by a block of one warp, of short lists and k <= 32 * kItems: it keeps the k best in its registers.
template <class Order, int kItems>
__global__ void __launch_bounds__(32, 32)
    order_short_lists(const __grid_constant__ Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Entry = EntryOf<Bits, Index>;
  using Packed = typename Entry::type;
  __shared__ ListScratch scratch;
  __shared__ __align__(16) uint32_t counters[1 << tuning::kAcrossDigitBits];
  const int64_t number = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x);
  follow_kernel_before();
  const int count = list_of(params, number, order, counters, scratch);
  const Candidate<Bits>* const candidates = params.lists.candidates + number * params.room;
  Packed best[kItems] = {};
  for (int first = 0; first < count; first += 32 * kItems) {
    Packed own[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int at = first + i * 32 + lane;
      own[i] = 0;
      if (at < count) {
        const Candidate<Bits> candidate = candidates[at];
        own[i] = Entry::pack(order(candidate.bits()), candidate.index);
      }
    }
    if (first == 0) {
      sort_warp</*kDescending=*/true>(own);
#pragma unroll
      for (int i = 0; i < kItems; ++i) best[i] = own[i];
    } else {
      // The greater of what descends and what ascends are the best of both, and bitonic.
      sort_warp</*kDescending=*/false>(own);
#pragma unroll
      for (int i = 0; i < kItems; ++i) best[i] = max(best[i], own[i]);
      merge_runs<16 * kItems>(best, /*descends=*/true);
    }
  }
  const int64_t output = params.outputs.row(number), row = params.layout.row(number);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int rank = lane * kItems + i;
    if (rank >= params.k) continue;
    const Index index = Entry::index(best[i]);
    params.output.write(output + rank * params.outputs.col_stride,
                        params.input[row + index * params.layout.col_stride], index);
  }
}

// Tiles of up to so many vectors of rows side by side, which leave few of a block's threads without one.
Tiles tiles_of(int64_t inner, int rows_of_vector, int element_bytes) {
  const int64_t vectors = divide_up(inner, rows_of_vector);
  Tiles best{};
  int64_t busiest = 0;
  for (int64_t count = divide_up(vectors, kThreads); count <= vectors; ++count) {
    const int64_t across = divide_up(vectors, count), tiles = divide_up(vectors, across);
    const int64_t busy = kThreads / across * vectors / tiles;  // threads, on average
    if (busy > busiest) {
      busiest = busy;
      best = {static_cast<int>(across), tiles};
    }
    if (across * rows_of_vector * element_bytes <= tuning::kAcrossLeastBytes) break;
  }
  return best;
}

// Of blocks that find bounds: as many vectors as fill a line of memory, or as there is room for; fewer where
// rows are few, so that more blocks share them.
Tiles tiles_of_sample(const RowLayout& layout, int64_t outers, int rows_of_vector, int element_bytes,
                      int delegates, int entry_bytes, int blocks) {
  const int64_t vectors = divide_up(layout.inner, rows_of_vector);
  int64_t most = std::max(tuning::kAcrossLeastBytes / (rows_of_vector * element_bytes), 1);
  const auto fits = [&](int64_t across) {
    const int pitch = pitch_of(static_cast<int>(across), delegates);
    return across * rows_of_vector * pitch * entry_bytes <= tuning::kAcrossDelegateBytes;
  };
  const int64_t least = divide_up(tuning::kClusterSectorBytes, rows_of_vector * element_bytes);
  while (most > 1 && (!fits(most) || (most > least && outers * divide_up(vectors, most) < blocks))) most /= 2;
  const int64_t across = divide_up(vectors, divide_up(vectors, most));
  return {static_cast<int>(across), divide_up(vectors, across)};
}

// `in_laps`: of several columns.
Walk walk_of(const RowLayout& layout, int64_t cols, int rows_of_vector, int element_bytes, bool in_laps,
             int64_t outers, int blocks) {
  Walk walk{};
  walk.elements = (cols - 1) * layout.col_stride + layout.inner;
  if (in_laps) {
    // Whole columns in whole vectors.
    const int64_t least = layout.inner / std::gcd(layout.inner, int64_t{rows_of_vector});
    walk.tiles = {static_cast<int>(kThreads / least * least), 1};
    walk.width = walk.lap_elements = int64_t{walk.tiles.across} * rows_of_vector;
    walk.cols = static_cast<Index>(walk.width / layout.inner);
  } else {
    walk.tiles = tiles_of(layout.inner, rows_of_vector, element_bytes);
    walk.width = layout.inner;
    walk.lap_elements = layout.col_stride;
    walk.cols = 1;
  }
  const int64_t laps = divide_up(cols, walk.cols);
  const int64_t at_once = int64_t{kThreads / walk.tiles.across} * tuning::across_in_flight(rows_of_vector);
  const int64_t parts =
      std::clamp<int64_t>(blocks / (outers * walk.tiles.count), 1, divide_up(laps, at_once));
  const int64_t of_part = divide_up(divide_up(laps, parts), at_once) * at_once;
  walk.laps = static_cast<Index>(laps);
  walk.laps_of_part = static_cast<Index>(of_part);
  walk.parts = static_cast<int>(divide_up(laps, of_part));
  return walk;
}

// Rows whose lists are in memory at once: `outers` outer rows, of layout.inner each.
struct Slice {
  RowLayout layout;
  int64_t outers;
};

template <class Loaded, int kDelegates, class Order>
ErrorCode launch_bounds(const AcrossRows& config, const Params<typename Order::Bits>& params,
                        const Slice& slice, Order order, Stream stream) {
  using Bits = typename Order::Bits;
  using Packed = typename EntryOf<Bits, Index>::type;
  const Tiles tiles = tiles_of_sample(slice.layout, slice.outers, Loaded::kElements, sizeof(Bits), kDelegates,
                                      sizeof(Packed), config.blocks);
  const Sample sample{Strata::of(params.cols, int64_t{kDelegates} * config.group), config.group, config.rank};
  const size_t bytes = sizeof(Packed) * tiles.across * Loaded::kElements * pitch_of(tiles.across, kDelegates);
  static std::atomic<uint64_t> allowed;
  const cudaError_t error = allow_shared_memory(find_bounds<Loaded, kDelegates, Order>, bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_kernel(/*ahead=*/false, find_bounds<Loaded, kDelegates, Order>,
                       static_cast<unsigned>(slice.outers * tiles.count), kThreads, bytes, stream, params,
                       sample, tiles, order);
}

template <class Loaded, bool kInLaps, class Order>
ErrorCode launch(const AcrossRows& config, const Params<typename Order::Bits>& params, const Slice& slice,
                 Order order, Stream stream) {
  using Bits = typename Order::Bits;
  constexpr int kFew = tuning::kAcrossFewDelegates, kMost = tuning::kAcrossMostDelegates;
  // Vectors of a lap are not those of one column.
  using Sampled = std::conditional_t<kInLaps, Single<Bits>, Loaded>;
  ErrorCode error = config.delegates == kFew
                        ? launch_bounds<Sampled, kFew>(config, params, slice, order, stream)
                        : launch_bounds<Sampled, kMost>(config, params, slice, order, stream);
  if (error != cudaSuccess) return error;
  const Walk walk = walk_of(slice.layout, params.cols, Loaded::kElements, sizeof(Bits), kInLaps, slice.outers,
                            config.blocks);
  const int64_t blocks = slice.outers * walk.tiles.count * walk.parts;
  constexpr size_t kStageBytes = kThreads / 32 * sizeof(typename RowStage<Bits, Loaded::kElements>::Memory) +
                                 (kInLaps ? kThreads * Loaded::kElements * sizeof(uint32_t) : 0);
  static std::atomic<uint64_t> stages_allowed;
  error = allow_shared_memory(list_candidates<Loaded, kInLaps, Order>, kStageBytes, stages_allowed);
  if (error != cudaSuccess) return error;
  error = launch_kernel(config.launches_ahead, list_candidates<Loaded, kInLaps, Order>,
                        static_cast<unsigned>(blocks), kThreads, kStageBytes, stream, params, walk, order);
  if (error != cudaSuccess) return error;
  const unsigned rows = static_cast<unsigned>(slice.outers * slice.layout.inner);
  const auto order_short = [&](auto items) {
    return launch_kernel(config.launches_ahead, order_short_lists<Order, decltype(items)::value>, rows, 32, 0,
                         stream, params, order);
  };
  if constexpr (sizeof(Bits) < 8) {
    if (config.order_threads == 0) {
      if (params.k <= 32) return order_short(std::integral_constant<int, 1>{});
      if (params.k <= 64) return order_short(std::integral_constant<int, 2>{});
      return order_short(std::integral_constant<int, 4>{});
    }
  }
  const size_t bytes = block_bytes(BlockMemory<Bits, Index>::kEntryBytes, config.room, config.order_threads);
  static std::atomic<uint64_t> allowed;
  error = allow_shared_memory(order_lists<Order>, bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_kernel(config.launches_ahead, order_lists<Order>, rows,
                       static_cast<unsigned>(config.order_threads), bytes, stream, params, order);
}

// Whether as many vectors as a block has threads, or fewer, are whole columns.
bool fits_laps(const RowLayout& layout, int element_bytes) {
  return layout.inner / std::gcd(layout.inner, int64_t{16} / element_bytes) <= kThreads;
}

template <class Order>
ErrorCode run_with(const AcrossRows& config, const StridedProblem& strided, const Buffers& buffers,
                   Order order, Stream stream) {
  using Bits = typename Order::Bits;
  const Problem& problem = strided.problem;
  const int64_t inner = strided.input.inner, rows_at_once = config.rows_at_once(problem, inner);
  Params<Bits> params{};
  params.cols = problem.cols;
  params.k = static_cast<int>(problem.k);
  params.room = config.room;
  Workspace workspace(buffers.workspace);
  params.lists.carve(workspace, rows_at_once, config.room);
  const int64_t index_bytes = problem.wide_indices ? 8 : 4;
  int64_t rows = 0;
  for (int64_t first = 0; first < problem.rows; first += rows) {
    const int64_t left_of_outer = inner - first % inner;
    rows = std::min(rows_at_once, rows_at_once < inner ? left_of_outer : problem.rows - first);
    Slice slice{strided.input, std::max<int64_t>(rows / inner, 1)};
    params.outputs = strided.outputs;
    if (rows < inner) {
      slice.layout.inner = rows;
      if (params.outputs.inner > 1) params.outputs.inner = rows;
    }
    params.layout = slice.layout;
    params.input = static_cast<const Bits*>(buffers.input) + strided.input.row(first);
    const int64_t place = strided.outputs.row(first);
    params.output = {static_cast<Bits*>(buffers.values) + place,
                     static_cast<char*>(buffers.indices) + place * index_bytes, problem.wide_indices};
    const bool aligned = reinterpret_cast<uintptr_t>(params.input) % 16 == 0;
    const int alignment = aligned ? alignment_of_rows(slice.layout, sizeof(Bits)) : 2;
    const ErrorCode error = alignment == 0 ? launch<Vector<Bits>, false>(config, params, slice, order, stream)
                            : alignment == 1 && fits_laps(slice.layout, sizeof(Bits))
                                ? launch<Vector<Bits>, true>(config, params, slice, order, stream)
                                : launch<Single<Bits>, false>(config, params, slice, order, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

size_t AcrossRows::workspace_bytes(const StridedProblem& strided) const {
  const auto bytes_of = [&](auto bits) {
    Workspace workspace;
    Lists<decltype(bits)>{}.carve(workspace, rows_at_once(strided.problem, strided.input.inner), room);
    return workspace.bytes();
  };
  return visit_bits(dtype_bytes(strided.problem.dtype), bytes_of);
}

ErrorCode AcrossRows::run_strided(const StridedProblem& strided, const Buffers& buffers,
                                  Stream stream) const {
  const Problem& problem = strided.problem;
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude,
                         [&](auto order) { return run_with(*this, strided, buffers, order, stream); });
}

}  // namespace gputopk::cuda::delegate
