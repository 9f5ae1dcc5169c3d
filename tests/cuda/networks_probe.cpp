// device/item_sort.cuh and device/list_sort.cuh behind a C interface, for test_networks.py.
#include <cstdint>
#include <vector>

#include "cuda/device/item_sort.cuh"
#include "cuda/device/list_sort.cuh"

namespace {

template <int kItems>
void sort_array(uint32_t* values, bool descending) {
  uint32_t items[kItems];
  for (int i = 0; i < kItems; ++i) items[i] = values[i];
  if (descending) {
    gputopk::cuda::sort_items<true>(items);
  } else {
    gputopk::cuda::sort_items<false>(items);
  }
  for (int i = 0; i < kItems; ++i) values[i] = items[i];
}

}  // namespace

// Each of `count` arrays of `size` values, one after the other.
extern "C" void probe_sort_items(uint32_t* values, int64_t count, int size, int descending) {
  for (int64_t i = 0; i < count; ++i, values += size) {
    switch (size) {
      case 2: sort_array<2>(values, descending); break;
      case 4: sort_array<4>(values, descending); break;
      case 8: sort_array<8>(values, descending); break;
      default: sort_array<16>(values, descending); break;
    }
  }
}

// The items of a trip last to first, as threads may take them. False where places between them are written.
extern "C" int probe_sort_list(uint32_t* values, int64_t count, int size) {
  using List = gputopk::cuda::PaddedList<uint32_t>;
  constexpr uint32_t kFree = 0xABCDEF01;
  std::vector<uint32_t> memory(List::places(size));
  const List list(memory.data());
  for (int64_t i = 0; i < count; ++i, values += size) {
    for (uint32_t& place : memory) place = kFree;
    for (int j = 0; j < size; ++j) list[j] = values[j];
    gputopk::cuda::sort_list(list, size, [](int items, auto&& work) {
      for (int item = items - 1; item >= 0; --item) work(item);
    });
    for (int j = 0; j < size; ++j) values[j] = list[j];
    for (int place = List::kUnpadded; place < List::places(size); place += List::kUnpadded + 1) {
      if (memory[place] != kFree) return 0;
    }
  }
  return 1;
}
