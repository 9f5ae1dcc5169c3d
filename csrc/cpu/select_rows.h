// What the CPU algorithm offers for each level of vector instructions. select_rows.cpp is compiled once a
// level, with the level's flags and GPUTOPK_CPU_LEVEL naming its namespace; topk_cpu.cpp picks one at
// run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/key_order.h"

namespace gputopk::cpu {

// Rows that are done together, and their winners' places.
constexpr int64_t kBatchRows = 64;

struct Batch {
  int64_t count = 0;  // at most kBatchRows
  int64_t cols;
  int64_t col_stride;  // elements from one element of a row to the next
  int64_t k;
  const void* rows[kBatchRows];  // the first element of each
  int64_t places[kBatchRows];    // of each row's best winner in the outputs
};

// The outputs of the call. A row's winners are `stride` elements apart.
struct Output {
  void* values;
  void* indices;
  int64_t stride;
  bool wide_indices;
  bool sorted;
};

// Where a worker keeps what it has found. topk_cpu.cpp sizes it by the constants below.
struct Scratch {
  // For each row of a batch, so many bytes apart: 2 k + kSpareCandidates candidates, or a part of them; what
  // is not in use is a sort's second buffer.
  char* candidates;
  size_t candidates_pitch;
  char* delegates;  // min(2 k, cols / kMinElementsPerDelegate) + kSpareDelegates keys
  char* keys;       // keys_capacity + kSpareKeys keys
  int64_t keys_capacity;
  char* panel;  // kPanelBytes and a cache line or two a row
};

constexpr size_t kNarrowCandidateBytes = 8;  // keys up to 4 bytes, rows up to kMaxNarrowCols
constexpr size_t kWideCandidateBytes = 16;
constexpr int64_t kMaxNarrowCols = int64_t{1} << 32;

// A cut leaves up to k + kMaxCutSlack candidates, and those are sorted with a second buffer.
constexpr int64_t kMaxCutSlack = 1024;
constexpr int64_t kSpareCandidates = 2 * kMaxCutSlack;
constexpr int64_t kSpareDelegates = 64;  // to the end of a vector
constexpr int64_t kSpareKeys = 64;       // to the end of a strip

// With fewer elements behind a delegate the floor would reject too little to pay for itself.
constexpr int64_t kMinElementsPerDelegate = 4;

// Elements of a tile: 16 KB of float32, so that the memory is read once where a tile is read twice.
constexpr int64_t kTile = 4096;

// Rows that select_short_rows takes. Of 4096 elements or with more winners they gain nothing by it.
constexpr int64_t kMaxShortCols = 1024;
constexpr int64_t kMaxShortK = 16;

// Rows that select_tiny_rows takes: it compares each element with each other, vectors at a time, which is
// cols^2 x bytes of work for elements of `bytes`. Up to here it is ahead, with AVX2 at any k; with more
// winners than select_short_rows takes, further.
constexpr int64_t kMaxTinyWork = 2304;
constexpr int64_t kMaxTinyWorkOfMany = 48 * 48 * 4;
constexpr int64_t kMaxTinyCols = 64;
constexpr bool are_tiny(int64_t rows, int64_t cols, int64_t k, int64_t bytes) {
  const bool of_many = k > kMaxShortK && rows * bytes >= 64;
  return cols <= kMaxTinyCols && cols * cols * bytes <= (of_many ? kMaxTinyWorkOfMany : kMaxTinyWork);
}

// A panel holds elements of a batch whose rows are not dense. It stays in the second-level cache.
constexpr int64_t kPanelBytes = 256 * 1024;

constexpr int64_t kPanelRowSlack = 128;  // bytes a row, for the pitch

// Elements from one of its rows to the next: an odd number of cache lines, as rows at a power of two would
// share a set of the cache.
constexpr int64_t panel_pitch(int64_t cols, int64_t bytes) {
  const int64_t lines = (cols * bytes + 63) / 64;
  return (lines + (lines + 1) % 2) * 64 / bytes;
}

template <class Order>
struct Kernel {
  // Of rows of any col_stride.
  //
  // Copies rows with k = cols, in the order of their elements.
  void (*copy_rows)(const Batch& batch, const Output& output);
  // Writes the best k of rows that are tiny.
  void (*select_tiny_rows)(const Order& order, const Batch& batch, const Output& output);
  // Collects, from [begin, end) of each row, candidates that contain its min(k, end - begin) best, in the
  // order of their indices. counts[i x counts_pitch] becomes the number of row i.
  void (*select_columns)(const Order& order, const Batch& batch, int64_t begin, int64_t end,
                         const Scratch& scratch, int64_t* counts, int64_t counts_pitch);
  // Makes rows dense that fit the panel.
  void (*gather_rows)(Batch& batch, const Scratch& scratch);

  // Of dense rows.
  //
  // Writes the best k of rows with cols <= kMaxShortCols and k <= kMaxShortK.
  void (*select_short_rows)(const Order& order, const Batch& batch, const Scratch& scratch,
                            const Output& output);
  // Like select_columns, for row i. Returns how many.
  int64_t (*select_piece)(const Order& order, const Batch& batch, int64_t i, int64_t begin, int64_t end,
                          const Scratch& scratch);

  // Writes the best k of row i's `count` >= k candidates.
  void (*write_best)(const Batch& batch, int64_t i, const Scratch& scratch, int64_t count,
                     const Output& output);
};

// One for each level that was compiled. `wide`: with candidates of kWideCandidateBytes.
namespace baseline {
template <class Order>
Kernel<Order> kernel(bool wide);
}
namespace avx2 {
template <class Order>
Kernel<Order> kernel(bool wide);
}
namespace avx512 {
template <class Order>
Kernel<Order> kernel(bool wide);
}

}  // namespace gputopk::cpu
