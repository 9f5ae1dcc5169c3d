// From the arguments of gputopk::topk to a checked request of rows x cols. The same for every device.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "binding/tensors.h"

namespace gputopk::binding {

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

// A checked request.
struct Request {
  Problem problem;
  Algorithm algorithm;
  Tensor input;
  bool scattered;              // `input` is not yet rows of adjacent elements at a constant stride
  int64_t dim;                 // that is selected along, not below zero
  std::vector<int64_t> sizes;  // of the outputs
  ScalarType value_dtype;
  ScalarType index_dtype;

  bool empty() const { return problem.rows == 0 || problem.k == 0; }
  bool dim_is_last() const { return sizes.empty() || dim == static_cast<int64_t>(sizes.size()) - 1; }
};

// Checks in torch.topk's order (dim, k, dtype) and throws in its words. Launches nothing.
Request canonicalise(const Tensor& self, const Arguments& arguments);

// Makes `input` rows as problem.row_stride says, by a copy where they are not.
void gather_rows(Request& request);

// The sizes with the selected dimension and the last one in each other's place.
std::vector<int64_t> sizes_dim_last(const Request& request);

// All but workspace. `values` and `indices` are dense.
Buffers buffers_of(const Request& request, AtenTensorHandle values, AtenTensorHandle indices);

}  // namespace gputopk::binding
