// csrc/core/key_order.h behind a C interface, for test_key_order.py.
#include <cstdint>
#include <cstring>

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
