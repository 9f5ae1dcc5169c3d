// Which rows have counts and indices of 32 bits. In one place, so that a test can have short rows with 64.
#pragma once

#include <cstdint>

namespace gputopk::cuda {

inline bool has_narrow_indices(int64_t cols) { return cols <= int64_t{0xFFFFFFFF}; }

}  // namespace gputopk::cuda
