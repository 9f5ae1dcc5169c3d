// Sparsification's plan on the CPU: rows over workers, a few at a time, or, where rows are few and long, each
// row in pieces, one a worker. sparsify_rows.cpp does the work.
#include "cpu/sparsify_cpu.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "cpu/level.h"
#include "cpu/select_rows.h"
#include "cpu/sparsify_rows.h"
#include "cpu/workers.h"
#include "cpu/workspace.h"

namespace gputopk::cpu {
namespace {

// What a row costs beside reading it, and a winner, in bytes as workers.h counts them.
constexpr int64_t kWorkPerRow = 512;
constexpr int64_t kWorkPerWinner = 256;

constexpr int64_t kGrabsPerWorker = 16;

struct Functions {
  SparsifyKernel kernel;
  AddTo add_to;
};

Functions functions_for(Level level, const SparsifyProblem& problem, bool wide) {
  const auto of = [&](auto kernel, auto update_function) -> Functions {
    return {kernel(problem.dtype, wide), update_function(problem.dtype, problem.add_dtype, problem.update)};
  };
  switch (level) {
#ifdef __x86_64__
    case Level::kAvx512: return of(avx512::sparsify_kernel, avx512::update_function);
    case Level::kAvx2: return of(avx2::sparsify_kernel, avx2::update_function);
#endif
    default: return of(baseline::sparsify_kernel, baseline::update_function);
  }
}

// The workspace holds a count for each piece, keys for each worker, and a list for each.
struct Plan {
  bool wide;
  bool whole;      // rows are done in one go
  int64_t pieces;  // of a row; 1: workers take rows
  int64_t workers;
  size_t candidate_bytes;
  size_t list_bytes;
  size_t keys_bytes;
  size_t keys_at;
  size_t lists_at;
  size_t total_bytes;
};

Plan make_plan(const SparsifyProblem& problem, int threads) {
  Plan plan{};
  const int64_t bytes = dtype_bytes(problem.dtype), cols = problem.cols, k = problem.k;
  plan.wide = bytes == 8 || (bytes == 4 && cols > kMaxNarrowCols);
  plan.whole = cols <= kMaxWholeCols;
  // Self is read and written, and what is added read: three times a row's bytes.
  const double per_row =
      kWorkPerRow + static_cast<double>(kWorkPerWinner) * k + 3.0 * static_cast<double>(bytes * cols);
  plan.workers = workers_for(per_row * static_cast<double>(problem.rows), threads);
  const bool splits = !plan.whole && problem.rows < plan.workers;
  plan.pieces = splits ? std::min(plan.workers, cols / kMaxWholeCols) : 1;
  plan.workers = splits ? plan.pieces : std::min(plan.workers, problem.rows);
  if (k == 0) return plan;
  plan.candidate_bytes = plan.wide ? kWideCandidateBytes : kNarrowCandidateBytes;
  plan.list_bytes = aligned(sparsify_candidates(cols, k) * plan.candidate_bytes);
  plan.keys_bytes = aligned(sparsify_keys(cols) * bytes);
  plan.keys_at = aligned(plan.pieces * sizeof(int64_t));
  plan.lists_at = plan.keys_at + plan.workers * plan.keys_bytes;
  plan.total_bytes = plan.lists_at + plan.workers * plan.list_bytes;
  return plan;
}

// One call, as its workers see it.
struct Call {
  const SparsifyProblem& problem;
  const SparsifyBuffers& buffers;
  const Plan& plan;
  Functions functions;
  std::atomic<int64_t> next_row;
  // Of the row that is done in pieces.
  SparsifyRow row;
  uint64_t floor;
  bool accumulates;

  int64_t* counts() const { return static_cast<int64_t*>(buffers.workspace); }
  char* list(int64_t worker) const {
    return static_cast<char*>(buffers.workspace) + plan.lists_at + worker * plan.list_bytes;
  }
  SparsifyScratch scratch(int64_t worker) const {
    char* const keys = static_cast<char*>(buffers.workspace) + plan.keys_at + worker * plan.keys_bytes;
    return {keys, list(worker)};
  }

  SparsifyRow row_at(int64_t i) const {
    const int64_t bytes = dtype_bytes(problem.dtype), add_bytes = dtype_bytes(problem.add_dtype);
    const auto at = [](const void* base, int64_t distance) {
      return base == nullptr ? nullptr : static_cast<char*>(const_cast<void*>(base)) + distance;
    };
    return {problem.dtype,
            static_cast<int>(add_bytes),
            functions.add_to,
            problem.cols,
            problem.k,
            at(buffers.self, i * problem.self_stride * bytes),
            at(buffers.add, i * problem.add_stride * add_bytes),
            at(buffers.momentum, i * problem.momentum_stride * bytes),
            problem.alpha,
            problem.mu,
            at(buffers.values, i * problem.k * bytes),
            at(buffers.indices, i * problem.k * (problem.wide_indices ? 8 : 4)),
            problem.wide_indices};
  }
};

void do_row(const Call& call, const SparsifyRow& row, const SparsifyScratch& scratch) {
  const SparsifyKernel& kernel = call.functions.kernel;
  if (row.k == 0) return kernel.accumulate(row, 0, row.cols);
  if (call.plan.whole) return kernel.whole_row(row, scratch);
  const uint64_t floor = kernel.guess_floor(row, scratch);
  int64_t count = kernel.collect(row, 0, row.cols, floor, true, scratch.candidates);
  if (count < row.k) count = kernel.collect(row, 0, row.cols, 0, false, scratch.candidates);
  kernel.finish(row, scratch.candidates, count);
}

void take_rows(Call& call, int64_t worker) {
  const int64_t rows = call.problem.rows;
  const int64_t grab = divide_up(rows, call.plan.workers * kGrabsPerWorker);
  for (;;) {
    const int64_t begin = call.next_row.fetch_add(grab, std::memory_order_relaxed);
    if (begin >= rows) return;
    for (int64_t i = begin; i < std::min(begin + grab, rows); ++i) {
      do_row(call, call.row_at(i), call.scratch(worker));
    }
  }
}

void take_piece(Call& call, int64_t piece) {
  const int64_t cols = call.problem.cols, length = divide_up(cols, call.plan.pieces);
  const int64_t begin = std::min(piece * length, cols), end = std::min(begin + length, cols);
  const SparsifyKernel& kernel = call.functions.kernel;
  if (call.problem.k == 0) return kernel.accumulate(call.row, begin, end);
  call.counts()[piece] = kernel.collect(call.row, begin, end, call.floor, call.accumulates, call.list(piece));
}

int64_t collect_in_pieces(Call& call, ParallelFor parallel_for) {
  run_tasks<take_piece>(call, call.plan.pieces, parallel_for);
  int64_t count = 0;
  for (int64_t piece = 0; piece < call.plan.pieces; ++piece) count += call.counts()[piece];
  return count;
}

void do_row_in_pieces(Call& call, ParallelFor parallel_for) {
  const SparsifyKernel& kernel = call.functions.kernel;
  if (call.row.k == 0) return run_tasks<take_piece>(call, call.plan.pieces, parallel_for);
  call.floor = kernel.guess_floor(call.row, call.scratch(0));
  call.accumulates = true;
  int64_t count = collect_in_pieces(call, parallel_for);
  if (count < call.row.k) {
    call.floor = 0;
    call.accumulates = false;
    count = collect_in_pieces(call, parallel_for);
  }
  // The lists lie one after the other, so none is moved onto one that has not been.
  const size_t bytes = call.plan.candidate_bytes;
  char* end = call.list(0);
  for (int64_t piece = 0; piece < call.plan.pieces; ++piece) {
    std::memmove(end, call.list(piece), call.counts()[piece] * bytes);
    end += call.counts()[piece] * bytes;
  }
  kernel.finish(call.row, call.list(0), count);
}

}  // namespace

size_t sparsify_workspace_bytes(const SparsifyProblem& problem, int threads) {
  return make_plan(problem, threads).total_bytes;
}

void sparsify(const SparsifyProblem& problem, const SparsifyBuffers& buffers, int threads,
              ParallelFor parallel_for) {
  const Plan plan = make_plan(problem, threads);
  Call call{problem, buffers, plan, functions_for(detect_level(), problem, plan.wide), {}, {}, 0, true};
  if (plan.pieces == 1) return run_tasks<take_rows>(call, plan.workers, parallel_for);
  for (int64_t i = 0; i < problem.rows; ++i) {
    call.row = call.row_at(i);
    do_row_in_pieces(call, parallel_for);
  }
}

}  // namespace gputopk::cpu
