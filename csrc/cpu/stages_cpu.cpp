// Selection by several keys on the CPU: rows over workers, each of which sorts a row's winners with their
// first key, and looks at the others where that is equal.
#include "cpu/stages_cpu.h"

#include <algorithm>

#include "cpu/workspace.h"

namespace gputopk::cpu {
namespace {

// What a row costs, and a winner that is sorted and copied, in bytes as workers.h counts them.
constexpr int64_t kWorkPerRow = 1024;
constexpr int64_t kWorkPerWinner = 2048;

// Calls of(row) for all rows, on as many workers as they are worth.
template <class Of>
struct Rows {
  int64_t rows, workers;
  Of of;

  static void take(Rows& rows, int64_t worker) {
    const int64_t begin = worker * rows.rows / rows.workers, end = (worker + 1) * rows.rows / rows.workers;
    for (int64_t row = begin; row < end; ++row) rows.of(worker, row);
  }
};

template <class Of>
void for_rows(int64_t rows, int64_t workers, ParallelFor parallel_for, Of&& of) {
  Rows<Of&> all{rows, workers, of};
  run_tasks<Rows<Of&>::take>(all, workers, parallel_for);
}

int64_t settlers(const Stage& stage, int threads) {
  return std::min(stage.rows, workers_for(static_cast<double>(kWorkPerRow * stage.rows), threads));
}

int64_t joiners(const JoinProblem& problem, int threads) {
  const double work = static_cast<double>(kWorkPerRow + kWorkPerWinner * problem.k * problem.keys);
  return std::min(problem.rows, workers_for(work * static_cast<double>(problem.rows), threads));
}

struct Winner {
  uint64_t key;  // the first
  int64_t index;
};

size_t winners_bytes(const JoinProblem& problem) {
  return problem.order == WinnerOrder::kAny ? 0 : aligned(problem.most * sizeof(Winner));
}

void join_row(const JoinProblem& problem, const JoinBuffers& buffers, int64_t r, Winner* winners) {
  const JoinedRow row(problem, buffers, r);
  buffers.totals[r] = row.total;
  if (problem.order == WinnerOrder::kAny) {
    for (int64_t i = 0; i < row.total; ++i) row.write(i, row.index(i));
  } else {
    const bool by_index = problem.order == WinnerOrder::kByIndex;
    for (int64_t i = 0; i < row.total; ++i) {
      const int64_t index = row.index(i);
      winners[i] = {by_index ? 0 : problem.columns[0].key(r, index), index};
    }
    std::sort(winners, winners + row.total, [&](const Winner& a, const Winner& b) {
      if (a.key != b.key) return a.key > b.key;
      for (int key = 1; !by_index && key < problem.keys; ++key) {
        const uint64_t x = problem.columns[key].key(r, a.index), y = problem.columns[key].key(r, b.index);
        if (x != y) return x > y;
      }
      return a.index < b.index;
    });
    for (int64_t i = 0; i < row.total; ++i) row.write(i, winners[i].index);
  }
  for (int64_t i = row.total; i < problem.k; ++i) row.write(i, -1);
}

}  // namespace

void settle(const Stage& stage, const StageBuffers& buffers, int threads, ParallelFor parallel_for) {
  visit_key_order(stage.dtype, stage.largest, stage.magnitude, [&](auto order) {
    for_rows(stage.rows, settlers(stage, threads), parallel_for,
             [&](int64_t, int64_t row) { settle_row(stage, buffers, row, order); });
  });
}

size_t join_workspace_bytes(const JoinProblem& problem, int threads) {
  return winners_bytes(problem) * joiners(problem, threads);
}

void join(const JoinProblem& problem, const JoinBuffers& buffers, int threads, ParallelFor parallel_for) {
  for_rows(problem.rows, joiners(problem, threads), parallel_for, [&](int64_t worker, int64_t row) {
    char* const own = static_cast<char*>(buffers.workspace) + worker * winners_bytes(problem);
    join_row(problem, buffers, row, reinterpret_cast<Winner*>(own));
  });
}

}  // namespace gputopk::cpu
