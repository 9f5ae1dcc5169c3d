// What is known of one row's winners while its digits are resolved.
//
// The extended key of an element is (key, reversed index): comparing it lexicographically is the whole
// contract, ties to the lower index included, and no two elements of a row share one. A radix selection
// that runs over the digits of the key and then of the reversed index therefore ends at exactly k winners,
// with no case for ties.
#pragma once

#include <cstdint>

#include "core/key_order.h"
#include "cuda/device/index_width.h"
#include "cuda/device/warp.cuh"

namespace gputopk::cuda {

// Keys are computed on in registers of at least 32 bits.
template <class Bits>
struct KeyWord {
  using type = uint32_t;
};
template <>
struct KeyWord<uint64_t> {
  using type = uint64_t;
};

template <class Word, class Index>
struct ExtendedKey {
  Word key;
  Index reversed;  // cols - 1 - index

  __device__ bool operator<(const ExtendedKey& other) const {
    // Without branches: both sides are a few instructions.
    return (key < other.key) | ((key == other.key) & (reversed < other.reversed));
  }
};

// The least of a warp's.
template <class Word, class Index>
__device__ ExtendedKey<Word, Index> least_of_warp(ExtendedKey<Word, Index> own) {
  const Word key = static_cast<Word>(~warp_max(static_cast<Word>(~own.key)));
  const Index reversed = own.key == key ? static_cast<Index>(~own.reversed) : Index{0};
  return {key, static_cast<Index>(~warp_max(reversed))};
}

// One digit: `key_width` bits of the key above `index_width` bits of the reversed index. Either may be 0;
// both are positive for the digit that holds the key's lowest bits.
struct Digit {
  int key_shift;
  int key_width;
  int index_shift;
  int index_width;

  __host__ __device__ int width() const { return key_width + index_width; }
  // The digit, or one before it, has bits of the index: bounds below it compare the index too.
  __host__ __device__ bool reaches_index() const { return index_width > 0; }

  // Of an element that matches all digits before: its distance from the least such element has no bits
  // above this digit, so nothing is masked.
  template <class Word, class Index>
  __device__ uint32_t of(Word key_distance, Index index_distance) const {
    const uint32_t key_part = static_cast<uint32_t>(key_distance >> key_shift);
    if (index_width == 0) return key_part;
    return key_part << index_width | static_cast<uint32_t>(index_distance >> index_shift);
  }
};

// The digit number `pass` (from 1, most significant first) when digits are `width` bits wide. A shift by a
// whole word is undefined, so a key part of no bits is given shift 0: its distance is 0 then.
__host__ __device__ inline Digit digit_of_pass(int pass, int width, int key_bits, int index_bits) {
  const int total = key_bits + index_bits;
  const int high = total - (pass - 1) * width;
  if (high <= 0) return {};  // behind the last digit
  const int low = high > width ? high - width : 0;
  Digit digit{};
  if (high > index_bits) {
    const int key_low = low > index_bits ? low : index_bits;
    digit.key_shift = key_low - index_bits;
    digit.key_width = high - key_low;
  }
  if (low < index_bits) {
    digit.index_shift = low;
    digit.index_width = (high < index_bits ? high : index_bits) - low;
  }
  return digit;
}

// The row's elements by extended key:  rejected < low <= candidates <= split < winners. Those are certain.
template <class Word, class Index>
struct Selection {
  using Extended = ExtendedKey<Word, Index>;

  Extended low, split;
  uint64_t owed;        // winners still to be found among the candidates
  uint64_t candidates;  // elements in [low, split]

  // Before the first digit: every element is a candidate.
  __device__ static Selection whole_row(uint64_t k, uint64_t cols) { return {{0, 0}, highest(), k, cols}; }
  __device__ static Extended highest() {
    return {static_cast<Word>(~Word{0}), static_cast<Index>(~Index{0})};
  }

  __device__ bool takes_all() const { return owed == candidates; }

  // The greatest that a candidate with this digit can be.
  __device__ Extended greatest_of(const Digit& digit, uint32_t value) const {
    return with_digit(low, digit, value, /*fill=*/true);
  }

  // Among the candidates, those whose digit is `target` stay candidates, those above it are winners.
  // `above` of them are; `count` have the target digit.
  __device__ void narrow(const Digit& digit, uint32_t target, uint64_t above, uint64_t count) {
    // The last bin may reach beyond `split`.
    const Extended greatest = greatest_of(digit, target);
    if (greatest < split) split = greatest;
    low = with_digit(low, digit, target, /*fill=*/false);
    owed -= above;
    candidates = count;
  }

  // No element that the last digit was counted of has a key out of [least, greatest]. Needed after a digit of
  // next_digit, whose last bin may reach beyond the range it is of, to winners that were decided before.
  __device__ void tighten(Word least, Word greatest) {
    if (low.key < least) low = {least, 0};
    if (greatest < split.key) split = {greatest, static_cast<Index>(~Index{0})};
  }

  // Where the candidates are all the elements in their range of indices, as in a row of one value, the
  // winners among them are the last ones of that range, which no digit need find. True if it is so.
  __device__ bool settle_dense(Index last_index) {
    if (low.key != split.key) return false;
    const Index greatest = split.reversed < last_index ? split.reversed : last_index;
    if (candidates != static_cast<uint64_t>(static_cast<Index>(greatest - low.reversed)) + 1) return false;
    low.reversed = static_cast<Index>(greatest - static_cast<Index>(owed - 1));
    candidates = owed;
    return true;
  }

 private:
  // `low` with this digit, and every bit below it cleared or set. Digits count from `low`, which need not be
  // a multiple of their range: so they are added, and what a range has beyond the greatest number is cut off.
  __device__ static Extended with_digit(Extended low, const Digit& digit, uint32_t value, bool fill) {
    const uint32_t key_part = value >> digit.index_width;
    const uint32_t index_part = value & ((1u << digit.index_width) - 1);
    Word key = low.key + (static_cast<Word>(key_part) << digit.key_shift);
    Index reversed = low.reversed + (static_cast<Index>(index_part) << digit.index_shift);
    if (fill) {
      if (digit.key_width > 0) key += (Word{1} << digit.key_shift) - 1;
      if (digit.index_width > 0) reversed += (Index{1} << digit.index_shift) - 1;
      if (key < low.key) key = static_cast<Word>(~Word{0});
      if (digit.index_width == 0 || reversed < low.reversed) reversed = static_cast<Index>(~Index{0});
    }
    return {key, reversed};
  }
};

// The digit that follows `last` where digits are `width` bits wide: of the range that its candidates are
// left.
template <class Word, class Index>
__device__ Digit next_digit(const Selection<Word, Index>& selection, const Digit& last, int width,
                            int index_bits) {
  const int key_bits = bits_of(static_cast<Word>(selection.split.key - selection.low.key));
  return digit_of_pass(1, width, key_bits, last.reaches_index() ? last.index_shift : index_bits);
}

// Counts and indices of 32 bits serve rows of fewer than 2^32 elements.
template <class Visitor>
auto visit_index(int64_t cols, Visitor&& visitor) {
  return has_narrow_indices(cols) ? visitor(uint32_t{}) : visitor(uint64_t{});
}

}  // namespace gputopk::cuda
