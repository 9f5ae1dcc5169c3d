// Numbers of bitonic top-k. Each with its reason.
#pragma once

namespace gputopk::cuda::tuning {

// ---- A row in a thread ----

inline constexpr int kOneThreadThreads = 128;
// As much of a row as leaves room for 16 warps an SM: 64 registers, and the best of the row.
constexpr int one_thread_elements(int element_bytes) { return element_bytes == 8 ? 32 : 64; }
// Blocks an SM that leave registers for so many words.
constexpr int one_thread_blocks(int words) { return words == 64 ? 4 : words == 32 ? 7 : 9; }

// ---- A row in a warp ----

// Small blocks: warps have nothing to do with each other, and a block's place is free again when its last
// warp is done.
inline constexpr int kOneWarpThreads = 128;
// The most winners for each lane of a row: as many as its maxima bound. A list has room for twice as many,
// which is less than a row.
constexpr int one_warp_most_k_per_lane(int lanes) { return lanes < 32 ? 2 : 4; }
constexpr int one_warp_list_per_lane(int lanes) { return 2 * one_warp_most_k_per_lane(lanes); }
// More listed elements than random rows have: then equals of the bound are looked for, and left out.
constexpr int one_warp_crowded(int room, int lanes, int k) {
  return 2 * k + lanes / 2 < room ? 2 * k + lanes / 2 : room;
}
// So many equals behind the k-th of the maxima are more than random rows have, too.
constexpr int one_warp_many_equals(int k) { return k / 4 + 2; }
// Times that the bound of a row that crowds is raised to the next number, before its keys are bisected.
inline constexpr int kOneWarpTurns = 2;
// Blocks an SM that leave registers for the elements of a lane.
constexpr int one_warp_blocks(int element_bytes, int elements) {
  return element_bytes == 8 ? 4 : elements == 32 ? 7 : 9;
}

// Rows of a tile, where rows do not lie side by side and are many: 32 KB, and a line of memory at most and a
// sector, or a square, at least.
constexpr int one_warp_tile_row_bits(int cols, int element_bytes) {
  int bits = 5;
  while ((cols * element_bytes << bits) > 32 * 1024 && (element_bytes << bits) > 32) --bits;
  return bits;
}

// ---- Runs of several blocks a row ----

// 64-bit runs of 8 a lane, and as many that are new, leave two blocks an SM.
inline constexpr int kManyBlocksThreads = 256;
inline constexpr int kManyBlocksPerSm = 2;
// A block reads so many elements a lane at least: as much work as the merges at its end.
inline constexpr int64_t kManyBlocksElementsPerLane = 64;

}  // namespace gputopk::cuda::tuning
