// From the arguments of gputopk::topk to a checked request of rows x cols. The same for every device.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "binding/tensors.h"
#include "core/strided_problem.h"

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
  bool by_index = false;
  bool last_alone = false;
};

// A checked request.
struct Request {
  Problem problem;
  RowLayout rows_in, rows_out;
  bool scattered;  // no layout says how rows lie in `input`: rows_in is that of a dense copy
  Algorithm algorithm;
  Tensor input;
  int64_t dim;                 // that is selected along, not below zero
  std::vector<int64_t> sizes;  // of the outputs
  ScalarType value_dtype;
  ScalarType index_dtype;

  bool empty() const { return problem.rows == 0 || problem.k == 0; }
  StridedProblem strided() const { return {problem, rows_in, rows_out}; }
};

// Checks in torch.topk's order (dim, k, dtype) and throws in its words. Launches nothing.
Request canonicalise(const Tensor& self, const Arguments& arguments);

// Makes `input` a dense copy of itself, which has a layout whatever the strides before.
void make_dense(Request& request);

// All but workspace. `values` and `indices` are dense.
Buffers buffers_of(const Request& request, AtenTensorHandle values, AtenTensorHandle indices);

}  // namespace gputopk::binding
