// The workspace of rows that are sorted in parts.
#pragma once

#include <algorithm>

#include "core/problem.h"
#include "cuda/device/index_width.h"
#include "cuda/sort/sort.h"
#include "cuda/workspace.h"

namespace gputopk::cuda::sort {

inline int index_bytes(const Problem& problem) { return has_narrow_indices(problem.cols) ? 4 : 8; }

struct Memory {
  void* values;  // of all rows' entries, a part behind the other: device/dealt_entries.cuh
  void* indices;
  void* sample_keys;  // of all rows' samples
  void* sample_indices;
  uint16_t* parts;      // of all rows' entries
  void* splitter_keys;  // rows x parts: the best of each part
  void* splitter_indices;
  unsigned long long* counts;  // rows x parts: of entries
  unsigned long long* starts;  // rows x parts: where the next entry goes; in the end, where the part ends
  uint32_t* arrived;           // rows: blocks that have counted
  uint32_t* needed;            // rows: parts, from the first on, that have entries to be kept
  size_t bytes;

  Memory(const Problem& problem, const Shape& shape, void* base) {
    Workspace workspace(base);
    const int64_t entries = problem.rows * shape.entries, splitters = problem.rows * shape.parts;
    const int64_t sampled = problem.rows * shape.sample_blocks * shape.sample_chunk;
    const int key_bytes = std::max(dtype_bytes(problem.dtype), 4);
    const bool paired = dtype_bytes(problem.dtype) == index_bytes(problem);
    const int64_t bytes_of_indices = entries * index_bytes(problem);
    values = workspace.take<char>(entries * dtype_bytes(problem.dtype) + (paired ? bytes_of_indices : 0));
    indices = workspace.take<char>(paired ? 0 : bytes_of_indices);
    sample_keys = workspace.take<char>(sampled * key_bytes);
    sample_indices = workspace.take<char>(sampled * index_bytes(problem));
    parts = workspace.take<uint16_t>(entries);
    splitter_keys = workspace.take<char>(splitters * key_bytes);
    splitter_indices = workspace.take<char>(splitters * index_bytes(problem));
    counts = workspace.take<unsigned long long>(problem.rows * shape.parts);
    starts = workspace.take<unsigned long long>(problem.rows * shape.parts);
    arrived = workspace.take<uint32_t>(problem.rows);
    needed = workspace.take<uint32_t>(problem.rows);
    bytes = workspace.bytes();
  }
};

}  // namespace gputopk::cuda::sort
