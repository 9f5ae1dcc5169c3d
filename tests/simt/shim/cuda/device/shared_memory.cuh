// A kernel's dynamic shared memory, in place of csrc's header of this name.
#pragma once

#include "simt.h"

namespace gputopk::cuda {

inline unsigned char* dynamic_shared() { return ::simt::dynamic_shared(); }

}  // namespace gputopk::cuda
