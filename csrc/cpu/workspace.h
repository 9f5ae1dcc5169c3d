// How workers' parts of a workspace are laid out.
#pragma once

#include <cstddef>

namespace gputopk::cpu {

// A cache line, so that no two workers write to one.
constexpr size_t kAlignment = 64;

constexpr size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace gputopk::cpu
