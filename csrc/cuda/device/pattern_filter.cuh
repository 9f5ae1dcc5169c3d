// Passes over vectors that hold nothing good enough, by their bit patterns, in one or two instructions an
// element.
#pragma once

#include <cstdint>

#include "core/key_order.h"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"

namespace gputopk::cuda {

// Says of a vector that it may hold an element whose key is `least` or more. No such element is passed over;
// a NaN may be taken for one. Patterns of the wanted keys are the greatest of their width, as signed numbers,
// as unsigned ones, or both, once some bits are cleared and some flipped: so the greatest of a vector decide.
template <class Bits>
class PatternFilter {
  static constexpr int kBits = 8 * static_cast<int>(sizeof(Bits));

 public:
  template <bool kFloating>
  __device__ PatternFilter(const KeyOrder<Bits, kFloating>& order, typename KeyWord<Bits>::type least_key) {
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << (kBits - 1));
    const Bits least = static_cast<Bits>(least_key);
    Bits keep = static_cast<Bits>(~Bits{0}), mirror = 0;
    Bits signed_limit = static_cast<Bits>(~kSign), unsigned_limit = static_cast<Bits>(~Bits{0});  // none
    always_ = least_key == 0;
    if (kFloating) {
      const bool by_magnitude = order.signed_mask == 0;
      if (by_magnitude) keep = static_cast<Bits>(~kSign);
      if (order.flip == 0) {
        // At least this positive number; so is a positive NaN, and a negative one has a pattern above -inf's.
        if (least <= order.offset) always_ = true;
        signed_limit = static_cast<Bits>(least - order.offset - 1);
        if (!by_magnitude) unsigned_limit = static_cast<Bits>(kSign | order.max_magnitude);
      } else {
        const Bits most = static_cast<Bits>(~least);
        if (by_magnitude) {
          mirror = static_cast<Bits>(~Bits{0});
          if (most < order.offset) {  // none is less than nothing
            unsigned_limit = static_cast<Bits>(~Bits{0});
          } else if (most > static_cast<Bits>(2 * order.max_magnitude)) {
            always_ = true;
          } else {
            unsigned_limit = static_cast<Bits>(~static_cast<Bits>(most - order.offset) - 1);
          }
        } else {
          if (most >= order.offset) always_ = true;  // not a negative number
          unsigned_limit = static_cast<Bits>((kSign | static_cast<Bits>(order.offset - most)) - 1);
        }
      }
    } else {
      if (order.signed_mask != 0) always_ = true;  // magnitudes of two's complement
      mirror = static_cast<Bits>(order.offset ^ order.flip);
      unsigned_limit = static_cast<Bits>(least - 1);
    }
    keep_ = repeated(keep);
    mirror_ = repeated(mirror);
    if constexpr (sizeof(Bits) == 1) {
      // Two bytes are compared at a time, by the upper one: any lower one goes.
      signed_limit_ = static_cast<int16_t>(signed_limit << 8 | 0xFF);
      unsigned_limit_ = static_cast<uint16_t>(unsigned_limit << 8 | 0xFF);
    } else if constexpr (sizeof(Bits) == 2) {
      signed_limit_ = static_cast<int16_t>(signed_limit);
      unsigned_limit_ = unsigned_limit;
    } else {
      signed_limit_ = static_cast<int32_t>(signed_limit);
      unsigned_limit_ = static_cast<uint32_t>(unsigned_limit);
    }
  }

  __device__ bool may_reach(const Vector<Bits>& vector) const {
    if constexpr (sizeof(Bits) == 8) return true;  // two elements a vector: their keys are as cheap
    const uint32_t words[4] = {vector.words.x, vector.words.y, vector.words.z, vector.words.w};
    uint32_t greatest_signed = 0x80008000u, greatest_unsigned = 0;
    if constexpr (sizeof(Bits) == 4) greatest_signed = 0x80000000u;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const uint32_t word = (words[w] & keep_) ^ mirror_;
      see(word, greatest_signed, greatest_unsigned);
      if constexpr (sizeof(Bits) == 1) see(word << 8, greatest_signed, greatest_unsigned);
    }
    if constexpr (sizeof(Bits) == 4) {
      return always_ || static_cast<int32_t>(greatest_signed) > signed_limit_ ||
             greatest_unsigned > unsigned_limit_;
    } else {
      const int32_t greater_signed = max(static_cast<int32_t>(static_cast<int16_t>(greatest_signed)),
                                         static_cast<int32_t>(greatest_signed) >> 16);
      const uint32_t greater_unsigned = max(greatest_unsigned & 0xFFFF, greatest_unsigned >> 16);
      return always_ || greater_signed > signed_limit_ || greater_unsigned > unsigned_limit_;
    }
  }
  __device__ bool may_reach(const Single<Bits>&) const { return true; }

 private:
  __device__ static uint32_t repeated(Bits pattern) {
    if constexpr (sizeof(Bits) == 1) return pattern * 0x01010101u;
    if constexpr (sizeof(Bits) == 2) return pattern * 0x00010001u;
    return static_cast<uint32_t>(pattern);
  }
  __device__ static void see(uint32_t word, uint32_t& greatest_signed, uint32_t& greatest_unsigned) {
    if constexpr (sizeof(Bits) == 4) {
      greatest_signed =
          static_cast<uint32_t>(max(static_cast<int32_t>(greatest_signed), static_cast<int32_t>(word)));
      greatest_unsigned = max(greatest_unsigned, word);
    } else {
      greatest_signed = __vmaxs2(greatest_signed, word);
      greatest_unsigned = __vmaxu2(greatest_unsigned, word);
    }
  }

  bool always_;
  uint32_t keep_, mirror_;
  int32_t signed_limit_;
  uint32_t unsigned_limit_;
};

// What may reach a bound, an extended key, by its key: raise(key) when the bound has risen, probe() for a bit
// for each of some elements. `behind`: they all are behind the bound's index, so that its key alone does not
// do.

// By the keys of all elements.
template <class Order>
class KeyFilter {
 public:
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;

  __device__ KeyFilter(const Order& order, Word key) : order_(order), key_(key) {}

  __device__ void raise(Word key) { key_ = key; }
  __device__ const Order& order() const { return order_; }

  template <class Elements>
  __device__ uint32_t probe(const Elements& elements, bool behind) const {
    const Bits least = static_cast<Bits>(key_ + (behind ? 1 : 0));
    uint32_t chosen = 0;
#pragma unroll
    for (int i = 0; i < Elements::kElements; ++i) {
      if (order_(elements[i]) >= least) chosen |= 1u << i;
    }
    return behind && least == 0 ? 0 : chosen;  // 0: no key is greater than the bound's
  }

 private:
  Order order_;
  Word key_;
};

// By the bit patterns of a vector's elements first, which pays where few reach the bound and it seldom rises.
template <class Order>
class BoundFilter {
 public:
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;

  __device__ BoundFilter(const Order& order, Word key)
      : keys_(order, key), reaching_(order, key), above_(order, static_cast<Word>(key + 1)), key_(key) {}

  __device__ void raise(Word key) {
    if (key == key_) return;
    const Order order = keys_.order();
    *this = BoundFilter(order, key);
  }

  template <class Elements>
  __device__ uint32_t probe(const Elements& elements, bool behind) const {
    const bool may_reach = behind ? above_.may_reach(elements) : reaching_.may_reach(elements);
    return may_reach ? keys_.probe(elements, behind) : 0;
  }

 private:
  KeyFilter<Order> keys_;
  PatternFilter<Bits> reaching_, above_;
  Word key_;
};

}  // namespace gputopk::cuda
