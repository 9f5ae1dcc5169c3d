#include "binding/topk_op.h"

#include <torch/csrc/stable/ops.h>

#include <utility>

namespace gputopk::binding {
namespace {

Tensor with_dim_last(const Tensor& tensor, int64_t dim) {
  return dim == tensor.dim() - 1 ? tensor : torch::stable::transpose(tensor, dim, -1);
}

// A dense result whose selected dimension is last and belongs elsewhere, in the caller's shape.
Tensor restore(const Tensor& result, int64_t dim) {
  const Tensor moved = torch::stable::transpose(result, dim, -1);
  // A view, as the strides of sizes 0 and 1 are to be those of a new tensor.
  if (moved.is_contiguous()) return torch::stable::view(result, moved.sizes());
  return dense_copy(moved, kTopk);
}

}  // namespace

std::tuple<Tensor, Tensor> topk(const Tensor& self, const Arguments& arguments, const Backend& backend) {
  Request request = canonicalise(self, arguments);
  backend.check(request);
  const bool in_place = backend.any_dim || request.dim_is_last();
  if (!backend.any_dim) gather_rows(request);
  if (!in_place) request.sizes = sizes_dim_last(request);
  Tensor values = new_empty(request.sizes, request.value_dtype, self, kTopk);
  Tensor indices = new_empty(request.sizes, request.index_dtype, self, kTopk);
  if (!request.empty()) backend.run(request, buffers_of(request, values, indices));
  if (in_place) return {std::move(values), std::move(indices)};
  return {restore(values, request.dim), restore(indices, request.dim)};
}

void topk_out(const Tensor& self, const Arguments& arguments, const Tensor& values, const Tensor& indices,
              const Backend& backend, ClaimOuts* claim) {
  Request request = canonicalise(self, arguments);
  backend.check(request);
  claim(self, request, request.sizes, values, indices);
  if (request.empty()) return;

  const bool in_place = backend.any_dim || request.dim_is_last();
  if (!backend.any_dim) gather_rows(request);
  if (in_place && values.is_contiguous() && indices.is_contiguous()) {
    return backend.run(request, buffers_of(request, values, indices));
  }
  if (!in_place) request.sizes = sizes_dim_last(request);
  const Tensor dense_values = new_empty(request.sizes, request.value_dtype, self, kTopk);
  const Tensor dense_indices = new_empty(request.sizes, request.index_dtype, self, kTopk);
  backend.run(request, buffers_of(request, dense_values, dense_indices));
  copy(in_place ? values : with_dim_last(values, request.dim), dense_values);
  copy(in_place ? indices : with_dim_last(indices, request.dim), dense_indices);
}

std::string plan(const Tensor& self, const Arguments& arguments, const Backend& backend) {
  const Request request = canonicalise(self, arguments);
  backend.check(request);
  return request.empty() ? "none: the outputs are empty" : backend.describe(request);
}

}  // namespace gputopk::binding
