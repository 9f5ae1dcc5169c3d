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

// Shared memory of the kernels' own variables, and where they keep samples of a cluster's chunks.
inline constexpr int kSortStaticBytes = 4 * 1024;
inline constexpr int kSortClusterStaticBytes = 12 * 1024;

// ---- A cluster sorts a row ----

inline constexpr int kSortClusterMostBlocks = 16;
// One row takes 0.95 of its time in parts, two to eight 1.09, and hundreds up to 4 times as long: an SM has
// room for one block of a cluster alone (bench/results/plan-h200.jsonl).
inline constexpr int64_t kSortClusterMostRows = 1;

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

// Splitters are every so manyth entry of a sorted sample. The size of a part is then that of a gamma variable
// of this shape: more than three times the mean once in some 10^4 parts.
inline constexpr int kSortSamplesPerPart = 8;
// Blocks of a cluster share the sample where it has more entries than that: one takes 33 us for 8192.
inline constexpr int kSortSampleChunk = 512;
inline constexpr int kSortPartSlack = 3;
// A smaller one will do where a part then takes half a block: of some hundred parts one is too large.
inline constexpr double kSortLeastSlack = 2;
// A block keeps that many splitters: a power of two.
inline constexpr int kSortMaxParts = 2048;
// Threads and blocks an SM that deal entries out, and the fewest entries that a block takes at a time.
inline constexpr int kSortDealThreads = 512;
inline constexpr int kSortDealBlocksPerSm = 2;
inline constexpr int kSortDealMinTile = 1024;
// Entries whose parts a thread finds side by side.
inline constexpr int kSortSearches = 4;
// A part that is too large is read once for every chunk of it: of more chunks, sorting by digits is no
// slower.
inline constexpr int kSortMostChunks = 32;

// ---- Forms ----

// Whole rows are sorted where k is so large a part of them, or where a block holds one of any dtype.
inline constexpr int64_t kSortMostColsPerK = 8;
inline constexpr int64_t kSortShortCols = kSortMaxThreads * kSortWideItems;
// Elements in flight a thread, and blocks an SM, of a copy.
inline constexpr int kCopyThreads = 256;
inline constexpr int kCopyItems = 8;
inline constexpr int kCopyBlocksPerSm = 8;

}  // namespace gputopk::cuda::tuning
