// The best of each of a thread's groups of elements, for a bound: as many elements reach the k-th best of
// them as that is of them.
//
// A bound may be too low and is then only less useful. So elements are compared in the cheapest order that is
// theirs but for NaN and zeros, an instruction or two each, and what is kept of a group is an element of it,
// whatever NaN did: its key is then computed as all keys are.
#pragma once

#include <cstdint>

#include "core/key_order.h"
#include "cuda/device/ptx.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"

namespace gputopk::cuda {

// Vectors of a thread that go to different groups, and elements that do: 32- and 64-bit elements of a vector
// each have their own group, of narrower ones each half of a word has one.
inline constexpr int kGroupVectors = 2;
template <class Bits>
inline constexpr int kMostGroups = kGroupVectors * (sizeof(Bits) == 8 ? 2 : 4);

// Every kind has
//   see(v, vector)        adds the thread's vector number v of its tile, a constant below kGroupVectors
//   merge(a, b)           adds group b to group a = b - n, where there are 2 n groups
//   key(group, vectors)   the best element's key, or 0, which none is below, of a group without elements; of
//                         a thread that has seen so many vectors

// By keys.
template <class Order>
class KeyMaxima {
 public:
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  static constexpr int kElements = kPerVector<Bits>, kGroups = kMostGroups<Bits>;

  __device__ explicit KeyMaxima(const Order& order) : order_(order) {}

  __device__ void see(int v, const Vector<Bits>& vector) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      Word& best = best_[(v * kElements + i) % kGroups];
      best = max(best, static_cast<Word>(order_(vector[i])));
    }
  }
  __device__ void merge(int a, int b) { best_[a] = max(best_[a], best_[b]); }
  __device__ Word key(int group, int) const { return best_[group]; }

 private:
  Order order_;
  Word best_[kGroups] = {};  // 0 is no better than any
};

// 32-bit floating point, by the instructions for it, which pass over NaN, but where all is NaN. kLargest,
// kMagnitude: the order's.
template <class Order, bool kLargest, bool kMagnitude>
class FloatMaxima {
 public:
  static constexpr int kGroups = kMostGroups<uint32_t>;

  __device__ explicit FloatMaxima(const Order& order) : order_(order) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) best_[g] = __uint_as_float(0x7FFFFFFFu);
  }

  __device__ void see(int v, const Vector<uint32_t>& vector) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = __uint_as_float(vector[i]);
      best_[v * 4 + i] = better(best_[v * 4 + i], kMagnitude ? fabsf(x) : x);
    }
  }
  __device__ void merge(int a, int b) { best_[a] = better(best_[a], best_[b]); }
  __device__ uint32_t key(int group, int vectors) const {
    return vectors > group / 4 ? order_(__float_as_uint(best_[group])) : 0;
  }

 private:
  __device__ static float better(float a, float b) { return kLargest ? fmaxf(a, b) : fminf(a, b); }

  Order order_;
  float best_[kGroups];
};

// 8- and 16-bit elements, two halves of a word at a time: of 8-bit ones, each word as it is and moved up by
// one, as the upper byte of a half decides. Not for magnitudes of two's complement.
template <class Order>
class HalfMaxima {
 public:
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  static constexpr int kGroups = kMostGroups<Bits>;
  static constexpr int kShift = 16 - Order::kBits;

  __device__ explicit HalfMaxima(const Order& order) : order_(order) {
    constexpr uint32_t kSign = 1u << (Order::kBits - 1), kAll = 2 * kSign - 1;
    const bool by_magnitude = order.signed_mask == 0;
    const uint32_t flip = order.flip != 0 ? kAll : 0;
    // Patterns as signed numbers, or once some bits are cleared and flipped, and all but the sign of negative
    // ones are.
    keep_ = repeated(Order::kFloating && by_magnitude ? kAll - kSign : kAll);
    negative_ = repeated(Order::kFloating && !by_magnitude ? kAll - kSign : 0);
    flip_ = repeated(Order::kFloating ? flip : order.offset ^ flip ^ kSign);
  }

  __device__ void see(int, const Vector<Bits>& vector) {
    see(vector.words.x, best_[0]);
    see(vector.words.y, best_[1]);
    see(vector.words.z, best_[2]);
    see(vector.words.w, best_[3]);
  }
  // A word has groups number w and w + 4.
  __device__ void merge(int a, int b) {
    if (b >= 4) {
      best_[a % 4] = __vmaxs2(best_[a % 4], best_[a % 4] >> 16 | best_[a % 4] << 16);
    } else {
      best_[a] = __vmaxs2(best_[a], best_[b]);
    }
  }
  __device__ Word key(int group, int vectors) const {
    if (vectors == 0) return 0;
    const uint32_t half = best_[group % 4] >> (group < 4 ? 0 : 16) & 0xFFFF;
    const uint32_t bits = half ^ (flip_ & 0xFFFF);
    const uint32_t negative = bits >> 15 != 0 ? negative_ & 0xFFFF : 0;
    return order_(static_cast<Bits>((bits ^ negative) >> kShift));
  }

 private:
  // What the lower byte of a half is does not matter.
  __device__ static uint32_t repeated(uint32_t pattern) {
    return pattern << kShift << 16 | pattern << kShift;
  }

  __device__ void see(uint32_t word, uint32_t& best) const {
    best = __vmaxs2(best, in_order(word));
    if constexpr (sizeof(Bits) == 1) best = __vmaxs2(best, in_order(word << 8));
  }
  __device__ uint32_t in_order(uint32_t word) const {
    const uint32_t bits = sizeof(Bits) == 1 ? word & 0xFF00FF00u : word;
    return ((bits & keep_) ^ flip_) ^ (signs_of_halves(bits) & negative_);
  }

  Order order_;
  uint32_t keep_, negative_, flip_;
  uint32_t best_[4] = {0x80008000u, 0x80008000u, 0x80008000u, 0x80008000u};
};

// Calls visitor(maxima), with the kind that is the cheapest for the order.
template <class Order, class Visitor>
__device__ auto visit_maxima(const Order& order, Visitor&& visitor) {
  using Bits = typename Order::Bits;
  const bool largest = order.flip == 0;
  if constexpr (Order::kFloating && sizeof(Bits) == 4) {
    const bool magnitude = order.signed_mask == 0;
    if (largest) {
      if (magnitude) return visitor(FloatMaxima<Order, true, true>(order));
      return visitor(FloatMaxima<Order, true, false>(order));
    }
    if (magnitude) return visitor(FloatMaxima<Order, false, true>(order));
    return visitor(FloatMaxima<Order, false, false>(order));
  } else if constexpr (sizeof(Bits) <= 2) {
    if (Order::kFloating || order.signed_mask == 0) return visitor(HalfMaxima<Order>(order));
    return visitor(KeyMaxima<Order>(order));
  } else {
    return visitor(KeyMaxima<Order>(order));
  }
}

}  // namespace gputopk::cuda
