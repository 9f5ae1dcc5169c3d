// The numbers of a radix selection over many blocks a row (radix_passes.cuh), from sizes: host code that the
// plans of AIR and delegate share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
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

// Shared memory to select from a list of up to `bytes`: a histogram and the list.
constexpr size_t list_selection_bytes(size_t bytes) {
  return (sizeof(uint32_t) << tuning::kListDigitBits) + bytes;
}

// Of the stages of a block that stores candidates.
inline constexpr size_t kStageBytes = list_selection_bytes(tuning::kStoredListBytes);

// Candidates that each of its warps stages: as many as there is memory for, so that a tile of nothing but
// candidates goes out at once. In whole lines, so that every warp's are aligned; of them, 32 are what
// CandidateStore has beyond.
constexpr int staged_candidates(int entry_bytes) {
  constexpr int kWarps = tuning::kPassThreads / 32;
  return static_cast<int>(kStageBytes / kWarps / static_cast<size_t>(entry_bytes) / 16 * 16) - 32;
}

// Of a candidate that is staged.
inline int entry_bytes(const Problem& problem) {
  return dtype_bytes(problem.dtype) + (has_narrow_indices(problem.cols) ? 4 : 8);
}

// Whether a row's blocks are to meet, and select from what they have staged: where there are many candidates,
// and each warp has room for its own.
inline bool can_meet(double candidates, int blocks_per_row, int room_of_warp) {
  if (candidates < tuning::kStoredMeetLeast) return false;
  const double of_warp = candidates / (double{tuning::kPassThreads / 32} * blocks_per_row);
  return of_warp + tuning::kStoredMeetDeviations * std::sqrt(of_warp) <= room_of_warp;
}

// One in so many tiles is dealt to the blocks of a row that are done with others; 0: none. Where rows are few
// and long: a turn is a barrier of a block.
inline int share_dealt(const Problem& problem, int blocks_per_row) {
  const int64_t tiles = divide_up(problem.cols, tile_elements(problem, tuning::kPassThreads));
  return tiles >= tuning::kDealtLeastTiles * blocks_per_row ? tuning::kDealtShare : 0;
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
