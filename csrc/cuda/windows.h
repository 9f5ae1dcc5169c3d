// Ragged rows as kernels take them.
#pragma once

#include <cstdint>

#include "core/varlen_problem.h"

namespace gputopk::cuda {

// Rows whose windows lie in device memory: parts of the input's rows, or the candidates of those parts where
// they were moved together, to the beginning of rows of their own.
struct WindowRows {
  Windows windows;
  const int64_t* moved = nullptr;  // how many candidates each row has; null: elements are where they were
  int64_t row_stride = 0;
  bool kth_alone = false;  // as VarlenProblem has it

  // Where the row's candidates begin, how many there are, and how many win.
  GPUTOPK_HOST_DEVICE Window of(int64_t row) const {
    Window window = windows.of(row);
    if (kth_alone) window.k = windows.kth_of(row);
    if (moved != nullptr) {
      window.start = 0;
      window.length = moved[row];
    }
    if (window.k > window.length) window.k = window.length;
    return window;
  }
};

}  // namespace gputopk::cuda
