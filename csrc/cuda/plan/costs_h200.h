#pragma once

#include "cuda/plan/costs.h"

namespace gputopk::cuda {

inline constexpr FormCosts kCostsH200[] = {
    // clang-format off
    {"air.many_blocks", {{16, 0.22, 0.01, 0.05, 1, 1, 1, 1, {}}, {16, 0.22, 0.01, 0.05, 1, 1, 1, 1, {}}, {16, 0.22, 0.01, 0.05, 1, 1, 1, 1, {}}, {16, 0.22, 0.01, 0.05, 1, 1, 1, 1, {}}}},
    // clang-format on
};

}  // namespace gputopk::cuda
