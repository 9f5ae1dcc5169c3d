// Numbers of GridSelect. Each with its reason, measured on one NVIDIA H200.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

// ---- A list a block ----
// Chosen by reasoning; measured as they are (bench sets grid_select and goals). 256 threads, three blocks an
// SM, were slower, but for 10000 x 10000.

// As in AIR: 512 threads, two blocks an SM, 64 registers a thread.
inline constexpr int kGridListMaxThreads = 512;
inline constexpr int kGridListBlocksPerSm = 2;
// One block a row: a thread for so many elements, so that the first tile, which gives the first bound, is
// most of a short row, and several blocks share an SM; fewer elements where each block has an SM to itself.
inline constexpr int kGridListMinThreads = 64;
inline constexpr int kGridListElementsPerThread = 24;
inline constexpr int kGridListFewRowsElementsPerThread = 8;
// The work of starting and ending a block, in tiles; and where blocks share a row: bounds, storing, merging.
inline constexpr double kGridListBlockOverheadTiles = 3;
inline constexpr double kGridListSharedRowOverheadTiles = 6;
// Blocks that a group's last block merges: so many times k entries at most, and on a whole GPU about as many
// groups.
inline constexpr int kGridListGroup = 16;
// Room in the list beyond k: as much again, so that a list is pruned when k new candidates have come, and at
// least so much; a whole tile where there is no first bound.
inline constexpr int64_t kGridListMinRoom = 960;
// What a block may have of its SM's shared memory, so that two fit.
inline constexpr int kGridListSharedBytes = 104 * 1024;
// Digits by which lists are pruned, in short rows and otherwise: most prunings should take one, for entries
// are spread by the range of their own keys.
inline constexpr int kGridListShortDigitBits = 8;
inline constexpr int kGridListDigitBits = 11;
inline constexpr int kGridListShortCols = 16 * 1024;
// Bounds are brought up to date after so many tiles, sooner where there was no first bound, and then after so
// many times as many.
inline constexpr int kGridListFirstReview = 4;
inline constexpr int kGridListFirstReviewUnbounded = 1;
inline constexpr int kGridListReviewGrowth = 4;
// Up to this k winners are ranked by comparing each with each, and so are in order; beyond it, a step of its
// own orders them. Where no order is asked for, ranking pays only while it is cheaper than a digit. A few
// candidates more than k are compared too.
inline constexpr int kGridListRankedWinners = 128;
inline constexpr int kGridListRankedUnsorted = 32;
inline constexpr int kGridListSpareRanked = 16;

// ---- Lists in registers ----

// Blocks of 8 warps, as many an SM as leave registers for the list, of so many entries a lane, and two tiles
// of loads: 80 a thread, or 128. The loads in flight are 48 KB an SM, or 32 KB.
inline constexpr int kGridThreads = 256;
// Smaller ones, where a row has no more SMs than this, and so has few blocks.
inline constexpr int kGridSmallerThreads[] = {192, 128};
inline constexpr int kGridEvenSmsPerRow = 8;
constexpr int grid_blocks_per_sm(int list_items) { return list_items <= 2 ? 3 : 2; }
// A warp a row: with the smallest list 64 registers do, and rows that are short and many want warps.
constexpr int grid_warp_blocks_per_sm(int list_items) {
  return list_items <= 1 ? 4 : grid_blocks_per_sm(list_items);
}
// A warp takes a row of up to so many elements, and a longer one where rows are enough for all warps: nothing
// then waits for a barrier or a merge of lists.
inline constexpr int64_t kGridWarpMaxCols = 1024;
inline constexpr int64_t kGridWarpMaxColsManyRows = 16 * 1024;
inline constexpr int64_t kGridWarpManyRowsPerSm = 16;
// The work of starting and ending a block, in tiles: the sample, the first, crowded, tile, merging lists; and
// where blocks share a row, a launch more, and the last block's merge.
inline constexpr double kGridBlockOverheadTiles = 6;
inline constexpr double kGridSharedRowOverheadTiles = 12;
// A row's last block reads so many entries of the others in the time of a tile.
inline constexpr double kGridEntriesPerTile = 8192;
// Samples are read again with the row: one element in so many.
inline constexpr int64_t kGridSampleOneIn = 64;
// A warp reads the row's bound once in so many tiles: all warps read one address.
inline constexpr int kGridTilesBetweenReads = 16;

}  // namespace gputopk::cuda::tuning
