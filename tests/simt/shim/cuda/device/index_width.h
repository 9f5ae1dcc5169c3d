// Which rows have counts and indices of 32 bits: as a test says, in place of csrc's header of this name.
#pragma once

#include "simt.h"

namespace gputopk::cuda {

inline bool has_narrow_indices(int64_t cols) { return cols <= ::simt::most_cols_of_32_bits; }

}  // namespace gputopk::cuda
