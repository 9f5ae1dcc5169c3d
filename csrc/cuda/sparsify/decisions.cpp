// Whether a sparsification reads a row once, and how many blocks its own kernels have.

#include <algorithm>
#include <cstdio>

#include "cuda/device/element_sample.h"
#include "cuda/device/index_width.h"
#include "cuda/device/pass_numbers.h"
#include "cuda/device/row_sample.h"
#include "cuda/device/split.h"
#include "cuda/sparsify/chunk_memory.h"
#include "cuda/sparsify/numbers.h"
#include "cuda/sparsify/sparsify.h"

namespace gputopk::cuda::sparsify {

bool is_aligned(const SparsifyProblem& problem, const SparsifyBuffers& buffers) {
  const int bytes = dtype_bytes(problem.dtype), add_bytes = dtype_bytes(problem.add_dtype);
  const int64_t width = 16 / bytes;
  const auto lies_well = [&](const void* first, int64_t stride, int64_t element_bytes) {
    const bool begins_well =
        reinterpret_cast<uintptr_t>(first) % static_cast<size_t>(width * element_bytes) == 0;
    return begins_well && (problem.rows == 1 || is_dense(problem) || stride % width == 0);
  };
  return lies_well(buffers.self, problem.self_stride, bytes) &&
         lies_well(buffers.add, problem.add_stride, add_bytes) &&
         lies_well(buffers.momentum, problem.momentum_stride, bytes);
}

Config plan(const SparsifyProblem& problem, const Device& device, bool aligned) {
  const int64_t most = int64_t{device.sm_count} * tuning::kSparsifyBlocksPerSm;
  const auto blocks_for = [&](int64_t threads) {
    return static_cast<int>(std::clamp<int64_t>(divide_up(threads, tuning::kSparsifyThreads), 1, most));
  };
  Config config{};
  config.width = aligned ? 16 / dtype_bytes(problem.dtype) : 1;
  if (problem.update != Update::kNone) {
    const int64_t vectors = problem.rows * divide_up(problem.cols, config.width);
    config.accumulate_blocks = blocks_for(divide_up(vectors, tuning::kSparsifyInFlight));
  }
  config.take_blocks = blocks_for(problem.rows * problem.k);
  // A block a row does it, but for one long row of nothing but NaN.
  config.drop_blocks =
      static_cast<int>(std::min(most, problem.rows * divide_up(device.sm_count, problem.rows)));
  return config;
}

namespace {

// Of dense rows `aligned` says only that the first begins well, as they are accumulated as one.
bool rows_are_aligned(const SparsifyProblem& problem, bool aligned) {
  const int64_t width = 16 / dtype_bytes(problem.dtype);
  return aligned && (problem.rows == 1 || !is_dense(problem) || problem.cols % width == 0);
}

}  // namespace

Resident Resident::plan(const SparsifyProblem& problem, const Device& device) {
  const int64_t vectors = divide_up(problem.cols, 16 / dtype_bytes(problem.dtype));
  const int64_t most = tuning::held_blocks(device.sm_count, problem.rows);
  const int64_t blocks = std::clamp<int64_t>(divide_up(vectors, tuning::kHeldLeastVectors), 1, most);
  const int64_t part = std::min(tuning::held_part_vectors(vectors, blocks), int64_t{INT32_MAX});
  return {static_cast<int>(blocks), static_cast<int>(part)};
}

bool Resident::serves(const SparsifyProblem& problem, const Device& device, bool aligned) {
  return rows_are_aligned(problem, aligned) && problem.cols > 0 && problem.rows <= device.sm_count &&
         tuning::held_bytes(plan(problem, device).part_vectors, dtype_bytes(problem.dtype)) +
                 tuning::kHeldStaticBytes <=
             device.shared_bytes_per_block;
}

void Resident::describe(char* text, size_t text_bytes) const {
  std::snprintf(text, text_bytes, "resident: %d blocks a row, %d vectors a block", blocks, part_vectors);
}

bool OneRead::serves(const SparsifyProblem& problem, bool aligned) {
  return rows_are_aligned(problem, aligned) && has_narrow_indices(problem.cols) &&
         problem.cols >= tuning::kSampleMinCols && problem.k <= problem.cols / tuning::kOneReadMinColsPerK &&
         problem.rows * divide_up(problem.cols, tuning::kLeastChunk) <= INT32_MAX;
}

bool OneRead::pays(const SparsifyProblem& problem) { return problem.cols >= tuning::kOneReadMinCols; }

OneRead OneRead::plan(const SparsifyProblem& problem, const Problem& selection, const Device& device,
                      std::optional<bool> two_sided) {
  OneRead config{};
  const ElementBounds bounds = bounds_of_elements(selection, device);
  const double winners = SampledWinners(bounds.sample, selection).mean;
  config.two_sided = two_sided.value_or(problem.k >= tuning::kTwoSidedMinK &&
                                        bounds.ranks.upper >= tuning::kTwoSidedLeastSure * winners);
  double candidates, of_one_pass;  // that passes look at
  if (config.two_sided) {
    config.sample = bounds.sample;
    config.ranks = bounds.ranks;
    config.store = bounds.reaching_room;
    config.buffer = bounds.room;
    candidates = bounds.candidates;
    of_one_pass = tuning::kPassOnePassBetween;
  } else {
    const RowSample sample =
        sample_of_lines_tells(selection) ? sample_of_lines(selection) : sample_of_elements(selection);
    config.one = sample;
    config.store = config.buffer = sample.room;
    candidates = sample.candidates;
    of_one_pass = tuning::kPassOnePassCandidates;
  }
  config.blocks_per_row = blocks_of_passes(selection, device);
  config.digit_bits = std::min(tuning::kPassStoredDigitBits, digit_bits_that_fit(selection, device));
  config.likely_passes = passes_of_stored(selection, candidates, of_one_pass, /*last_alone=*/true);
  config.store_blocks_per_row = static_cast<int>(divide_up(config.blocks_per_row, tuning::kPassBlocksPerSm));
  const int64_t warps = int64_t{config.store_blocks_per_row} * (tuning::kPassThreads / 32);
  const int bytes = dtype_bytes(problem.dtype);
  const auto has_room = [&](int chunk) {
    return tuning::kPassThreads / 32 * chunk_warp_bytes(bytes, chunk, config.two_sided) +
               tuning::kBesideChunksBytes <=
           device.shared_bytes_per_block;
  };
  int64_t least = INT64_MAX;
  for (int chunk = tuning::least_chunk(bytes); chunk <= tuning::most_chunk(bytes); chunk *= 2) {
    const int64_t work = divide_up(divide_up(problem.cols, chunk), warps) * (chunk + tuning::kChunkOverhead);
    if (work < least && (config.chunk == 0 || has_room(chunk))) {
      least = work;
      config.chunk = chunk;
    }
  }
  const int64_t chunks = divide_up(problem.cols, config.chunk);
  config.chunks_per_warp = static_cast<int>(divide_up(chunks, tuning::kMostSpans * tuning::kSpanWarps));
  config.spans = divide_up(chunks, int64_t{config.chunks_per_warp} * tuning::kSpanWarps);
  config.launches_ahead = device.compute_capability >= 90;
  return config;
}

void OneRead::describe(char* text, size_t text_bytes) const {
  char bound[160];
  if (two_sided) {
    std::snprintf(bound, sizeof(bound),
                  "bounds are numbers %d and %d of %d elements of a sample, in place %d of %d blocks",
                  ranks.lower, ranks.upper, elements_of_block(sample), ranks.place, sample.blocks);
  } else {
    std::snprintf(bound, sizeof(bound), "bound is number %d of %d delegates of a sample", one.rank,
                  one.delegates);
  }
  std::snprintf(text, text_bytes,
                "one read: %s, %d blocks a row, room for %lld candidates, %lld spans of a row", bound,
                store_blocks_per_row, static_cast<long long>(store), static_cast<long long>(spans));
}

}  // namespace gputopk::cuda::sparsify
