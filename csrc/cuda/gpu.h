// What a plan depends on of a GPU.
#pragma once

namespace gputopk::cuda {

// The default is the one that the numbers were measured on.
struct Device {
  int sm_count = 132;
  int compute_capability = 90;              // ten times the major number and the minor
  int shared_bytes_per_block = 227 * 1024;  // at most, where a kernel asks for it
  int cluster_blocks = 16;                  // at most, of air::OneCluster's; 1: no clusters
};

}  // namespace gputopk::cuda
