// The vectorised primitives of the CPU algorithm. Plain loops of fixed length, which the compiler turns into
// the vectors of the level it compiles for; intrinsics only where a comparison becomes a bit mask.
//
// Everything lives in the namespace of its level: the same template compiled with and without AVX-512 must
// not be one symbol, or the linker would keep either for both.
#pragma once

#include <cstdint>

#if defined(__AVX512F__) && defined(__AVX512BW__)
#include <immintrin.h>
#define GPUTOPK_MASK_COMPARES 1
#endif

namespace gputopk::cpu::GPUTOPK_CPU_LEVEL {

// Elements tested at once: a hit is one bit of a 64-bit mask.
constexpr int kStrip = 64;

// Arrays of keys are worked on, and padded, by 64 bytes: one to four vectors, as the level has them.
template <class Integer>
constexpr int kLanes = 64 / sizeof(Integer);

// A vector of the level's own size; of larger ones the compiler takes comparisons apart.
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <class Integer>
struct VectorOf {
  typedef Integer Type __attribute__((vector_size(kVectorBytes)));
};
template <class Integer>
using Vector = typename VectorOf<Integer>::Type;

template <class Integer>
constexpr int kVectorLanes = kVectorBytes / sizeof(Integer);

template <class Integer>
Vector<Integer> load_vector(const Integer* from) {
  Vector<Integer> vector;
  __builtin_memcpy(&vector, from, sizeof(vector));
  return vector;
}

template <class Integer>
Integer smaller(Integer a, Integer b) {
  return a < b ? a : b;
}

template <class Integer>
Integer larger(Integer a, Integer b) {
  return a < b ? b : a;
}

// Raises best[lane] to the best key of the lane in `vectors` vectors of elements, `stride` elements apart.
template <class Order, class Bits>
void raise_lanes(const Order& order, const Bits* elements, int64_t vectors, int64_t stride,
                 Bits (&best)[kLanes<Bits>]) {
  for (int64_t i = 0; i < vectors; ++i, elements += stride) {
    for (int lane = 0; lane < kLanes<Bits>; ++lane) best[lane] = larger(best[lane], order(elements[lane]));
  }
}

#ifdef GPUTOPK_MASK_COMPARES
inline uint64_t compare_at_least(__m512i keys, uint8_t floor) {
  return _mm512_cmpge_epu8_mask(keys, _mm512_set1_epi8(static_cast<char>(floor)));
}

inline uint64_t compare_at_least(__m512i keys, uint16_t floor) {
  return _mm512_cmpge_epu16_mask(keys, _mm512_set1_epi16(static_cast<short>(floor)));
}

inline uint64_t compare_at_least(__m512i keys, uint32_t floor) {
  return _mm512_cmpge_epu32_mask(keys, _mm512_set1_epi32(static_cast<int>(floor)));
}

inline uint64_t compare_at_least(__m512i keys, uint64_t floor) {
  return _mm512_cmpge_epu64_mask(keys, _mm512_set1_epi64(static_cast<long long>(floor)));
}
#endif

// Whether any lane is at least `floor`.
template <class Bits>
bool any_at_least(const Bits (&lanes)[kLanes<Bits>], Bits floor) {
#ifdef GPUTOPK_MASK_COMPARES
  return compare_at_least(_mm512_loadu_si512(lanes), floor) != 0;
#else
  Vector<uint64_t> hits = {};
  for (int lane = 0; lane < kLanes<Bits>; lane += kVectorLanes<Bits>) {
    hits |= reinterpret_cast<Vector<uint64_t>>(load_vector(lanes + lane) >= floor);
  }
  uint64_t any = 0;
  for (int lane = 0; lane < kVectorLanes<uint64_t>; ++lane) any |= hits[lane];
  return any != 0;
#endif
}

// Asks for the strip that lies `ahead` elements further, wherever that is: a prefetch of no memory is
// nothing.
template <class Bits>
void prefetch_strip(const Bits* elements, int64_t ahead) {
  const uintptr_t strip = reinterpret_cast<uintptr_t>(elements) + ahead * sizeof(Bits);
  for (uintptr_t byte = 0; byte < kStrip * sizeof(Bits); byte += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(strip + byte));
  }
}

// Bit i is set where keys[i] >= floor, of kStrip keys.
template <class Bits>
uint64_t mask_at_least(const Bits* keys, Bits floor) {
  uint64_t mask = 0;
#ifdef GPUTOPK_MASK_COMPARES
  for (int i = 0; i < kStrip; i += kLanes<Bits>) {
    mask |= compare_at_least(_mm512_loadu_si512(keys + i), floor) << i;
  }
#else
  // Hits as bytes of 0 or 1, by vectors; then eight bytes to eight bits, by one multiplication.
  uint8_t hits[kStrip];
  for (int i = 0; i < kStrip; ++i) hits[i] = keys[i] >= floor;
  for (int i = 0; i < kStrip; i += 8) {
    uint64_t bytes = 0;
    for (int byte = 0; byte < 8; ++byte) bytes |= uint64_t{hits[i + byte]} << (8 * byte);
    mask |= ((bytes * 0x0102040810204080) >> 56) << i;
  }
#endif
  return mask;
}

// How many of `values` are at least `floor`.
template <class Integer>
int64_t count_at_least(const Integer* values, int64_t count, Integer floor) {
  int64_t at_least = 0;
  int64_t i = 0;
#ifdef GPUTOPK_MASK_COMPARES
  for (; count - i >= kLanes<Integer>; i += kLanes<Integer>) {
    at_least += __builtin_popcountll(compare_at_least(_mm512_loadu_si512(values + i), floor));
  }
#else
  constexpr int kVector = kVectorLanes<Integer>;
  constexpr int kVectors = 128;  // that a lane of 8 bits can count
  while (count - i >= kVector) {
    Vector<Integer> counters = {};
    const int64_t end = smaller<int64_t>(i + kVectors * kVector, count);
    for (; end - i >= kVector; i += kVector) {
      counters -= reinterpret_cast<Vector<Integer>>(load_vector(values + i) >= floor);
    }
    for (int lane = 0; lane < kVector; ++lane) at_least += counters[lane];
  }
#endif
  for (; i < count; ++i) at_least += values[i] >= floor;
  return at_least;
}

}  // namespace gputopk::cpu::GPUTOPK_CPU_LEVEL
