// GridSelect with a list of candidates a block: k up to some thousands, every element read once.
// Zhang, Naruse, Li, Wang: Parallel Top-K Algorithms on GPU (SC '23), section 4. The paper keeps a warp's
// best k in registers, sorted, behind a queue; here a block keeps them in shared memory, unsorted, and the
// queue is the list's free end.
//
//   1. A block reads its part of the row tile by tile. An element is a candidate if its extended key (see
//      device/selection.cuh) is at or above the bound: some element that k of the row, itself included,
//      reach. The first bound comes from the maxima of the threads' shares of the first tile.
//   2. Candidates are pushed to the list in two steps: ballots place those for which there is room; where a
//      list overflows, threads remember which did not fit, the block prunes the list to the k best, which
//      raises the bound, and the rest follow. So any input is right, and a hostile one is only slower.
//   3. Blocks of one row share their bounds and never wait: each publishes an entry that at least
//      ceil(k / blocks) of its own elements reach. The least that all blocks have published is a bound of the
//      row, which every block reads once a tile.
//   4. A block stores what reaches the newest bound, k entries at most. The last block of a group of blocks
//      merges the group's entries, by step 2, and the last group's the groups'.
//   5. The row's last block writes the k best: ranked against each other where k is small, else unordered.
//
// Tiles are visited in steps of a prime, so that a block's first tiles are a sample of the whole row and a
// sorted row costs little more than a shuffled one. Ties need no case of their own: once the list is full of
// one value, the bound has an index, and elements behind it are passed over.

#include "cuda/grid_select_block.h"

#include <algorithm>
#include <atomic>

#include "core/key_order.h"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/winner_writer.cuh"
#include "cuda/tuning.h"
#include "cuda/workspace.h"

namespace gputopk::cuda::grid_select_block {
namespace {

using tuning::kGridListMaxThreads;

template <class Bits, class Index>
struct Params {
  using Word = typename KeyWord<Bits>::type;

  const Bits* input;
  int64_t rows;
  int64_t row_stride;
  int64_t cols;
  int k;
  int blocks_per_row;
  int blocks_per_group;
  int groups;  // of a row
  int quota;   // elements of a block that reach what it publishes
  int capacity;
  int digit_bits;
  int index_bits;
  int slack;  // entries beyond k that a list may keep when it is pruned
  int first_review;
  int review_growth;
  bool in_order;
  WinnerWriter<Bits> output;

  // Workspace of rows with several blocks. The first four are zero before the launch.
  unsigned long long* row_bounds;    // one a row, packed
  unsigned long long* block_bounds;  // one a block, packed; 0: nothing published
  unsigned long long* stored;        // entries in each group's buffer, then in the row's
  uint32_t* arrived;                 // blocks that have stored theirs, then groups
  Word* keys;                        // k entries a block and a group of each row
  Index* reversed;

  __device__ int64_t counter(int64_t row, int group) const { return row * (groups + 1) + group; }
};

// ---- Bounds ----

// A bound in one word, so that no reader sees half of one: its highest 64 bits. Rounded down a bound is still
// a bound; the lowest of all is 0.
template <class Word, class Index>
__device__ unsigned long long pack(const ExtendedKey<Word, Index>& bound, int index_bits) {
  if constexpr (sizeof(Word) == 8) {
    return bound.key;
  } else {
    const int dropped = index_bits > 32 ? index_bits - 32 : 0;
    return static_cast<unsigned long long>(bound.key) << 32 |
           static_cast<uint32_t>(bound.reversed >> dropped);
  }
}

template <class Word, class Index>
__device__ ExtendedKey<Word, Index> unpack(unsigned long long packed, int index_bits) {
  if constexpr (sizeof(Word) == 8) {
    return {static_cast<Word>(packed), Index{0}};
  } else {
    const int dropped = index_bits > 32 ? index_bits - 32 : 0;
    return {static_cast<Word>(packed >> 32),
            static_cast<Index>(static_cast<Index>(static_cast<uint32_t>(packed)) << dropped)};
  }
}

__device__ inline unsigned long long load_shared_word(const unsigned long long* word) {
  return *static_cast<const volatile unsigned long long*>(word);  // other blocks write it
}

// ---- The list ----

// A block's dynamic shared memory: the count, the histogram, the entries' keys, and their reversed indices.
constexpr size_t kHeaderBytes = 16;

template <class Word, class Index>
size_t shared_bytes(const Config& config) {
  return kHeaderBytes + (sizeof(uint32_t) << config.digit_bits) +
         static_cast<size_t>(config.capacity) * (sizeof(Word) + sizeof(Index));
}

template <class Word, class Index>
struct List {
  using Extended = ExtendedKey<Word, Index>;

  int capacity;
  int digit_bits;
  int index_bits;

  // What all warps have asked for, which is more than `capacity` where not all of it fitted.
  __device__ static uint32_t& count() { return *reinterpret_cast<uint32_t*>(memory()); }
  __device__ static uint32_t* histogram() { return reinterpret_cast<uint32_t*>(memory() + kHeaderBytes); }
  __device__ Word* keys() const {
    return reinterpret_cast<Word*>(memory() + kHeaderBytes + (sizeof(uint32_t) << digit_bits));
  }
  __device__ Index* reversed() const { return reinterpret_cast<Index*>(keys() + capacity); }

  __device__ Extended operator[](int i) const { return {keys()[i], reversed()[i]}; }
  __device__ int entries() const { return min(static_cast<int>(count()), capacity); }

  // Appends an entry of each lane that `takes`, where there is room. Called by all lanes of a warp together.
  // False in lanes whose entry did not fit; `full` is the same in all: some did not.
  __device__ bool push(bool takes, const Extended& entry, bool& full) const {
    const unsigned takers = __ballot_sync(~0u, takes);
    full = false;
    if (takers == 0) return true;
    const unsigned lane = threadIdx.x % 32;
    uint32_t base = 0;
    if (lane == 0) base = atomicAdd(&count(), static_cast<uint32_t>(__popc(takers)));
    base = __shfl_sync(~0u, base, 0);
    full = base + __popc(takers) > static_cast<uint32_t>(capacity);
    const uint32_t at = base + __popc(takers & ((1u << lane) - 1));
    const bool fits = at < static_cast<uint32_t>(capacity);
    if (takes && fits) {
      keys()[at] = entry.key;
      reversed()[at] = entry.reversed;
    }
    return !takes || fits;
  }

 private:
  __device__ static unsigned char* memory() {
    extern __shared__ __align__(16) unsigned char dynamic[];
    return dynamic;
  }
};

__device__ inline int width_of(uint32_t value) { return 32 - __clz(static_cast<int>(value)); }
__device__ inline int width_of(uint64_t value) { return 64 - __clzll(static_cast<long long>(value)); }

template <class Word>
__device__ Word warp_min(Word value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = min(value, __shfl_xor_sync(~0u, value, step));
  return value;
}

// A bound that `wanted` entries of the list reach and at most `slack` more: a radix selection over the range
// of keys that the list has. The same in all threads of the block, which call it together when the list's
// first `entries` are whole. Needs 1 <= wanted <= entries.
template <class Word, class Index>
__device__ __noinline__ ExtendedKey<Word, Index> bound_of_best(List<Word, Index> list, int entries,
                                                               int wanted, int slack) {
  using Extended = ExtendedKey<Word, Index>;
  using Atomic = std::conditional_t<sizeof(Word) == 8, unsigned long long, unsigned>;
  __shared__ TargetDigitScratch<uint32_t> scratch;
  __shared__ Atomic least, least_inverted;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const Word* const keys = list.keys();
  const Index* const reversed = list.reversed();
  uint32_t* const histogram = list.histogram();

  if (thread == 0) least = least_inverted = static_cast<Atomic>(~Atomic{0});
  __syncthreads();  // the range is reset before any warp adds to it
  Word own_least = static_cast<Word>(~Word{0}), own_inverted = own_least;
  for (int i = thread; i < entries; i += threads) {
    own_least = min(own_least, keys[i]);
    own_inverted = min(own_inverted, static_cast<Word>(~keys[i]));
  }
  own_least = warp_min(own_least);
  own_inverted = warp_min(own_inverted);
  if (thread % 32 == 0) {
    atomicMin(&least, static_cast<Atomic>(own_least));
    atomicMin(&least_inverted, static_cast<Atomic>(own_inverted));
  }
  __syncthreads();  // all warps have added
  const Word origin = static_cast<Word>(least);
  const int key_bits = width_of(static_cast<Word>(static_cast<Word>(~least_inverted) - origin));

  // Keys less `origin`, from here on.
  auto selection =
      Selection<Word, Index>::whole_row(static_cast<uint64_t>(wanted), static_cast<uint64_t>(entries));
  for (int pass = 1;; ++pass) {
    const Digit digit = digit_of_pass(pass, list.digit_bits, key_bits, list.index_bits);
    clear_histogram(histogram, 1 << digit.width());
    __syncthreads();  // no thread counts into bins that another has yet to clear
    for (int i = thread; i < entries; i += threads) {
      const Extended x{static_cast<Word>(keys[i] - origin), reversed[i]};
      if (x < selection.low || selection.split < x) continue;
      atomicAdd(histogram + digit.of(static_cast<Word>(x.key - selection.low.key),
                                     static_cast<Index>(x.reversed - selection.low.reversed)),
                1u);
    }
    __syncthreads();  // all warps have counted
    const TargetDigit<uint32_t> target =
        find_target_digit(histogram, 1 << digit.width(), selection.owed, scratch);
    selection.narrow(digit, target.digit, target.highest, target.above, target.count);
    // Always true after the last digit: no two entries are equal.
    if (selection.candidates - selection.owed <= static_cast<uint64_t>(slack)) break;
  }
  return {static_cast<Word>(origin + selection.low.key), selection.low.reversed};
}

// Keeps the entries that reach the bound. Called by all threads of the block when the list's first `entries`
// are whole; they are again when it returns. Each thread's own bound holds for the entries it looks at.
template <class Word, class Index>
__device__ __noinline__ void keep_from(List<Word, Index> list, int entries, ExtendedKey<Word, Index> bound) {
  using Extended = ExtendedKey<Word, Index>;
  constexpr int kEach = 4;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  __syncthreads();  // no thread still asks for the count
  if (thread == 0) list.count() = 0;
  for (int base = 0; base < entries; base += threads * kEach) {
    Extended x[kEach];
    bool stays[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int at = base + e * threads + thread;
      x[e] = at < entries ? list[at] : Extended{};
      stays[e] = at < entries && !(x[e] < bound);
    }
    // What is pushed now lies at or below what all threads have just read, and never above it: with this
    // barrier no entry is overwritten before it is read.
    __syncthreads();
    bool full;
#pragma unroll
    for (int e = 0; e < kEach; ++e) list.push(stays[e], x[e], full);
  }
  __syncthreads();  // the list is whole
}

// ---- Sources of elements ----
//
// A source deals a block's elements out in steps, which are the same for all its threads:
//   steps()              how many
//   load(tile)           loads this thread's elements of the next step; reload(tile) loads the same again
//   probe(tile, bound)   a bit for each that may reach the bound: unrolled, by keys
//   element(tile, at)    the extended key of the element of one bit

// The tiles of a row that belong to one of its blocks; then, in one block, the ragged ends.
template <class Order, class Index>
class RowTiles {
 public:
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  static constexpr bool kReadsRow = true;

  struct Tile {
    Vector<Bits> vectors[kUnroll<Bits>];
    Index begin;       // of this thread's elements
    uint32_t present;  // a bit for each that there is
  };

  __device__ RowTiles(const Bits* row, int64_t cols, int part, int parts, const Order& order)
      : row_(row), cols_(cols), order_(order), next_(0), advance_(0) {
    const RowShape<Bits> shape(row, cols);
    head_ = shape.head;
    const int64_t elements = cols - shape.head - shape.tail;
    tiles_ = static_cast<uint32_t>((elements + tile_elements() - 1) / tile_elements());
    const uint32_t first = static_cast<uint32_t>(part);
    left_ = first < tiles_ ? (tiles_ - 1 - first) / static_cast<uint32_t>(parts) + 1 : 0;
    has_ends_ = part == 0 && shape.head + shape.tail > 0;
    if (tiles_ > 1) {
      // The multiples of a prime greater than the number of tiles visit each tile once; and the last tile,
      // which may be short, comes last, so that every block's first is whole.
      const uint32_t stride = tuning::kGridListTilePrime % tiles_;
      next_ = stride - 1;
      if (first > 0) next_ = static_cast<uint32_t>((uint64_t{first} * stride + next_) % tiles_);
      advance_ = parts == 1 ? stride : static_cast<uint32_t>(static_cast<uint64_t>(parts) * stride % tiles_);
    }
  }

  __device__ uint32_t steps() const { return left_ + (has_ends_ ? 1 : 0); }
  // The next step is a tile.
  __device__ bool has_tiles() const { return left_ > 0; }

  __device__ void load(Tile& tile) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) tile.vectors[v] = {};
    tile.present = 0;
    if (left_ == 0) {
      load_end(tile);
      return;
    }
    --left_;
    const uint32_t number = next_;
    next_ += advance_;  // both are below tiles_, and that is far below 2^31
    if (next_ >= tiles_) next_ -= tiles_;
    // Where a thread has no elements of the last tile, this may lie beyond 32 bits.
    const int64_t begin =
        static_cast<int64_t>(number) * tile_elements() + (head_ + static_cast<int>(threadIdx.x) * kElements);
    tile.begin = static_cast<Index>(begin);
    const Bits* const source = row_ + begin;
    if (number < tiles_ - 1) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        tile.vectors[v] = load_vector<Reading::kOnce>(source + v * distance());
      }
      tile.present = ~0u;
    } else {  // the last tile may be short
      const int64_t behind = end() - begin;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        if (v * distance() < behind) {
          tile.vectors[v] = load_vector<Reading::kOnce>(source + v * distance());
          tile.present |= kOfVector << (v * kElements);
        }
      }
    }
  }

  // Loads the same elements again.
  __device__ void reload(Tile& tile) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) tile.vectors[v] = {};
    if (tile.present == 0) return;
    const int64_t begin = static_cast<int64_t>(tile.begin);
    if (begin < head_ || begin >= end()) return load_end(tile);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (tile.present >> (v * kElements) & 1) {
        tile.vectors[v] = load_vector<Reading::kOnce>(row_ + tile.begin + v * distance());
      }
    }
  }

  __device__ uint32_t probe(const Tile& tile, const Extended& bound) const {
    // Where the bound's index is before all of this thread's elements, its key alone does not do.
    const bool behind = reversed(tile.begin) < bound.reversed;
    const Word least = static_cast<Word>(bound.key + (behind ? 1 : 0));
    uint32_t chosen = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        if (order_(tile.vectors[v][i]) >= least) chosen |= 1u << (v * kElements + i);
      }
    }
    return behind && least == 0 ? 0 : chosen & tile.present;  // 0: no key is greater than the bound's
  }

  // The best key of this thread's elements; 0, which is no better than any, where it has none.
  __device__ Word best_key(const Tile& tile) const {
    Word best = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (tile.present >> (v * kElements) & 1) {
#pragma unroll
        for (int i = 0; i < kElements; ++i) best = max(best, static_cast<Word>(order_(tile.vectors[v][i])));
      }
    }
    return best;
  }

  __device__ Extended element(const Tile& tile, int at) const {
    const int offset = at / kElements * distance() + at % kElements;
    return {static_cast<Word>(order_(element_of(tile.vectors, at))),
            reversed(static_cast<Index>(tile.begin + static_cast<Index>(offset)))};
  }

 private:
  static constexpr int kElements = kPerVector<Bits>;
  static constexpr int kVectors = kUnroll<Bits>;
  static constexpr uint32_t kOfVector = (1u << kElements) - 1;
  static_assert(kVectors * kElements <= 32, "a bit of `present` for each element");

  __device__ static int distance() { return static_cast<int>(blockDim.x) * kElements; }
  __device__ static int tile_elements() { return distance() * kVectors; }
  __device__ Index reversed(Index index) const {
    return static_cast<Index>(static_cast<Index>(cols_ - 1) - index);
  }
  // Of the whole vectors.
  __device__ int64_t end() const { return cols_ - (cols_ - head_) % kElements; }

  // The ragged ends, fewer elements than a vector each: the head in the lower half of the first warp's lanes,
  // the tail in the upper.
  __device__ void load_end(Tile& tile) const {
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t at = thread < 16 ? thread : end() + (thread - 16);
    if (thread >= 32 || at >= (thread < 16 ? int64_t{head_} : cols_)) {
      tile.begin = 0;
      return;
    }
    const Bits bits = row_[at];
    tile.begin = static_cast<Index>(at);
    tile.present = 1;
    tile.vectors[0].words.x = static_cast<uint32_t>(bits);
    if constexpr (sizeof(Bits) == 8) tile.vectors[0].words.y = static_cast<uint32_t>(bits >> 32);
  }

  const Bits* row_;
  int64_t cols_;
  Order order_;
  int head_;
  uint32_t tiles_, left_, next_, advance_;
  bool has_ends_;
};

// Entries that blocks have stored.
template <class Word, class Index>
class StoredEntries {
 public:
  using Extended = ExtendedKey<Word, Index>;
  static constexpr bool kReadsRow = false;
  static constexpr int kLoads = 4;  // in flight a thread, of each kind

  struct Tile {
    Word keys[kLoads];
    Index reversed[kLoads];
    int64_t begin;
    uint32_t present;
  };

  __device__ StoredEntries(const Word* keys, const Index* reversed, int64_t count)
      : keys_(keys), reversed_(reversed), count_(count), next_(0) {}

  __device__ static bool has_tiles() { return false; }
  __device__ uint32_t steps() const {
    const int64_t step = static_cast<int64_t>(blockDim.x) * kLoads;
    return static_cast<uint32_t>((count_ + step - 1) / step);
  }
  __device__ void load(Tile& tile) {
    tile.begin = next_ + static_cast<int>(threadIdx.x);
    next_ += static_cast<int64_t>(blockDim.x) * kLoads;
    reload(tile);
  }

  __device__ void reload(Tile& tile) const {
    tile.present = 0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int64_t at = tile.begin + i * static_cast<int>(blockDim.x);
      const bool present = at < count_;
      tile.keys[i] = present ? __ldcg(keys_ + at) : Word{};
      tile.reversed[i] = present ? __ldcg(reversed_ + at) : Index{};
      if (present) tile.present |= 1u << i;
    }
  }

  __device__ uint32_t probe(const Tile& tile, const Extended& bound) const {
    uint32_t chosen = 0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (tile.keys[i] >= bound.key) chosen |= 1u << i;
    }
    return chosen & tile.present;
  }

  __device__ Extended element(const Tile& tile, int at) const {
    Extended x{tile.keys[0], tile.reversed[0]};
#pragma unroll
    for (int i = 1; i < kLoads; ++i) {
      if (at == i) x = {tile.keys[i], tile.reversed[i]};
    }
    return x;
  }

 private:
  const Word* keys_;
  const Index* reversed_;
  int64_t count_;
  int64_t next_;
};

// ---- One block ----

// The maxima of a warp's lanes, best in lane 0: a bitonic network across the lanes.
template <class Word>
__device__ Word sort_descending(Word value) {
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (unsigned size = 2; size <= 32; size *= 2) {
#pragma unroll
    for (unsigned step = size / 2; step > 0; step /= 2) {
      const Word other = __shfl_xor_sync(~0u, value, step);
      const bool takes_greater = ((lane & step) == 0) == ((lane & size) == 0);
      value = takes_greater ? max(value, other) : min(value, other);
    }
  }
  return value;
}

// A block at work on one row. All its methods are called by all threads of the block together.
template <class Bits, class Index>
class Selector {
 public:
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;

  __device__ Selector(const Params<Bits, Index>& params, int64_t row, int part)
      : params_(params),
        list_{params.capacity, params.digit_bits, params.index_bits},
        row_bound_(params.row_bounds + row),
        block_bounds_(params.block_bounds + row * params.blocks_per_row),
        part_(part) {
    clear();
  }

  // Steps 1 to 3: adds to the list all of the source's elements that can win.
  template <class Source>
  __device__ void take(Source source) {
    const uint32_t steps = source.steps();
    uint32_t next_review = static_cast<uint32_t>(params_.first_review);
    bool starts = source.has_tiles();
    for (uint32_t step = 1; step <= steps; ++step) {
      typename Source::Tile tile;
      source.load(tile);
      // Asked for now, waited for after this step.
      const unsigned long long newest = shares_row() ? load_shared_word(row_bound_) : 0;
      if constexpr (Source::kReadsRow) {
        if (starts) start_bound(source.best_key(tile));
        starts = false;
      }
      uint32_t chosen = source.probe(tile, bound_);
      for (;;) {
        chosen = push(source, tile, chosen);
        // All warps prune or none does, and none pushes on before the list has been pruned.
        if (!__syncthreads_or(chosen != 0)) break;
        prune(params_.slack);
        source.reload(tile);  // rather than keep it in registers that every tile would pay for
      }
      if (shares_row()) raise(unpacked(newest));
      if constexpr (Source::kReadsRow) {
        if (step == next_review && step < steps) {
          next_review *= static_cast<uint32_t>(params_.review_growth);
          review(params_.slack, /*publishes=*/true);
        }
      }
    }
  }

  // Step 4: stores the list, at most k entries, behind those that other blocks have stored in the buffer.
  // True in the last of `members` blocks: its list is empty then, and `total` is what the buffer holds.
  __device__ bool hand_over(bool publishes, int64_t counter, int members, Word* keys, Index* reversed,
                            int64_t& total) {
    __shared__ unsigned long long base;
    raise(unpacked(load_shared_word(row_bound_)));
    review(/*slack=*/0, publishes);
    const int entries = list_.entries();
    if (threadIdx.x == 0) {
      base = atomicAdd(params_.stored + counter, static_cast<unsigned long long>(entries));
    }
    __syncthreads();  // the place is known
    for (int i = static_cast<int>(threadIdx.x); i < entries; i += static_cast<int>(blockDim.x)) {
      const Extended x = list_[i];
      keys[base + i] = x.key;
      reversed[base + i] = x.reversed;
    }
    if (!is_last_block(params_.arrived + counter, static_cast<uint32_t>(members))) return false;
    total = static_cast<int64_t>(__ldcg(params_.stored + counter));
    clear();
    return true;
  }

  // Step 5.
  template <class Order>
  __device__ void write(const Order&, const Bits* input, const WinnerWriter<Bits>& output) {
    const Index last_index = static_cast<Index>(params_.cols - 1);
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const int k = params_.k;
    // Every entry is compared with every other: a few more than k cost less than another digit.
    const int spare = params_.in_order ? k / 4 + tuning::kGridListSpareRanked : 0;
    if (list_.entries() > k + spare) prune(spare);
    const int entries = list_.entries();
    for (int i = thread; i < entries; i += threads) {
      const Extended x = list_[i];
      int at = i;
      if (params_.in_order) {
        at = 0;
#pragma unroll 4
        for (int other = 0; other < entries; ++other) at += x < list_[other];
        if (at >= k) continue;
      }
      const Index index = static_cast<Index>(last_index - x.reversed);
      output.write(at, input[index], static_cast<int64_t>(index));
    }
  }

 private:
  __device__ bool shares_row() const { return params_.blocks_per_row > 1; }
  __device__ void raise(const Extended& bound) { bound_ = bound_ < bound ? bound : bound_; }
  __device__ Extended unpacked(unsigned long long packed) const {
    return unpack<Word, Index>(packed, params_.index_bits);
  }

  __device__ void clear() {
    if (threadIdx.x == 0) List<Word, Index>::count() = 0;
    __syncthreads();  // no warp pushes before
  }

  // Pushes the chosen elements that reach the bound, and returns those for which there was no room.
  template <class Source>
  __device__ uint32_t push(const Source& source, const typename Source::Tile& tile, uint32_t chosen) const {
    while (__any_sync(~0u, chosen != 0)) {
      const int at = chosen != 0 ? __ffs(static_cast<int>(chosen)) - 1 : 0;
      const Extended x = source.element(tile, at);
      bool full;
      if (list_.push(chosen != 0 && !(x < bound_), x, full)) chosen &= chosen - 1;
      if (full) break;
    }
    return chosen;
  }

  __device__ void prune(int slack) {
    const int entries = list_.entries();
    if (entries > params_.k) raise(bound_of_best(list_, entries, params_.k, slack));
    keep_from(list_, entries, bound_);
  }

  // Brings the bounds up to date, and the list with them. `publishes`: the list is of this block's own part.
  __device__ void review(int slack, bool publishes) {
    const int entries = list_.entries();
    const int quota = params_.quota;
    if (shares_row() && publishes && entries >= quota) {
      publish(bound_of_best(list_, entries, quota, quota / 4));
    }
    if (entries > params_.k) {
      const Extended bound = bound_of_best(list_, entries, params_.k, slack);
      if (shares_row() && threadIdx.x == 0) atomicMax(row_bound_, pack(bound, params_.index_bits));
      raise(bound);
    }
    keep_from(list_, entries, bound_);
  }

  // `bound` is one that `quota` elements of this block's part reach.
  __device__ void publish(const Extended& bound) {
    __shared__ unsigned long long least;
    const int thread = static_cast<int>(threadIdx.x), blocks = params_.blocks_per_row;
    const unsigned long long packed = pack(bound, params_.index_bits);
    if (thread == 0) {
      least = ~0ull;
      atomicMax(block_bounds_ + part_, packed);
    }
    __syncthreads();  // `least` is reset before any warp adds to it
    unsigned long long own = ~0ull;
    for (int i = thread; i < blocks; i += static_cast<int>(blockDim.x)) {
      const unsigned long long published = load_shared_word(block_bounds_ + i);
      own = min(own, i == part_ ? max(published, packed) : published);
    }
    own = warp_min(own);
    if (thread % 32 == 0) atomicMin(&least, own);
    __syncthreads();  // all warps have added
    const unsigned long long of_all = least;
    if (thread == 0 && of_all > 0) atomicMax(row_bound_, of_all);
    raise(unpacked(of_all));
  }

  // A first bound, from the best key of each thread's share of the first tile: the least, over the warps, of
  // their ceil(k / warps)-th best, which k elements reach.
  __device__ void start_bound(Word best) {
    __shared__ Word of_k[32], of_quota[32];
    const int warps = static_cast<int>(blockDim.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int rank_of_k = (params_.k + warps - 1) / warps - 1;
    const int rank_of_quota = (params_.quota + warps - 1) / warps - 1;
    const bool has_k = rank_of_k < 32, has_quota = shares_row() && rank_of_quota < 32;
    if (!has_k && !has_quota) return;
    const Word sorted = sort_descending(best);
    const Word own_of_k = __shfl_sync(~0u, sorted, min(rank_of_k, 31));
    const Word own_of_quota = __shfl_sync(~0u, sorted, min(rank_of_quota, 31));
    if (lane == 0) {
      of_k[warp] = own_of_k;
      of_quota[warp] = own_of_quota;
    }
    __syncthreads();  // all warps have told theirs
    const Word none = static_cast<Word>(~Word{0});
    if (has_k) raise({warp_min(lane < warps ? of_k[lane] : none), Index{0}});
    if (has_quota) publish({warp_min(lane < warps ? of_quota[lane] : none), Index{0}});
  }

  const Params<Bits, Index>& params_;
  List<Word, Index> list_;
  unsigned long long* row_bound_;
  unsigned long long* block_bounds_;
  int part_;
  Extended bound_{};  // threads that have seen different bounds of the row may differ
};

template <class Order, class Index>
__device__ void select_row(const Params<typename Order::Bits, Index>& params, const Order& order, int64_t row,
                           int part) {
  using Bits = typename Order::Bits;
  const Bits* const input = params.input + row * params.row_stride;
  const int blocks = params.blocks_per_row, groups = params.groups;
  Selector<Bits, Index> selector(params, row, part);
  selector.take(RowTiles<Order, Index>(input, params.cols, part, blocks, order));

  const int levels = blocks == 1 ? 0 : groups == 1 ? 1 : 2;
  for (int level = 0; level < levels; ++level) {
    // The groups' buffers lie one behind the other, a place of k entries for each block; then the row's.
    const int group = level == 0 ? part / params.blocks_per_group : groups;
    const int first = level == 0 ? group * params.blocks_per_group : blocks;
    const int members = level == 0 ? min(params.blocks_per_group, blocks - first) : groups;
    const int64_t buffer = (row * (blocks + groups) + first) * params.k;
    int64_t total = 0;
    if (!selector.hand_over(/*publishes=*/level == 0, params.counter(row, group), members,
                            params.keys + buffer, params.reversed + buffer, total)) {
      return;
    }
    selector.take(StoredEntries<typename KeyWord<Bits>::type, Index>(params.keys + buffer,
                                                                     params.reversed + buffer, total));
  }
  selector.write(order, input, params.output.row(row, params.k));
}

template <class Order, class Index>
__global__ void __launch_bounds__(kGridListMaxThreads, tuning::kGridListBlocksPerSm)
    select_rows(Params<typename Order::Bits, Index> params, Order order) {
  const int blocks = params.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x) % blocks;
  for (int64_t row = blockIdx.x / blocks; row < params.rows; row += gridDim.x / blocks) {
    select_row(params, order, row, part);
    __syncthreads();  // the next row's list replaces this one's
  }
}

// ---- Host ----

// One blob: what must be zero first, then the buffers. Nothing where a row has one block.
template <class Bits, class Index>
size_t carve(const Config& config, const Problem& problem, void* base, Params<Bits, Index>& params,
             size_t& zeroed_bytes) {
  using Word = typename KeyWord<Bits>::type;
  params.blocks_per_row = config.blocks_per_row;
  params.blocks_per_group = config.blocks_per_group;
  params.groups = (config.blocks_per_row + config.blocks_per_group - 1) / config.blocks_per_group;
  Workspace workspace(base);
  zeroed_bytes = 0;
  if (config.blocks_per_row == 1) return 0;
  const int64_t buffers = problem.rows * (params.groups + 1);
  params.row_bounds = workspace.take<unsigned long long>(problem.rows);
  params.block_bounds = workspace.take<unsigned long long>(problem.rows * config.blocks_per_row);
  params.stored = workspace.take<unsigned long long>(buffers);
  params.arrived = workspace.take<uint32_t>(buffers);
  zeroed_bytes = workspace.bytes();
  const int64_t entries = problem.rows * (config.blocks_per_row + params.groups) * problem.k;
  params.keys = workspace.take<Word>(entries);
  params.reversed = workspace.take<Index>(entries);
  return workspace.bytes();
}

// Indices of 32 bits serve rows of fewer than 2^32 elements.
template <class Visitor>
auto visit_index(int64_t cols, Visitor&& visitor) {
  return cols <= int64_t{0xFFFFFFFF} ? visitor(uint32_t{}) : visitor(uint64_t{});
}

template <class Order, class Index>
cudaError_t launch(const Config& config, const Problem& problem, const Buffers& buffers, Order order,
                   cudaStream_t stream) {
  using Bits = typename Order::Bits;
  Params<Bits, Index> params{};
  params.input = static_cast<const Bits*>(buffers.input);
  params.rows = problem.rows;
  params.row_stride = problem.row_stride;
  params.cols = problem.cols;
  params.k = static_cast<int>(problem.k);
  params.quota = static_cast<int>((problem.k + config.blocks_per_row - 1) / config.blocks_per_row);
  params.capacity = config.capacity;
  params.digit_bits = config.digit_bits;
  params.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
  params.slack = std::min(params.k / 8, (params.capacity - params.k) / 4);
  params.first_review = config.first_review;
  params.review_growth = config.review_growth;
  params.in_order = config.in_order;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  size_t zeroed_bytes = 0;
  carve(config, problem, buffers.workspace, params, zeroed_bytes);

  cudaError_t error = cudaSuccess;
  if (zeroed_bytes > 0) {
    error = cudaMemsetAsync(buffers.workspace, 0, zeroed_bytes, stream);
    if (error != cudaSuccess) return error;
  }
  constexpr int64_t kMostBlocks = 0x7FFFFFFF;
  // Rows that share blocks are taken one after the other, which blocks that share a row cannot do: a row's
  // last block is still at work when its others are done.
  if (config.blocks_per_row > 1 && problem.rows > kMostBlocks / config.blocks_per_row) {
    return cudaErrorInvalidConfiguration;
  }
  const unsigned blocks = static_cast<unsigned>(std::min(problem.rows, kMostBlocks / config.blocks_per_row) *
                                                config.blocks_per_row);
  const size_t bytes = shared_bytes<typename KeyWord<Bits>::type, Index>(config);
  static std::atomic<uint64_t> allowed;
  if ((error = allow_shared_memory(select_rows<Order, Index>, bytes, allowed)) != cudaSuccess) return error;
  select_rows<Order, Index><<<blocks, config.threads, bytes, stream>>>(params, order);
  return cudaGetLastError();
}

}  // namespace

size_t workspace_bytes(const Config& config, const Problem& problem) {
  return visit_key_order(problem.dtype, true, false, [&](auto order) {
    using Bits = typename decltype(order)::Bits;
    return visit_index(problem.cols, [&](auto index) {
      Params<Bits, decltype(index)> params{};
      size_t zeroed_bytes = 0;
      return carve(config, problem, nullptr, params, zeroed_bytes);
    });
  });
}

ErrorCode run(const Config& config, const Problem& problem, const Buffers& buffers, Stream stream) {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    return visit_index(problem.cols, [&](auto index) {
      return launch<decltype(order), decltype(index)>(config, problem, buffers, order, stream);
    });
  });
}

}  // namespace gputopk::cuda::grid_select_block
