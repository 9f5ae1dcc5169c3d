// Ragged top-k on the CPU.
//
//  1. Where there is a filter, a row's candidates are first gathered, in their order, so that ties stay
//     right: filtered_row.h.
//  2. topk_cpu.h selects from the window as from a tensor of one row.
//  3. Positions become indices, and padding is put behind them.
//
// Workers take row by row. A row that is longer than a worker's share of all is instead done before, by all
// of them, unless it is filtered.
#include "cpu/varlen_cpu.h"

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "cpu/filtered_row.h"
#include "cpu/workers.h"
#include "cpu/workspace.h"

namespace gputopk::cpu {
namespace {

// What a row costs beside reading it, and what an element costs that is filtered, in bytes as workers.h
// counts them.
constexpr int64_t kWorkPerRow = 1024;
constexpr int64_t kWorkPerFiltered = 16;

struct Plan {
  int64_t workers;
  int64_t shared_length;  // rows that are longer are done by all workers
  int64_t longest;        // of a row that one worker does
  int64_t room;           // for a filtered row's candidates
  size_t values_at;       // within a worker's slot: winners' values, where the caller wants none
  size_t elements_at;     // candidates of a filtered row
  size_t positions_at;    // and where they were; or, of the k-th alone, where the winners are
  size_t indices_at;      // of those that are kept where candidates are dropped
  size_t slot_bytes;
  size_t shared_bytes;  // of a row that is done by all
  size_t total_bytes;
};

// A window as a tensor of one row.
Problem row_problem(const VarlenProblem& varlen, int64_t candidates, int64_t k) {
  Problem row = varlen.problem;
  row.rows = 1;
  row.cols = row.row_stride = candidates;
  row.k = k;
  row.sorted = varlen.order == WinnerOrder::kByValue && !varlen.kth_alone;
  return row;
}

Plan make_plan(const VarlenProblem& varlen, int threads) {
  const Problem& problem = varlen.problem;
  const int64_t bytes = dtype_bytes(problem.dtype);
  const bool filters = varlen.filter.filters();
  const int64_t per_element = bytes + (filters ? kWorkPerFiltered : 0);
  double work = 0;
  for (int64_t row = 0; row < problem.rows; ++row) {
    const Window window = varlen.windows.of(row);
    work += static_cast<double>(kWorkPerRow + per_element * window.length);
  }
  Plan plan{};
  plan.workers = workers_for(work, threads);
  const double share = work / static_cast<double>(plan.workers * per_element);
  plan.shared_length =
      plan.workers == 1 || filters ? problem.cols : std::min(problem.cols, static_cast<int64_t>(share) + 1);

  int64_t most_winners = 0;                         // of a row that one worker does
  int64_t kept = varlen.kth_alone ? 0 : problem.k;  // winners that a slot has room for
  for (int64_t row = 0; row < problem.rows; ++row) {
    const Window window = varlen.windows.of(row);
    const int64_t k = varlen.kth_alone ? varlen.windows.kth_of(row) : std::min(window.k, window.length);
    if (varlen.kth_alone) kept = std::max(kept, k);
    if (window.length > plan.shared_length) {
      if (k == 0) continue;  // padding alone
      const Problem shared = row_problem(varlen, window.length, k);
      plan.shared_bytes = std::max(plan.shared_bytes, workspace_bytes(shared, Layout{}, threads));
    } else {
      plan.longest = std::max(plan.longest, window.length);
      most_winners = std::max(most_winners, k);
    }
  }
  plan.workers = std::min(plan.workers, problem.rows);
  plan.room = filters ? filtered_room(plan.longest, most_winners) : 0;
  const int64_t selected_from = filters ? plan.room : plan.longest;
  plan.values_at = aligned(row_workspace_bytes(problem.dtype, selected_from, most_winners));
  plan.elements_at = plan.values_at + aligned(kept * bytes);
  plan.positions_at = plan.elements_at + aligned(plan.room * bytes);
  plan.indices_at = plan.positions_at + aligned((varlen.kth_alone ? kept : plan.room) * sizeof(int64_t));
  plan.slot_bytes = plan.indices_at + (filters ? aligned(most_winners * sizeof(int64_t)) : 0);
  plan.total_bytes = aligned(plan.shared_bytes) + plan.workers * plan.slot_bytes;
  return plan;
}

struct Call {
  const VarlenProblem& varlen;
  const VarlenBuffers& buffers;
  const Plan& plan;
  const FilterKernel filter;
  std::atomic<int64_t> next_row;

  char* slot(int64_t worker) const {
    return static_cast<char*>(buffers.workspace) + aligned(plan.shared_bytes) + worker * plan.slot_bytes;
  }
};

// How a row's selection is run: by one worker in its slot, or by all.
struct Team {
  int threads;
  ParallelFor parallel_for;
  char* slot;
  void* selection;  // workspace of step 2
};

template <class Bits, class Index>
void select_row(const Call& call, int64_t row, const Team& team) {
  const VarlenProblem& varlen = call.varlen;
  const Problem& problem = varlen.problem;
  const VarlenBuffers& buffers = call.buffers;
  const Window window = varlen.windows.of(row);
  const Bits* from = static_cast<const Bits*>(buffers.input) + row * problem.row_stride + window.start;
  int64_t candidates = window.length;
  const int64_t* positions = nullptr;
  if (varlen.filter.filters()) {
    Bits* const elements = reinterpret_cast<Bits*>(team.slot + call.plan.elements_at);
    int64_t* const places = reinterpret_cast<int64_t*>(team.slot + call.plan.positions_at);
    Bits* const kept = reinterpret_cast<Bits*>(team.slot + call.plan.values_at);
    int64_t* const indices = reinterpret_cast<int64_t*>(team.slot + call.plan.indices_at);
    const FilteredRow<Bits> filtered{varlen, call.filter,    row,  window,  from,          elements,
                                     places, call.plan.room, kept, indices, team.selection};
    candidates = filtered.gather();
    from = elements;
    positions = places;
  }
  const int64_t k = std::min(window.k, candidates);
  Bits* const values = buffers.values ? static_cast<Bits*>(buffers.values) + row * buffers.value_stride
                                      : reinterpret_cast<Bits*>(team.slot + call.plan.values_at);
  Index* const indices = static_cast<Index*>(buffers.indices) + row * buffers.index_stride;
  if (k > 0) {
    topk(row_problem(varlen, candidates, k), Layout{}, {from, values, indices, team.selection}, team.threads,
         team.parallel_for);
  }
  if (varlen.order == WinnerOrder::kByIndex) {
    std::sort(indices, indices + k);
    for (int64_t i = 0; i < k; ++i) values[i] = from[indices[i]];
  }
  for (int64_t i = 0; i < k; ++i) {
    const int64_t position = positions ? positions[indices[i]] : static_cast<int64_t>(indices[i]);
    indices[i] = static_cast<Index>(varlen.map.of(row, window.start, position));
  }
  const Bits pad = static_cast<Bits>(pad_bits(problem.dtype, problem.largest, problem.magnitude));
  std::fill(indices + k, indices + problem.k, static_cast<Index>(varlen.map.pad_index));
  if (buffers.values) std::fill(values + k, values + problem.k, pad);
  buffers.counts[row] = static_cast<int32_t>(k);
}

// The worst of the winners, and of equal ones the last.
template <class Bits, class Index>
void select_kth(const Call& call, int64_t row, const Team& team) {
  const VarlenProblem& varlen = call.varlen;
  const Problem& problem = varlen.problem;
  const Window window = varlen.windows.of(row);
  const int64_t k = varlen.windows.kth_of(row);
  Bits* const value = static_cast<Bits*>(call.buffers.values) + row;
  Index* const index = static_cast<Index*>(call.buffers.indices) + row;
  *value = static_cast<Bits>(pad_bits(problem.dtype, problem.largest, problem.magnitude));
  *index = static_cast<Index>(varlen.map.pad_index);
  if (k == 0) return;
  const Bits* const from =
      static_cast<const Bits*>(call.buffers.input) + row * problem.row_stride + window.start;
  Bits* const values = reinterpret_cast<Bits*>(team.slot + call.plan.values_at);
  Index* const indices = reinterpret_cast<Index*>(team.slot + call.plan.positions_at);
  topk(row_problem(varlen, window.length, k), Layout{}, {from, values, indices, team.selection}, team.threads,
       team.parallel_for);
  visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    if constexpr (std::is_same_v<typename decltype(order)::Bits, Bits>) {
      int64_t worst = 0;
      for (int64_t i = 1; i < k; ++i) {
        const Bits key = order(values[i]), least = order(values[worst]);
        if (key < least || (key == least && indices[i] > indices[worst])) worst = i;
      }
      *value = values[worst];
      *index = indices[worst];
    }
  });
}

template <class Bits, class Index>
void do_row(const Call& call, int64_t row, const Team& team) {
  if (call.varlen.kth_alone) {
    select_kth<Bits, Index>(call, row, team);
  } else {
    select_row<Bits, Index>(call, row, team);
  }
}

// Rows that are not done yet.
template <class Bits, class Index>
void take_rows(Call& call, int64_t worker) {
  const Team alone{1, nullptr, call.slot(worker), call.slot(worker)};
  for (;;) {
    const int64_t row = call.next_row.fetch_add(1, std::memory_order_relaxed);
    if (row >= call.varlen.problem.rows) return;
    const bool is_done = call.varlen.windows.of(row).length > call.plan.shared_length;
    if (!is_done) do_row<Bits, Index>(call, row, alone);
  }
}

template <class Bits, class Index>
void run(Call& call, int threads, ParallelFor parallel_for) {
  const Plan& plan = call.plan;
  const int64_t rows = call.varlen.problem.rows;
  if (plan.shared_length < call.varlen.problem.cols) {
    const Team all{threads, parallel_for, call.slot(0), call.buffers.workspace};
    for (int64_t row = 0; row < rows; ++row) {
      if (call.varlen.windows.of(row).length > plan.shared_length) do_row<Bits, Index>(call, row, all);
    }
  }
  run_tasks<take_rows<Bits, Index>>(call, plan.workers, parallel_for);
}

}  // namespace

size_t varlen_workspace_bytes(const VarlenProblem& problem, int threads) {
  return make_plan(problem, threads).total_bytes;
}

void topk_varlen(const VarlenProblem& problem, const VarlenBuffers& buffers, int threads,
                 ParallelFor parallel_for) {
  const Plan plan = make_plan(problem, threads);
  Call call{problem, buffers, plan, filter_kernel_of(detect_level()), {}};
  const auto with_bits = [&](auto bits) {
    using Bits = decltype(bits);
    if (problem.problem.wide_indices) {
      run<Bits, int64_t>(call, threads, parallel_for);
    } else {
      run<Bits, int32_t>(call, threads, parallel_for);
    }
  };
  switch (dtype_bytes(problem.problem.dtype)) {
    case 1: return with_bits(uint8_t{});
    case 2: return with_bits(uint16_t{});
    case 4: return with_bits(uint32_t{});
    default: return with_bits(uint64_t{});
  }
}

}  // namespace gputopk::cpu
