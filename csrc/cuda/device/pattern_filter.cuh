// Passes over what is not good enough by bit patterns, in a few instructions an element.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "core/key_order.h"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"

namespace gputopk::cuda {

// Says of a vector of 1-byte floats that it may hold one whose key is `least` or more. No such element is
// passed over; a NaN may be taken for one. Patterns of the wanted keys are the greatest of their width, as
// signed numbers, as unsigned ones, or both, once some bits are cleared and some flipped: so the greatest of
// a vector decide.
class PatternFilter {
 public:
  __device__ PatternFilter(const KeyOrder<uint8_t, true>& order, uint32_t least_key) {
    constexpr uint32_t kSign = 0x80;
    const uint32_t least = least_key & 0xFF, offset = order.offset, max_magnitude = order.max_magnitude;
    uint32_t keep = 0xFF, mirror = 0;
    uint32_t signed_limit = 0x7F, unsigned_limit = 0xFF;  // none
    always_ = least_key == 0;
    const bool by_magnitude = order.signed_mask == 0;
    if (by_magnitude) keep = 0x7F;
    if (order.flip == 0) {
      // At least this positive number; so is a positive NaN, and a negative one has a pattern above -inf's.
      if (least <= offset) always_ = true;
      signed_limit = least - offset - 1;
      if (!by_magnitude) unsigned_limit = kSign | max_magnitude;
    } else {
      const uint32_t most = 0xFF - least;
      if (by_magnitude) {
        mirror = 0xFF;
        if (most < offset) {  // none is less than nothing
          unsigned_limit = 0xFF;
        } else if (most > 2 * max_magnitude) {
          always_ = true;
        } else {
          unsigned_limit = 0xFF - (most - offset) - 1;
        }
      } else {
        if (most >= offset) always_ = true;  // not a negative number
        unsigned_limit = (kSign | (offset - most)) - 1;
      }
    }
    keep_ = keep * 0x01010101u;
    mirror_ = mirror * 0x01010101u;
    // Two bytes are compared at a time, by the upper one: any lower one goes.
    signed_limit_ = static_cast<int16_t>((signed_limit & 0xFF) << 8 | 0xFF);
    unsigned_limit_ = (unsigned_limit & 0xFF) << 8 | 0xFF;
  }

  __device__ bool may_reach(const Vector<uint8_t>& vector) const {
    const uint32_t words[4] = {vector.words.x, vector.words.y, vector.words.z, vector.words.w};
    uint32_t greatest_signed = 0x80008000u, greatest_unsigned = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const uint32_t word = (words[w] & keep_) ^ mirror_;
      see(word, greatest_signed, greatest_unsigned);
      see(word << 8, greatest_signed, greatest_unsigned);
    }
    const int32_t greater_signed = max(static_cast<int32_t>(static_cast<int16_t>(greatest_signed)),
                                       static_cast<int32_t>(greatest_signed) >> 16);
    const uint32_t greater_unsigned = max(greatest_unsigned & 0xFFFF, greatest_unsigned >> 16);
    return always_ || greater_signed > signed_limit_ || greater_unsigned > unsigned_limit_;
  }
  __device__ bool may_reach(const Single<uint8_t>&) const { return true; }

 private:
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
    vectors_ = PatternFilter(order_, least);
  }

  template <class Elements>
  __device__ uint32_t probe(const Elements& elements) const {
    return vectors_.may_reach(elements) ? keys_.probe(elements) : 0;
  }

 private:
  Order order_;
  KeyFilter<Order> keys_;
  PatternFilter vectors_;
  Word least_ = 0;
};

// Of a vector's four words, in each half of which all bits are the same: those of the elements, in their
// order.
template <class BitsOfWord>
__device__ __forceinline__ uint32_t bits_of_halves(BitsOfWord&& of_word) {
  uint32_t chosen = 0;  // of each word a bit of either half
#pragma unroll
  for (int w = 0; w < 4; ++w) chosen |= of_word(w) & (1u << 2 * w | 1u << (17 + 2 * w));
  return (chosen | chosen >> 16) & 0xFF;
}

// What floats are compared with in place of their keys: those whose key is no less than another's are above
// `limit` as numbers, a NaN being above all; or, where the smallest are wanted, are not.
struct FloatLimit {
  uint32_t limit;  // its pattern, as wide as the float
  bool all, none;  // or all reach it, or none do, whatever the limit is

  // `behind`: only greater keys do.
  template <class Order>
  __device__ static FloatLimit of(const Order& order, uint32_t key, bool behind) {
    constexpr uint32_t kMost = static_cast<typename Order::Bits>(~typename Order::Bits{0});
    constexpr uint32_t kSign = 1u << (Order::kBits - 1);
    const uint32_t least = key + (behind ? 1 : 0);
    const bool flips = order.flip != 0;
    FloatLimit result{0, least == 0 && !behind, behind && key == kMost};
    // Before the order's flip: what is above it reaches the bound, or, flipped, what is not.
    const uint32_t limit = flips ? kMost - least : least - 1;
    if (order.max_magnitude == 0) {  // all keys are 1
      result.all = least <= 1 && !result.none;
      result.none = !result.all;
    } else if (!result.all && !result.none && limit > 2 * uint32_t{order.max_magnitude}) {
      (flips ? result.all : result.none) = true;  // nothing is above a NaN
    }
    const bool positive = limit >= order.offset;
    const uint32_t magnitude = positive ? limit - order.offset : order.offset - limit;
    result.limit = min(magnitude, uint32_t{order.max_magnitude}) | (positive ? 0 : kSign);
    return result;
  }
};

// All ones in a word, or in each half of it, that is above the limit there.
template <class Order>
__device__ __forceinline__ uint32_t above_limit(const Order& order, uint32_t word, uint32_t limit) {
  static_assert((Order::kBits == 16 || Order::kBits == 32) && Order::kFloating);
  const bool by_magnitude = order.signed_mask == 0;
  if constexpr (Order::kBits == 32) {
    const float x = __uint_as_float(word);  // the sign is left out by the instruction itself
    return !((by_magnitude ? fabsf(x) : x) <= __uint_as_float(limit)) ? ~0u : 0;
  } else {
    if (by_magnitude) word &= 0x7FFF7FFF;
    const auto as_halves = [](const uint32_t& x) { return *reinterpret_cast<const __half2*>(&x); };
    const auto as_bfloats = [](const uint32_t& x) { return *reinterpret_cast<const __nv_bfloat162*>(&x); };
    return order.max_magnitude == max_magnitude_bits(DType::kFloat16)
               ? __hgtu2_mask(as_halves(word), as_halves(limit))
               : __hgtu2_mask(as_bfloats(word), as_bfloats(limit));
  }
}

// An element, in each of a word's places.
template <class Bits>
__device__ constexpr uint32_t repeated(Bits element) {
  return element * (sizeof(Bits) == 1 ? 0x01010101u : sizeof(Bits) == 2 ? 0x00010001u : 1u);
}

// All ones where the key of a word's integer is no less than the one there.
template <class Order>
__device__ __forceinline__ uint32_t no_less(const Order& order, uint32_t word, uint32_t least) {
  static_assert(Order::kBits <= 32 && !Order::kFloating, "each is its own key but for bits");
  using Bits = typename Order::Bits;
  const bool by_magnitude = order.signed_mask != 0;
  const uint32_t mirror = repeated(static_cast<Bits>(order.offset ^ order.flip));
  if constexpr (Order::kBits == 8) {
    if (by_magnitude) word = __vabs4(word);
    return __vcmpgeu4(word ^ mirror, least);
  } else if constexpr (Order::kBits == 16) {
    if (by_magnitude) word = __vabs2(word);
    return __vcmpgeu2(word ^ mirror, least);
  } else {
    if (by_magnitude && static_cast<int32_t>(word) < 0) word = 0u - word;
    return (word ^ mirror) >= least ? ~0u : 0;
  }
}

// A bit for each of a vector's elements, of words in which all bits of an element are the same.
template <class Bits, class BitsOfWord>
__device__ __forceinline__ uint32_t bits_of_elements(BitsOfWord&& of_word) {
  if constexpr (sizeof(Bits) == 4) {
    uint32_t chosen = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) chosen |= of_word(w) & 1u << w;
    return chosen;
  } else if constexpr (sizeof(Bits) == 2) {
    return bits_of_halves(of_word);
  } else {
    const auto of_two = [&](int w) {  // eight bits, two in each byte, come together in the highest byte
      const uint32_t bits = (of_word(w) & 0x08040201u) | (of_word(w + 1) & 0x80402010u);
      return bits * 0x01010101u >> 24;
    };
    return of_two(0) | of_two(2) << 8;
  }
}

// By comparing floats as the numbers that they are, two at once where a word has two: an instruction or two
// an element, however many reach the bound.
template <class Order>
class FloatsFilter {
 public:
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;

  __device__ explicit FloatsFilter(const Order& order) : order_(order) {}

  __device__ void raise(Word key, bool behind) {
    if (key == key_ && behind == behind_) return;
    key_ = key;
    behind_ = behind;
    const FloatLimit limit = FloatLimit::of(order_, key, behind);
    keep_ = limit.all || limit.none ? 0 : ~0u;
    flip_ = limit.all || (!limit.none && order_.flip != 0) ? ~0u : 0;
    limit_ = sizeof(Bits) == 2 ? limit.limit * 0x00010001u : limit.limit;
  }

  __device__ uint32_t probe(const Vector<Bits>& vector) const {
    const uint32_t words[4] = {vector.words.x, vector.words.y, vector.words.z, vector.words.w};
    const uint32_t chosen =
        bits_of_elements<Bits>([&](int w) { return above_limit(order_, words[w], limit_); });
    return ((chosen & keep_) ^ flip_) & ((1u << Vector<Bits>::kElements) - 1);
  }
  __device__ uint32_t probe(const Single<Bits>& single) const {
    return ((above_limit(order_, single.element, limit_) & keep_) ^ flip_) & 1;
  }

 private:
  Order order_;
  Word key_ = 0;
  bool behind_ = false;
  uint32_t limit_ = 0, keep_ = 0, flip_ = ~0u;  // all, until a bound is raised
};

// By comparing as many integers at once as a word has, in fewer instructions than keys take one by one.
template <class Order>
class IntegersFilter {
 public:
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;

  __device__ explicit IntegersFilter(const Order& order) : order_(order) {}

  __device__ void raise(Word key, bool behind) {
    const uint64_t least = uint64_t{key} + (behind ? 1 : 0);  // one beyond the greatest: none reaches it
    least_ = repeated(static_cast<Bits>(least));
    keep_ = least > static_cast<Bits>(~Bits{0}) ? 0 : ~0u;
  }

  __device__ uint32_t probe(const Vector<Bits>& vector) const {
    const uint32_t words[4] = {vector.words.x, vector.words.y, vector.words.z, vector.words.w};
    return bits_of_elements<Bits>([&](int w) { return no_less(order_, words[w], least_) & keep_; });
  }
  __device__ uint32_t probe(const Single<Bits>& single) const {
    return no_less(order_, single.element, least_) & keep_ & 1;
  }

 private:
  Order order_;
  uint32_t least_ = 0, keep_ = ~0u;  // all, until a bound is raised
};

// The best of them for a bound that few reach.
template <class Order>
using BoundFilter = std::conditional_t<
    (Order::kBits > 32), KeyFilter<Order>,
    std::conditional_t<!Order::kFloating, IntegersFilter<Order>,
                       std::conditional_t<(Order::kBits > 8), FloatsFilter<Order>, VectorFilter<Order>>>>;

}  // namespace gputopk::cuda
