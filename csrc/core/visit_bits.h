// Elements as unsigned integers of their width.
#pragma once

#include <cstdint>

namespace gputopk {

// Calls visitor with a zero of the unsigned type of so many bytes.
template <class Visitor>
auto visit_bits(int bytes, Visitor&& visitor) {
  switch (bytes) {
    case 1: return visitor(uint8_t{});
    case 2: return visitor(uint16_t{});
    case 4: return visitor(uint32_t{});
    default: return visitor(uint64_t{});
  }
}

}  // namespace gputopk
