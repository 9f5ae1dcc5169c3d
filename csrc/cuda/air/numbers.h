// Numbers of AIR. Each with its reason, measured on one NVIDIA H200.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

// ---- One block a row ----

// One block takes a row of up to so many elements: beyond, even rows by the thousand are better off with
// many.
inline constexpr int64_t kAirBlockMaxCols = 1 << 19;
// A block has a thread for so many elements, between the two bounds. Where rows are many, blocks are small
// and several share an SM, so that one reads while another counts; where they are few, each block is all that
// its SM has to do.
inline constexpr int kAirBlockElementsPerThread = 48;
inline constexpr int kAirBlockFewRowsElementsPerThread = 8;
inline constexpr int kAirBlockMinThreads = 64;
inline constexpr int kAirBlockMaxThreads = 512;
inline constexpr int kAirBlockResident = 3;        // an SM: 40 registers a thread
inline constexpr int kAirBlockResidentRagged = 2;  // what a window is takes registers too; not timed
// Width of the digits: the first should leave few candidates, but clearing and scanning its bins is most of
// the work of a short row.
inline constexpr int kAirBlockDigitBits = 12;
inline constexpr int kAirBlockShortDigitBits = 9;
inline constexpr int kAirBlockShortCols = 2048;
// Candidates that are ranked against each other instead of by more digits: half a microsecond of comparisons,
// where a digit takes more.
inline constexpr int kAirBlockRanked = 128;
// Winners that are ranked with them, which puts them in order: all that have room where a block has an SM to
// itself, else as many as cost less than a launch.
inline constexpr int kAirBlockRankedWinners = 32;
inline constexpr int kAirBlockRankedWinnersFewRows = 128;
// Where rows are few, rows of so many elements are ranked whole: one read, and no digit.
inline constexpr int kAirBlockList = 256;
static_assert(kAirBlockList >= kAirBlockRanked + kAirBlockRankedWinnersFewRows);

// ---- A row in a block's registers ----

// Elements a thread: the fewer, the more warps a row has to wait for; the more, the less they share. 64
// registers a thread hold 32 of 4 bytes, and 16 of 8.
inline constexpr int kAirResidentElements = 32;
inline constexpr int kAirResidentShortElements = 16;
inline constexpr int64_t kAirResidentShortCols = 1024;
inline constexpr int kAirResidentMinThreads = 64;
inline constexpr int kAirResidentMaxThreads = 1024;
inline constexpr int kAirResidentBlocks = 1;  // of the most threads an SM
// The list has room for so many entries a thread. They are ranked in bins of their range, unless that takes
// more comparisons an entry: sorting them takes as long as the rest of the row.
inline constexpr int kAirResidentItems = 8;
inline constexpr int kAirResidentFullBin = 64;
// Where a bin's number has so many bits more than keys of the range take, bins go by places in the row too.
inline constexpr int kAirResidentSpareBits = 3;
// Where leaving out what is worse than the k-th best's bin narrows the range to such a part of it, bins are
// dealt out anew over that, and else to groups of them.
inline constexpr uint32_t kAirResidentNarrowing = 8;
// A bound is the better the smaller its rank among a warp's maxima, and the less worth the more maxima there
// are to be sorted: one of each lane up to so great a rank, twice as many up to twice that, and so on. Of the
// most that there are, up to more: all elements would have to be counted instead.
inline constexpr int kAirResidentRankOfMaxima = 20;
inline constexpr int kAirResidentMaxima = 8;
inline constexpr int kAirResidentMostRank = 128;
inline constexpr int kAirResidentShortMaxima = 4;
inline constexpr int kAirResidentShortMostRank = 96;
// Beyond so great a rank, all maxima are counted, which takes less than sorting them, until no more than this
// part of k too many reach the bound.
inline constexpr int kAirResidentSortedRank = 48;
inline constexpr int kAirResidentSlack = 8;
// So many threads' list has room for the counts, and they have more maxima to sort than blocks of two warps.
inline constexpr int kAirResidentCountingThreads = 96;
// Room for so many times k lets all but crowded rows in.
inline constexpr int kAirResidentRoomPerK = 4;
inline constexpr int kAirResidentMinRoom = 960;  // less than a warp's elements: it need not list them all
// And for so many lines of memory a warp: of a row in order, each warp's best are in a line of their own.
inline constexpr int kAirResidentLinesPerWarp = 2;
// Times that a bound which too many reach is raised to the next number.
inline constexpr int kAirResidentTurns = 8;
inline constexpr int kAirResidentFewTurns = 2;  // where the list might be sorted instead
// Bins of a digit, which one warp searches.
inline constexpr int kAirResidentDigitBits = 9;
// Entries that warps put in order in runs of 32, which takes one barrier, where bins take five.
inline constexpr int kAirResidentInRuns = 128;
// Equals of the bound are listed with the rest where that makes no more than twice k entries and so many.
inline constexpr int kAirResidentBeyond = 64;

// ---- One cluster a row ----

// 64 registers a thread: one block of 1024 threads an SM, or two of 512. The larger for parts that keep them
// busy, the smaller for parts whose barriers are most of the time.
inline constexpr int kAirClusterMaxThreads = 1024;
inline constexpr int kAirClusterThreads = 512;
inline constexpr int64_t kAirClusterLongPart = 1 << 16;
// 16 need the device's leave, and pay for rows of more than so many elements.
inline constexpr int kAirClusterMostBlocks = 16;
inline constexpr int64_t kAirClusterLongCols = 1 << 16;
// A cluster lies within one part of the GPU, so that clusters of four and more reach this share of its SMs
// when every block has one; and clusters of two leave too many idle where they use less than that.
inline constexpr double kAirClusterReach = 0.91;
inline constexpr double kAirClusterFewSms = 0.76;
// A first digit of 12 bits leaves few hundred candidates of most rows.
inline constexpr int kAirClusterDigitBits = 12;
inline constexpr int kAirClusterMaxDigitBits = 13;
// Candidates that a block can list: 4096 of 4-byte dtypes.
inline constexpr int kAirClusterListBytes = 32 * 1024;
// Candidates that are ranked against each other by all blocks instead of by more digits, which more of them
// would not pay for.
inline constexpr int kAirClusterRanked = 512;
// Winners that are ranked with them, which puts them in order: half of as many entries as take so many
// comparisons a block, 2 us, less than a launch to order them; where no order is asked for, as many as cost
// less than reserving places.
inline constexpr int64_t kAirClusterComparisons = 128 * 1024;
inline constexpr int kAirClusterMostRanked = 1024;
inline constexpr int kAirClusterRankedUnsorted = 64;
// A cluster takes rows of so many elements: shorter ones leave its blocks with nothing, longer ones want more
// SMs.
inline constexpr int64_t kAirClusterMinCols = 1 << 12;
inline constexpr int64_t kAirClusterMaxCols = 1 << 20;

// ---- Rows in the SMs' shared memory ----

// A row has so many elements at least: shorter ones are one block's, or a cluster's.
inline constexpr int64_t kAirHeldMinCols = 1 << 14;
// 16-byte loads in flight a thread.
inline constexpr int kAirHeldInFlight = 4;
// Entries of a list that are ranked against each other: as many as take a block so many comparisons, and as
// there is room for.
inline constexpr int64_t kAirHeldComparisons = 128 * 1024;

// ---- Many blocks a row ----

// Reads of a row whose last winner alone is looked for: 4.5 x floor in the middle of normal rows, whose
// digits crowd there, and no more than 2.1 where few win.
inline constexpr double kReadsForLastAlone = 4;

}  // namespace gputopk::cuda::tuning
