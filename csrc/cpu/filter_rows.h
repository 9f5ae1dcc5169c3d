// What the filter of ragged rows on the CPU offers for each level of vector instructions. filter_rows.cpp is
// compiled once a level, as select_rows.cpp is; filtered_row.h picks one at run time.
#pragma once

#include <cstdint>

#include "core/varlen_problem.h"

namespace gputopk::cpu {

// Elements that are looked at in one go: what is asked of them, a byte each, stays in the first-level cache.
constexpr int64_t kFilterBlock = 512;

struct FilterKernel {
  // Sets accepted[i], of `count`, to whether the element's key is above this one; returns whether any is.
  bool (*find_better)(const Problem& problem, const void* elements, int64_t count, uint64_t key,
                      uint8_t* accepted);
  // Clears accepted[i] where the filter does not accept element `begin` + i of the row.
  void (*clear_refused)(const Filter& filter, int64_t row, int64_t begin, int64_t count, uint8_t* accepted);
};

// One for each level that was compiled.
namespace baseline {
FilterKernel filter_kernel();
}
namespace avx2 {
FilterKernel filter_kernel();
}
namespace avx512 {
FilterKernel filter_kernel();
}

}  // namespace gputopk::cpu
