// The CPU's filter of ragged rows, of one level of vector instructions, behind a C interface, for
// test_filter_levels.py.
#include "cpu/filter_rows.h"

using gputopk::DType;

extern "C" const char* probe_dtype_name(int dtype) { return gputopk::dtype_name(static_cast<DType>(dtype)); }

// Which elements are better than element `at`.
extern "C" int probe_find_better(int dtype, int largest, int magnitude, const void* elements, int64_t count,
                                 int64_t at, uint8_t* accepted) {
  gputopk::Problem problem;
  problem.dtype = static_cast<DType>(dtype);
  problem.largest = largest != 0;
  problem.magnitude = magnitude != 0;
  const uint64_t key = gputopk::visit_key_order(
      problem.dtype, problem.largest, problem.magnitude, [&](auto order) -> uint64_t {
        return order(static_cast<const typename decltype(order)::Bits*>(elements)[at]);
      });
  const auto kernel = gputopk::cpu::GPUTOPK_CPU_LEVEL::filter_kernel();
  return kernel.find_better(problem, elements, count, key, accepted) ? 1 : 0;
}

// One condition, and a mask if there is one, on `count` elements of row 1 from column `begin` on.
extern "C" void probe_clear_refused(int dtype, int comparison, const void* column, int64_t stride,
                                    const void* thresholds, const uint8_t* mask, int64_t begin, int64_t count,
                                    uint8_t* accepted) {
  gputopk::Filter filter;
  filter.mask = mask;
  filter.mask_row_stride = stride;
  filter.conditions[0] = {
      column, thresholds, stride, 1, static_cast<DType>(dtype), static_cast<gputopk::Comparison>(comparison)};
  filter.condition_count = 1;
  gputopk::cpu::GPUTOPK_CPU_LEVEL::filter_kernel().clear_refused(filter, 1, begin, count, accepted);
}
