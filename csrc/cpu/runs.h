// Which bit patterns reach a floor, told without computing a key.
//
// A key costs nine vector instructions, and nearly all elements are read only to be rejected. On each half of
// the bit patterns (sign bit clear, sign bit set) the key is monotone, but for the NaNs at the half's end. So
// the patterns that reach a floor form at most two runs, and an element is tested by a subtraction and a
// comparison for each. The runs are found by bisection with the key order as a black box: none of its rules
// is repeated here.
#pragma once

#include <cstdint>

#include "cpu/lanes.h"

namespace gputopk::cpu::GPUTOPK_CPU_LEVEL {

// The patterns first ... first + extent. Like a key order: those in the run are those that reach `floor`.
template <class Bits>
struct Run {
  Bits before_first;
  Bits floor;

  Bits operator()(Bits pattern) const { return static_cast<Bits>(before_first - pattern); }
};

template <class Bits>
Run<Bits> make_run(Bits first, Bits last) {
  return {static_cast<Bits>(first - 1), static_cast<Bits>(~static_cast<Bits>(last - first))};
}

template <class Bits>
struct Runs {
  Run<Bits> run[2];
};

// The last pattern of [low, high], where the key is monotone, on the same side of the floor as `low`.
template <class Order, class Bits = typename Order::Bits>
Bits last_alike(const Order& order, Bits low, Bits high, Bits floor) {
  const bool reached = order(low) >= floor;
  if ((order(high) >= floor) == reached) return high;
  while (high - low > 1) {
    const Bits middle = static_cast<Bits>(low + (high - low) / 2);
    ((order(middle) >= floor) == reached ? low : high) = middle;
  }
  return low;
}

// Returns false where no pattern reaches the floor.
template <class Order, class Bits = typename Order::Bits>
bool find_runs(const Order& order, Bits floor, Runs<Bits>& runs) {
  constexpr Bits kLast = static_cast<Bits>(~Bits{0});
  constexpr Bits kLastOfHalf = kLast / 2;
  const Bits last_number = Order::kFloating ? order.max_magnitude : kLastOfHalf;
  const Bits monotone_ends[] = {last_number, kLastOfHalf, static_cast<Bits>(kLastOfHalf + 1 + last_number),
                                kLast};
  int found = 0;
  bool open = false;  // whether the last run extends to `begin`
  Bits first = 0;     // of the last run
  Bits begin = 0;
  for (const Bits end : monotone_ends) {
    while (begin <= end) {
      const Bits last = last_alike(order, begin, end, floor);
      const bool reached = order(begin) >= floor;
      if (reached && !open) {
        ++found;
        first = begin;
      }
      if (reached) runs.run[found - 1] = make_run(first, last);
      open = reached;
      if (last == kLast) break;
      begin = static_cast<Bits>(last + 1);
    }
  }
  if (found == 1) runs.run[1] = runs.run[0];
  return found > 0;
}

// Whether any of kStrip elements is in a run.
template <class Bits>
bool any_in_runs(const Bits* elements, const Runs<Bits>& runs) {
  bool any = false;
  for (const Run<Bits>& run : runs.run) {
    Bits deepest[kLanes<Bits>] = {};
    raise_lanes(run, elements, kStrip / kLanes<Bits>, kLanes<Bits>, deepest);
    any |= any_at_least(deepest, run.floor);
  }
  return any;
}

}  // namespace gputopk::cpu::GPUTOPK_CPU_LEVEL
