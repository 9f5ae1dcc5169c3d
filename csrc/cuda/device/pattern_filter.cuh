// Passes over what is not good enough by bit patterns, in a few instructions an element.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/key_order.h"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"

namespace gputopk::cuda {

// Says of a vector of 1- or 2-byte elements that it may hold one whose key is `least` or more. No such
// element is passed over; a NaN may be taken for one. Patterns of the wanted keys are the greatest of their
// width, as signed numbers, as unsigned ones, or both, once some bits are cleared and some flipped: so the
// greatest of a vector decide.
template <class Bits>
class PatternFilter {
  static_assert(sizeof(Bits) <= 2, "compared two at a time");
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
    } else {
      signed_limit_ = static_cast<int16_t>(signed_limit);
      unsigned_limit_ = static_cast<uint16_t>(unsigned_limit);
    }
  }

  __device__ bool may_reach(const Vector<Bits>& vector) const {
    const uint32_t words[4] = {vector.words.x, vector.words.y, vector.words.z, vector.words.w};
    uint32_t greatest_signed = 0x80008000u, greatest_unsigned = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const uint32_t word = (words[w] & keep_) ^ mirror_;
      see(word, greatest_signed, greatest_unsigned);
      if constexpr (sizeof(Bits) == 1) see(word << 8, greatest_signed, greatest_unsigned);
    }
    const int32_t greater_signed = max(static_cast<int32_t>(static_cast<int16_t>(greatest_signed)),
                                       static_cast<int32_t>(greatest_signed) >> 16);
    const uint32_t greater_unsigned = max(greatest_unsigned & 0xFFFF, greatest_unsigned >> 16);
    return always_ || greater_signed > signed_limit_ || greater_unsigned > unsigned_limit_;
  }
  __device__ bool may_reach(const Single<Bits>&) const { return true; }

 private:
  __device__ static uint32_t repeated(Bits pattern) {
    return pattern * (sizeof(Bits) == 1 ? 0x01010101u : 0x00010001u);
  }
  __device__ static void see(uint32_t word, uint32_t& greatest_signed, uint32_t& greatest_unsigned) {
    greatest_signed = __vmaxs2(greatest_signed, word);
    greatest_unsigned = __vmaxu2(greatest_unsigned, word);
  }

  bool always_;
  uint32_t keep_, mirror_;
  int32_t signed_limit_;
  uint32_t unsigned_limit_;
};

// Tells 32-bit elements whose key is `least` or more by their bit patterns, in half the instructions that a
// key takes. Before the order's flip, such patterns are those of one interval and those above another; after
// it, all others.
template <class Order>
class PatternRange {
  static_assert(sizeof(typename Order::Bits) == 4, "compared as words");
  static constexpr uint32_t kAll = ~0u, kSign = 1u << 31, kMagnitude = ~kSign;

 public:
  // `none`: no key is so great.
  __device__ PatternRange(const Order& order, uint32_t least, bool none) {
    // Keys of `from` or more are told, before the flip; those after it are the others.
    const uint32_t from = order.flip != 0 ? 0 - least : least;
    bool empty = order.flip != 0 ? least == 0 : none;
    if constexpr (Order::kFloating) {
      if (from > 2 * order.max_magnitude + 1) empty = true;  // beyond NaN
      const bool positive = from > order.offset;
      origin_ = positive ? from - order.offset : 0;
      span_ = positive || order.signed_mask == 0 ? kMagnitude - origin_ : kSign + (order.offset - from);
    } else if (order.signed_mask != 0) {
      if (from > kSign) empty = true;
      origin_ = from;
      span_ = from == 0 ? kAll : 0 - 2 * from;
    } else {
      origin_ = from - order.offset;
      span_ = ~from;
    }
    told_ = empty ? 0 : kAll;
    if (order.flip != 0 && none) {
      origin_ = 0;
      span_ = told_ = kAll;
    }
  }

  // A bit for each.
  template <class Elements>
  __device__ uint32_t holds(const Order& order, const Elements& elements) const {
    const bool by_magnitude = Order::kFloating && order.signed_mask == 0;
    const uint32_t keep = by_magnitude ? kMagnitude : kAll;
    const uint32_t above = Order::kFloating ? kSign | order.max_magnitude : kAll;  // negative NaN
    uint32_t told = 0;
#pragma unroll
    for (int i = 0; i < Elements::kElements; ++i) {
      const uint32_t word = elements[i] & keep;
      if (word - origin_ <= span_ || word > above) told |= 1u << i;
    }
    return ((told & told_) ^ order.flip) & ((1u << Elements::kElements) - 1);
  }

 private:
  uint32_t origin_, span_;
  uint32_t told_;  // 0: none
};

// What may reach a bound, an extended key: raise(key, behind) for each tile, then probe() for a bit for each
// of some of its elements. `key`: the bound's; `behind`: the elements lie behind its index, so that its key
// alone does not do.

// By each element.
template <class Order>
class KeyFilter {
 public:
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;

  __device__ explicit KeyFilter(const Order& order) : order_(order) {}

  __device__ void raise(Word key, bool behind) {
    key_ = key;
    behind_ = behind;
  }

  template <class Elements>
  __device__ uint32_t probe(const Elements& elements) const {
    const Bits least = static_cast<Bits>(key_ + (behind_ ? 1 : 0));
    uint32_t chosen = 0;
#pragma unroll
    for (int i = 0; i < Elements::kElements; ++i) {
      if (order_(elements[i]) >= least) chosen |= 1u << i;
    }
    return behind_ && least == 0 ? 0 : chosen;  // 0: no key is greater than the bound's
  }

 private:
  Order order_;
  Word key_ = 0;
  bool behind_ = false;
};

template <bool kFloating>
class KeyFilter<KeyOrder<uint32_t, kFloating>> {
 public:
  using Order = KeyOrder<uint32_t, kFloating>;

  __device__ explicit KeyFilter(const Order& order) : order_(order), range_(order, 0, false) {}

  __device__ void raise(uint32_t key, bool behind) {
    const uint32_t least = key + (behind ? 1 : 0);
    const bool none = behind && least == 0;
    if (least == least_ && none == none_) return;
    least_ = least;
    none_ = none;
    range_ = PatternRange<Order>(order_, least, none);
  }

  template <class Elements>
  __device__ uint32_t probe(const Elements& elements) const {
    return range_.holds(order_, elements);
  }

 private:
  Order order_;
  PatternRange<Order> range_;
  uint32_t least_ = 0;
  bool none_ = false;  // no key is so great
};

// By a vector's elements together first, which pays where few reach the bound and it seldom rises.
template <class Order>
class VectorFilter {
 public:
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;

  __device__ explicit VectorFilter(const Order& order) : order_(order), keys_(order), vectors_(order, 0) {}

  __device__ void raise(Word key, bool behind) {
    keys_.raise(key, behind);
    const Word least = static_cast<Word>(key + (behind ? 1 : 0));
    if (least == least_) return;
    least_ = least;
    vectors_ = PatternFilter<Bits>(order_, least);
  }

  template <class Elements>
  __device__ uint32_t probe(const Elements& elements) const {
    return vectors_.may_reach(elements) ? keys_.probe(elements) : 0;
  }

 private:
  Order order_;
  KeyFilter<Order> keys_;
  PatternFilter<Bits> vectors_;
  Word least_ = 0;
};

// The better of the two for a bound that few reach.
template <class Order>
using BoundFilter =
    std::conditional_t<sizeof(typename Order::Bits) <= 2, VectorFilter<Order>, KeyFilter<Order>>;

}  // namespace gputopk::cuda
