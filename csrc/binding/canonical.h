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

}  // namespace gputopk::binding
