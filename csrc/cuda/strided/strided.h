// Rows that do not lie side by side, as other algorithms take them: moved together, a panel of rows at a
// time, and their winners moved to where they belong. (Short rows are read and written where they lie:
// bitonic/bitonic.h, run_strided.)
#pragma once

#include <cstdint>

#include "core/strided_problem.h"
#include "cuda/cost.h"
#include "cuda/gpu.h"
#include "cuda/stream.h"

namespace gputopk::cuda::strided {

struct Panels {
  static constexpr const char* kName = "strided.panels";

  int64_t rows;   // of a panel, the last one may have fewer
  int64_t pitch;  // elements from one of its rows to the next
  bool gathers;   // rows; otherwise they are read where they lie
  bool scatters;  // winners; otherwise they are written to their place

  // Of moving rows and of selecting from them, by whatever form.
  Work work(const StridedProblem& strided, const Device& device) const;
};

// Rows are moved so many bytes at a time: long enough for the launches of a panel to be small beside it.
// (What fits the L2 cache is read from there, but takes no longer than its launches.)
inline constexpr int64_t kPanelBytes = int64_t{96} << 20;

// As many rows as take about so many bytes.
Panels plan(const StridedProblem& problem, int64_t panel_bytes);

// Moves the rows [first, first + rows) to `panel`.
ErrorCode gather(const StridedProblem& problem, const Panels& panels, int64_t first, int64_t rows,
                 const void* input, void* panel, Stream stream);

// Moves the winners of those rows, dense [rows, k], to the outputs, those from `first_winner` on.
ErrorCode scatter(const StridedProblem& problem, int64_t first, int64_t rows, int64_t first_winner,
                  const Buffers& winners, const Buffers& outputs, Stream stream);

}  // namespace gputopk::cuda::strided
