// What the CPU algorithm offers for each level of vector instructions. select_rows.cpp is compiled once a
// level, with the level's flags and GPUTOPK_CPU_LEVEL naming its namespace; topk_cpu.cpp picks one at
// run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/key_order.h"

namespace gputopk::cpu {

// A stretch of one row.
struct Piece {
  const void* row;  // its element 0
  int64_t begin;
  int64_t end;
  int64_t k;
};

// A batch of whole rows.
struct Rows {
  const void* first;  // its element 0
  int64_t stride;     // elements from one row to the next
  int64_t count;
  int64_t cols;
  int64_t k;
};

// Where a worker keeps what it has found. topk_cpu.cpp sizes it by the constants below.
struct Scratch {
  char* candidates;  // 2 k + kSpareCandidates; what is not in use is a sort's second buffer
  char* delegates;   // 2 k + kSpareDelegates keys
  char* keys;        // keys_capacity + kSpareKeys keys
  int64_t keys_capacity;
};

// Where the k winners of a row go.
struct Output {
  void* values;
  void* indices;
  bool wide_indices;
  bool sorted;
};

constexpr size_t kNarrowCandidateBytes = 8;  // keys up to 4 bytes, rows up to kMaxNarrowCols
constexpr size_t kWideCandidateBytes = 16;
constexpr int64_t kMaxNarrowCols = int64_t{1} << 32;

// A cut leaves up to k + kMaxCutSlack candidates, and those are sorted with a second buffer.
constexpr int64_t kMaxCutSlack = 1024;
constexpr int64_t kSpareCandidates = 2 * kMaxCutSlack;
constexpr int64_t kSpareDelegates = 64;  // to the end of a vector
constexpr int64_t kSpareKeys = 64;       // to the end of a strip

// Elements of a tile: 16 KB of float32, so that the memory is read once where a tile is read twice.
constexpr int64_t kTile = 4096;

// Rows that select_short_rows takes. Of 4096 elements or with more winners they gain nothing by it.
constexpr int64_t kMaxShortCols = 1024;
constexpr int64_t kMaxShortK = 16;

template <class Order>
struct Kernel {
  // Collects candidates of the piece, in the order of their indices, that contain its min(k, length) best.
  // Returns how many.
  int64_t (*select_piece)(const Order& order, const Piece& piece, const Scratch& scratch);
  // Writes the best k of `count` >= k candidates, which are in the order of their indices.
  void (*write_best)(const Piece& piece, const Scratch& scratch, int64_t count, const Output& output);
  // Both, for a batch of rows with cols <= kMaxShortCols and k <= kMaxShortK. `output` is the first row's.
  void (*select_short_rows)(const Order& order, const Rows& rows, const Scratch& scratch,
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
