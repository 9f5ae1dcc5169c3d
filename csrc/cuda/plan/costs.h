// What a unit of work costs a form (cuda/cost.h), and a form's time by it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/problem.h"
#include "cuda/cost.h"
#include "cuda/gpu.h"

namespace gputopk::cuda {

// Microseconds: of a launch; by 10^6 bytes, 10^3 elements of an SM, 10^3 of a thread, the greatest of which
// counts; by wave, block of an SM, 10^3 winners and 10^3 entries of an SM. Their sum is then bent by 2 to the
// power of a polynomial in r, c, k, a tenth of the logarithms of the sizes: r, c, k, r r, c c, k k, r c, r k,
// c k. Beyond the sizes that were measured it bends no further: what a polynomial says there is nothing.
struct Costs {
  double fixed, byte, element, depth, wave, block, winner, entry;
  double bend[9];
};

// The greatest of each that was measured.
struct Measured {
  int64_t rows, cols, k;
};

struct FormCosts {
  const char* form;
  int way;            // of the form's
  Costs of_width[4];  // of dtypes of 1, 2, 4 and 8 bytes
};

constexpr bool same_text(const char* a, const char* b) {
  for (; *a != 0 && *a == *b; ++a, ++b) continue;
  return *a == *b;
}

// The places of a form's ways in a table. One that was not measured goes by the last that was; -1: none was,
// and `auto` never takes the form.
struct Places {
  int of_way[kMostWays];
};

template <size_t kRows>
constexpr Places places_of(const FormCosts (&table)[kRows], const char* form) {
  Places places{};
  int last = -1;
  for (size_t i = 0; i < kRows; ++i) {
    if (same_text(table[i].form, form)) last = static_cast<int>(i);
  }
  for (int& place : places.of_way) place = last;
  for (size_t i = 0; i < kRows; ++i) {
    if (same_text(table[i].form, form)) places.of_way[table[i].way] = static_cast<int>(i);
  }
  return places;
}

inline double microseconds(const FormCosts& form, const Measured& measured, const Problem& problem,
                           const Work& work) {
  const Costs& costs = form.of_width[bit_width(static_cast<uint64_t>(dtype_bytes(problem.dtype))) - 1];
  const double moved = costs.byte * work.bytes * 1e-6;
  const double counted = std::max(costs.element * work.elements, costs.depth * work.depth) * 1e-3;
  const double sum = costs.fixed + std::max(moved, counted) + costs.wave * work.waves +
                     costs.block * work.blocks +
                     (costs.winner * work.winners + costs.entry * work.entries) * 1e-3;
  const auto size = [](int64_t number, int64_t most) {
    return 0.1 * std::log2(static_cast<double>(std::min(number, most)));
  };
  const double r = size(problem.rows, measured.rows), c = size(problem.cols, measured.cols);
  const double k = size(problem.k, measured.k);
  const double terms[9] = {r, c, k, r * r, c * c, k * k, r * c, r * k, c * k};
  double bend = 0;
  for (int i = 0; i < 9; ++i) bend += costs.bend[i] * terms[i];
  return sum * std::exp2(bend);
}

}  // namespace gputopk::cuda
