// The tensors that a caller gives to gputopk::topk.out.
#pragma once

#include <cstdint>
#include <vector>

#include "binding/canonical.h"

namespace gputopk::binding {

// Of a call with outs: `sizes` are what the caller is to get.
struct Outs {
  const Tensor& self;
  const Request& request;
  const std::vector<int64_t>& sizes;
  const Tensor& values;
  const Tensor& indices;
};

// Refuses outs that cannot take the result, or that share memory with the input or each other, and tells
// autograd that the others are written to. Nothing is written yet.
void claim_outs(const Outs& outs);

// As torch's own operators, below autograd: outs of other sizes are resized, with torch's warning.
void resize_outs(const Outs& outs);

}  // namespace gputopk::binding
