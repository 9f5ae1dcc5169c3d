// What a unit of work costs a form (cuda/cost.h), and a form's time by it.
#pragma once

#include <algorithm>

#include "core/problem.h"
#include "cuda/cost.h"
#include "cuda/gpu.h"

namespace gputopk::cuda {

// Microseconds: of a launch; by 10^6 bytes, 10^3 elements of an SM, 10^3 of a thread; by wave; by 10^3
// winners of an SM.
struct Costs {
  double fixed, byte, element, depth, wave, winner;
};

struct FormCosts {
  const char* form;
  Costs of_width[4];  // of dtypes of 1, 2, 4 and 8 bytes
};

constexpr bool same_text(const char* a, const char* b) {
  for (; *a != 0 && *a == *b; ++a, ++b) continue;
  return *a == *b;
}

// The form's place in `table`; -1: it was not measured, and `auto` never takes it.
template <size_t kForms>
constexpr int place_of(const FormCosts (&table)[kForms], const char* form) {
  for (size_t i = 0; i < kForms; ++i) {
    if (same_text(table[i].form, form)) return static_cast<int>(i);
  }
  return -1;
}

inline double microseconds(const FormCosts& form, int element_bytes, const Work& work) {
  const Costs& costs = form.of_width[bit_width(static_cast<uint64_t>(element_bytes)) - 1];
  const double moved = costs.byte * work.bytes * 1e-6;
  const double counted = std::max(costs.element * work.elements, costs.depth * work.depth) * 1e-3;
  return costs.fixed + std::max(moved, counted) + costs.wave * work.waves +
         costs.winner * work.winners * 1e-3;
}

}  // namespace gputopk::cuda
