// A row's places in the outputs, as pointers of the dtypes that they are.
#pragma once

#include <cstdint>

#include "cpu/select_rows.h"

namespace gputopk::cpu::GPUTOPK_CPU_LEVEL {

// Calls visitor(values, indices) with pointers to a row's best winner.
template <class Bits, class Visitor>
void visit_outputs(const Output& output, int64_t place, Visitor&& visitor) {
  Bits* const values = static_cast<Bits*>(output.values) + place;
  if (output.wide_indices) {
    visitor(values, static_cast<int64_t*>(output.indices) + place);
  } else {
    visitor(values, static_cast<int32_t*>(output.indices) + place);
  }
}

}  // namespace gputopk::cpu::GPUTOPK_CPU_LEVEL
