// What `auto` goes by.
#pragma once

#include <cstdint>

namespace gputopk::cuda::tuning {

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
// Rows an SM that give every warp one.
inline constexpr int64_t kAutoRowsPerSmForWarps = 16;
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

}  // namespace gputopk::cuda::tuning
