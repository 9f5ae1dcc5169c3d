// What a plan depends on of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gputopk::cuda {

// What CUB's device-wide radix sort asks for, in bytes, to sort so many keys, alone or with an index of 32
// bits each, on the current device. 0 where it could not say.
using DeviceSortBytes = size_t(int key_bytes, bool with_indices, int64_t entries);

// The default is the one that the numbers were measured on.
struct Device {
  int sm_count = 132;
  int compute_capability = 90;                   // ten times the major number and the minor
  int shared_bytes_per_block = 227 * 1024;       // at most, where a kernel asks for it
  int cluster_blocks = 16;                       // at most, of air::OneCluster's; 1: no clusters
  DeviceSortBytes* device_sort_bytes = nullptr;  // null: for a plan that is described and not run
};

}  // namespace gputopk::cuda
