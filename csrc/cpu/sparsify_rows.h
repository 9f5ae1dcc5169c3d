// What sparsification on the CPU offers for each level of vector instructions. sparsify_rows.cpp is compiled
// once a level, as select_rows.cpp is; sparsify_cpu.cpp picks one at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/sparsify_problem.h"

namespace gputopk::cpu {

// Accumulates `count` elements: update_function's.
using AddTo = void (*)(void* self, const void* add, void* momentum, int64_t count, double alpha, double mu);

// A row of the call.
struct SparsifyRow {
  DType dtype;
  int add_bytes;  // of an element
  AddTo add_to;   // null: nothing is added
  int64_t cols;
  int64_t k;  // at least 1
  void* self;
  const void* add;
  void* momentum;
  double alpha;
  double mu;
  void* values;   // k
  void* indices;  // k
  bool wide_indices;
};

// Where a worker keeps what it has found. sparsify_cpu.cpp sizes it by the functions below.
struct SparsifyScratch {
  char* keys;
  char* candidates;
};

// Rows up to here are done in one go, their keys kept: with all that is read beside they stay in the
// second-level cache.
constexpr int64_t kMaxWholeCols = 16384;

// Elements of a sample at most.
constexpr int64_t kMaxSparsifySample = 16384;

// A row's keys or a sample's, delegates, and up to the end of a strip or vector of each.
constexpr int64_t sparsify_keys(int64_t cols) {
  return (cols < kMaxWholeCols ? cols : kMaxWholeCols) * 3 / 2 + 3 * 64;
}

// Of a row done in one go any number; else as many as are held before the losers among them are dropped. And
// a strip behind them.
constexpr int64_t sparsify_candidates(int64_t cols, int64_t k) {
  const int64_t limit = cols <= kMaxWholeCols ? cols : 2 * k + 64;
  return (limit < cols ? limit : cols) + 2 * 64;
}

struct SparsifyKernel {
  // Accumulates into [begin, end) of a row.
  void (*accumulate)(const SparsifyRow& row, int64_t begin, int64_t end);

  // All of it, for a row of at most kMaxWholeCols elements.
  void (*whole_row)(const SparsifyRow& row, const SparsifyScratch& scratch);

  // For longer rows. A key that the k best of the row, accumulated, will hardly ever fail to reach; nothing
  // is written.
  uint64_t (*guess_floor)(const SparsifyRow& row, const SparsifyScratch& scratch);
  // Accumulates, if asked to, into [begin, end), and collects what reaches the floor there: all, or some
  // that hold the k best. Returns how many.
  int64_t (*collect)(const SparsifyRow& row, int64_t begin, int64_t end, uint64_t floor, bool accumulates,
                     char* candidates);
  // Writes the best k of `count` >= k candidates of the whole row, and clears what is not to stay.
  void (*finish)(const SparsifyRow& row, char* candidates, int64_t count);
};

// One of each for each level that was compiled. `wide`: with candidates of kWideCandidateBytes.
namespace baseline {
SparsifyKernel sparsify_kernel(DType dtype, bool wide);
AddTo update_function(DType dtype, DType add_dtype, Update update);
}  // namespace baseline
namespace avx2 {
SparsifyKernel sparsify_kernel(DType dtype, bool wide);
AddTo update_function(DType dtype, DType add_dtype, Update update);
}  // namespace avx2
namespace avx512 {
SparsifyKernel sparsify_kernel(DType dtype, bool wide);
AddTo update_function(DType dtype, DType add_dtype, Update update);
}  // namespace avx512

}  // namespace gputopk::cpu
