// Numbers of delegate. Each with its reason, measured on one NVIDIA H200.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

// ---- From maxima ----

// The constant in rule 4 of the paper, alpha = (log2(cols) - log2(k) + const) / 2, by beta: with two
// delegates few subranges are read again whole, so they can be longer.
inline constexpr double kDelegateConst1 = 3;
inline constexpr double kDelegateConst2 = 6;
// A subrange has a vector for each of four lanes at least: below, its delegates weigh a quarter of the row.
// At most 64 KB, so that every warp of the GPU has some.
inline constexpr int kDelegateMinVectorsLog2 = 2;
inline constexpr int kDelegateMaxVectorsLog2 = 12;
// Room for candidates: for all that k subranges can hold, if that is less than such a share of the row.
inline constexpr int64_t kDelegateMinBufferShare = 8;

// ---- From a sample (device/row_sample.h) ----

// Tiles of 32 KB (1-byte dtypes: 16) that each block fetches into L2 while the bound is found: 4.7 TB/s for
// some microseconds.
inline constexpr int kSamplePrefetchTiles = 4;

// ---- Two bounds from a sample ----

// The workspace is so many times the outputs and such a share of the input at most, here and in one grid; of
// its second buffer, for what a digit leaves of the candidates, this share of the first is enough.
inline constexpr double kSampledMemoryOfOutputs = 1.5;
inline constexpr double kSampledMemoryOfInput = 0.08;
inline constexpr int kTwoBoundsSecondBuffer = 8;

// A row has so many elements for each winner at most: of fewer winners the best of lines tell more. And this
// share of its elements lies between the bounds at most: more is as good as all.
inline constexpr int64_t kTwoBoundsMostColsPerK = 1024;
inline constexpr double kTwoBoundsMostBetween = 0.25;
// Where a row has fewer elements for each winner, winners are told by a filter of their own: sooner where
// they are only counted.
inline constexpr int64_t kManyColsPerK = 4;
inline constexpr int64_t kManyColsPerCounted = 64;
// A warp sorts out what reaches the lower bound from so many elements on: counters take an atomic a
// nanosecond, and fewer would be flushed too often (128: 2 % slower). More would leave two blocks an SM too
// little L1 for the loads on their way (672: 3 %). Fewer where an entry has more than 8 bytes; and where most
// are winners that have a stage of their own, for which they then leave room.
inline constexpr int kReachingStaged = 480;
inline constexpr int kWideReachingStaged = 256;
inline constexpr int kFewReachingStaged = 160;
inline constexpr int kFewWideReachingStaged = 64;
// Where a row's blocks are to meet, candidates stay in such a share of the stage.
inline constexpr int kReachingKeptShare = 2;
// Lanes with so many elements of a tile, or fewer, pick them one by one.
inline constexpr int kReachingFewOfLane = 4;

// ---- From a sample, one cluster a row ----

// Rows so long: below, registers hold them. And not so long that 16 SMs, a cluster's, take longer to read one
// than the whole GPU and two launches more.
inline constexpr int64_t kClusterMinCols = 1 << 12;
inline constexpr int64_t kClusterMaxCols = 1 << 24;
// Blocks of a row: a power of two, as many as run at once with those of all rows, of which so large a share
// of the GPU's places holds clusters, as a cluster's blocks share a part of the GPU. Each has a tile at
// least.
inline constexpr int kClusterMostBlocks = 16;
inline constexpr double kClusterReach = 0.91;
// Reads of a window's row whose bound is found from it; not measured.
inline constexpr double kClusterReadsWithoutSample = 4;
// Threads: 64 registers each leave room for 1024 an SM, and for 12 entries each that a block puts in order.
// Small blocks, of which some read while others look for a bound or put winners in order; larger ones where
// an SM has but so many rows, or less, so that each is done soonest.
inline constexpr int kClusterItems = 12;
inline constexpr int kClusterFewItems = 4;
inline constexpr int kClusterMinThreads = 256;
inline constexpr int kClusterFewRows = 2;
inline constexpr int kClusterFewRowsThreads = 512;
// Where an SM has one block, a thread has 128 registers, room for two tiles: 128 x 2^17 25 us for 31.
inline constexpr int kClusterAheadThreads = 512;
inline constexpr int kClusterMaxThreads = 1024;
inline constexpr int kClusterStaticBytes = 8 * 1024;  // of shared memory: the kernels' own variables
inline constexpr int kClusterThreadsPerSm = 1024;
// Vectors of the sample that a thread keeps in registers: 64 bytes, and no more than 16 elements.
constexpr int cluster_vectors(int element_bytes) { return element_bytes >= 4 ? 4 : element_bytes; }
// The sample is such a share of the row at most.
inline constexpr int64_t kClusterSampleShare = 4;
// The bound's rank in the sample, as of kSampleDeviations; one greater by such a share of it will do, which
// digits of the range of the threads' best mostly tell at once. Room is for as many candidates as that rank
// may let in, short of so many standard deviations of a gamma variable: beyond 4 are some 10^-4 of rows, each
// of which then holds up its launch for several reads; but 4 will do where there is no room for more.
inline constexpr int kClusterSampleDigitBits = 9;
inline constexpr int kClusterRankSlack = 8;
inline constexpr double kClusterRoomDeviations = 5;
inline constexpr double kClusterLeastRoomDeviations = 4;
// What a sample reads side by side: a sector of memory, which is read whole.
inline constexpr int kClusterSectorBytes = 32;
// Windows of so many times k candidates or fewer are listed whole.
inline constexpr int kClusterListedWinners = 2;
// Digits of the row, where a sample misled.
inline constexpr int kClusterDigitBits = 10;
// Bytes that all blocks together fetch into L2 while they find their bounds: what L2 holds at once.
inline constexpr double kClusterPrefetchBytes = 32e6;
// Where they read ahead, bytes of so few: more keep memory from what is read at once (32e6: 4 to 9 % slower).
inline constexpr double kClusterAheadPrefetchBytes = 8e6;

// ---- In the registers of a cluster ----

// Rows so long: shorter ones are one block's. At most 16 blocks of 1024 threads, 64 registers each, hold
// 32 elements a thread of 4 bytes or less, or 16 of 8.
inline constexpr int64_t kResidentMinCols = 1 << 13;
inline constexpr int kResidentElements = 16;
inline constexpr int kResidentMostElements = 32;
inline constexpr int kResidentMinThreads = 512;
// Blocks of a row: clusters of more get into each other's way, unless they are few.
inline constexpr int kResidentBlocks = 8;
// Lanes whose vectors lie side by side, 64 bytes: few, so that in a sorted row each warp has some of the
// best; but as much as memory reads at once.
inline constexpr int kResidentLanes = 4;
// The bound is of such a rank among a block's delegates at most, a share of its threads: near the least of
// them it says little. One greater by such a share of it, and a few, will do.
inline constexpr double kResidentMostRank = 0.5;
inline constexpr int kResidentRankSlack = 16;
inline constexpr int kResidentLeastSlack = 2;
// The list has room for so many entries a thread, few of which go without a place in it.
inline constexpr int kResidentClusterItems = 8;
// From so many winners on each block puts a part of them in order: dealing them out takes a few hundred
// nanoseconds. Of the room so large a share, one in so many, is for what comes.
inline constexpr int64_t kResidentPartsMinK = 32;
inline constexpr int kResidentPartShare = 2;
// What a plan is chosen by, in microseconds: a wave of clusters, what an SM reads, and an entry of a thread's
// that is put in order.
inline constexpr double kResidentWaveUs = 8;
inline constexpr double kResidentSmBytesPerUs = 60e3;
inline constexpr double kResidentItemUs = 0.4;

// ---- In the registers of the GPU ----

// Rows so long, so many at most, a block's share of which is so large at least: for others, clusters do.
inline constexpr int64_t kGridMinCols = 1 << 17;
inline constexpr int64_t kGridMostRows = 8;
inline constexpr int64_t kGridLeastShare = 2048;
// Delegates of a warp at most. The rank of the bound among all delegates is kResidentMostRank at most.
inline constexpr int kGridMostOfWarp = 8;
// A list has room for so many times what is expected of it, and so many more.
inline constexpr double kGridRoom = 1.05;
inline constexpr int kGridSpareRoom = 256;
// Blocks of a row at least. And winners of a part, of so many parts at most, which a block of its own puts in
// order: without bins, as long as a part has no more than four times as many (kSortRankedFew).
inline constexpr int kGridLeastBlocks = 4;
inline constexpr int64_t kGridPartK = 64;
inline constexpr int64_t kResidentMostParts = 64;
// Registers of a thread that hold elements: no more than 32 elements of 4 bytes, or 16 of 8.
inline constexpr int kGridMostThreadBytes = 128;

// ---- From a sample, in one grid ----

// Rows so long: shorter ones registers hold.
inline constexpr int64_t kOneGridMinCols = 1 << 20;
// The sample is such a share of the row, of fewer lines a lane where that is less than a few have; with one
// line it may be the larger share.
inline constexpr int64_t kGridSampleShare = 32;
inline constexpr int64_t kGridLeastSampleShare = 4;
// Delegates are of so many lanes at least: every block looks at all of them.
inline constexpr int kGridLeastGroup = 8;
// Bytes that all blocks together fetch into L2 while the bound is found: what memory moves meanwhile.
inline constexpr double kGridPrefetchBytes = 17.5e6;
// A warp writes out its candidates from so many on.
inline constexpr int kGridStaged = 128;
// Of a list that one block puts in order, or whose shares blocks rank: there are no more winners.
inline constexpr int kGridListed = 4096;
// Where so few candidates are expected, they are not counted as they are stored: as many as a list has are
// ranked by comparing all.
inline constexpr double kGridFew = 2800;
// Where all that is stored is no more, each of some blocks looks at it for the part that it puts in order, of
// so many entries: it compares each with all.
inline constexpr int kGridLookedAt = 1 << 15;
inline constexpr int kGridPart = 192;
inline constexpr int kGridMostParts = 32;

// ---- From a sample, in one grid, many winners in parts ----

// Rows so long, of which so many win at least: others have forms of their own. 1-byte dtypes too: of sorted
// rows, whose winners are all of a few values and side by side, it took up to 17 times as long as two_bounds.
inline constexpr int64_t kGridPartsMinCols = 1 << 17;
inline constexpr int64_t kGridPartsMinK = 2048;
// Elements of the sample, all of which every block looks at: a tenth more candidates than winners where an
// eighth of a row wins, half as many more where 3 % do.
inline constexpr int kGridSampled = 4096;
// Of fewer winners in it the bound says too little: so many candidates for each winner at most (1 x 2^28, k =
// 2^15, sixteen for each: 279 us for from_sample's 261).
inline constexpr double kGridPartsMostTimesK = 4;
// Candidates are counted in 2^bits bins of the range up to the sample's best, and so many times as far.
inline constexpr int kGridPartsDigitBits = 12;
inline constexpr int kGridPartsSpareBits = 1;
// A warp writes out its candidates from so many on: a counter takes an atomic a nanosecond.
inline constexpr int kGridPartsStaged = 384;
// Candidates that a thread deals out at a time.
inline constexpr int kGridPartsDealt = 8;
// Parts are such a share of what a block can sort, as far as bins have it; and a row has so many at most.
inline constexpr double kGridPartsFull = 0.5;
inline constexpr int kGridPartsMost = 2048;
// What blocks tell each other, a row; and room to deal out more than k: such a share of it at least.
inline constexpr double kGridPartsStateBytes = 88 * 1024;
inline constexpr int64_t kGridPartsSpareShare = 32;

// ---- From a sample, equal shares ----

// A share is so many units of rows: within some hundredths of another wherever it is worth while. A block has
// a few at least, a vector a thread: so small a share costs a load's latency.
inline constexpr int64_t kShareUnitBytes = 4096;
inline constexpr int64_t kShareLeastUnits = 2;
// Every block looks at all windows, to find where its share begins.
inline constexpr int64_t kShareMostRows = 1 << 14;

// ---- From a sample, across rows ----

inline constexpr int kAcrossThreads = 256;
// Blocks that share all elements, an SM: beyond what it holds, so that those that end early leave room.
inline constexpr int kAcrossBlocksPerSm = 4;
// Registers are for so many of them.
inline constexpr int kAcrossReadersPerSm = 4;
// Vectors of so many rows that a thread has in flight, a bit for each element.
constexpr int across_in_flight(int rows) { return rows == 1 ? 8 : rows >= 8 ? 2 : 4; }
// A warp adds its candidates to rows' lists from so many on.
inline constexpr int kAcrossStaged = 256;
// Elements equal to a bound that may be listed with it, though they come behind it: telling them costs
// instructions.
inline constexpr uint32_t kAcrossMostEquals = 32;
// What a tile of rows side by side reads of a column at least: a line of memory.
inline constexpr int kAcrossLeastBytes = 128;
// Rows so long: of shorter ones the sample is too large a share.
inline constexpr int64_t kAcrossMinCols = 512;
inline constexpr int64_t kAcrossMaxK = 2048;
// Delegates of a row, which a warp sorts; the bound's rank among them is such a share at most. A block has so
// much memory for them.
inline constexpr int kAcrossFewDelegates = 64;
inline constexpr int kAcrossMostDelegates = 256;
inline constexpr double kAcrossMostRank = 0.6;
inline constexpr int kAcrossDelegateBytes = 48 * 1024;
// The sample is such a share of the row at most, and candidates are.
inline constexpr int64_t kAcrossSampleShare = 4;
// What a sample is chosen by: elements that are read in the time that a candidate takes, and that one of the
// few delegates or of the most takes to be sorted.
inline constexpr double kAcrossCandidate = 16;
inline constexpr double kAcrossFewDelegate = 7;
inline constexpr double kAcrossMostDelegate = 12;
// Room for so many standard deviations of a gamma variable beyond what is expected, and more where the rank
// is small: one row in some 10^8 has no room, as it holds up all others.
inline constexpr double kAcrossRoomDeviations = 6.5;
inline constexpr double kAcrossExtraRoom = 10;
// Threads that put a list in order, and entries of each: of few rows half as many, so that it is done
// soonest.
inline constexpr int kAcrossItems = 8;
inline constexpr int kAcrossFewItems = 2;
inline constexpr int kAcrossFewRows = 2;  // an SM
// So many rows an SM keep the GPU busy while they are sampled.
inline constexpr double kAcrossSampledRows = 8;
inline constexpr int kAcrossOrderMinThreads = 64;
// Lists of so many entries, as far as is expected, are put in order by a warp, where rows are many, for k so
// great.
inline constexpr double kAcrossShortList = 512;
inline constexpr int64_t kAcrossShortListK = 128;
inline constexpr int kAcrossOrderMaxThreads = 1024;
// Digits of the row, where a sample misled: what the smallest block has counters for.
inline constexpr int kAcrossDigitBits = 9;
// Lists that are in memory at once.
inline constexpr int64_t kAcrossListBytes = int64_t{96} << 20;

}  // namespace gputopk::cuda::tuning
