// Equal shares of all elements over workers, row by row within each.
#include "cpu/mask_cpu.h"

#include <algorithm>

namespace gputopk::cpu {
namespace {

// Of an element, in bytes as workers.h counts them, beside its own.
constexpr int64_t kWorkPerElement = 4;

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
    uint8_t* const mask = buffers.mask + row * problem.cols;
    // In parts where the column decides nothing, so that elements are compared side by side.
    const int64_t of_equals = std::clamp(kept.last_equal + 1, begin, end);
    const int64_t of_row = std::clamp(kept.end, begin, end);
    const int64_t first = std::min(of_equals, of_row);
    for (int64_t col = begin; col < first; ++col) mask[col] = order(elements[col]) >= kept.key;
    for (int64_t col = first; col < of_row; ++col) mask[col] = order(elements[col]) > kept.key;
    for (int64_t col = of_row; col < end; ++col) mask[col] = 1;
  }

  static void take(Shares& all, int64_t worker) {
    const int64_t cols = all.problem.cols, elements = all.problem.rows * cols;
    const int64_t share = divide_up(elements, all.workers);
    const int64_t end = std::min(elements, (worker + 1) * share);
    for (int64_t at = worker * share; at < end;) {
      const int64_t row = at / cols, begin = at % cols, taken = std::min(cols - begin, end - at);
      all.mark(row, begin, begin + taken);
      at += taken;
    }
  }
};

}  // namespace

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
