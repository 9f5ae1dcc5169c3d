// What the CPU algorithm offers for each level of vector instructions. select_rows.cpp is compiled once a
// level, with the level's flags and GPUTOPK_CPU_LEVEL naming its namespace; topk_cpu.cpp picks one at run time.
#pragma once

#include <cstdint>

#include "core/key_order.h"

namespace gputopk::cpu {

// Where a worker keeps what it has found. `bytes` in all, from the workspace.
struct Scratch {
  char* candidates;    // packed candidates; the tail beyond those held serves as a sort's second buffer
  int64_t capacity;    // in candidates
  char* delegates;     // keys, one a lane of a tile
  char* keys;          // of a tile
};

// A stretch of one row.
struct Piece {
  const void* row;  // its element 0
  int64_t begin;
  int64_t end;
  int64_t k;
};

// Where the k winners of a row go.
struct Output {
  void* values;
  void* indices;
  bool wide_indices;
  bool sorted;
};

// 128-bit candidates serve 8-byte keys, and 4-byte keys in rows beyond 2^32 elements.
__extension__ typedef unsigned __int128 WideCandidate;
using NarrowCandidate = uint64_t;

// Sizes that the workspace follows; see select_rows.cpp for what they hold.
constexpr int64_t kCandidateSlack = 4096;
constexpr int64_t kMaxDelegatesPerWinner = 4;

// Elements of a tile: 16 KB of float32, so that reading them twice costs the memory one reading.
constexpr int64_t kTile = 4096;

template <class Order>
struct Kernel {
  // Collects candidates of the piece, in the order of their indices, that contain its min(k, length) best.
  // Returns how many.
  int64_t (*select_piece)(const Order& order, const Piece& piece, const Scratch& scratch);
  // Writes the best k of `count` candidates, which are in the order of their indices.
  void (*write_best)(const Order& order, const Piece& piece, const Scratch& scratch, int64_t count,
                     const Output& output);
};

// One for each level that was compiled. `wide`: with 128-bit candidates.
namespace baseline {
template <class Order> Kernel<Order> kernel(bool wide);
}
namespace avx2 {
template <class Order> Kernel<Order> kernel(bool wide);
}
namespace avx512 {
template <class Order> Kernel<Order> kernel(bool wide);
}

}  // namespace gputopk::cpu
