// The barrier of a cooperative launch's grid, which is all that the kernels use of cooperative groups.
#pragma once

#include "simt.h"

namespace cooperative_groups {

struct grid_group {
  void sync() const { simt::grid_barrier(); }
};
inline grid_group this_grid() { return {}; }

}  // namespace cooperative_groups
