// csrc/core/key_order.h behind a C interface, for test_key_order.py.
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/key_order.h"

namespace {

template <class Order>
void fill(const Order& order, const void* values, int64_t count, uint64_t* keys) {
  using Bits = typename Order::Bits;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, static_cast<const char*>(values) + i * sizeof(Bits), sizeof(Bits));
    keys[i] = order(bits);
  }
}

}  // namespace

extern "C" const char* probe_dtype_name(int dtype) {
  return gputopk::dtype_name(static_cast<gputopk::DType>(dtype));
}

extern "C" int probe_dtype_bytes(int dtype) {
  return gputopk::dtype_bytes(static_cast<gputopk::DType>(dtype));
}

extern "C" void probe_keys(int dtype, int largest, int magnitude, const void* values, int64_t count,
                           uint64_t* keys) {
  gputopk::visit_key_order(static_cast<gputopk::DType>(dtype), largest != 0, magnitude != 0,
                           [&](const auto& order) { fill(order, values, count, keys); });
}

extern "C" uint64_t probe_worst(int dtype, int largest, int magnitude) {
  return gputopk::visit_key_order(static_cast<gputopk::DType>(dtype), largest != 0, magnitude != 0,
                                  [](const auto& order) { return uint64_t{order.worst()}; });
}

// Distances from `least` in the range [least, most], on registers of 32 bits or more as the kernels have
// them. 0 where the range has none.
extern "C" int probe_distances(int dtype, int largest, int magnitude, uint64_t least, uint64_t most,
                               const void* values, int64_t count, uint64_t* distances) {
  return gputopk::visit_key_order(
      static_cast<gputopk::DType>(dtype), largest != 0, magnitude != 0, [&](const auto& order) -> int {
        using Bits = typename std::decay_t<decltype(order)>::Bits;
        using Word = std::conditional_t<sizeof(Bits) == 8, uint64_t, uint32_t>;
        gputopk::KeyDistance<Word> distance{};
        if (!order.distance_from(static_cast<Word>(least), static_cast<Word>(most), distance)) return 0;
        for (int64_t i = 0; i < count; ++i) {
          Bits bits;
          std::memcpy(&bits, static_cast<const char*>(values) + i * sizeof(Bits), sizeof(Bits));
          distances[i] = distance(bits);
        }
        return 1;
      });
}
