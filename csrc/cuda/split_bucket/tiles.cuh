// What both rules of split-bucket top-k share: tiles in registers, what they hand on, and the launches.
//
// A tile's elements are entries (device/entry.cuh), so no two are equal, and any set that has a tile's k best
// may be handed on. Entry 0 stands for nothing: it fills up what a tile hands on.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "core/key_order.h"
#include "core/varlen_problem.h"
#include "cuda/device/entry.cuh"
#include "cuda/device/index_width.h"
#include "cuda/device/launch.h"
#include "cuda/device/ptx.cuh"
#include "cuda/device/resident_row.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/sorted_list.cuh"
#include "cuda/device/split.h"
#include "cuda/device/warp.cuh"
#include "cuda/device/window_writer.cuh"
#include "cuda/device/winner_writer.cuh"
#include "cuda/split_bucket/numbers.h"
#include "cuda/split_bucket/split_bucket.h"
#include "cuda/workspace.h"

namespace gputopk::cuda::split_bucket {

// Keys and indices of one width: 32 bits, or 64 where either needs it.
template <class Word>
using PackOf = EntryOf<Word, Word>;
template <class Word>
using EntryOfWord = typename PackOf<Word>::type;

struct Nothing {};

// One launch: every tile is a block's. Rows have windows, and elements that are no candidates, where kWindows
// says so.
template <class Word_, bool kWindows_>
struct Level {
  using Word = Word_;
  using Entry = EntryOfWord<Word>;
  static constexpr bool kWindows = kWindows_;

  Problem problem;
  Buffers buffers;
  std::conditional_t<kWindows, WindowRows, Nothing> rows;
  int64_t tiles;         // a row
  int cutoff;            // entries that a tile hands on at most
  const Entry* entries;  // that are reduced, of all rows; null: those of the input
  int64_t entries_a_row;
  Entry* reduced;      // `cutoff` for each tile of each row
  const Entry* nodes;  // of each row, best first, or null

  __device__ int64_t row() const { return blockIdx.x / static_cast<unsigned>(tiles); }
  __device__ int64_t tile() const { return blockIdx.x % static_cast<unsigned>(tiles); }
  // The elements that the row has, and how many win.
  __device__ Window window(int64_t row) const {
    if constexpr (kWindows) {
      return rows.of(row);
    } else {
      return {0, problem.cols, problem.k};
    }
  }
  __device__ RowCandidates candidates(int64_t row) const {
    if constexpr (kWindows) {
      return rows.candidates.of(row);
    } else {
      return {};
    }
  }
};

// A tile of a row, or of its window, from whose beginning indices are counted. Its elements number i, of a
// thread, ascend in index with i.
template <class Order, class Level>
class RowTile {
 public:
  using Word = typename Level::Word;
  using Bits = typename Order::Bits;
  using Entry = EntryOfWord<Word>;
  static constexpr int kElements = tuning::split_elements(sizeof(Bits));

  __device__ __forceinline__ RowTile(const Level& level, const Order& order)
      : row_(static_cast<const Bits*>(level.buffers.input) + level.row() * level.problem.row_stride),
        order_(order),
        first_(level.tile() * (blockDim.x * kElements) + threadIdx.x * kInVector) {
    const Window window = level.window(level.row());
    const int64_t cols = window.length;
    row_ += window.start;
    const bool aligned = reinterpret_cast<uintptr_t>(row_) % kVectorBytes == 0;
    Vector<Bits> loaded[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = first_ + v * step();
      if (at + kInVector <= cols) {
        present_ |= kOfVector << (v * kInVector);
      } else if (at < cols) {
        present_ |= ((1u << (cols - at)) - 1) << (v * kInVector);
      }
      if (aligned && at + kInVector <= cols) {
        loaded[v] = load_vector<Reading::kAgain>(row_ + at);  // what is listed is read once more
      } else {
        const int there = static_cast<int>(max(int64_t{0}, min(int64_t{kInVector}, cols - at)));
        loaded[v] = load_elements(row_ + at, 0, there, Bits{});
      }
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) keys_[i] = order(loaded[i / kInVector][i % kInVector]);
    const RowCandidates candidates = level.candidates(level.row());
    if (candidates.bits == nullptr) return;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = first_ + v * step();
      if (at < cols) present_ &= ~((~candidates.of(at, kInVector) & kOfVector) << (v * kInVector));
    }
  }

  // A bit for each element that there is.
  __device__ uint32_t present() const { return present_; }
  __device__ Word key(int i) const { return keys_[i]; }
  // Calls visit(i, entry) for all elements and places for them, unrolled.
  template <class Visit>
  __device__ __forceinline__ void each(Visit&& visit) const {
    const Word first = anew(static_cast<Word>(first_));
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      visit(i, PackOf<Word>::pack(keys_[i], first + static_cast<Word>(offset(i))));
    }
  }
  // The entry of element number i, which is no constant: a register has no run-time number.
  __device__ Entry entry_again(int i) const {
    const int64_t index = first_ + offset(i);
    return PackOf<Word>::pack(order_(row_[index]), static_cast<Word>(index));
  }

 private:
  static constexpr int kInVector = kPerVector<Bits>;
  static constexpr int kVectors = kElements / kInVector;
  static constexpr uint32_t kOfVector = (1u << kInVector) - 1;
  static_assert(kElements <= 32, "a bit for each element");

  __device__ static int step() { return static_cast<int>(blockDim.x) * kInVector; }
  __device__ static int offset(int i) { return i / kInVector * step() + i % kInVector; }

  const Bits* row_;
  const Order& order_;
  int64_t first_;  // of this thread's elements
  uint32_t present_ = 0;
  typename KeyWord<Bits>::type keys_[kElements];
};

// A tile of entries that tiles have handed on.
template <class Level>
class EntryTile {
 public:
  using Word = typename Level::Word;
  using Entry = EntryOfWord<Word>;
  static constexpr int kElements = tuning::split_entries(sizeof(Entry));

  __device__ __forceinline__ explicit EntryTile(const Level& level)
      : from_(level.entries + level.row() * level.entries_a_row),
        first_(level.tile() * (blockDim.x * kElements) + threadIdx.x) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      entries_[i] = index(i) < level.entries_a_row ? from_[index(i)] : Entry{0};
      if (entries_[i] != 0) present_ |= 1u << i;
    }
  }

  __device__ uint32_t present() const { return present_; }
  __device__ Word key(int i) const { return PackOf<Word>::key(entries_[i]); }
  template <class Visit>
  __device__ __forceinline__ void each(Visit&& visit) const {
#pragma unroll
    for (int i = 0; i < kElements; ++i) visit(i, entries_[i]);
  }
  __device__ Entry entry_again(int i) const { return from_[index(i)]; }

 private:
  __device__ int64_t index(int i) const { return first_ + i * static_cast<int>(blockDim.x); }

  const Entry* from_;
  int64_t first_;
  uint32_t present_ = 0;
  Entry entries_[kElements];
};

// A bit for each of a thread's elements that is no less than the bound.
template <class Tile>
__device__ __forceinline__ uint32_t reaching(const Tile& tile, typename Tile::Entry bound) {
  uint32_t reaches = 0;
  tile.each([&](int i, typename Tile::Entry entry) {
    if (entry >= bound) reaches |= 1u << i;
  });
  return reaches & tile.present();
}

// Lists the elements of the bits that threads have set, no more in all than the list has room for, and
// returns how many they are. `listed` is zero and in shared memory. By all threads of the block.
template <class Tile>
__device__ __forceinline__ int list_elements(const Tile& tile, uint32_t chosen,
                                             PaddedList<typename Tile::Entry> list, uint32_t& listed) {
  const int own = __popc(chosen), so_far = sum_so_far(own);
  int before = 0;
  if (threadIdx.x % 32 == 31 && so_far > 0) {
    before = static_cast<int>(atomicAdd(&listed, static_cast<uint32_t>(so_far)));
  }
  int at = __shfl_sync(~0u, before, 31) + so_far - own;
  for (; chosen != 0; chosen &= chosen - 1) {
    list[at++] = tile.entry_again(__ffs(static_cast<int>(chosen)) - 1);
  }
  __syncthreads();  // the list is whole
  return static_cast<int>(listed);
}

// With the index above the key: such entries are in order of their indices.
template <class Word>
__device__ EntryOfWord<Word> turned(EntryOfWord<Word> entry) {
  constexpr int kBits = PackOf<Word>::kIndexBits;
  return entry << kBits | entry >> kBits;
}

// A row's winners, and behind them, where a window has too few, padding.
template <class Bits, class Level, class Word = typename Level::Word>
__device__ __forceinline__ void write_row(const Level& level, PaddedList<EntryOfWord<Word>> list,
                                          int listed) {
  const Problem& problem = level.problem;
  const int64_t row = level.row();
  const Window window = level.window(row);
  const Bits* const elements =
      static_cast<const Bits*>(level.buffers.input) + row * problem.row_stride + window.start;
  const WinnerWriter<Bits> all{static_cast<Bits*>(level.buffers.values), level.buffers.indices,
                               problem.wide_indices};
  const auto output = [&] {
    if constexpr (Level::kWindows) {
      return WindowWriter<Bits>(level.rows, row, all.row(row, problem.k));
    } else {
      return all.row(row, problem.k);
    }
  }();
  const int winners = static_cast<int>(min(int64_t{listed}, window.k));
  bool by_position = false;
  if constexpr (Level::kWindows) by_position = level.rows.any_order && listed <= window.k;
  if (by_position) {
    for (int i = static_cast<int>(threadIdx.x); i < listed; i += static_cast<int>(blockDim.x)) {
      list[i] = turned<Word>(list[i]);
    }
    __syncthreads();  // the list is turned
  }
  write_in_order(list, listed, winners, [&](int rank, EntryOfWord<Word> entry) {
    if (by_position) entry = turned<Word>(entry);
    const int64_t index = static_cast<int64_t>(PackOf<Word>::index(entry));
    output.write(rank, elements[index], index);
  });
  if constexpr (Level::kWindows) {
    output.finish(winners, problem.k, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  }
}

// What becomes of a tile's list: entries of the next level, or, where it was the row's only tile, its
// winners.
template <class Level, class Word = typename Level::Word>
__device__ __forceinline__ void hand_on(const Level& level, PaddedList<EntryOfWord<Word>> list, int listed) {
  if (level.tiles > 1) {
    EntryOfWord<Word>* const to = level.reduced + static_cast<int64_t>(blockIdx.x) * level.cutoff;
    for (int i = static_cast<int>(threadIdx.x); i < level.cutoff; i += static_cast<int>(blockDim.x)) {
      to[i] = i < listed ? list[i] : EntryOfWord<Word>{0};
    }
    return;
  }
  switch (dtype_bytes(level.problem.dtype)) {
    case 1: return write_row<uint8_t>(level, list, listed);
    case 2: return write_row<uint16_t>(level, list, listed);
    case 4: return write_row<uint32_t>(level, list, listed);
    default: return write_row<uint64_t>(level, list, listed);
  }
}

template <class Entry>
constexpr size_t list_bytes(int cutoff) {
  return PaddedList<Entry>::places(cutoff) * sizeof(Entry);
}

// ---- Host ----

constexpr unsigned kEntryThreads = tuning::kSplitEntryThreads;

inline bool is_wide(const Problem& problem) {
  return dtype_bytes(problem.dtype) == 8 || !has_narrow_indices(problem.cols);
}

// Calls launch(order, word) with the order of the request and a word that keys and indices fit, `wide` or
// not.
template <bool kMayBeWide = true, class Launch>
ErrorCode visit_kernel(const Problem& problem, bool wide, Launch&& launch) {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) -> ErrorCode {
    constexpr bool kWideKeys = decltype(order)::kBits == 64;
    if constexpr (kWideKeys || kMayBeWide) {
      if (kWideKeys || wide) return launch(order, uint64_t{});
    }
    if constexpr (!kWideKeys) return launch(order, uint32_t{});
    return cudaErrorInvalidValue;  // keys of 64 bits are wide
  });
}

// What tiles hand on: the levels write to both in turn.
template <class Word>
struct Memory {
  EntryOfWord<Word>* nodes = nullptr;
  EntryOfWord<Word>* reduced[2] = {};
  size_t bytes = 0;

  Memory(const Problem& problem, const Split& split, bool has_nodes, void* base) {
    Workspace workspace(base);
    if (has_nodes) nodes = workspace.take<EntryOfWord<Word>>(problem.rows * tuning::kSplitNodes);
    int64_t tiles = divide_up(problem.cols, row_tile(problem, split));
    for (int i = 0; i < 2 && tiles > 1; ++i) {
      reduced[i] = workspace.take<EntryOfWord<Word>>(problem.rows * tiles * split.cutoff);
      tiles = divide_up(tiles * split.cutoff, entry_tile(problem));
    }
    bytes = workspace.bytes();
  }
};

template <class Level>
Level first_level(const Problem& problem, const Buffers& buffers, const Split& split,
                  const Memory<typename Level::Word>& memory) {
  Level level{};
  level.problem = problem;
  level.buffers = buffers;
  level.tiles = divide_up(problem.cols, row_tile(problem, split));
  level.cutoff = split.cutoff;
  level.reduced = memory.reduced[0];
  level.nodes = memory.nodes;
  return level;
}

// Runs level after level until every row has one tile: row_level(level, blocks) is asked for the first, and
// entry_level(level, blocks) for those behind it.
template <class Level, class RowLevel, class EntryLevel>
cudaError_t run_levels(Level level, const Memory<typename Level::Word>& memory, RowLevel&& row_level,
                       EntryLevel&& entry_level) {
  const Problem& problem = level.problem;
  constexpr int64_t kMostBlocksOfGrid = 0x7FFFFFFF;
  if (problem.rows > kMostBlocksOfGrid / level.tiles) return cudaErrorInvalidConfiguration;
  cudaError_t error = row_level(level, static_cast<unsigned>(problem.rows * level.tiles));
  for (int at = 1; error == cudaSuccess && level.tiles > 1; ++at) {
    level.entries = level.reduced;
    level.entries_a_row = level.tiles * level.cutoff;
    level.tiles = divide_up(level.entries_a_row, entry_tile(problem));
    level.reduced = memory.reduced[at % 2];
    level.nodes = nullptr;
    error = entry_level(level, static_cast<unsigned>(problem.rows * level.tiles));
  }
  return error;
}

}  // namespace gputopk::cuda::split_bucket
