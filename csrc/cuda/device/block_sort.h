// What a block that sorts entries is given: block_sort.cuh.
#pragma once

#include <cstdint>

#include "cuda/device/numbers.h"

namespace gputopk::cuda {

// Where entries lie: an output, a workspace, rows of the input or shared memory.
struct Entries {
  void* values;
  void* indices;  // of int64 where `wide`, else of int32; null: an entry's index is where it lies in its row
  bool wide;
};

inline constexpr int kDigits = 1 << tuning::kSortDigitBits;
inline constexpr int kLeastBins = 128;  // what a warp scans in one step

// Bins for so many entries: a power of two.
constexpr int bins_for(int64_t entries) {
  int bins = kLeastBins;
  while (bins < entries) bins *= 2;
  return bins;
}

// Dynamic shared memory of a block that sorts: its entries, and counters of bins or of digits.
constexpr int64_t counters_of_block(int capacity, int threads) {
  const int64_t bins = bins_for(capacity) + 4;  // and where the last one ends, with its alignment
  const int64_t digits = int64_t{threads / 32 + 1} * kDigits;
  return bins > digits ? bins : digits;
}
constexpr int64_t block_bytes(int entry_bytes, int capacity, int threads) {
  return int64_t{entry_bytes} * capacity + int64_t{sizeof(uint32_t)} * counters_of_block(capacity, threads);
}

}  // namespace gputopk::cuda
