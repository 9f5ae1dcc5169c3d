// Passes over what is not good enough where the elements of a vector belong to rows side by side, each of
// which has a bound of its own.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/key_order.h"
#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"

namespace gputopk::cuda {

// What may reach the bounds of rows side by side, whose elements a vector has, or of one: a bit for each.
template <class Order, class Elements>
class RowFilter {
 public:
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  static constexpr int kElements = Elements::kElements;

  // Of element number e: those of a greater key than its row's bound do, and, unless they lie `behind` the
  // bound's own element, those of the same.
  __device__ __forceinline__ void raise(const Order& order, int e, Word key, bool behind) {
    const uint32_t bit = 1u << e;
    bool all = false, none;
    if constexpr (kAsFloats) {
      const FloatLimit limit = FloatLimit::of(order, key, behind);
      put(e, static_cast<Bits>(limit.limit));
      all = limit.all;
      none = limit.none;
    } else {
      const Bits least = static_cast<Bits>(key + (behind ? 1 : 0));
      put(e, least);
      none = behind && least == 0;
    }
    all_ = all ? all_ | bit : all_ & ~bit;
    some_ = none ? some_ & ~bit : some_ | bit;
  }

  __device__ __forceinline__ uint32_t probe(const Order& order, const Elements& elements) const {
    if constexpr (kAsFloats) return ((reaching(order, elements) ^ order.flip) & some_) | all_;
    return reaching(order, elements) & some_;
  }

 private:
  // Floats as numbers, two at once where a word has two, and integers as many as a word has; others by their
  // keys.
  static constexpr bool kAsFloats = Order::kFloating && (sizeof(Bits) == 2 || sizeof(Bits) == 4);
  static constexpr bool kAsIntegers = !Order::kFloating && sizeof(Bits) <= 4;
  static constexpr bool kInWords = kAsFloats || kAsIntegers;
  static constexpr int kPerWord = kInWords && kElements > 1 ? 4 / static_cast<int>(sizeof(Bits)) : 1;

  __device__ __forceinline__ void put(int e, Bits limit) {
    if constexpr (kPerWord == 1) {
      limits_[e] = limit;
    } else {
      const int shift = e % kPerWord * Order::kBits;
      uint32_t& word = limits_[e / kPerWord];
      word = (word & ~(static_cast<uint32_t>(static_cast<Bits>(~Bits{0})) << shift)) |
             static_cast<uint32_t>(limit) << shift;
    }
  }

  __device__ __forceinline__ uint32_t reaching(const Order& order, const Vector<Bits>& vector) const {
    if constexpr (kInWords) {
      const uint32_t words[4] = {vector.words.x, vector.words.y, vector.words.z, vector.words.w};
      return bits_of_elements<Bits>([&](int w) { return of_word(order, words[w], limits_[w]); });
    } else {
      uint32_t chosen = 0;
#pragma unroll
      for (int e = 0; e < kElements; ++e) chosen |= order(vector[e]) >= limits_[e] ? 1u << e : 0;
      return chosen;
    }
  }
  __device__ __forceinline__ uint32_t reaching(const Order& order, const Single<Bits>& single) const {
    if constexpr (kInWords) {
      return of_word(order, single.element, limits_[0]) & 1;
    } else {
      return order(single.element) >= limits_[0] ? 1 : 0;
    }
  }
  __device__ __forceinline__ static uint32_t of_word(const Order& order, uint32_t word, uint32_t limit) {
    if constexpr (kAsFloats) return above_limit(order, word, limit);
    if constexpr (kAsIntegers) return no_less(order, word, limit);
  }

  std::conditional_t<sizeof(Bits) == 8, uint64_t, uint32_t> limits_[kElements / kPerWord] = {};
  uint32_t all_ = 0, some_ = 0;  // a bit for each element: all, or some, reach its row's bound
};

}  // namespace gputopk::cuda
