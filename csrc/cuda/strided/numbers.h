// Numbers of rows that do not lie side by side. Each with its reason.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

// ---- Panels ----

// Rows side by side whose elements of one column fill a sector of memory.
constexpr int64_t panel_least_rows(int element_bytes) { return 32 / element_bytes; }

// ---- Moving rows ----

// Squares that a thread turns, one after the other: where its rows lie is found once for them. (Two on their
// way at a time take registers for which fewer blocks have room, and took up to a quarter longer.)
inline constexpr int kTurnSquares = 4;
// Elements of a tile where there are few in all: more blocks share them.
inline constexpr int64_t kMoveFewElements = 1 << 18;
inline constexpr int kMoveSmallTile = 256;

inline constexpr int kMoveThreads = 256;
// Elements of a tile, of up to 4 bytes and of 8: 16 KB, so that eight blocks fit an SM.
constexpr int move_tile(int element_bytes) { return element_bytes == 8 ? 2048 : 4096; }
// Rows of a tile, at most: their places are computed once. And where rows are long: a line of memory.
inline constexpr int kMoveMostRows = 256;
inline constexpr int kMoveLineRows = 32;

}  // namespace gputopk::cuda::tuning
