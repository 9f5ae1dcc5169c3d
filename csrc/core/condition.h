// A comparison of a column with a threshold, as a range of keys: one test for every dtype and comparison.
//
// Numbers compare as PyTorch has it: -0 equals +0, and of a NaN, on either side, every comparison but
// "not equal" is false. The last two comparisons go by the order of key_order.h instead, where a NaN equals a
// NaN: they find the elements that a selection has as equals.
#pragma once

#include <cstdint>

#include "core/key_order.h"
#include "core/problem.h"

namespace gputopk {

// The numbers are the operator's `comparisons` argument and never change meaning.
enum class Comparison : uint8_t {
  kLess = 0,
  kLessEqual = 1,
  kEqual = 2,
  kNotEqual = 3,
  kGreaterEqual = 4,
  kGreater = 5,
  kSameKey = 6,
  kSameMagnitude = 7,
};

constexpr int kComparisons = 8;

// Keys of [least, most], or all others.
template <class Bits>
struct AcceptedKeys {
  Bits least, most;
  bool inside;

  GPUTOPK_HOST_DEVICE bool has(Bits key) const { return (key >= least && key <= most) == inside; }
};

// `order`: of the largest. What an element's key must be where the comparison is to hold.
template <class Bits, bool kFloating>
GPUTOPK_HOST_DEVICE AcceptedKeys<Bits> accepted_keys(const KeyOrder<Bits, kFloating>& order,
                                                     Comparison comparison, Bits threshold) {
  constexpr Bits kAll = static_cast<Bits>(~Bits{0});
  const Bits most = kFloating ? static_cast<Bits>(2 * order.max_magnitude) : kAll;  // of numbers
  const Bits key = order(threshold);
  const AcceptedKeys<Bits> none{1, 0, true};
  if (comparison == Comparison::kSameKey || comparison == Comparison::kSameMagnitude) return {key, key, true};
  if (key > most) return comparison == Comparison::kNotEqual ? AcceptedKeys<Bits>{0, kAll, true} : none;
  switch (comparison) {
    case Comparison::kLess: return key > 0 ? AcceptedKeys<Bits>{0, static_cast<Bits>(key - 1), true} : none;
    case Comparison::kLessEqual: return {0, key, true};
    case Comparison::kEqual: return {key, key, true};
    case Comparison::kNotEqual: return {key, key, false};
    case Comparison::kGreaterEqual: return {key, most, true};
    default: return key < most ? AcceptedKeys<Bits>{static_cast<Bits>(key + 1), most, true} : none;
  }
}

struct Condition {
  const void* column = nullptr;      // rows x cols, row_stride apart; elements of a row are adjacent
  const void* thresholds = nullptr;  // of the column's dtype, a number a row
  int64_t row_stride = 0;
  int64_t threshold_stride = 0;  // 0: one number for all rows
  DType dtype = DType::kFloat32;
  Comparison comparison = Comparison::kGreaterEqual;

  // Calls visitor(order, accepted, elements) with the keys that are to be accepted and its first element.
  template <class Visitor>
  GPUTOPK_HOST_DEVICE auto visit_row(int64_t row, Visitor&& visitor) const {
    const bool by_magnitude = comparison == Comparison::kSameMagnitude;
    return visit_key_order(dtype, /*largest=*/true, by_magnitude, [&](auto order) {
      using Bits = typename decltype(order)::Bits;
      const Bits threshold = static_cast<const Bits*>(thresholds)[row * threshold_stride];
      const Bits* const elements = static_cast<const Bits*>(column) + row * row_stride;
      return visitor(order, accepted_keys(order, comparison, threshold), elements);
    });
  }
};

}  // namespace gputopk
