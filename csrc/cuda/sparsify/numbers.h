// Numbers of sparsification. None is measured yet: they are those of copies and reads elsewhere here.
#pragma once

namespace gputopk::cuda::tuning {

inline constexpr int kSparsifyThreads = 256;
// 16-byte loads of each tensor in flight a thread. As compiled for compute capability 9.0 that takes up to
// 126 registers, so two blocks fit an SM: 64 KB in flight there without momentum, about what the memory's
// latency asks for.
inline constexpr int kSparsifyInFlight = 4;
// Blocks an SM of a grid whose threads take several vectors one after the other.
inline constexpr int kSparsifyBlocksPerSm = 8;

// With momentum, where 64 registers a thread are to do.
inline constexpr int kMomentumInFlight = 2;

// ---- One read ----

// Elements whose candidates are stored together: 64 a lane, so that their bits fit a word.
inline constexpr int kChunkElements = 2048;
// Warps of a block that writes a span's winners, and the most spans of a row: each adds up what all before it
// have, 8 KB at most.
inline constexpr int kSpanWarps = 8;
inline constexpr int64_t kMostSpans = 2048;
// Of k elements and more a row: the store of candidates is then a good part of the row, and the sample says
// the less.
inline constexpr int64_t kOneReadMinColsPerK = 8;

}  // namespace gputopk::cuda::tuning
