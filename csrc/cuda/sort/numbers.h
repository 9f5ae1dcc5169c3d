// Numbers of sorting. Each with its reason.
#pragma once

#include <cstdint>

#include "cuda/device/numbers.h"

namespace gputopk::cuda::tuning {

// ---- A block sorts ----

// Entries a thread where rows are many, so that blocks of several work while others wait; and where an SM has
// but one to sort, so that it is done soonest.
inline constexpr int kSortItemsManyRows = 8;
inline constexpr int kSortItemsFewRows = 2;

// Shared memory of the kernels' own variables.
inline constexpr int kSortStaticBytes = 4 * 1024;

// ---- By marks ----

// Entries of a thread, in registers; and so many words of marks for each entry of a row at most, as all of
// them are cleared and counted.
inline constexpr int kMarkedItems = 8;
inline constexpr int64_t kMarkedWordsPerEntry = 8;

// ---- The last in its place ----

// Entries of a thread that are read together.
inline constexpr int kLastItems = 4;
inline constexpr int kLastMaxThreads = 1024;
// So many entries are read by one block: by several, it takes one launch more, of some 2 us, in which a block
// reads as much. Then a block takes so many of them, and there are so many blocks an SM.
inline constexpr int64_t kLastMostInBlock = 16 * 1024;
inline constexpr int64_t kLastShare = int64_t{kLastItems} * kLastMaxThreads;
inline constexpr int kLastBlocksPerSm = 2;
// Threads that read what those have found: no more places than a thread or two of each would have.
inline constexpr int kLastPlacesThreads = 128;

// ---- Rows in parts ----

// Splitters are every so manyth entry of a sorted sample, or of one twice as large. The size of a part is
// then that of a gamma variable of this shape: more than the slack times the mean once in 10^5 parts.
inline constexpr int kSortSamplesPerPart = 15;
inline constexpr double kSortPartSlack = 2.5;
// Threads of a block that sorts a part, or twice or four times as many where that leaves more parts than
// that: their sample takes longer.
inline constexpr int kSortPartThreads = 256;
inline constexpr int64_t kSortFewParts = 546;
// So many for an SM, or fewer, are as many for each.
inline constexpr int64_t kSortFewPartsPerSm = 16;
// Blocks of a row share the sample where it has more entries than that.
inline constexpr int kSortSampleChunk = 256;
inline constexpr int kSortSampleBlocks = 16;
// Each entry is then ranked in all chunks: so many by a block, a part of a chunk, and its threads.
inline constexpr int kSortRanked = 128;
inline constexpr int kSortRankThreads = 512;
// A block keeps that many splitters.
inline constexpr int kSortMaxParts = 2048;
// Threads and blocks an SM that deal entries out; the fewest entries that a block takes at a time.
inline constexpr int kSortDealThreads = 512;
inline constexpr int kSortDealBlocksPerSm = 2;
inline constexpr int kSortDealMinTile = 1024;
// Of a row, where all rows' make more than one round of the GPU; to begin takes a block as long as so many
// entries.
inline constexpr int64_t kSortDealMostBlocks = 8;
inline constexpr int64_t kSortDealBeginning = 2048;
// Bins of the splitters' range for each: an entry is then compared with one of them, or none.
inline constexpr int kSortBinsPerPart = 4;
// Entries whose parts a thread finds side by side, and chunks of a sample in which it ranks one.
inline constexpr int kSortSearches = 4;

// ---- Forms ----

// Whole rows are sorted where k is so large a part of them, or where a block holds one of any dtype.
inline constexpr int64_t kSortMostColsPerK = 8;
inline constexpr int64_t kSortShortCols = kSortMaxThreads * kSortWideItems;
// Elements in flight a thread, and blocks an SM, of a copy.
inline constexpr int kCopyThreads = 256;
inline constexpr int kCopyItems = 8;
inline constexpr int kCopyBlocksPerSm = 8;

}  // namespace gputopk::cuda::tuning
