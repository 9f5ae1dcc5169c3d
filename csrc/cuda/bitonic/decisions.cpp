// Bitonic top-k's plan: which form serves a request, and with what numbers.

#include <algorithm>
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

// Whether k is small enough for maxima to bound it.
bool has_bound(const Problem& problem, const Shape& shape) {
  return problem.k <= shape.lanes * tuning::one_warp_most_k_per_lane(shape.lanes);
}

// Whether a list has room for the row.
bool lists_row(const Problem& problem, const Shape& shape) {
  return problem.cols <= shape.lanes * tuning::one_warp_list_per_lane(shape.lanes);
}

// The first shape that has room for a row, and for a list of what reaches the bound, or of the row; no lanes:
// there is none.
Shape shape_of(const Problem& problem) {
  for (const Shape& shape : kShapes) {
    const bool whole_vectors = shape.elements * dtype_bytes(problem.dtype) >= 16;
    if (whole_vectors && problem.cols <= shape.lanes * shape.elements &&
        (has_bound(problem, shape) || lists_row(problem, shape))) {
      return shape;
    }
  }
  return {0, 0};
}

}  // namespace

const char* unsupported_reason(const Problem& problem) {
  static_assert(kMaxK == 256, "the text says so");
  return problem.k <= kMaxK ? nullptr : "k is larger than 256, the most that its networks keep";
}

bool OneThread::serves(const Problem& problem, const Device&) {
  return problem.k <= kOneThreadMaxK &&
         problem.cols <= tuning::one_thread_elements(dtype_bytes(problem.dtype));
}

OneThread OneThread::plan(const Problem& problem, const Device&) {
  return {problem.cols <= 16 ? 16 : problem.cols <= 32 ? 32 : 64};
}

void OneThread::describe(const Problem&, char* text, size_t text_bytes) const {
  std::snprintf(text, text_bytes, "bitonic: one thread a row, of up to %d elements", elements);
}

Work OneThread::work(const Problem& problem, const Device& device) const {
  const int threads = tuning::kOneThreadThreads;
  const int64_t blocks = (problem.rows + threads - 1) / threads;
  return work_of(problem, device, blocks, threads, tuning::one_thread_blocks(elements), /*reads=*/1);
}

bool OneWarp::serves(const Problem& problem, const Device&) { return shape_of(problem).lanes > 0; }

OneWarp OneWarp::plan(const Problem& problem, const Device& device) {
  const Shape shape = shape_of(problem);
  OneWarp config{shape.lanes, shape.elements, 0, 0};
  // Of more winners than half of the row, a bound would leave out few.
  if (has_bound(problem, shape) && !(lists_row(problem, shape) && 2 * problem.k > problem.cols)) {
    config.maxima = 1;
    while (config.maxima < 8 && config.maxima * config.lanes < 2 * problem.k) config.maxima *= 2;
  }
  // Where a tile a SM is more than there are rows for, tiles of a square's rows at least.
  const int bytes = dtype_bytes(problem.dtype);
  int& bits = config.tile_row_bits = tuning::one_warp_tile_row_bits(static_cast<int>(problem.cols), bytes);
  while (problem.rows >> bits < device.sm_count && 1 << bits > square_side(bytes)) --bits;
  return config;
}

void OneWarp::describe(const Problem&, char* text, size_t text_bytes) const {
  char bound[40] = "the row is listed whole";
  if (maxima > 0) std::snprintf(bound, sizeof(bound), "%d maxima a lane", maxima);
  std::snprintf(text, text_bytes, "bitonic: %d lanes a row, %d elements a lane, %s", lanes, elements, bound);
}

Work OneWarp::work(const Problem& problem, const Device& device) const {
  constexpr int kWarpsPerSm = 32;
  Work work = work_of(problem, device, problem.rows, lanes, kWarpsPerSm * 32 / lanes, /*reads=*/1);
  work.way = maxima == 0 ? 1 : 0;  // ranking a row whole, or what reaches a bound
  return work;
}

ManyBlocks ManyBlocks::plan(const Problem& problem, const Device& device) {
  ManyBlocks config{};
  config.items = problem.k <= 32 ? 1 : problem.k <= 128 ? 4 : 8;
  const int64_t rows = std::max<int64_t>(problem.rows, 1);
  const int64_t wanted = int64_t{device.sm_count} * tuning::kManyBlocksPerSm / rows;
  const int64_t useful = problem.cols / (tuning::kManyBlocksElementsPerLane * tuning::kManyBlocksThreads);
  config.blocks_per_row = static_cast<int>(std::max<int64_t>(1, std::min(wanted, useful)));
  return config;
}

void ManyBlocks::describe(const Problem&, char* text, size_t text_bytes) const {
  std::snprintf(text, text_bytes, "bitonic: %d blocks a row, runs of %d", blocks_per_row, 32 * items);
}

Work ManyBlocks::work(const Problem& problem, const Device& device) const {
  return work_of(problem, device, problem.rows * blocks_per_row, tuning::kManyBlocksThreads,
                 tuning::kManyBlocksPerSm, /*reads=*/1);
}

Work OneWarp::strided_work(const StridedProblem& strided, const Device& device) const {
  Work all = work(strided.problem, device);
  all.way = alignment_of_rows(strided.input, dtype_bytes(strided.problem.dtype));
  return all;
}

}  // namespace gputopk::cuda::bitonic
