// A block's list of a row's candidates in shared memory: appended to by warps, pruned, and at last put in
// order. All shared memory is the caller's.
#pragma once

#include <cstdint>

#include "cuda/device/list_selection.cuh"
#include "cuda/device/selection.cuh"

namespace gputopk::cuda {

using ListIndex = uint32_t;  // rows of fewer than 2^32 elements

// What methods of CandidateList share with each other.
template <class Word>
struct CandidateScratch {
  ListSelectionScratch<Word> list;
  KeyRange<uint32_t> reversed;
  uint32_t added[3];
  uint32_t kept;
  uint32_t crowded;
};

// Entries are in three arrays of `capacity`: 8-byte words first, so that all are aligned.
template <class Bits>
struct CandidateList {
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, ListIndex>;
  using Scratch = CandidateScratch<Word>;

  Word* keys;
  ListIndex* reversed;
  Bits* values;
  int capacity;
  int digit_bits;       // of the histogram: 2^digit_bits bins, kBinsPerThread * blockDim.x at most
  int index_bits;       // of a row's indices
  uint32_t* histogram;  // 16-byte aligned
  Scratch& scratch;

  static constexpr size_t bytes(int capacity) {
    return static_cast<size_t>(capacity) * (sizeof(Word) + sizeof(ListIndex) + sizeof(Bits));
  }
  __device__ CandidateList(unsigned char* memory, int capacity, uint32_t* histogram, int digit_bits,
                           int index_bits, Scratch& scratch)
      : keys(reinterpret_cast<Word*>(memory)),
        reversed(reinterpret_cast<ListIndex*>(keys + capacity)),
        values(reinterpret_cast<Bits*>(reversed + capacity)),
        capacity(capacity),
        digit_bits(digit_bits),
        index_bits(index_bits),
        histogram(histogram),
        scratch(scratch) {}

  __device__ Extended operator[](int i) const { return {keys[i], reversed[i]}; }

  __device__ void put(uint32_t at, const Extended& x, Bits value) const {
    if (at >= static_cast<uint32_t>(capacity)) return;
    keys[at] = x.key;
    reversed[at] = x.reversed;
    values[at] = value;
  }

  // A place for each of what the lanes of a warp have, which call it together: the first of a lane's own, in
  // a count that all warps add to.
  __device__ static uint32_t reserve(uint32_t* count, uint32_t wanted) {
    const uint32_t lane = threadIdx.x % 32;
    uint32_t reached = wanted;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const uint32_t other = __shfl_up_sync(~0u, reached, step);
      if (lane >= static_cast<uint32_t>(step)) reached += other;
    }
    uint32_t base = 0;
    if (lane == 31) base = atomicAdd(count, reached);
    return __shfl_sync(~0u, base, 31) + reached - wanted;
  }

  // The methods below are called by all threads of the block, when the first `entries` are whole, and are
  // followed by a barrier of their own.

  // Of the `entries`, more than k: keeps k, and `slack` more at most. The bound that those reach; how many
  // they are replaces `entries`.
  __device__ Extended prune(int& entries, int k, int slack) const {
    find_key_range</*kInFlight=*/2>(entries, scratch.list, [&](int i) { return keys[i]; });
    const Extended bound = bound_in_list<Word, ListIndex>(
        entries, static_cast<uint64_t>(k), static_cast<uint64_t>(slack), index_bits, digit_bits, histogram,
        scratch.list, [&](int i) { return (*this)[i]; });
    keep(entries, bound);
    return bound;
  }

  __device__ void keep(int& entries, const Extended& bound) const {
    constexpr int kEach = 2;
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    if (thread == 0) scratch.kept = 0;
    for (int base = 0; base < entries; base += threads * kEach) {
      Extended x[kEach];
      Bits value[kEach];
      bool stays[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const int at = base + e * threads + thread;
        x[e] = at < entries ? (*this)[at] : Extended{};
        value[e] = at < entries ? values[at] : Bits{};
        stays[e] = at < entries && !(x[e] < bound);
      }
      // What is put now lies at or below what all threads have just read, and never above it.
      __syncthreads();
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const uint32_t at = reserve(&scratch.kept, stays[e] ? 1 : 0);
        if (stays[e]) put(at, x[e], value[e]);
      }
    }
    __syncthreads();  // the list is whole
    entries = static_cast<int>(scratch.kept);
  }

  // Finds the places of the k best of the `entries`, best first if `in_order`, and then every entry but those
  // may be overwritten. `places` and `spare` have room for `capacity` and for k rounded up to a power of two.
  __device__ void find_best(int entries, int k, bool in_order, uint16_t* places, uint16_t* spare) const {
    if (entries <= kRanked) return rank_all(entries, k, places);
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const Digit digit = count_by_digit(entries);
    const ExtendedKey<Word, ListIndex> low = lowest();
    const auto bin_of = [&](int i) {
      return digit.of(static_cast<Word>(keys[i] - low.key),
                      static_cast<ListIndex>(reversed[i] - low.reversed));
    };
    if (find_first_places(1 << digit.width(), k, in_order)) {
      if (entries > k) prune(entries, k, /*slack=*/0);
      return in_order ? sort_all(k, places) : list_all(k, places);
    }
    for (int i = thread; i < entries; i += threads) spare[atomicAdd(histogram + bin_of(i), 1u)] = i;
    __syncthreads();  // every bin's entries lie side by side, up to where its count has got

    for (int p = thread; p < entries; p += threads) {
      const int i = spare[p];
      const uint32_t bin = bin_of(i);
      const int begin = bin + 1 < 1u << digit.width() ? static_cast<int>(histogram[bin + 1]) : 0;
      const int end = static_cast<int>(histogram[bin]);
      if (begin >= k) break;  // and so do all that follow
      int rank = p;
      if (in_order || end > k) {
        const Extended x = (*this)[i];
        rank = begin;
        for (int other = begin; other < end; ++other) rank += x < (*this)[spare[other]];
      }
      if (rank < k) places[rank] = static_cast<uint16_t>(i);
    }
    __syncthreads();  // the places are known
  }

 private:
  static constexpr int kRanked = 160;     // entries that are compared with every other
  static constexpr uint32_t kCrowd = 64;  // entries of a bin that are too many for that

  // What digits are distances from.
  __device__ Extended lowest() const {
    const bool one_key = scratch.list.range.least == scratch.list.range.greatest;
    return {static_cast<Word>(scratch.list.range.least), one_key ? scratch.reversed.least : 0};
  }

  // Counts the highest digit of the range that the entries really have.
  __device__ Digit count_by_digit(int entries) const {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    if (thread == 0) {
      scratch.list.range.reset();
      scratch.reversed.reset();
      scratch.crowded = 0;
    }
    clear_histogram(histogram, 1 << digit_bits);
    __syncthreads();
    SeenKeys<Word> seen;
    SeenKeys<uint32_t> seen_reversed;
    for (int i = thread; i < entries; i += threads) {
      seen.see(keys[i]);
      seen_reversed.see(reversed[i]);
    }
    scratch.list.range.add(seen);
    scratch.reversed.add(seen_reversed);
    __syncthreads();  // all warps have added
    const Extended low = lowest();
    const int key_bits = bits_of(static_cast<Word>(scratch.list.range.greatest - low.key));
    const Digit digit =
        digit_of_pass(1, digit_bits, key_bits,
                      key_bits > 0 ? index_bits : bits_of(scratch.reversed.greatest - low.reversed));
    for (int i = thread; i < entries; i += threads) {
      atomicAdd(histogram + digit.of(static_cast<Word>(keys[i] - low.key),
                                     static_cast<ListIndex>(reversed[i] - low.reversed)),
                1u);
    }
    __syncthreads();  // all have counted
    return digit;
  }

  // Replaces the count of each bin by the counts of those above it, together. True if one has a crowd that is
  // to be told apart.
  __device__ bool find_first_places(int bins, int k, bool in_order) const {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const int lane = thread % 32, warp = thread / 32;
    uint32_t* const warp_sums = scratch.list.target.warp_sums;
    const int chunk = bins > threads ? bins / threads : 1;
    const int first_bin = bins - (thread + 1) * chunk;
    uint32_t sum = 0;
    if (first_bin >= 0) {
      for (int i = 0; i < chunk; ++i) sum += histogram[first_bin + ((i + thread) & (chunk - 1))];
    }
    uint32_t reached = sum;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const uint32_t other = __shfl_up_sync(~0u, reached, step);
      if (lane >= step) reached += other;
    }
    if (lane == 31) warp_sums[warp] = reached;
    __syncthreads();
    // Every warp for itself.
    const uint32_t others = __reduce_add_sync(~0u, lane < warp ? warp_sums[lane] : 0u);
    uint32_t above = others + reached - sum;
    bool crowded = false;
    if (first_bin >= 0) {
      for (int i = chunk - 1; i >= 0; --i) {
        const uint32_t count = histogram[first_bin + i];
        histogram[first_bin + i] = above;
        const uint32_t most = static_cast<uint32_t>(k);
        crowded |= count > kCrowd && above < most && (in_order || above + count > most);
        above += count;
      }
    }
    if (crowded) scratch.crowded = 1;
    __syncthreads();  // the places are there
    return scratch.crowded != 0;
  }

  // Several lanes compare one entry with all.
  __device__ void rank_all(int entries, int k, uint16_t* places) const {
    constexpr int kLanes = 8;
    const int lane = static_cast<int>(threadIdx.x) % 32, sublane = lane % kLanes;
    const int step = static_cast<int>(blockDim.x) / kLanes;
    for (int base = (static_cast<int>(threadIdx.x) - lane) / kLanes; base < entries; base += step) {
      const int i = base + lane / kLanes;
      const Extended x = (*this)[min(i, entries - 1)];
      int rank = 0;
#pragma unroll 4
      for (int other = sublane; other < entries; other += kLanes) rank += x < (*this)[other];
#pragma unroll
      for (int s = kLanes / 2; s > 0; s /= 2) rank += __shfl_xor_sync(~0u, rank, s);
      if (sublane == 0 && i < entries && rank < k) places[rank] = static_cast<uint16_t>(i);
    }
    __syncthreads();  // the places are known
  }

  __device__ static void list_all(int k, uint16_t* places) {
    for (int i = static_cast<int>(threadIdx.x); i < k; i += static_cast<int>(blockDim.x)) {
      places[i] = static_cast<uint16_t>(i);
    }
    __syncthreads();
  }

  // A bitonic network, which takes the same time whatever the entries are: places beyond k are below all.
  __device__ void sort_all(int k, uint16_t* places) const {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    int size = 1;
    while (size < k) size *= 2;
    list_all(size, places);
    for (int run = 2; run <= size; run *= 2) {
      for (int distance = run / 2; distance > 0; distance /= 2) {
        for (int pair = thread; pair < size / 2; pair += threads) {
          const int first = 2 * pair - (pair & (distance - 1)), second = first + distance;
          const uint16_t a = places[first], b = places[second];
          const bool descends = (first & run) == 0;
          const bool rises = a >= k ? b < k : b < k && (*this)[a] < (*this)[b];
          const bool falls = b >= k ? a < k : a < k && (*this)[b] < (*this)[a];
          if (descends ? rises : falls) {
            places[first] = b;
            places[second] = a;
          }
        }
        __syncthreads();  // the next step's pairs are others
      }
    }
  }
};

}  // namespace gputopk::cuda
