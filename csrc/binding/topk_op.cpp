#include "binding/topk_op.h"

#include <torch/csrc/stable/ops.h>

#include <utility>

namespace gputopk::binding {
namespace {

Tensor with_dim_last(const Tensor& tensor, int64_t dim) {
  return dim == tensor.dim() - 1 ? tensor : torch::stable::transpose(tensor, dim, -1);
}

// A dense result whose selected dimension is last and belongs elsewhere, in the caller's shape.
NewTensor restore(NewTensor dim_last, int64_t dim) {
  const Tensor result(dim_last.release());
  const Tensor moved = torch::stable::transpose(result, dim, -1);
  // A view, as the strides of sizes 0 and 1 are to be those of a new tensor.
  const Tensor restored =
      moved.is_contiguous() ? torch::stable::view(result, moved.sizes()) : dense_copy(moved, kTopk);
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(restored.get(), &handle));
  return NewTensor(handle);
}

}  // namespace

Result topk(const Tensor& self, const Arguments& arguments, const Backend& backend) {
  Request request = canonicalise(self, arguments);
  backend.check(request);
  const bool in_place = backend.any_dim || request.dim_is_last();
  if (!backend.any_dim) gather_rows(request);
  if (!in_place) request.sizes = sizes_dim_last(request);
  NewTensor values = new_tensor(request.sizes, request.value_dtype, self, kTopk);
  NewTensor indices = new_tensor(request.sizes, request.index_dtype, self, kTopk);
  if (!request.empty()) backend.run(request, buffers_of(request, values.get(), indices.get()));
  if (in_place) return {std::move(values), std::move(indices)};
  return {restore(std::move(values), request.dim), restore(std::move(indices), request.dim)};
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
    return backend.run(request, buffers_of(request, values.get(), indices.get()));
  }
  if (!in_place) request.sizes = sizes_dim_last(request);
  const Tensor dense_values = new_empty(request.sizes, request.value_dtype, self, kTopk);
  const Tensor dense_indices = new_empty(request.sizes, request.index_dtype, self, kTopk);
  backend.run(request, buffers_of(request, dense_values.get(), dense_indices.get()));
  copy(in_place ? values : with_dim_last(values, request.dim), dense_values);
  copy(in_place ? indices : with_dim_last(indices, request.dim), dense_indices);
}

std::string plan(const Tensor& self, const Arguments& arguments, const Backend& backend) {
  const Request request = canonicalise(self, arguments);
  backend.check(request);
  return request.empty() ? "none: the outputs are empty" : backend.describe(request);
}

}  // namespace gputopk::binding
