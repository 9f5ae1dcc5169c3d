// The workspace of sort::Partition.
#pragma once

#include "core/problem.h"
#include "cuda/sort/sort.h"
#include "cuda/workspace.h"

namespace gputopk::cuda::sort {

// An entry that bounds others, by key and index.
struct EntryBound {
  uint64_t key, index;
};

struct RowState {
  unsigned long long written;                         // winners in the output
  unsigned long long stored[Partition::kMostRounds];  // entries between the bounds, in the window or not
  EntryBound upper[Partition::kMostRounds], lower[Partition::kMostRounds];
  bool good[Partition::kMostRounds];  // what the round reads has the winners that are still to be found
};

struct PartitionMemory {
  RowState* states;
  void* values[Partition::kMostRounds];  // of the windows
  void* indices[Partition::kMostRounds];
  size_t bytes;

  PartitionMemory(const Problem& problem, const Partition& config, void* base) : values(), indices() {
    Workspace workspace(base);
    states = workspace.take<RowState>(problem.rows);
    for (int round = 0; round < config.rounds; ++round) {
      const int64_t entries = problem.rows * config.windows[round];
      values[round] = workspace.take<char>(entries * dtype_bytes(problem.dtype));
      indices[round] = workspace.take<uint32_t>(entries);
    }
    bytes = workspace.bytes();
  }
};

}  // namespace gputopk::cuda::sort
