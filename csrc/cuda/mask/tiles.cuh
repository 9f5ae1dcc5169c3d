// Tiles or winners of all rows, numbered row by row.
#pragma once

#include <cstdint>

namespace gputopk::cuda::mask {

// Most numbers are small, which a GPU divides in a third of the time; and rows of one need no division.
__device__ inline int64_t row_of(int64_t number, int64_t per_row) {
  if (per_row == 1) return number;
  const bool small = (number | per_row) >> 32 == 0;
  return small ? static_cast<uint32_t>(number) / static_cast<uint32_t>(per_row) : number / per_row;
}

}  // namespace gputopk::cuda::mask
