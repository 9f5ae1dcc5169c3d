// Numbers of delegate. Each with its reason, measured on one NVIDIA H200.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/key_order.h"  // GPUTOPK_HOST_DEVICE

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
template <class Real>
GPUTOPK_HOST_DEVICE Real sample_rank(Real winners) {
  return ceil(winners + static_cast<Real>(kSampleDeviations) * sqrt(winners) +
              static_cast<Real>(kSampleExtraRank));
}
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
inline constexpr int kClusterMaxThreads = 1024;
inline constexpr int kClusterThreadsPerSm = 1024;
// Vectors of the sample that a thread keeps in registers: 64 bytes, and no more than 16 elements.
constexpr int cluster_vectors(int element_bytes) { return element_bytes >= 4 ? 4 : element_bytes; }
// The sample is such a share of the row at most.
inline constexpr int64_t kClusterSampleShare = 4;
// The bound's rank in the sample, as of kSampleDeviations; one greater by such a share of it will do, which
// digits of the range of the threads' best mostly tell at once. Room is for as many candidates as that rank
// may let in, short of so many standard deviations of a gamma variable.
inline constexpr int kClusterSampleDigitBits = 9;
inline constexpr int kClusterRankSlack = 8;
inline constexpr double kClusterRoomDeviations = 4;
// Digits of the row, where a sample misled: two histograms of 8 KB together.
inline constexpr int kClusterDigitBits = 10;
// Bytes that all blocks together fetch into L2 while they find their bounds: what L2 holds at once.
inline constexpr double kClusterPrefetchBytes = 32e6;

}  // namespace gputopk::cuda::tuning
