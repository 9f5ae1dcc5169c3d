// Numbers that several algorithms share. Each with its reason, measured on one NVIDIA H200.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

// ---- Reading rows (row_reader.cuh) ----

// 16-byte loads in flight a thread: as many as a 32-bit mask has elements for.
constexpr int loads_in_flight(int element_bytes) { return element_bytes == 1 ? 2 : 4; }

// The step from a tile to the next, modulo the number of tiles: a prime near 2^32 over the golden ratio.
inline constexpr uint32_t kTilePrime = 2654435761u;

// ---- Dividing rows among blocks (split.h) ----

// Blocks of a row are no more than fill the GPU so many times with those of all rows: a wave is then a small
// part of the whole, and more would be no more even.
inline constexpr int64_t kMostWaves = 8;

// ---- Radix passes over many blocks (radix_passes.cuh) ----

// 512 threads, two blocks an SM: 64 registers a thread, and 64 KB of loads in flight an SM, twice what
// the memory's latency asks for.
inline constexpr int kPassThreads = 512;
inline constexpr int kPassBlocksPerSm = 2;

// Digit widths. Up to 14 bits a histogram costs 1.02 x the read, and 64 KB leave room for two blocks an SM;
// below 13 bits (the paper has 11) more candidates stay than the next pass can finish: bench/ablation.py,
// digit_bits.
inline constexpr int kPassMinDigitBits = 13;
inline constexpr int kPassMaxDigitBits = 14;
// A block clears its bins and adds them to the row's, which costs an L2 atomic each: so many elements a bin
// keep that small beside the read.
inline constexpr int kPassElementsPerBin = 64;

// Adaptive buffering (paper, section 3.2): candidates are stored when they are at most cols /
// kPassBufferShare. Storing 1 % of the elements costs 0.27 of a read and 5 % costs 0.98 (PERFORMANCE.md),
// another pass over the row costs 1: so 3 %.
inline constexpr int kPassBufferShare = 32;
// A buffer of fewer is not worth a decision.
inline constexpr int64_t kPassMinBuffer = 4096;

// A warp writes out its winners or candidates from so many on: winners are rare where rows are long, and
// both stages of 16 warps take 32 KB beside a histogram of 64.
inline constexpr int kPassStagedWinners = 32;
inline constexpr int kPassStagedCandidates = 160;

// Passes behind the first that have work for most rows, a launch each. The others share one, with half the
// loads in flight, for a loop over passes takes registers; where nothing is left to do it costs what one idle
// pass costs, 0.8 us.
inline constexpr int kLikelyPasses = 3;

// The work of starting and ending a block, in tiles: clearing bins, adding them up, arriving.
inline constexpr double kPassOverheadTiles = 3;

// Of a row whose blocks have so many tiles each, or more, one in so many is dealt as they are done.
inline constexpr int64_t kDealtLeastTiles = 32;
inline constexpr int kDealtShare = 10;

// ---- Ranks of a list (list_ranks.cuh) ----

// Equals that meet, and look at each other. Beyond, ranking all anew takes less.
inline constexpr int kRanksMeeting = 8;

// ---- A list in a block's shared memory (list_selection.cuh) ----

// Digits: bins for a few thousand entries.
inline constexpr int kListDigitBits = 11;

// ---- Candidates stored before the passes (stored_candidates.cuh, staged_candidates.cuh) ----

// The first digit of candidates, of their own range, which is counted as they are stored: every block clears
// its bins and adds them up, and the next digit is as cheap.
inline constexpr int kStoredCountBits = 10;
// The most candidates that a row's last block selects from at once: 64 KB of them, 8192 of 4-byte dtypes.
inline constexpr int kStoredListBytes = 64 * 1024;
// Where the last winner alone is wanted, it looks through the keys of so many, for those of one bin of the
// first digit, in place of a pass (1 x 2^28, k = 2^14: 1.09 floors for 1.12).
inline constexpr int kStoredScannedBytes = 256 * 1024;
// Blocks meet where so many candidates are expected, or more, and each warp's stage, all but surely, has room
// for its own: so many standard deviations more than it may have to take.
inline constexpr double kStoredMeetLeast = 4096;
inline constexpr double kStoredMeetDeviations = 6;
// Digits of the passes: candidates are few, and a pass over them is mostly its bins.
inline constexpr int kPassStoredDigitBits = 12;
// Where more are expected, passes that have work: one, as their first digit is known; two for more than so
// many, of which that digit leaves too many to select from at once.
inline constexpr double kPassOnePassCandidates = 1 << 18;
// The same where the digit is of the range between two bounds, or guesses.
inline constexpr double kPassOnePassBetween = 1 << 20;

// ---- A sample of a row (row_sample.h) ----

// From so many cols on, and so many for each of the k: of a shorter row the sample would have too few lines.
inline constexpr int64_t kSampleMinCols = 1 << 16;
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
// Bits by which the candidates' range is taken to reach beyond the sample's best: few winners may be in it.
inline constexpr int kSampleSpareBits = 2;
// Room for candidates: for this share of the row, or for what a sorted row's bound lets in if that is more,
// but never for more than the larger share, nor so many times what a sorted row's bound lets in.
inline constexpr double kSampleBufferShare = 32;
inline constexpr double kSampleMostBufferShare = 8;
inline constexpr double kSampleMostNeighbours = 32;
// A sample is of use where the bound's rank is this share of its delegates at most.
inline constexpr double kSampleMostRank = 0.8;
// A bound may be such a share of its rank behind it, which the first digit of the sample's range mostly
// tells: of elements far apart less, as there is room for what they let in, and a few standard deviations
// more.
inline constexpr int kSampleLinesSlack = 4;
inline constexpr int kSampleElementsSlack = 16;

// ---- Two bounds from a sample of a row's elements (element_sample.h) ----

// Elements of the sample, of a thread, and threads of a block, fewer where rows are short; blocks of a row,
// as many as the GPU has SMs for. The sample is such a share of a row at most: memory has some
// 25,000 places a microsecond, so elements come in sectors of 32 bytes, four of each 16, where the finds
// of that many blocks tell whatever is alike in a sector, and else one by one.
inline constexpr int kTwoBoundsElements = 4;
inline constexpr int kTwoBoundsThreads = 1024;
inline constexpr int kTwoBoundsMinThreads = 256;
inline constexpr int kTwoBoundsMostBlocks = 128;
inline constexpr int kTwoBoundsSectorBlocks = 32;
inline constexpr int64_t kTwoBoundsShare = 8;
// A block's find is above the k-th best element, or below, as coins fall. Of so many blocks: by how many
// standard deviations of its winners the ranks lie apart from their number, and how many more; the place of
// the bounds among the finds; how far apart they are then to be expected, in such deviations, and how much
// further they may be. Wrong once in some 10^5 rows.
struct Confidence {
  double deviations, ranks;
  int place;
  double spread, spare;
};
inline constexpr Confidence kTwoBoundsConfidence[] = {
    {4.5, 4, 0, 0, 0},       {2.9, 2, 0, 1.13, 3}, {1.75, 2, 0, 2.06, 3}, {0.85, 2, 0, 2.85, 2.7},
    {0.15, 2, 0, 3.53, 2.5}, {0, 1, 3, 2.4, 1.5},  {0, 1, 13, 1.54, 1},   {0, 1, 37, 1.06, 0.6},
};  // of 1, 2, 4 to 128 blocks

// ---- A block puts entries in order (block_sort.cuh) ----

// A block of 1024 threads has 64 registers for each, and keeps entries in them: 16 a thread, or 8 where a
// value or an index has 64 bits.
inline constexpr int kSortMaxThreads = 1024;
inline constexpr int kSortMinThreads = 64;
inline constexpr int kSortItems = 12;
inline constexpr int kSortWideItems = 8;
// So few entries are ranked without bins, fewer yet by comparing each with all, where that has so many lanes
// at least.
inline constexpr int kSortRankedFew = 256;
inline constexpr int kSortComparedFew = 128;
inline constexpr int kSortComparedLanes = 4;
// Entries are ranked within bins of their row's range while they meet so many others there on average, and so
// many more as a thread has few entries: dealing bins out anew is barriers that cost as much as that many
// comparisons of a thread. (A row of normal floats, most of whose range is near zero, meets some 40.)
inline constexpr int kSortFullBin = 3;
inline constexpr int kSortFullThread = 64;
// Half of the bins go to most entries where those are in so small a part of them.
inline constexpr int kSortSpreadGain = 8;
// Sorting by digits is seven passes or so and took 7 times as long as ranking where bins hold a few (4096 x
// 4096, normal against all_equal).
inline constexpr int kSortCrowdedBin = 128;
inline constexpr int kSortDigitBits = 8;

// ---- Rows in the shared memory of blocks that run together (held_row.cuh) ----

// One block an SM, with 64 registers a thread.
inline constexpr int kHeldThreads = 1024;
// Blocks of a row at most: one an SM, and of each a thread of every other looks up what it has.
constexpr int64_t held_blocks(int64_t sm_count, int64_t rows) {
  const int64_t blocks = sm_count / (rows > 1 ? rows : 1);
  return blocks < 1 ? 1 : blocks > kHeldThreads ? kHeldThreads : blocks;
}
// Of 32 bits two digits leave some ten to hundred candidates of 10^7, of 2-byte dtypes as many as are put in
// order.
inline constexpr int kHeldDigitBits = 11;
// A block's part is about a vector a thread, or as many more as there are.
inline constexpr int64_t kHeldLeastVectors = kHeldThreads;
inline constexpr int kHeldVectorsOfLine = 8;
// It is of whole lines: of so many vectors, one of `blocks` parts.
constexpr int64_t held_part_vectors(int64_t vectors, int64_t blocks) {
  const int64_t of_lines = blocks * kHeldVectorsOfLine;
  return (vectors + of_lines - 1) / of_lines * kHeldVectorsOfLine;
}
// Entries of a list, of 8 bytes or 12, where a digit's counts lie.
constexpr int held_room(int element_bytes) {
  return (int{sizeof(uint32_t)} << kHeldDigitBits) / (element_bytes == 8 ? 12 : 8);
}
// Where the first digit leaves more than such a share of the elements, their range of keys is looked up: it
// takes a barrier, and a digit that tells nothing takes that and more.
inline constexpr int kHeldCrowdShare = 6;
// Winners of a word of bits that are written one by one; of more, a lane each.
inline constexpr int kHeldFewOfWord = 5;
// Shared memory of a block: two histograms, the part, and what is chosen of it, one byte or two for each of
// its vectors; and the kernel's own variables.
constexpr int64_t held_bytes(int64_t vectors, int element_bytes) {
  return (int64_t{2 * sizeof(uint32_t)} << kHeldDigitBits) + vectors * (element_bytes > 1 ? 17 : 18);
}
inline constexpr int kHeldStaticBytes = 1024;

}  // namespace gputopk::cuda::tuning
