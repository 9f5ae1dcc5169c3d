// From an operator's arguments to rows x cols, and back to the caller's shape. The same for every device.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/problem.h"

namespace gputopk::binding {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// The arguments of gputopk::topk behind `self`, as its schema has them.
struct Arguments {
  int64_t k;
  int64_t dim;
  bool largest;
  bool sorted;
  bool magnitude;
  std::optional<ScalarType> index_dtype;
  int64_t algorithm;
};

// A checked request. `input` is `self` with the selected dimension last, as rows of adjacent elements at a
// constant stride: a view where the layout allows one, else a copy.
struct Request {
  Problem problem;
  Algorithm algorithm;
  Tensor input;
  int64_t dim;                 // where the selected dimension belongs in the outputs
  std::vector<int64_t> sizes;  // of the outputs while it is last
  ScalarType value_dtype;
  ScalarType index_dtype;

  bool empty() const { return problem.rows == 0 || problem.k == 0; }
};

// Checks in torch.topk's order (dim, k, dtype) and throws in its words. Nothing is launched before a throw,
// but for the copy that a layout may force after the last check.
Request canonicalise(const Tensor& self, const Arguments& arguments);

Tensor new_empty(const std::vector<int64_t>& sizes, ScalarType dtype, const Tensor& like);

// A device's part: fills dense outputs of request.sizes. Only for requests that are not empty.
using Run = void (*)(const Request& request, const Tensor& values, const Tensor& indices);

std::tuple<Tensor, Tensor> topk(const Tensor& self, const Arguments& arguments, Run run);
void topk_out(const Tensor& self, const Arguments& arguments, const Tensor& values, const Tensor& indices, Run run);

// gputopk::topk and gputopk::topk.out of one device, in the form that TORCH_BOX takes.
template <Run run>
std::tuple<Tensor, Tensor> boxed_topk(Tensor self, int64_t k, int64_t dim, bool largest, bool sorted, bool magnitude,
                                      std::optional<ScalarType> index_dtype, int64_t algorithm) {
  return topk(self, {k, dim, largest, sorted, magnitude, index_dtype, algorithm}, run);
}
template <Run run>
void boxed_topk_out(Tensor self, int64_t k, int64_t dim, bool largest, bool sorted, bool magnitude,
                    std::optional<ScalarType> index_dtype, int64_t algorithm, Tensor values, Tensor indices) {
  topk_out(self, {k, dim, largest, sorted, magnitude, index_dtype, algorithm}, values, indices, run);
}

// gputopk::_plan of one device.
using Describe = std::string (*)(const Request& request);
template <Describe describe>
std::string boxed_plan(Tensor self, int64_t k, int64_t dim, bool largest, bool sorted, bool magnitude,
                       std::optional<ScalarType> index_dtype, int64_t algorithm) {
  const Request request = canonicalise(self, {k, dim, largest, sorted, magnitude, index_dtype, algorithm});
  return request.empty() ? "none: the outputs are empty" : describe(request);
}

}  // namespace gputopk::binding
