// device/pattern_filter.cuh and row_filter.cuh against keys, one element at a time, for test_filters.py.
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "core/key_order.h"
#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/row_filter.cuh"

namespace {

namespace cuda = gputopk::cuda;

// Of 4-byte dtypes, patterns of all magnitudes, and what is near to those that mean something.
std::vector<uint32_t> some_words() {
  std::vector<uint32_t> words;
  for (const uint32_t near : {0u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu, 0x7F800000u, 0xFF800000u,
                              0x7FC00000u, 0x3F800000u, 0xBF800000u, 0x00800000u, 0x80800000u}) {
    for (uint32_t step = 0; step < 7; ++step) words.push_back(near + step - 3);
  }
  uint32_t word = 1;
  for (int i = 0; i < 1931; ++i) words.push_back(word = word * 1664525u + 1013904223u);
  return words;
}

// Patterns of a vector and bounds for which a filter says another thing than keys do.
template <class Order>
int64_t count_faults_of_words(const Order& order) {
  const std::vector<uint32_t> words = some_words();
  cuda::BoundFilter<Order> filter(order);
  int64_t faults = 0;
  const auto look = [&](uint64_t least) {
    for (size_t first = 0; first + 4 <= words.size(); ++first) {
      uint32_t wanted = 0;
      for (int i = 0; i < 4; ++i) wanted |= (order(words[first + i]) >= least ? 1u : 0u) << i;
      faults += filter.probe(cuda::Vector<uint32_t>{
                    {words[first], words[first + 1], words[first + 2], words[first + 3]}}) != wanted;
      faults += filter.probe(cuda::Single<uint32_t>{words[first]}) != (wanted & 1);
    }
  };
  look(0);  // before a bound is raised
  for (size_t i = 0; i < words.size(); ++i) {
    const uint32_t key = i % 2 == 0 ? words[i] : order(words[i]);
    const bool behind = i % 3 == 0;
    filter.raise(key, behind);
    look(uint64_t{key} + (behind ? 1 : 0));
  }
  filter.raise(0, false);
  look(0);
  return faults;
}

template <class Order>
int64_t count_faults(const Order& order, int64_t bounds_apart) {
  using Bits = typename Order::Bits;
  constexpr int kElements = cuda::kPerVector<Bits>;
  constexpr int64_t kPatterns = int64_t{std::numeric_limits<Bits>::max()} + 1;
  cuda::BoundFilter<Order> filter(order);
  int64_t faults = 0;
  const auto look = [&](int64_t least) {
    for (int64_t first = 0; first < kPatterns; first += kElements) {
      Bits elements[kElements];
      uint32_t wanted = 0;
      for (int i = 0; i < kElements; ++i) {
        // Neighbours differ in all of their bits.
        const Bits pattern = static_cast<Bits>((first + i) * 0x9E37);
        elements[i] = pattern;
        if (order(pattern) >= least) wanted |= 1u << i;
        faults += filter.probe(cuda::Single<Bits>{pattern}) != (wanted >> i & 1);
      }
      cuda::Vector<Bits> vector;
      std::memcpy(&vector.words, elements, sizeof(elements));
      faults += filter.probe(vector) != wanted;
    }
  };
  look(0);  // before a bound is raised
  for (int64_t key = 0; key < kPatterns; key += key < 8 || key + 8 > kPatterns ? 1 : bounds_apart) {
    for (const bool behind : {false, true}) {
      filter.raise(static_cast<typename cuda::KeyWord<Bits>::type>(key), behind);
      look(key + (behind ? 1 : 0));
    }
  }
  // And what bounds mostly are: the keys of numbers, of zeros, of infinities and of NaN.
  for (int64_t pattern = 0; pattern < kPatterns; pattern += kPatterns / 32) {
    for (const int64_t near : {-1, 0, 1}) {
      const Bits key = order(static_cast<Bits>(pattern + near));
      filter.raise(key, /*behind=*/false);
      look(key);
    }
  }
  return faults;
}

// The same where each element of a vector has a bound of its own: patterns, and the keys of patterns.
template <class Order>
int64_t count_faults_of_rows(const Order& order, const std::vector<typename Order::Bits>& patterns) {
  using Bits = typename Order::Bits;
  using Word = typename cuda::KeyWord<Bits>::type;
  constexpr size_t kElements = cuda::kPerVector<Bits>;
  const size_t count = patterns.size();
  cuda::RowFilter<Order, cuda::Vector<Bits>> filter;
  cuda::RowFilter<Order, cuda::Single<Bits>> filter_of_one;
  int64_t faults = 0;
  for (size_t bounds = 0; bounds < count; ++bounds) {
    Bits keys[kElements];
    bool behind[kElements];
    for (size_t e = 0; e < kElements; ++e) {
      const Bits pattern = patterns[(bounds + e * 131) % count];
      keys[e] = e % 2 == 0 ? pattern : order(pattern);
      behind[e] = (bounds + e) % 3 == 0;
      filter.raise(order, static_cast<int>(e), static_cast<Word>(keys[e]), behind[e]);
    }
    filter_of_one.raise(order, 0, static_cast<Word>(keys[0]), behind[0]);
    for (size_t first = bounds % 5; first + kElements <= count; first += 3 * kElements + 1) {
      Bits elements[kElements];
      uint32_t wanted = 0;
      for (size_t e = 0; e < kElements; ++e) {
        elements[e] = patterns[first + e];
        const Bits key = order(elements[e]);
        if (behind[e] ? key > keys[e] : key >= keys[e]) wanted |= 1u << e;
      }
      cuda::Vector<Bits> vector;
      std::memcpy(&vector.words, elements, sizeof(elements));
      faults += filter.probe(order, vector) != wanted;
      faults += filter_of_one.probe(order, cuda::Single<Bits>{elements[0]}) != (wanted & 1);
    }
  }
  return faults;
}

// Of 1- and 2-byte elements all patterns, or each so many-th and those around zero.
template <class Order>
int64_t count_faults_of_rows(const Order& order) {
  using Bits = typename Order::Bits;
  std::vector<Bits> patterns;
  if constexpr (sizeof(Bits) >= 4) {
    for (const uint32_t word : some_words()) {
      patterns.push_back(static_cast<Bits>(sizeof(Bits) == 8 ? uint64_t{word} << 32 | word : word));
    }
  } else {
    constexpr int kPatterns = std::numeric_limits<Bits>::max() + 1;
    for (int i = 0; i < kPatterns; i += sizeof(Bits) == 1 ? 1 : 29) patterns.push_back(static_cast<Bits>(i));
    for (int near = -8; near <= 8; ++near) {
      for (const int pattern : {0, kPatterns / 2}) patterns.push_back(static_cast<Bits>(pattern + near));
    }
  }
  return count_faults_of_rows(order, patterns);
}

}  // namespace

extern "C" int64_t simt_row_filter_faults(int32_t dtype, int32_t largest, int32_t magnitude) {
  return gputopk::visit_key_order(static_cast<gputopk::DType>(dtype), largest != 0, magnitude != 0,
                                  [](const auto& order) { return count_faults_of_rows(order); });
}

// Of dtypes of up to 4 bytes; -1: the dtype is none.
extern "C" int64_t simt_filter_faults(int32_t dtype, int32_t largest, int32_t magnitude) {
  return gputopk::visit_key_order(static_cast<gputopk::DType>(dtype), largest != 0, magnitude != 0,
                                  [](const auto& order) -> int64_t {
                                    using Bits = typename std::decay_t<decltype(order)>::Bits;
                                    if constexpr (sizeof(Bits) > 4) {
                                      return -1;
                                    } else if constexpr (sizeof(Bits) == 4) {
                                      return count_faults_of_words(order);
                                    } else {
                                      return count_faults(order, sizeof(Bits) == 1 ? 1 : 4099);
                                    }
                                  });
}

// The same of an order in which all are equal.
extern "C" int64_t simt_equals_filter_faults(int32_t bytes) {
  if (bytes == 4) return count_faults_of_words(gputopk::KeyOrder<uint32_t, true>::of_equals());
  if (bytes == 1) return count_faults(gputopk::KeyOrder<uint8_t, true>::of_equals(), 1);
  return count_faults(gputopk::KeyOrder<uint16_t, true>::of_equals(), 4099);
}
