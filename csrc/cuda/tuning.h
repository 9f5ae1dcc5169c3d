// Every number of the CUDA side: its value, why, and the bench that backs it.
// Measured on one NVIDIA H200; `bench/ablation.py` and `bench/bench_topk.py` print them again.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

// ---- Reading rows (device/row_reader.cuh) ----

// 16-byte loads in flight a thread: as many as a 32-bit mask has elements for.
constexpr int loads_in_flight(int element_bytes) { return element_bytes == 1 ? 2 : 4; }

// ---- Dividing rows among blocks (plan.cpp) ----

// Blocks of a row are no more than fill the GPU so many times with those of all rows: a wave is then a small
// part of the whole, and more would be no more even.
inline constexpr int64_t kMostWaves = 8;

// ---- AIR over many blocks (air.cu) ----

// 512 threads, two blocks an SM: 64 registers a thread, and 64 KB of loads in flight an SM, twice what
// the memory's latency asks for.
inline constexpr int kAirThreads = 512;
inline constexpr int kAirBlocksPerSm = 2;

// Digit widths. Up to 14 bits a histogram costs 1.02 x the read (PERFORMANCE.md), and 64 KB leave room for
// two blocks an SM; below 11 bits (the paper's choice) a row needs one launch more.
inline constexpr int kAirMinDigitBits = 11;
inline constexpr int kAirMaxDigitBits = 14;
// A block clears its bins and adds them to the row's, which costs an L2 atomic each: so many elements a bin
// keep that small beside the read.
inline constexpr int kAirElementsPerBin = 64;

// Adaptive buffering (paper, section 3.2): candidates are stored when they are at most cols / kAirAlpha.
// Storing 1 % of the elements costs 0.27 of a read and 5 % costs 0.98 (PERFORMANCE.md), another pass over
// the row costs 1: so 3 %.
inline constexpr int kAirAlpha = 32;
// A buffer of fewer is not worth a decision.
inline constexpr int64_t kAirMinBuffer = 4096;

// A warp writes out its winners or candidates from so many on: winners are rare where rows are long, and
// both stages of 16 warps take 32 KB beside a histogram of 64.
inline constexpr int kAirStagedWinners = 32;
inline constexpr int kAirStagedCandidates = 160;

// Passes behind the first that have work for most rows, a launch each. The others share one, with half the
// loads in flight, for a loop over passes takes registers; where nothing is left to do it costs what one idle
// pass costs, 0.8 us.
inline constexpr int kAirLikelyPasses = 3;

// The work of starting and ending a block, in tiles: clearing bins, adding them up, arriving.
inline constexpr double kAirBlockOverheadTiles = 3;

// ---- AIR with one block a row (air_block.cu) ----

// One block takes a row of up to so many elements; up to the larger bound where there are rows enough to give
// every SM two blocks.
inline constexpr int64_t kAirBlockMaxCols = 64 * 1024;
inline constexpr int64_t kAirBlockMaxColsManyRows = 256 * 1024;
// A block has a thread for so many elements, between the two bounds. Where rows are many, blocks are small
// and several share an SM, so that one reads while another counts; where they are few, each block is all that
// its SM has to do.
inline constexpr int kAirBlockElementsPerThread = 48;
inline constexpr int kAirBlockFewRowsElementsPerThread = 8;
inline constexpr int kAirBlockMinThreads = 64;
inline constexpr int kAirBlockMaxThreads = 512;
inline constexpr int kAirBlockResident = 3;  // an SM: 40 registers a thread
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

// ---- AIR with one cluster a row (air_cluster.cu) ----

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
// From timings beside the other forms and algorithms, rows 1 to 130, cols 2^12 to 2^20: rows of so many cols,
// of clusters of two a little longer; in all not so many elements that the GPU's bandwidth is what counts;
// and of long rows, winners few enough to be written one by one.
inline constexpr int64_t kAirClusterMinCols = 1 << 14;
inline constexpr int64_t kAirClusterMinColsOfTwo = 1 << 15;
inline constexpr int64_t kAirClusterMaxCols = 1 << 19;
inline constexpr int64_t kAirClusterMostElements = 1 << 24;
inline constexpr int64_t kAirClusterMinColsPerK = 2;
inline constexpr int64_t kAirClusterLongMinColsPerK = 16;

// ---- Delegate (delegate.cu) ----

// The constant in rule 4 of the paper, alpha = (log2(cols) - log2(k) + const) / 2, by beta: with two
// delegates few subranges are read again whole, so they can be longer.
inline constexpr double kDelegateConst1 = 3;
inline constexpr double kDelegateConst2 = 6;
// From this k on a subrange has two delegates: what is read again then weighs more than finding the second.
inline constexpr int64_t kDelegateMinKBeta2 = 8192;
// A subrange has a vector for each of four lanes at least: below, its delegates weigh a quarter of the row.
// At most 64 KB, so that every warp of the GPU has some.
inline constexpr int kDelegateMinVectorsLog2 = 2;
inline constexpr int kDelegateMaxVectorsLog2 = 12;
// Digits of both selections: candidates are few, and a pass over them is mostly its bins.
inline constexpr int kDelegateDigitBits = 12;
// The first digit of candidates, of their own range, which is counted as they are stored: every block clears
// its bins and adds them up, and the next digit is as cheap.
inline constexpr int kDelegateCountBits = 10;
// The most candidates that a row's last block selects from at once: 64 KB of them, 8192 of 4-byte dtypes.
inline constexpr int kDelegateListBytes = 64 * 1024;
// Where more are expected, passes that have work: one, as their first digit is known; two for more than so
// many, of which that digit leaves too many to select from at once.
inline constexpr double kDelegateOnePassCandidates = 1 << 18;
// Room for candidates: for all that k subranges can hold, if that is less than such a share of the row.
inline constexpr int64_t kDelegateMinBufferShare = 8;

// ---- Delegate with a bound from a sample (delegate_sample.cu) ----

// From so many cols on, and so many for each of the k: shorter rows are read in less time than the launches
// take.
inline constexpr int64_t kSampleMinCols = 1 << 18;
inline constexpr int64_t kSampleMinColsPerK = 64;
// Lines that a lane has in flight, a vector of each; and the vectors of a line, 128 bytes.
inline constexpr int kSampleLines = 4;
inline constexpr int kSampleLineVectors = 8;
// The sample is this share of the row at most, and of so many blocks in all, 8 MB, a few microseconds: but a
// block a row at least.
inline constexpr double kSampleShare = 64;
inline constexpr int kSampleMostBlocks = 256;
inline constexpr int kSampleMinBlocks = 16;
// It is large enough when so few elements reach the bound, or so many times k: more would be read, and
// selected from, in vain.
inline constexpr double kSampleFewCandidates = 2048;
inline constexpr double kSampleFewTimesK = 1.35;
// Delegates that one block selects from; 64 KB of the widest.
inline constexpr int kSampleMostDelegates = 4096;
// The bound's rank is the expected number of winners in the sample, and so many standard deviations more, and
// a few: with the number a Poisson variable, fewer than k reach the bound once in some 10^5 rows, which are
// then read twice more.
inline constexpr double kSampleDeviations = 4.5;
inline constexpr double kSampleExtraRank = 4;
// Tiles of 32 KB (1-byte dtypes: 16) that each block fetches into L2 while the bound is found: 4.7 TB/s for
// some microseconds.
inline constexpr int kSamplePrefetchTiles = 4;
// Bits by which the candidates' range is taken to reach beyond the sample's best: few winners may be in it.
inline constexpr int kSampleSpareBits = 2;
// Room for candidates: for this share of the row, or for what a sorted row's bound lets in if that is more,
// but never for more than the larger share, nor so many times what a sorted row's bound lets in.
inline constexpr double kSampleBufferShare = 32;
inline constexpr double kSampleMostBufferShare = 8;
inline constexpr double kSampleMostNeighbours = 32;
// A sample is of use where the bound's rank is this share of its delegates at most.
inline constexpr double kSampleMostRank = 0.8;

// Up to this k lists are in registers, and up to 256 where rows are short: beyond, a list a block is ahead.
inline constexpr int64_t kGridRegistersMaxK = 128;
inline constexpr int64_t kGridRegistersShortCols = 2048;

// ---- GridSelect with a list a block (grid_select_block.cu) ----
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
// The step from a tile to the next, modulo the number of tiles: a prime near 2^32 over the golden ratio.
inline constexpr uint32_t kGridListTilePrime = 2654435761u;

// ---- GridSelect with lists in registers (grid_select.cu) ----

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

// ---- What `auto` takes (plan.cpp) ----
// From timings of every algorithm over rows 1 to 16384, cols 2^6 to 2^26 and k 1 to 2^14 (float32, in part
// bfloat16): where one was at least a few percent ahead of AIR.

// Delegate, for rows so long, requests of so many elements, and so few winners to a row. From
// kAutoManyWinners on its second selection takes passes, which more elements have to pay for.
inline constexpr int64_t kAutoDelegateMinCols = 1 << 18;
inline constexpr int64_t kAutoDelegateMinElements = 1 << 21;
inline constexpr int64_t kAutoManyWinnersMinElements = 1 << 24;
inline constexpr int64_t kAutoDelegateMinColsPerK = 64;
inline constexpr int64_t kAutoManyWinners = 2049;
// GridSelect. A tiny k, which costs it next to nothing; a small one; and the most that lists in registers are
// taken for, twice that where it keeps a list a block.
inline constexpr int64_t kAutoTinyK = 16;
inline constexpr int64_t kAutoSmallK = 32;
inline constexpr int64_t kAutoMostK = 128;
// Rows that a warp each is enough for, rows that have one of few warps, rows of middling length, rows long
// enough for many blocks, and longer than that.
inline constexpr int64_t kAutoShortCols = 1024;
inline constexpr int64_t kAutoFewWarpsCols = 8 * 1024;
inline constexpr int64_t kAutoMiddleCols = 1 << 14;
inline constexpr int64_t kAutoLongCols = 1 << 16;
inline constexpr int64_t kAutoVeryLongCols = 1 << 18;
// Few rows; very long rows, so many that one launch for all weighs more than delegate's better bound; and
// what is so little of 1- and 2-byte dtypes that a launch does.
inline constexpr int64_t kAutoFewRows = 16;
inline constexpr int64_t kAutoManyRows = 64;
inline constexpr int64_t kAutoManyRowsElements = 1 << 25;
inline constexpr int64_t kAutoFewNarrowElements = 1 << 22;

// ---- Ordering k winners (order_rows.cu) ----

// Up to this k one block sorts a row; beyond it, CUB's device sort.
inline constexpr int64_t kOrderBlockMaxK = 4096;
// Every winner is compared with every other of its row while that is a few microseconds of the GPU, and the
// rows are long enough to be worth more than a block.
inline constexpr int64_t kOrderRankMaxComparisons = 1 << 24;
inline constexpr int64_t kOrderRankMinK = 256;

// ---- Reranking (rerank.cu) ----

// Vectors in flight a group of lanes: 4 KB a warp in 16-byte loads, so a few warps an SM cover the memory's
// latency, in 32 registers a thread.
inline constexpr int kRerankVectorsInFlight = 8;
// Blocks of the largest size that an SM holds: 128 registers a thread.
inline constexpr int kRerankResident = 2;
// The largest list that fits a warp's registers: 8 entries a lane.
inline constexpr int64_t kRerankMaxListK = 256;
// Warps of a block, at most. A warp has so many times 32 candidates: each warp's list fills anew and is
// merged with the others', so the fewer the warps the better, where queries alone fill the GPU.
inline constexpr int kRerankMaxWarps = 8;
inline constexpr int kRerankTilesPerWarp = 8;
// With fewer queries than SMs a block a query leaves SMs idle: with more candidates than this, many blocks
// share a query and its keys are stored, at the price of two or three launches.
inline constexpr int64_t kRerankFewQueriesCandidates = 1024;
// Blocks an SM when keys are stored.
inline constexpr int kRerankStoringBlocksPerSm = 4;

}  // namespace gputopk::cuda::tuning
