// The filter of ragged rows, a block of elements at a time: each question is a loop of its own, over elements
// of one dtype, that the compiler turns into vectors.
#include "cpu/filter_rows.h"

#include "core/key_order.h"

namespace gputopk::cpu::GPUTOPK_CPU_LEVEL {
namespace {

bool find_better(const Problem& problem, const void* elements, int64_t count, uint64_t key,
                 uint8_t* accepted) {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Bits = typename decltype(order)::Bits;
    const Bits* const from = static_cast<const Bits*>(elements);
    const Bits least = static_cast<Bits>(key);
    uint8_t any = 0;
    for (int64_t i = 0; i < count; ++i) {
      accepted[i] = order(from[i]) > least ? 1 : 0;
      any |= accepted[i];
    }
    return any != 0;
  });
}

void clear_refused(const Filter& filter, int64_t row, int64_t begin, int64_t count, uint8_t* accepted) {
  if (filter.mask != nullptr) {
    const uint8_t* const mask = filter.mask + row * filter.mask_row_stride + begin;
    for (int64_t i = 0; i < count; ++i) accepted[i] &= mask[i] != 0 ? 1 : 0;
  }
  for (int c = 0; c < filter.condition_count; ++c) {
    filter.conditions[c].visit_row(row, [&](auto order, auto range, const auto* elements) {
      const auto* const from = elements + begin;
      for (int64_t i = 0; i < count; ++i) accepted[i] &= range.has(order(from[i])) ? 1 : 0;
    });
  }
  if (filter.ids.data != nullptr) {
    for (int64_t i = 0; i < count; ++i) accepted[i] &= filter.ids.at(row, begin + i) >= 0 ? 1 : 0;
  }
}

}  // namespace

FilterKernel filter_kernel() { return {find_better, clear_refused}; }

}  // namespace gputopk::cpu::GPUTOPK_CPU_LEVEL
