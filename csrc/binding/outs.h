// The tensors that a caller gives to be written to.
#pragma once

#include <cstdint>
#include <vector>

#include "binding/canonical.h"

namespace gputopk::binding {

// An out, and what a result is.
struct Out {
  const Tensor& tensor;
  const char* name;
  ScalarType dtype;
};

// Refuses outs that cannot take a result of these sizes, or that share memory with an input or each other,
// and tells autograd that the others are written to. Nothing is written yet. `op` opens the errors; the
// results' device is the first input's.
void claim_outs(const char* op, const std::vector<const Tensor*>& inputs, const std::vector<int64_t>& sizes,
                const std::vector<Out>& outs);

// The same of gputopk::topk.
void claim_topk_outs(const Tensor& self, const Request& request, const std::vector<int64_t>& sizes,
                     const Tensor& values, const Tensor& indices);

// Tells autograd that a tensor is written to, and refuses one that gradients would have to flow through.
void claim_in_place(const Tensor& tensor, const char* op, const char* name);

}  // namespace gputopk::binding
