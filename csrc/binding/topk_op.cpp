#include "binding/topk_op.h"

#include <utility>

namespace gputopk::binding {

Result topk(const Tensor& self, const Arguments& arguments, const Backend& backend) {
  const Request request = canonicalise(self, arguments);
  backend.check(request);
  NewTensor values = new_tensor(request.sizes, request.value_dtype, self, kTopk);
  NewTensor indices = new_tensor(request.sizes, request.index_dtype, self, kTopk);
  if (!request.empty()) backend.run(request, buffers_of(request, values.get(), indices.get()));
  return {std::move(values), std::move(indices)};
}

void topk_out(const Tensor& self, const Arguments& arguments, const Tensor& values, const Tensor& indices,
              const Backend& backend, ClaimOuts* claim) {
  const Request request = canonicalise(self, arguments);
  backend.check(request);
  claim(self, request, request.sizes, values, indices);
  if (request.empty()) return;

  if (values.is_contiguous() && indices.is_contiguous()) {
    return backend.run(request, buffers_of(request, values.get(), indices.get()));
  }
  const Tensor dense_values = new_empty(request.sizes, request.value_dtype, self, kTopk);
  const Tensor dense_indices = new_empty(request.sizes, request.index_dtype, self, kTopk);
  backend.run(request, buffers_of(request, dense_values.get(), dense_indices.get()));
  copy(values, dense_values);
  copy(indices, dense_indices);
}

std::string plan(const Tensor& self, const Arguments& arguments, const Backend& backend) {
  const Request request = canonicalise(self, arguments);
  backend.check(request);
  return request.empty() ? "none: the outputs are empty" : backend.describe(request);
}

}  // namespace gputopk::binding
