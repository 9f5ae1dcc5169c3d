// Numbers of sorting. Each with its reason.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

// ---- A block sorts ----

// A block of 1024 threads has 64 registers for each, and keeps entries in them: 16 a thread, or 8 where a
// value or an index has 64 bits.
inline constexpr int kSortMaxThreads = 1024;
inline constexpr int kSortMinThreads = 64;
inline constexpr int kSortItems = 16;
inline constexpr int kSortWideItems = 8;
// Entries a thread where rows are many, so that blocks of several work while others wait; and where an SM has
// but one to sort, so that it is done soonest.
inline constexpr int kSortItemsManyRows = 8;
inline constexpr int kSortItemsFewRows = 2;
// Entries are ranked within bins of their row's range while they meet so many there on average. Sorting by
// digits is seven passes or so and took 7 times as long as ranking where bins hold a few (4096 x 4096, normal
// against all_equal); a row of normal floats, most of whose range is near zero, meets some 40.
inline constexpr int kSortCrowdedBin = 128;
inline constexpr int kSortDigitBits = 8;

// ---- Rows in parts ----

// Splitters are every so manyth entry of a sorted sample. The size of a part is then that of a gamma variable
// of this shape: more than three times the mean once in 10^8 parts.
inline constexpr int kSortSamplesPerPart = 16;
inline constexpr int kSortPartSlack = 3;
// A block keeps that many splitters.
inline constexpr int kSortMaxParts = 1024;
// Threads and blocks an SM that deal entries out, and the fewest entries that a block takes at a time.
inline constexpr int kSortDealThreads = 512;
inline constexpr int kSortDealBlocksPerSm = 2;
inline constexpr int kSortDealMinTile = 1024;

// ---- CUB's device-wide sort ----

// Threads of a block before and behind the sort, and entries of each, which are in flight together.
inline constexpr int kDeviceSortThreads = 256;
inline constexpr int kDeviceSortItems = 8;
// A whole row costs its 8 bytes an element some four times over, and as much memory, however small k is.
inline constexpr int64_t kDeviceSortMostColsPerK = 4;
// A row is 8 to 22 launches, so the host has some milliseconds to do for as many.
inline constexpr int64_t kDeviceSortMostRows = 64;
// Winners of a row from which they are sorted so. On paper it takes some 50 us of launches and 40 ns a
// thousand winners of float32; parts take 25 us and 80 to 110 ns (27 us for 2^15 winners, 108 for 2^20, 560
// for 5 million).
inline constexpr int64_t kDeviceOrderMinK = 1 << 19;

// ---- A partition by two bounds ----

// Threads that read a row, and blocks an SM.
inline constexpr int kSplitThreads = 512;
inline constexpr int kSplitBlocksPerSm = 2;
// A bound is so many standard deviations of its rank off, which is wrong once in a million rows.
inline constexpr double kPartitionDeviations = 5;
// A sample reads a sector of 32 bytes for each element: of one in so many, where a block can sort as many.
inline constexpr int64_t kPartitionColsPerSample = 128;
inline constexpr int kPartitionMinSamples = 1024;
// A block finds the last winners among so many by itself; more are partitioned once more.
inline constexpr int64_t kPartitionLastEntries = 32 * 1024;
// Rows so long, and k so large a share of them at most.
inline constexpr int64_t kPartitionMinCols = 1 << 16;
inline constexpr double kPartitionMostShare = 0.75;

// ---- Forms ----

// Whole rows are sorted where k is so large a part of them, or where a block holds one of any dtype.
inline constexpr int64_t kSortMostColsPerK = 8;
inline constexpr int64_t kSortShortCols = kSortMaxThreads * kSortWideItems;
// Elements in flight a thread, and blocks an SM, of a copy.
inline constexpr int kCopyThreads = 256;
inline constexpr int kCopyItems = 8;
inline constexpr int kCopyBlocksPerSm = 8;

}  // namespace gputopk::cuda::tuning
