// How many rows are moved at a time.

#include <algorithm>

#include "cuda/device/split.h"
#include "cuda/strided/numbers.h"
#include "cuda/strided/strided.h"

namespace gputopk::cuda::strided {

Panels plan(const StridedProblem& strided, int64_t panel_bytes) {
  const Problem& problem = strided.problem;
  const int bytes = dtype_bytes(problem.dtype);
  Panels panels{};
  panels.gathers = !strided.input.is_plain();
  panels.scatters = !strided.outputs.is_plain();
  const int64_t vector = 16 / bytes;
  panels.pitch = panels.gathers ? divide_up(problem.cols, vector) * vector : problem.row_stride;
  // Rows that are not moved take no memory but for their winners.
  const int64_t row_bytes = bytes * (panels.gathers ? panels.pitch : problem.k);
  const int64_t panels_wanted = divide_up(problem.rows * row_bytes, panel_bytes);
  const int64_t least = tuning::panel_least_rows(bytes);
  const int64_t rows = divide_up(divide_up(problem.rows, panels_wanted), least) * least;
  panels.rows = std::min(rows, problem.rows);
  return panels;
}

Work Panels::work(const StridedProblem& strided, const Device& device) const {
  const Problem& problem = strided.problem;
  constexpr double kReads = 3;  // and writes: from the input, to the panel, from there
  Work work = work_of(problem, device, problem.rows, tuning::kMoveThreads, /*per_sm=*/8, kReads);
  work.waves = static_cast<double>(divide_up(problem.rows, rows));
  work.way = alignment_of_rows(strided.input, dtype_bytes(problem.dtype));
  return work;
}

}  // namespace gputopk::cuda::strided
