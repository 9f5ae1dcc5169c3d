// Where the winners of windows go.
#pragma once

#include <cstdint>

#include "cuda/device/winner_writer.cuh"
#include "cuda/windows.h"

namespace gputopk::cuda {

// Of one row: to the caller's outputs, as what the caller wants of each position, or, where rows have none
// because another step goes on with them, as positions to that step's table.
template <class Bits>
class WindowWriter {
 public:
  __device__ WindowWriter(const WindowRows& rows, int64_t row, const WinnerWriter<Bits>& positions)
      : rows_(rows), row_(row), start_(rows.windows.of(row).start), positions_(positions) {}

  __device__ void write(int64_t rank, Bits bits, int64_t position) const {
    const WindowOutputs& outputs = rows_.outputs;
    if (outputs.indices == nullptr) return positions_.write(rank, bits, position);
    outputs.write(row_, rank, bits, outputs.map.of(row_, start_, position));
  }

  // Fills up the places behind the winners, and says how many those are. In the table no two entries of
  // padding are equal, so that each has a place in an order; they are at positions beyond all columns. By all
  // of so many threads.
  __device__ void finish(int64_t winners, int64_t places, int thread, int threads) const {
    const WindowOutputs& outputs = rows_.outputs;
    const Bits pad = static_cast<Bits>(outputs.pad);
    for (int64_t i = winners + thread; i < places; i += threads) {
      if (outputs.indices == nullptr) {
        positions_.write(i, pad, rows_.windows.cols + i);
      } else {
        outputs.write(row_, i, pad, outputs.map.pad_index);
      }
    }
    if (outputs.indices != nullptr && thread == 0) outputs.counts[row_] = static_cast<int32_t>(winners);
  }

 private:
  const WindowRows& rows_;
  int64_t row_;
  int64_t start_;
  WinnerWriter<Bits> positions_;
};

}  // namespace gputopk::cuda
