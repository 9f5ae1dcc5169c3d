// Every number of the CUDA side: its value, why, and the bench that backs it.
// Measured on one NVIDIA H200; `bench/ablation.py` and `bench/bench_topk.py` print them again.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

// ---- Reading rows (device/row_reader.cuh) ----

// 16-byte loads in flight a thread: as many as a 32-bit mask has elements for.
constexpr int loads_in_flight(int element_bytes) { return element_bytes == 1 ? 2 : 4; }

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
