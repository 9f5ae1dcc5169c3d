// Bitonic top-k's plan: which form serves a request, and with what numbers.

#include <cstdio>

#include "cuda/bitonic/bitonic.h"
#include "cuda/bitonic/numbers.h"

namespace gputopk::cuda::bitonic {
namespace {

struct Shape {
  int lanes, elements;
};
// From the one that shares a warp's work among most rows.
constexpr Shape kShapes[] = {{8, 8}, {8, 16}, {16, 16}, {32, 16}, {32, 32}};

// The first shape that has room for a row and for lists of k; no lanes: there is none.
Shape shape_of(const Problem& problem) {
  for (const Shape& shape : kShapes) {
    const bool whole_vectors = shape.elements * dtype_bytes(problem.dtype) >= 16;
    if (whole_vectors && problem.cols <= shape.lanes * shape.elements &&
        problem.k <= shape.lanes * tuning::kOneWarpMostKPerLane) {
      return shape;
    }
  }
  return {0, 0};
}

}  // namespace

const char* unsupported_reason(const Problem& problem) {
  return shape_of(problem).lanes > 0 ? nullptr : "rows and k are larger than a warp's registers hold";
}

bool OneWarp::serves(const Problem& problem, const Device&) { return shape_of(problem).lanes > 0; }

OneWarp OneWarp::plan(const Problem& problem, const Device&) {
  const Shape shape = shape_of(problem);
  OneWarp config{shape.lanes, shape.elements, 1};
  while (config.maxima < 4 && config.maxima * config.lanes < 2 * problem.k) config.maxima *= 2;
  return config;
}

void OneWarp::describe(const Problem&, char* text, size_t text_bytes) const {
  std::snprintf(text, text_bytes, "bitonic: %d lanes a row, %d elements and %d maxima a lane", lanes,
                elements, maxima);
}

Work OneWarp::work(const Problem& problem, const Device& device) const {
  constexpr int kWarpsPerSm = 32;
  return work_of(problem, device, problem.rows, lanes, kWarpsPerSm * 32 / lanes, /*reads=*/1);
}

}  // namespace gputopk::cuda::bitonic
