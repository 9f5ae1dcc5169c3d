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

}  // namespace gputopk::cuda::strided
