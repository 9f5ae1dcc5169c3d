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

// What gputopk::topk's errors begin with.
inline constexpr const char* kTopk = "gputopk::topk: ";

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

// A checked request. `input` is `self` with the selected dimension last.
struct Request {
  Problem problem;
  Algorithm algorithm;
  Tensor input;
  bool scattered;              // `input` is not yet rows of adjacent elements at a constant stride
  int64_t dim;                 // where the selected dimension belongs in the outputs
  std::vector<int64_t> sizes;  // of the outputs while it is last
  ScalarType value_dtype;
  ScalarType index_dtype;

  bool empty() const { return problem.rows == 0 || problem.k == 0; }
  bool dim_is_last() const { return sizes.empty() || dim == static_cast<int64_t>(sizes.size()) - 1; }
};

// Checks in torch.topk's order (dim, k, dtype) and throws in its words. Launches nothing.
Request canonicalise(const Tensor& self, const Arguments& arguments);

// Makes `input` rows as problem.row_stride says: by a copy where the layout allows no view.
void gather_rows(Request& request);

// All but workspace. After gather_rows; `values` and `indices` are dense.
Buffers buffers_of(const Request& request, const Tensor& values, const Tensor& indices);

// A forked child has none of the threads of its parent's pool, though the pool believes so, and would wait
// for them for ever.
bool in_forked_child();

// `op` opens the error where memory runs out.
Tensor new_empty(const std::vector<int64_t>& sizes, ScalarType dtype, const Tensor& like,
                 const char* op = kTopk);

// Like torch::stable::contiguous, but with new_empty's error where memory runs out.
Tensor dense_copy(const Tensor& tensor, const char* op = kTopk);

std::vector<int64_t> to_vector(torch::headeronly::IntHeaderOnlyArrayRef array);

std::optional<DType> dtype_of(ScalarType type);

// "cuda:0", as torch prints it.
std::string device_name(const torch::stable::Device& device);

// A device's part.
struct Backend {
  // Throws where the request's algorithm cannot serve it, be the outputs empty or not.
  void (*check)(const Request& request);
  // Fills dense outputs of request.sizes; sees to workspace. Only for requests that are not empty.
  void (*run)(const Request& request, Buffers buffers);
  // The plan as text. Only for requests that are not empty.
  std::string (*describe)(const Request& request);
  // `run` takes the input before gather_rows and fills dense outputs of the caller's shape: nothing is copied
  // to have the selected dimension last.
  bool any_dim = false;
};

std::tuple<Tensor, Tensor> topk(const Tensor& self, const Arguments& arguments, const Backend& backend);
void topk_out(const Tensor& self, const Arguments& arguments, const Tensor& values, const Tensor& indices,
              const Backend& backend);
std::string plan(const Tensor& self, const Arguments& arguments, const Backend& backend);

// gputopk::topk, gputopk::topk.out and gputopk::_plan of one device, in the form that TORCH_BOX takes.
template <const Backend& backend>
std::tuple<Tensor, Tensor> boxed_topk(const Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted,
                                      bool magnitude, std::optional<ScalarType> index_dtype,
                                      int64_t algorithm) {
  return topk(self, {k, dim, largest, sorted, magnitude, index_dtype, algorithm}, backend);
}
template <const Backend& backend>
void boxed_topk_out(const Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted, bool magnitude,
                    std::optional<ScalarType> index_dtype, int64_t algorithm, const Tensor& values,
                    const Tensor& indices) {
  topk_out(self, {k, dim, largest, sorted, magnitude, index_dtype, algorithm}, values, indices, backend);
}
template <const Backend& backend>
std::string boxed_plan(const Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted, bool magnitude,
                       std::optional<ScalarType> index_dtype, int64_t algorithm) {
  return plan(self, {k, dim, largest, sorted, magnitude, index_dtype, algorithm}, backend);
}

}  // namespace gputopk::binding
