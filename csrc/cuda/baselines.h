// Baselines of the papers that no library has, in the study library alone: small and exact. All serve
// rows of fewer than 2^32 elements, of 4 and 8 bytes, SearchTree of any width, and leave the winners in any
// order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/problem.h"
#include "cuda/gpu.h"
#include "cuda/stream.h"

namespace gputopk::cuda {

// Every thread keeps the k best elements that it sees: study/per_thread.cu.
struct PerThread {
  bool registers;  // in lists in registers; else in heaps in shared memory
  int threads;     // of a block, whose heaps fit its shared memory
  int blocks_per_row;

  static int64_t most_k(DType dtype, const Device& device);  // of heaps
  static bool fits_registers(const Problem& problem);
  static PerThread plan(const Problem& problem, const Device& device, bool registers = false);
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// Buckets of equal width between the least key and the greatest: study/bucket.cu.
struct Bucket {
  int blocks_per_row;

  static Bucket plan(const Problem& problem, const Device& device);
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// Buckets between elements of a sample, found by a search tree: study/tree.cu.
struct SearchTree {
  int blocks_per_row;
  int levels;

  static SearchTree plan(const Problem& problem, const Device& device);
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

}  // namespace gputopk::cuda
