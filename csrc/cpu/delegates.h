// Keys of a stretch of a row, and delegates: the best key of a few elements each, every element behind one.
// The k-th best delegate is a floor, for k elements reach it.
#pragma once

#include <cstdint>

#include "cpu/candidates.h"
#include "cpu/lanes.h"

namespace gputopk::cpu::GPUTOPK_CPU_LEVEL {

// Up to this many delegates, counting all pairs finds the k-th best fastest.
constexpr int64_t kMaxPairedDelegates = 32;

// Writes whole strips; behind the last key, zeros.
template <class Order, class Bits>
void find_keys(const Order& order, const Bits* elements, int64_t count, Bits* keys) {
  for (int64_t i = 0; i < count; ++i) keys[i] = order(elements[i]);
  for (int64_t i = count; i % kStrip != 0; ++i) keys[i] = 0;
}

// The order of keys.
template <class Bits>
struct Identity {
  Bits operator()(Bits key) const { return key; }
};

// Delegate i serves the elements i, i + count, i + 2 count, ...: neighbours have different delegates, so that
// rising and falling rows, too, have their best elements behind different ones.
template <class Order, class Bits>
void find_delegates(const Order& order, const Bits* elements, int64_t count, int64_t depth, Bits* delegates) {
  for (int64_t i = 0; i < count; i += kLanes<Bits>) {
    Bits best[kLanes<Bits>] = {};
    raise_lanes(order, elements + i, depth, count, best);
    __builtin_memcpy(delegates + i, best, sizeof(best));
  }
}

// The k-th largest of a few keys, whole vectors of them, by counting for each the larger ones.
template <class Bits>
Bits kth_by_pairs(const Bits* keys, int64_t count, int64_t k) {
  constexpr Bits kGreatest = static_cast<Bits>(~Bits{0});
  Vector<Bits> kth = kGreatest - Vector<Bits>{};
  for (int64_t i = 0; i < count; i += kVectorLanes<Bits>) {
    const Vector<Bits> mine = load_vector(keys + i);
    Vector<Bits> larger_ones = {};
    for (int64_t j = 0; j < count; j += kVectorLanes<Bits>) {
      for (int lane = 0; lane < kVectorLanes<Bits>; ++lane) {
        larger_ones -= reinterpret_cast<Vector<Bits>>((keys[j + lane] - Vector<Bits>{}) > mine);
      }
    }
    kth = (larger_ones < static_cast<Bits>(k)) & (mine < kth) ? mine : kth;
  }
  Bits smallest = kGreatest;
  for (int lane = 0; lane < kVectorLanes<Bits>; ++lane) smallest = smaller<Bits>(smallest, kth[lane]);
  return smallest;
}

// The k-th best of them, or one that up to `slack` more reach.
template <class Bits>
Bits kth_delegate(const Bits* delegates, int64_t count, int64_t k, int64_t slack) {
  return count <= kMaxPairedDelegates ? kth_by_pairs(delegates, count, k)
                                      : find_cut(delegates, count, k, slack);
}

}  // namespace gputopk::cpu::GPUTOPK_CPU_LEVEL
