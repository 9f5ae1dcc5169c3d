// Equal shares of all elements over workers, row by row within each.
#include "cpu/mask_cpu.h"

#include <algorithm>

#include "core/visit_bits.h"
#include "cpu/topk_cpu.h"
#include "cpu/workspace.h"

namespace gputopk::cpu {
namespace {

// Of an element, in bytes as workers.h counts them, beside its own.
constexpr int64_t kWorkPerElement = 4;

// Calls part(row, begin, end) for columns [begin, end) of each row of a worker's share of all elements.
template <class Part>
void visit_share(int64_t rows, int64_t cols, int64_t workers, int64_t worker, Part&& part) {
  const int64_t elements = rows * cols, share = divide_up(elements, workers);
  const int64_t end = std::min(elements, (worker + 1) * share);
  for (int64_t at = worker * share; at < end;) {
    const int64_t begin = at % cols, taken = std::min(cols - begin, end - at);
    part(at / cols, begin, begin + taken);
    at += taken;
  }
}

template <class Order>
struct Shares {
  using Bits = typename Order::Bits;

  const MaskProblem& problem;
  const MaskBuffers& buffers;
  Order order;
  int64_t workers;

  // Columns [begin, end) of a row.
  void mark(int64_t row, int64_t begin, int64_t end) const {
    const auto kept = KeptOfRow<Order>::of(problem, buffers, row, order);
    const Bits* const elements = static_cast<const Bits*>(buffers.input) + row * problem.row_stride;
    const KeptOutput& output = buffers.output;
    // In parts where the column decides nothing, so that elements are compared side by side.
    const int64_t of_equals = std::clamp(kept.last_equal + 1, begin, end);
    const int64_t of_row = std::clamp(kept.end, begin, end);
    const int64_t first = std::min(of_equals, of_row);
    const auto write = [&](auto* out, const auto& written) {
      for (int64_t col = begin; col < first; ++col) out[col] = written(col, order(elements[col]) >= kept.key);
      for (int64_t col = first; col < of_row; ++col) out[col] = written(col, order(elements[col]) > kept.key);
      for (int64_t col = of_row; col < end; ++col) out[col] = written(col, true);
    };
    if (output.keeps) {
      const Bits fill = static_cast<Bits>(output.fill);
      write(static_cast<Bits*>(output.rows) + row * output.row_stride,
            [&](int64_t col, bool is_kept) { return is_kept ? elements[col] : fill; });
    } else {
      write(static_cast<uint8_t*>(output.rows) + row * output.row_stride,
            [](int64_t, bool is_kept) { return static_cast<uint8_t>(is_kept); });
    }
  }

  static void take(Shares& all, int64_t worker) {
    visit_share(all.problem.rows, all.problem.cols, all.workers, worker,
                [&](int64_t row, int64_t begin, int64_t end) { all.mark(row, begin, end); });
  }
};

// Of rows whose places are of type Place: elements, or bytes of a mask.
template <class Place>
struct Listed {
  const Problem& problem;
  Place* out;
  int64_t row_stride;
  Place fill;
  const Place* values;  // of a mask none
  const int64_t* indices;
  int64_t workers;

  static void fill_share(Listed& all, int64_t worker) {
    visit_share(all.problem.rows, all.problem.cols, all.workers, worker,
                [&](int64_t row, int64_t begin, int64_t end) {
                  Place* const places = all.out + row * all.row_stride;
                  std::fill(places + begin, places + end, all.fill);
                });
  }
  static void mark_share(Listed& all, int64_t worker) {
    visit_share(all.problem.rows, all.problem.k, all.workers, worker,
                [&](int64_t row, int64_t begin, int64_t end) {
                  Place* const places = all.out + row * all.row_stride;
                  for (int64_t i = row * all.problem.k + begin; i < row * all.problem.k + end; ++i) {
                    places[all.indices[i]] = all.values ? all.values[i] : Place{1};
                  }
                });
  }
};

// Rows of nothing but these winners, in any order.
void mark_listed(const Problem& problem, const void* values, const int64_t* indices, const KeptOutput& output,
                 int threads, ParallelFor parallel_for) {
  const int bytes = output.keeps ? dtype_bytes(problem.dtype) : 1;
  const double work = static_cast<double>(problem.rows) * static_cast<double>(problem.cols) * bytes;
  visit_bits(bytes, [&](auto like) {
    using Place = decltype(like);
    Listed<Place> listed{problem,
                         static_cast<Place*>(output.rows),
                         output.row_stride,
                         static_cast<Place>(output.keeps ? output.fill : 0),
                         output.keeps ? static_cast<const Place*>(values) : nullptr,
                         indices,
                         workers_for(work, threads)};
    run_tasks<Listed<Place>::fill_share>(listed, listed.workers, parallel_for);
    run_tasks<Listed<Place>::mark_share>(listed, listed.workers, parallel_for);
  });
}

// What a selection hands to the step behind it.
struct KeepMemory {
  Problem selection;
  Layout layout;
  size_t indices_at, selection_at, bytes;

  KeepMemory(const Problem& problem, int threads) : selection(problem) {
    selection.sorted = selection.by_index = false;
    selection.last_alone = !is_listed(problem);
    selection.wide_indices = true;
    const int64_t sizes[2] = {problem.rows, problem.cols}, strides[2] = {problem.row_stride, 1};
    layout = layout_of(sizes, strides, /*dims=*/2, /*dim=*/1);
    const auto winners = static_cast<size_t>(problem.rows * problem.k);
    indices_at = aligned(winners * dtype_bytes(problem.dtype));
    selection_at = indices_at + aligned(winners * sizeof(int64_t));
    bytes = selection_at + cpu::workspace_bytes(selection, layout, threads);
  }
};

}  // namespace

size_t keep_workspace_bytes(const Problem& problem, int threads) {
  return KeepMemory(problem, threads).bytes;
}

// From a list of the winners, or from the last one alone.
void keep(const Problem& problem, const KeepBuffers& buffers, int threads, ParallelFor parallel_for) {
  const KeepMemory memory(problem, threads);
  char* const values = static_cast<char*>(buffers.workspace);
  auto* const indices = reinterpret_cast<int64_t*>(values + memory.indices_at);
  topk(memory.selection, memory.layout, {buffers.input, values, indices, values + memory.selection_at},
       threads, parallel_for);
  if (memory.selection.last_alone) {
    return mask(mask_of_last(memory.selection, values, indices), {buffers.input, buffers.output}, threads,
                parallel_for);
  }
  mark_listed(problem, values, indices, buffers.output, threads, parallel_for);
}

void mask(const MaskProblem& problem, const MaskBuffers& buffers, int threads, ParallelFor parallel_for) {
  const double work = static_cast<double>(problem.rows) * static_cast<double>(problem.cols) *
                      static_cast<double>(kWorkPerElement + dtype_bytes(problem.dtype));
  visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Of = Shares<decltype(order)>;
    Of shares{problem, buffers, order, workers_for(work, threads)};
    run_tasks<Of::take>(shares, shares.workers, parallel_for);
  });
}

}  // namespace gputopk::cpu
