// The tensors that a caller gives to gputopk::topk.out.
#pragma once

#include <cstdint>
#include <vector>

#include "binding/canonical.h"

namespace gputopk::binding {

// Refuses outs that cannot take a result of these sizes, or that share memory with the input or each other,
// and tells autograd that the others are written to. Nothing is written yet.
void claim_outs(const Tensor& self, const Request& request, const std::vector<int64_t>& sizes,
                const Tensor& values, const Tensor& indices);

}  // namespace gputopk::binding
