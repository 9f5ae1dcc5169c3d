// GridSelect with lists in registers.
// Zhang, Naruse, Li, Wang: Parallel Top-K Algorithms on GPU (SC '23), section 4: WarpSelect with one queue a
// warp, filled by a two-step insertion, over many blocks a row. device/warp_queue.cuh holds the list and
// queue.
//
//   1. Warps look at samples spread over the row. The k-th best of a sample's maxima bounds the row's k-th
//      best element from below, exactly, so that even the first elements are not all queued.
//   2. Each warp streams its share of the row and queues what is above its threshold.
//   3. Warps tell each other what they know: if every warp of a block has k / warps entries at or above a
//      bound, k elements of the row are. The best bound of a block lies in its shared memory, that of a row
//      in global memory, which is re-read now and then: so ascending rows are no special case.
//   4. A block merges its warps' lists and writes what can still win; the row's last block to arrive merges
//      those, and writes the winners in order.
// Rows that are short and many take a warp each, which needs no barrier and no step 3.
//
// A bound is an entry where that fits one atomic word, otherwise a key alone. Ties compare by index within
// the entry: once the threshold's index is below all that a lane has loaded, only greater keys pass its
// probe.
//
// What is selected from comes through a source (RowSource): sampled keys, a visit of all elements, and an
// element again by its index. One that computes scores can be selected from without storing them.
//
// It loses to air/many_blocks.cu where k is large, as lists are merged by networks, and where a row is short
// for the blocks that its latency asks for.

#include "cuda/grid_select/grid_select.h"

#include <cuda_runtime_api.h>

#include "core/key_order.h"
#include "cuda/device/index_width.h"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/study.h"
#include "cuda/device/warp_queue.cuh"
#include "cuda/device/winner_writer.cuh"
#include "cuda/grid_select/numbers.h"
#include "cuda/workspace.h"

namespace gputopk::cuda::grid_select {
namespace {

using tuning::kGridThreads;
constexpr int kMostWarps = kGridThreads / 32;

// One a row, all zero before the launch.
struct RowState {
  unsigned long long bound;   // a word: see BoundOf
  unsigned long long stored;  // entries that the row's blocks have written
  uint32_t arrived;
};

template <class Bits, class Index>
struct Params {
  using Entry = typename EntryOf<Bits, Index>::type;

  const Bits* input;
  int64_t rows;
  int64_t row_stride;
  int64_t cols;
  int k;
  int blocks_per_row;
  int samplers;
  WinnerWriter<Bits> output;

  // Workspace, where a row has several blocks.
  RowState* states;
  Entry* entries;  // blocks_per_row * k a row
};

// What several warps know of a row's k-th best entry, as one word that atomics can raise; 0: nothing. It says
// that k elements are `word` or greater, compared as words.
template <class Bits, class Index>
struct BoundOf {
  using Pack = EntryOf<Bits, Index>;
  using Entry = typename Pack::type;
  static constexpr bool kWhole = sizeof(Entry) == sizeof(uint64_t);

  __device__ static uint64_t word(Entry entry) {
    if constexpr (kWhole) {
      return entry;
    } else {
      return Pack::key(entry);
    }
  }
  // For warps that have the entry, if it is theirs, in their lists: it need not be queued again.
  __device__ static Entry seen(uint64_t word) {
    if constexpr (kWhole) {
      return word;
    } else {
      return Pack::below(static_cast<typename Pack::Word>(word));
    }
  }
  // For those that have not.
  __device__ static Entry unseen(uint64_t word) {
    if constexpr (kWhole) {
      return word > 0 ? word - 1 : 0;
    } else {
      return seen(word);
    }
  }
};

// A row in memory. `Filter`: of pattern_filter.cuh.
template <class Order, class Filter>
struct RowSource {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;

  const Bits* row;
  int64_t cols;
  Order order;

  static constexpr int kSampled = kUnroll<Bits>;  // vectors a lane

  // Whether so many samples have no element in common.
  __device__ bool distinct(int samples) const {
    return RowShape<Bits>(row, cols).vectors >= int64_t{32} * kSampled * samples;
  }

  // The greatest keys of 32 * kItems groups of elements, for sample number `at` of so many: whole vectors
  // side by side, the first sample at the row's start and the last at its end. The only sample of a row is
  // spread over it instead, so that ascending rows do not surprise. Key 0 where a group is empty.
  template <int kItems>
  __device__ __forceinline__ void sample(int at, int samples, Word (&keys)[kItems]) const {
    constexpr int kElements = kPerVector<Bits>;
    constexpr int kGroup = kSampled * kElements / kItems;
    static_assert(kGroup >= 1, "an element for each key");
    const RowShape<Bits> shape(row, cols);
    const int64_t spare = max(shape.vectors - 32 * kSampled, int64_t{0});
    const int64_t first = (samples > 1 ? spare * at / (samples - 1) : 0) + threadIdx.x % 32;
    const int64_t step = 32 + (samples > 1 ? 0 : spare / (kSampled - 1));
    Vector<Bits> loaded[kSampled] = {};
#pragma unroll
    for (int v = 0; v < kSampled; ++v) {
      const int64_t vector = first + step * v;
      if (vector < shape.vectors) {
        loaded[v] = load_vector<Reading::kAgain>(row + shape.head + vector * kElements);
      }
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i) keys[i] = 0;
#pragma unroll
    for (int v = 0; v < kSampled; ++v) {
      const bool valid = first + step * v < shape.vectors;
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        const Word key = order(loaded[v][e]);
        // Each group has elements of every line, so that an ascending row's maxima come from all of it.
        constexpr bool kAcross = kItems <= kElements;
        Word& greatest = keys[kAcross ? (v + e) % kItems : (v * kElements + e) / kGroup];
        if (valid && key > greatest) greatest = key;
      }
    }
  }

  // visit(entry, chosen) sees the team's entries above threshold(), which may rise; first(entry, chosen) sees
  // those that lie outside of vectors, fewer than 32, before. Both by whole warps, and so is each_tile().
  template <class Pack, class Team, Reading kReading, class Threshold, class First, class Visit,
            class EachTile>
  __device__ __forceinline__ void visit(int part, int parts, Threshold&& threshold, First&& first,
                                        Visit&& visit, EachTile&& each_tile) const {
    using Index = decltype(Pack::index(threshold()));
    Filter filter(order);
    // Of equal keys only those before the threshold's element matter.
    const auto raise = [&](int64_t first) {
      filter.raise(Pack::key(threshold()), static_cast<Index>(first) >= Pack::index(threshold()));
    };
    // What is above the threshold, and perhaps a little more; all that a tile costs is here.
    const auto probe = [&](const auto& elements, int64_t, bool valid) {
      return valid ? filter.probe(elements) : 0;
    };
    const RowShape<Bits> shape(row, cols);
    if (part == 0 && Team::thread() < 32 && shape.head + shape.tail > 0) {
      raise(0);
      visit_ends(row, shape, cols - shape.tail, probe, [&](Bits bits, int64_t index, bool chosen) {
        first(Pack::pack(order(bits), static_cast<Index>(index)), chosen);
      });
    }
    visit_tiles<kReading, Team, /*kEnds=*/false>(
        row, cols, part, parts, AllTiles{}, probe,
        [&](Bits bits, int64_t index, bool chosen) {
          visit(Pack::pack(order(bits), static_cast<Index>(index)), chosen);
        },
        [&](int64_t first) {
          each_tile();
          raise(first);
        });
  }

  __device__ Bits bits(int64_t index) const { return row[index]; }
};

// Writes the winners, in order, by the warp whose list they are.
template <class Pack, class List, class Source>
__device__ __forceinline__ void write_winners(const List& list, int k, const Source& source,
                                              const WinnerWriter<typename Source::Bits>& output) {
#pragma unroll
  for (int i = 0; i < List::kItems; ++i) {
    const int rank = static_cast<int>(threadIdx.x) % 32 * List::kItems + i;
    if (rank >= k) continue;
    const int64_t index = static_cast<int64_t>(Pack::index(list.entry(i)));
    output.write(rank, source.bits(index), index);
  }
}

// A row a warp.
template <class Order, class Index, int kItems, template <class, int> class Queue>
__global__ void __launch_bounds__(kGridThreads, tuning::grid_warp_blocks_per_sm(kItems))
    select_by_warp(Params<typename Order::Bits, Index> params, Order order) {
  using Pack = EntryOf<typename Order::Bits, Index>;
  using Entry = typename Pack::type;
  unsigned char* const dynamic = dynamic_shared();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + warp;
  if (row >= params.rows) return;  // by whole warps, and there is no barrier

  const RowSource<Order, KeyFilter<Order>> source{params.input + row * params.row_stride, params.cols, order};
  Queue<Entry, kItems> queue(dynamic + warp * Queue<Entry, kItems>::kSharedBytes, params.k);
  typename KeyWord<typename Order::Bits>::type keys[kItems];
  source.sample(0, 1, keys);
  sort_warp</*kDescending=*/true>(keys);
  queue.raise(Pack::below(value_at(keys, params.k - 1)));
  source.template visit<Pack, WarpTeam, Reading::kOnce>(
      0, 1, [&] { return queue.threshold(); },
      [&](Entry entry, bool chosen) { queue.push_first(chosen, entry); },
      [&](Entry entry, bool chosen) { queue.push(chosen, entry); }, [] {});
  queue.flush();
  write_winners<Pack>(queue, params.k, source, params.output.row(row, params.k));
}

// What the warps of a block tell each other.
struct Shared {
  unsigned long long bound;              // the best word known to the block
  unsigned long long share[kMostWarps];  // each warp's entry of rank k / warps
  unsigned long long sampled[kMostWarps], sampled_share[kMostWarps];
};

// The least or greatest of the words of a block's first `warps` warps, in all lanes.
template <bool kGreatest>
__device__ __forceinline__ uint64_t over_warps(const volatile unsigned long long* words, int warps) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint64_t word = words[lane < warps ? lane : 0];
#pragma unroll
  for (int step = 1; step < kMostWarps; step *= 2) {
    const uint64_t other = __shfl_xor_sync(~0u, word, step);
    word = kGreatest == (other > word) ? other : word;
  }
  return __shfl_sync(~0u, word, 0);
}

// One warp's side of step 3.
template <class Bound, class List>
class Exchange {
 public:
  // `row` is the row's bound, or null where the row is this block's alone.
  __device__ Exchange(Shared& shared, unsigned long long* row, int k, List& list)
      : shared_(shared), row_(row), list_(list) {
    warps_ = static_cast<int>(blockDim.x) / 32;
    warp_ = static_cast<int>(threadIdx.x) / 32;
    share_ = (k + warps_ - 1) / warps_;
    until_read_ = warp_ + 1;
  }

  // The list has changed. Of what the others have told, anything old is lower, and as true.
  __device__ __forceinline__ void publish() {
    const uint64_t own = Bound::word(list_.ranked(share_ - 1));
    if (lane() == 0) atomicExch(shared_.share + warp_, own);  // whole, to warps that read it meanwhile
    __syncwarp();                                             // the word is among those that are read
    offer(max(over_warps<false>(shared_.share, warps_), Bound::word(list_.threshold())));
  }

  // Makes a word known where it is news.
  __device__ __forceinline__ void offer(uint64_t word) {
    list_.raise(Bound::seen(word));
    if (lane() != 0 || word <= known()) return;
    atomicMax(&shared_.bound, static_cast<unsigned long long>(word));
    if (row_ != nullptr) atomicMax(row_, static_cast<unsigned long long>(word));
  }

  // Between tiles: what is new of the others. A read of the row's bound has a tile's time to arrive.
  __device__ __forceinline__ void listen() {
    if (row_ != nullptr) {
      --until_read_;
      if (until_read_ == 0) fetched_ = *static_cast<const volatile unsigned long long*>(row_);
      if (until_read_ < 0) {
        until_read_ = tuning::kGridTilesBetweenReads;
        if (lane() == 0 && fetched_ > known()) atomicMax(&shared_.bound, fetched_);
      }
    }
    list_.raise(Bound::seen(__shfl_sync(~0u, known(), 0)));
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ uint64_t known() const {
    return *static_cast<const volatile unsigned long long*>(&shared_.bound);
  }

  Shared& shared_;
  unsigned long long* row_;
  List& list_;
  int warps_, warp_, share_, until_read_;
  unsigned long long fetched_ = 0;
};

// Writes those of the block's k best entries that can still win, by the warp whose list they are.
template <class Bound, class List, class Entry = typename List::Entry>
__device__ __forceinline__ void write_entries(const List& list, int k, RowState& state, Entry* entries) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const unsigned long long own = Bound::word(list.ranked(k - 1));
  unsigned long long bound = lane == 0 ? max(atomicMax(&state.bound, own), own) : 0;
  bound = __shfl_sync(~0u, bound, 0);
  // The list is in order, so what is kept comes first.
  int kept = 0;
#pragma unroll
  for (int i = 0; i < List::kItems; ++i) {
    const Entry entry = list.entry(i);
    const bool keeps = lane * List::kItems + i < k && entry > 0 && Bound::word(entry) >= bound;
    kept += __popc(__ballot_sync(~0u, keeps));
  }
  unsigned long long base = lane == 0 ? atomicAdd(&state.stored, static_cast<unsigned long long>(kept)) : 0;
  base = __shfl_sync(~0u, base, 0);
#pragma unroll
  for (int i = 0; i < List::kItems; ++i) {
    const int rank = lane * List::kItems + i;
    if (rank < kept) entries[base + rank] = list.entry(i);
  }
}

// Queues a part of the entries that a row's blocks have written.
template <class List, class Entry = typename List::Entry>
__device__ __forceinline__ void push_entries(List& queue, const Entry* entries, int64_t stored, int part,
                                             int parts) {
  constexpr int kLoads = 4;  // in flight a lane
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int64_t tile = int64_t{part} * 32 * kLoads; tile < stored; tile += int64_t{parts} * 32 * kLoads) {
    Entry loaded[kLoads];
    uint32_t chosen = 0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int64_t at = tile + 32 * i + lane;
      loaded[i] = at < stored ? entries[at] : Entry{0};
      if (loaded[i] > queue.threshold()) chosen |= 1u << i;
    }
    while (__any_sync(~0u, chosen != 0)) {
      Entry entry = loaded[kLoads - 1];
#pragma unroll
      for (int i = kLoads - 2; i >= 0; --i) {
        if (chosen >> i & 1) entry = loaded[i];
      }
      queue.push(chosen != 0, entry);
      chosen &= chosen - 1;
    }
  }
}

// A row, or one of its parts, a block.
template <class Order, class Index, int kItems, template <class, int> class Queue>
__global__ void __launch_bounds__(kGridThreads, tuning::grid_blocks_per_sm(kItems))
    select_by_block(Params<typename Order::Bits, Index> params, Order order) {
  using Bits = typename Order::Bits;
  using Pack = EntryOf<Bits, Index>;
  using Entry = typename Pack::type;
  using Bound = BoundOf<Bits, Index>;
  using List = Queue<Entry, kItems>;
  unsigned char* const dynamic = dynamic_shared();
  __shared__ Shared shared;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int64_t row = blockIdx.x / params.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x % params.blocks_per_row);
  RowState* const state = params.blocks_per_row > 1 ? params.states + row : nullptr;
  unsigned char* const queue_memory = dynamic + warp * List::kSharedBytes;
  Entry* const list_memory = reinterpret_cast<Entry*>(dynamic);

  const RowSource<Order, BoundFilter<Order>> source{params.input + row * params.row_stride, params.cols,
                                                    order};
  List queue(queue_memory, params.k);
  Exchange<Bound, List> exchange(shared, state != nullptr ? &state->bound : nullptr, params.k, queue);

  // Step 1.
  const int samples = params.samplers * params.blocks_per_row;
  const int sample_share = (params.k + params.samplers - 1) / params.samplers;
  if (threadIdx.x == 0) shared.bound = 0;
  if (lane == 0) shared.share[warp] = 0;
  if (warp < params.samplers) {
    typename KeyWord<Bits>::type keys[kItems];
    source.sample(part * params.samplers + warp, samples, keys);
    sort_warp</*kDescending=*/true>(keys);
    const auto whole = value_at(keys, params.k - 1), share = value_at(keys, sample_share - 1);
    if (lane == 0) {
      shared.sampled[warp] = Bound::word(Pack::below(whole));
      shared.sampled_share[warp] = Bound::word(Pack::below(share));
    }
  }
  wait_for_kernel_before();  // the row's state is zero
  __syncthreads();           // samples are there, and bounds are zero before they are raised
  uint64_t sampled = over_warps</*kGreatest=*/true>(shared.sampled, params.samplers);
  if (source.distinct(samples)) {
    sampled = max(sampled, over_warps</*kGreatest=*/false>(shared.sampled_share, params.samplers));
  }
  exchange.offer(sampled);

  // Steps 2 and 3.
  source.template visit<Pack, BlockTeam, Reading::kOnceAhead>(
      part, params.blocks_per_row, [&] { return queue.threshold(); },
      [&](Entry entry, bool chosen) { queue.push_first(chosen, entry); },
      [&](Entry entry, bool chosen) {
        if (queue.push(chosen, entry)) exchange.publish();
      },
      [&] { exchange.listen(); });

  // Step 4: twice in a row's last block, the second time for what all blocks have written.
  const WinnerWriter<Bits> output = params.output.row(row, params.k);
  bool whole = state == nullptr;
  int lists = warps;
#pragma unroll 1
  for (;;) {
    queue.flush();
    merge_lists(queue, lists, list_memory);
    if (whole) {
      if (warp == 0) write_winners<Pack>(queue, params.k, source, output);
      return;
    }

    Entry* const entries = params.entries + row * params.blocks_per_row * params.k;
    if (warp == 0) write_entries<Bound>(queue, params.k, *state, entries);
    if (!is_last_block(&state->arrived, params.blocks_per_row)) return;

    const int64_t stored = static_cast<int64_t>(*static_cast<volatile unsigned long long*>(&state->stored));
    const uint64_t bound = *static_cast<volatile unsigned long long*>(&state->bound);
    // No more warps than have a list to fill: each costs a merge.
    const int64_t useful = (stored + List::kCapacity - 1) / List::kCapacity;
    lists = useful < warps ? static_cast<int>(useful) : warps;
    whole = true;
    queue = List(queue_memory, params.k);
    queue.raise(Bound::unseen(bound));
    if (warp < lists) push_entries(queue, entries, stored, warp, lists);
  }
}

template <class Bits, class Index>
size_t carve(const Registers& config, const Problem& problem, void* base, Params<Bits, Index>& params,
             size_t& zeroed_bytes) {
  if (config.blocks_per_row <= 1) return 0;
  Workspace workspace(base);
  params.states = workspace.take<RowState>(problem.rows);
  zeroed_bytes = workspace.bytes();
  params.entries =
      workspace.take<typename EntryOf<Bits, Index>::type>(problem.rows * config.blocks_per_row * problem.k);
  return workspace.bytes();
}

template <class Order, class Index, int kItems, template <class, int> class Queue>
cudaError_t launch(const Registers& config, const Params<typename Order::Bits, Index>& params, Order order,
                   cudaStream_t stream) {
  using List = Queue<typename EntryOf<typename Order::Bits, Index>::type, kItems>;
  const bool by_warp = config.blocks_per_row == 0;
  const int warps = config.threads / 32;
  const size_t queue_bytes = warps * List::kSharedBytes;
  const size_t list_bytes = (warps + 1) / 2 * List::kCapacity * sizeof(typename List::Entry);
  const size_t shared_bytes = by_warp || queue_bytes > list_bytes ? queue_bytes : list_bytes;
  static_assert((kMostWarps + 1) / 2 * List::kCapacity * sizeof(typename List::Entry) <= 40 * 1024 &&
                    kMostWarps * List::kSharedBytes <= 40 * 1024,
                "given to every kernel without asking");
  constexpr int64_t kMostBlocks = 0x7FFFFFFF;
  const int64_t per_row = by_warp ? 1 : config.blocks_per_row;
  const int64_t rows = by_warp ? (params.rows + warps - 1) / warps : params.rows;
  if (rows > kMostBlocks / per_row) return cudaErrorInvalidConfiguration;
  const unsigned blocks = static_cast<unsigned>(rows * per_row);
  auto kernel = select_by_block<Order, Index, kItems, Queue>;
  // A row of 2^32 elements is no row for a warp.
  if constexpr (sizeof(Index) == 4 || sizeof(typename Order::Bits) == 8) {
    if (by_warp) kernel = select_by_warp<Order, Index, kItems, Queue>;
  }
  // Behind a kernel that zeroes the row's state; what came before that is done.
  const bool ahead = config.launches_ahead && config.blocks_per_row > 1;
  return launch_kernel(ahead, kernel, blocks, static_cast<unsigned>(config.threads), shared_bytes, stream,
                       params, order);
}

// Calls visitor(index, items) with the index's type and the list's items a lane. Keys of 64 bits and indices
// of 64 make entries of 128 either way, and rows of 2^32 elements do not mind a long list.
template <class Bits, class Visitor>
auto visit_list(const Problem& problem, Visitor&& visitor) {
  using std::integral_constant;
  if constexpr (sizeof(Bits) == 8) {
    if (problem.k <= 32) return visitor(uint64_t{}, integral_constant<int, 1>{});
    if (problem.k <= 128) return visitor(uint64_t{}, integral_constant<int, 4>{});
    return visitor(uint64_t{}, integral_constant<int, 8>{});
  } else {
    if (!has_narrow_indices(problem.cols)) return visitor(uint64_t{}, integral_constant<int, 8>{});
    if (problem.k <= 32) return visitor(uint32_t{}, integral_constant<int, 1>{});
    if constexpr (sizeof(Bits) > 1) {
      if (problem.k <= 64) return visitor(uint32_t{}, integral_constant<int, 2>{});
    }
    if (problem.k <= 128) return visitor(uint32_t{}, integral_constant<int, 4>{});
    return visitor(uint32_t{}, integral_constant<int, 8>{});
  }
}

template <class Order, class Index, int kItems>
cudaError_t run_list(const Registers& config, const Problem& problem, const Buffers& buffers, Order order,
                     cudaStream_t stream) {
  using Bits = typename Order::Bits;
  Params<Bits, Index> params{};
  params.input = static_cast<const Bits*>(buffers.input);
  params.rows = problem.rows;
  params.row_stride = problem.row_stride;
  params.cols = problem.cols;
  params.k = static_cast<int>(problem.k);
  params.blocks_per_row = config.blocks_per_row;
  params.samplers = config.samplers;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  size_t zeroed_bytes = 0;
  if (carve(config, problem, buffers.workspace, params, zeroed_bytes) > 0) {
    const cudaError_t error = zero_workspace(buffers.workspace, zeroed_bytes, config.launches_ahead, stream);
    if (error != cudaSuccess) return error;
  }
  if constexpr (kStudy && sizeof(Bits) == 4 && Order::kFloating && sizeof(Index) == 4) {
    if (config.thread_queues) {
      return launch<Order, Index, kItems, ThreadQueues>(config, params, order, stream);
    }
  }
  return launch<Order, Index, kItems, WarpQueue>(config, params, order, stream);
}

}  // namespace

size_t Registers::workspace_bytes(const Problem& problem) const {
  return visit_key_order(problem.dtype, true, false, [&](auto order) {
    using Bits = typename decltype(order)::Bits;
    return visit_list<Bits>(problem, [&](auto index, auto) {
      Params<Bits, decltype(index)> params{};
      size_t zeroed_bytes = 0;
      return carve(*this, problem, nullptr, params, zeroed_bytes);
    });
  });
}

ErrorCode Registers::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    return visit_list<typename decltype(order)::Bits>(problem, [&](auto index, auto items) {
      return run_list<decltype(order), decltype(index), decltype(items)::value>(*this, problem, buffers,
                                                                                order, stream);
    });
  });
}

}  // namespace gputopk::cuda::grid_select
