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
// Digits of both selections: candidates are few, and a pass over them is mostly its bins.
inline constexpr int kDelegateDigitBits = 12;
// Where more are expected, passes that have work: one, as their first digit is known; two for more than so
// many, of which that digit leaves too many to select from at once.
inline constexpr double kDelegateOnePassCandidates = 1 << 18;
// Room for candidates: for all that k subranges can hold, if that is less than such a share of the row.
inline constexpr int64_t kDelegateMinBufferShare = 8;

// ---- From a sample ----

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

// ---- On chip ----

// By arithmetic; what was measured is said.

inline constexpr int kOnChipMostThreads = 1024;
inline constexpr int kOnChipMostStages = 16;
// Vectors that a lane looks at in one step: with twice as many, long rows took a tenth longer, as fewer warps
// share a chunk.
inline constexpr int kOnChipLaneVectors = 2;
// Digits of the candidates' own range; a crowd in one bin costs more than wider digits would.
inline constexpr int kOnChipDigitBits = 11;
// The k-th best of so many times k delegates is a bound that little more than k elements reach; of twice as
// many at least.
inline constexpr int kOnChipDelegatesPerK = 4;
inline constexpr int kOnChipLeastDelegatesPerK = 2;
// More of a selection's elements than k by this share of k may reach its bound: another digit costs more.
inline constexpr int kOnChipSlackShare = 8;
// Room for candidates: of a row that is whole in the ring, and of one that passes through it, of which each
// chunk adds some before the bound rises.
inline constexpr double kOnChipRoomResident = 1.5;
inline constexpr double kOnChipRoomStreamed = 2.25;
inline constexpr int kOnChipMuchRoomMostK = 2048;  // with more winners a ring needs the memory more
inline constexpr int kOnChipMoreRoom = 1152;       // a tile of 1-byte elements, and a row's ends, at least
// Two blocks an SM where their lists leave both a ring: one computes while the other waits at its barriers.
// Rings of fewer bytes do not keep the memory at work.
inline constexpr int kOnChipThreads = 512;
inline constexpr int kOnChipLeastRingBytes = 48 * 1024;
// A chunk has a tile for each warp at least, and a ring so many chunks at least where rows are longer.
inline constexpr int kOnChipLeastStages = 3;
inline constexpr int kOnChipChunkBytes = 32 * 1024;
// What a block has beside its dynamic shared memory: static variables, and what the driver keeps.
inline constexpr int kOnChipStaticBytes = 2 * 1024;
// Rows of so many columns at least and so many bytes at most, and so many rows: elsewhere other forms were
// ahead by far, as a block takes some 3000 cycles for a chunk, however small, and has one row at a time. And
// so many columns for each of the k.
inline constexpr int64_t kOnChipMinCols = 8192;
inline constexpr int64_t kOnChipMaxRowBytes = 256 * 1024;
inline constexpr int64_t kOnChipMinRows = 16;
inline constexpr int64_t kOnChipMinColsPerK = 4;
inline constexpr int64_t kOnChipMostK = 4096;
inline constexpr int64_t kOnChipMostKWide = 2048;  // of 8-byte elements, whose lists take twice the room

}  // namespace gputopk::cuda::tuning
