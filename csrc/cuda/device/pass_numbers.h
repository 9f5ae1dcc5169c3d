// The numbers of a radix selection over many blocks a row (radix_passes.cuh), from sizes: host code that the
// plans of AIR and delegate share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/problem.h"
#include "cuda/device/index_width.h"
#include "cuda/device/numbers.h"
#include "cuda/device/split.h"
#include "cuda/gpu.h"

namespace gputopk::cuda {

// A block counts in 32 bits.
inline int least_blocks_of_passes(const Problem& problem) { return static_cast<int>(problem.cols >> 31) + 1; }

inline int blocks_of_passes(const Problem& problem, const Device& device) {
  const int64_t tile = tile_elements(problem, tuning::kPassThreads);
  const Split split = best_split(problem, tile, divide_up(problem.cols, tile),
                                 int64_t{device.sm_count} * tuning::kPassBlocksPerSm,
                                 [](int64_t) { return tuning::kPassOverheadTiles; });
  return std::max(split.blocks_per_row, least_blocks_of_passes(problem));
}

// Candidates that can be stored between passes.
inline int64_t buffer_of_passes(int64_t cols) {
  return std::min(cols, std::max(cols / tuning::kPassBufferShare, tuning::kPassMinBuffer));
}

// As many bins as the elements of a block can pay for.
inline int digit_bits_of_passes(int64_t elements_per_block) {
  return std::clamp(bit_width(static_cast<uint64_t>(elements_per_block / tuning::kPassElementsPerBin)),
                    tuning::kPassMinDigitBits, tuning::kPassMaxDigitBits);
}

// The widest digits whose bins fit the GPU's shared memory beside the stages of a block's warps.
inline int digit_bits_that_fit(const Problem& problem, const Device& device) {
  const int index_bytes = has_narrow_indices(problem.cols) ? 4 : 8;
  const int staged = tuning::kPassStagedWinners + tuning::kPassStagedCandidates + 2 * 32;
  const int stages = tuning::kPassThreads / 32 * staged * (dtype_bytes(problem.dtype) + index_bytes);
  constexpr int kStatic = 4 * 1024;  // the kernels' own variables
  int bits = tuning::kPassMaxDigitBits;
  while (bits > 1 && stages + (index_bytes << bits) + kStatic > device.shared_bytes_per_block) --bits;
  return bits;
}

// Whether so many stored candidates are a list that a row's last block selects from at once.
inline bool fit_a_list(const Problem& problem, double candidates) {
  const bool wide = dtype_bytes(problem.dtype) == 8 || !has_narrow_indices(problem.cols);
  return candidates * (wide ? 16 : 8) <= tuning::kStoredListBytes;
}

// Passes that a selection from so many stored candidates is likely to have work for. `last_alone`: of the
// last winner, or of the bound that it is; the others are not written.
inline int passes_of_stored(const Problem& problem, double candidates, double of_one_pass, bool last_alone) {
  if (fit_a_list(problem, candidates)) return 0;
  if (last_alone && candidates * dtype_bytes(problem.dtype) <= tuning::kStoredScannedBytes) return 0;
  return candidates <= of_one_pass ? 1 : 2;
}

}  // namespace gputopk::cuda
