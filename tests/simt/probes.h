// Kernels with a fault each: see probes.cpp.
#pragma once

#include <cstdint>

namespace simt {

inline constexpr int kProbeWords = 64;  // of input, output and shared memory, and threads of a block

// False: there is none of that name.
bool launch_probe(const char* name, const uint32_t* input, uint32_t* output, uint32_t* memory);

}  // namespace simt
