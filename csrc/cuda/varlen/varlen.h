// Ragged top-k: the steps before and behind a selection from windows.
#pragma once

#include <cstdint>

#include "core/varlen_problem.h"
#include "cuda/gpu.h"
#include "cuda/stream.h"
#include "cuda/windows.h"

namespace gputopk::cuda::varlen {

// Candidates of filtered rows, moved together in their order: rows x cols each.
struct Moved {
  void* elements = nullptr;
  void* positions = nullptr;  // in the window, as wide as a selection's
};

// What a selection leaves: a position for each place of the outputs.
struct Positions {
  const void* data;
  bool wide;  // int64; otherwise uint32
};

// Finds which elements pass the filter, and how many of each row. A row that is to have no winners has no
// candidates, and is not read.
ErrorCode find_candidates(const VarlenProblem& problem, const Candidates& candidates, const Device& device,
                          Stream stream);

// Moves the candidates of each row together.
ErrorCode move_together(const VarlenProblem& problem, const VarlenBuffers& buffers,
                        const Candidates& candidates, const Moved& moved, bool wide_positions, Stream stream);

// From positions to the outputs: values, indices, padding and counts.
ErrorCode finish(const VarlenProblem& problem, const VarlenBuffers& buffers, const Candidates& candidates,
                 const Moved& moved, const Positions& positions, const Device& device, Stream stream);

}  // namespace gputopk::cuda::varlen
