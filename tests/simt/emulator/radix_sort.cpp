// CUB's device-wide radix sort, as work of the host: stable, by the bits that are asked for and no others.

#include <numeric>

#include "cub/device/device_radix_sort.cuh"
#include "machine.h"

namespace simt {
namespace {

uint64_t key_at(const void* keys, int64_t at, int bytes) {
  uint64_t key = 0;
  std::memcpy(&key, static_cast<const char*>(keys) + at * bytes, bytes);
  return key;
}

void sort_now(const RadixSort& sort, int result) {
  const int from = sort.current;
  const size_t items = static_cast<size_t>(sort.items);
  const uint64_t mask = sort.end_bit - sort.begin_bit == 64
                            ? ~uint64_t{0}
                            : (uint64_t{1} << (sort.end_bit - sort.begin_bit)) - 1;
  std::vector<int64_t> order(items);
  std::iota(order.begin(), order.end(), 0);
  const auto digits = [&](int64_t i) {
    return key_at(sort.keys[from], i, sort.key_bytes) >> sort.begin_bit & mask;
  };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return digits(a) < digits(b); });
  const auto move = [&](void* const* buffers, int bytes) {
    if (buffers[0] == nullptr) return;
    for (int buffer : {0, 1}) {
      if (buffer == from) announce_host_access(buffers[buffer], items * bytes, /*writes=*/false);
      announce_host_access(buffers[buffer], items * bytes, /*writes=*/true);
    }
    std::vector<char> sorted(items * bytes);
    for (size_t i = 0; i < items; ++i) {
      std::memcpy(&sorted[i * bytes], static_cast<const char*>(buffers[from]) + order[i] * bytes, bytes);
    }
    std::memcpy(buffers[result], sorted.data(), sorted.size());
    poison(buffers[1 - result], sorted.size());  // nobody may go by what passes left there
  };
  move(sort.values, sort.value_bytes);
  move(sort.keys, sort.key_bytes);
}

}  // namespace

cudaError_t radix_sort(RadixSort& sort, void* temporary, size_t& bytes) {
  constexpr int64_t kOneTile = 4096;
  if (sort.items < 0 || sort.begin_bit < 0 || sort.end_bit <= sort.begin_bit ||
      sort.end_bit > 8 * sort.key_bytes) {
    fail("a radix sort of %ld keys of %d bytes by bits %d to %d", static_cast<long>(sort.items),
         sort.key_bytes, sort.begin_bit, sort.end_bit);
  }
  const int passes = sort.items <= kOneTile ? 1 : (sort.end_bit - sort.begin_bit + 7) / 8;
  const size_t asked = 256 * static_cast<size_t>(passes) + static_cast<size_t>(sort.items / 8);
  if (temporary == nullptr) {
    bytes = asked;
    return cudaSuccess;
  }
  if (bytes < asked) fail("a radix sort is given %zu bytes, and asks for %zu", bytes, asked);
  const int result = (sort.current + passes) % 2;
  const RadixSort before = sort;
  launch_host_work([=] {
    announce_host_access(temporary, asked, /*writes=*/true);
    poison(temporary, asked);
    sort_now(before, result);
  });
  sort.current = result;
  return cudaSuccess;
}

}  // namespace simt
