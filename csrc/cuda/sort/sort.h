// Rows in order: the steps that order the winners of a selection, and the algorithm that sorts whole rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/problem.h"
#include "cuda/cost.h"
#include "cuda/gpu.h"
#include "cuda/stream.h"

namespace gputopk::cuda::sort {

// Why no form here serves the request, or nullptr.
const char* unsupported_reason(const Problem& problem, const Device& device);

// How rows of so many entries, a value and its index each, are put in order.
struct Shape {
  int64_t entries;     // of a row
  int threads;         // of a block that sorts
  int capacity;        // entries that a block can sort
  int parts;           // of a row, a block each, kept apart by splitters; 1: a block sorts the row
  int sample_blocks;   // of a row, and entries that each samples: powers of two
  int sample_chunk;    //
  int sample_threads;  // of such a block
  int blocks_per_row;  // that deal a row's entries out to its parts, so many at a time
  int tile;            //
};

// How rows are put in order of index by marking columns, a bit each.
struct Marks {
  int words;    // of 32 columns, as many as there are or a few more; 0: rows are sorted
  int threads;  // of a row's block
};

// The step behind a selection: puts the winners of each row in order, best first and equal values by index,
// or all by index, in the outputs themselves.
struct OrderRows {
  Shape shape;
  Marks marks;

  static OrderRows plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  void describe(char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  // buffers.values and buffers.indices hold the winners in any order.
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// The step behind a selection of whose order the last alone is wanted: finds each row's worst winner, of
// equal ones that of the highest index, and swaps it with the one at place k - 1, in the outputs themselves.
struct LastInPlace {
  int threads;         // of a block
  int blocks_per_row;  // of which more than one find the worst of a share each, and a further one that of all

  static LastInPlace plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  void describe(char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  // buffers.values and buffers.indices hold the winners in any order.
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// Rows of which all is wanted, in any order: a copy, and the positions.
struct Copy {
  static constexpr Algorithm kAlgorithm = Algorithm::kSort;
  static constexpr const char* kName = "sort.copy";

  int blocks;

  static bool serves(const Problem& problem, const Device&) {
    return problem.k == problem.cols && !problem.sorted;  // which is by index
  }
  static Copy plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return false; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem&) const { return 0; }
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// Rows of which a good part is wanted: they are sorted whole, and the best k kept.
struct WholeRows {
  static constexpr Algorithm kAlgorithm = Algorithm::kSort;
  static constexpr const char* kName = "sort.whole_rows";

  Shape shape;

  static bool serves(const Problem& problem, const Device&);
  static WholeRows plan(const Problem& problem, const Device& device);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return true; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

}  // namespace gputopk::cuda::sort
