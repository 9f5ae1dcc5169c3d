// How rows are divided among blocks: host code that several plans share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/problem.h"
#include "cuda/device/numbers.h"

namespace gputopk::cuda {

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// What so many threads have in flight, which is a tile.
inline int64_t tile_elements(const Problem& problem, int threads) {
  const int bytes = dtype_bytes(problem.dtype);
  return int64_t{threads} * tuning::loads_in_flight(bytes) * (16 / bytes);
}

struct Split {
  int blocks_per_row;
  double cost;  // in tiles
};

// The split that ends first when `resident` blocks run at a time, in waves over the GPU, each as long as its
// tiles and overhead(blocks), in tiles. Of at most `most` blocks a row, which then differ by one tile at
// most, and in a few waves: more would be no more even.
template <class Overhead>
Split best_split(const Problem& problem, int64_t tile, int64_t most, int64_t resident,
                 const Overhead& overhead) {
  const int64_t tiles = divide_up(problem.cols, tile);
  most = std::min({most, resident, tuning::kMostWaves * resident / std::max<int64_t>(1, problem.rows)});
  Split best{1, 0};
  for (int64_t blocks = 1; blocks <= std::max<int64_t>(1, most); ++blocks) {
    const double waves = static_cast<double>(divide_up(problem.rows * blocks, resident));
    const double cost = waves * (static_cast<double>(divide_up(tiles, blocks)) + overhead(blocks));
    if (blocks == 1 || cost < best.cost) best = {static_cast<int>(blocks), cost};
  }
  return best;
}

}  // namespace gputopk::cuda
