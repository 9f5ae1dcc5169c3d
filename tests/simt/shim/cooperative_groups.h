// The barrier of a cooperative launch's grid, which is all that the kernels use of cooperative groups.
#pragma once

#include "simt.h"

namespace cooperative_groups {

struct grid_group {
  using arrival_token = uint64_t;

  void sync() const { simt::grid_barrier(); }
  // Both are barriers of the block as well.
  arrival_token barrier_arrive() const { return simt::grid_arrive(); }
  void barrier_wait(arrival_token&& turn) const { simt::grid_wait(turn); }
};
inline grid_group this_grid() { return {}; }

}  // namespace cooperative_groups
