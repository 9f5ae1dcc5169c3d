#include "binding/canonical.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "binding/check.h"

namespace gputopk::binding {
namespace {

bool is_complex(ScalarType type) {
  return type == ScalarType::ComplexHalf || type == ScalarType::ComplexFloat ||
         type == ScalarType::ComplexDouble;
}

void refuse_dtype(const Tensor& self, ScalarType dtype) {
  check(!is_complex(dtype), " topk does not support complex dtypes on ", self.is_cuda() ? "CUDA" : "CPU");
  std::string name = "unknown to the stable ABI";
  try {
    name = dtype_text(self.scalar_type());
  } catch (const std::runtime_error&) {  // the ABI's own, of dtypes that it does not convert
  }
  check(false, kTopk, "dtype ", name, " is not supported");
}

// How rows lie of which all dimensions but `dim` are walked with two strides at most; else nothing.
std::optional<RowLayout> layout_of(Sizes sizes, Sizes strides, int64_t dim) {
  struct Group {
    int64_t size = 1, stride = 0;
  };
  Group inner, outer;
  for (int64_t i = static_cast<int64_t>(sizes.size()); i-- > 0;) {
    if (i == dim || sizes[i] == 1) continue;
    Group* const last = outer.size > 1 ? &outer : &inner;
    if (last->size == 1) {
      *last = {sizes[i], strides[i]};
    } else if (strides[i] == last->stride * last->size) {
      last->size *= sizes[i];
    } else if (last == &inner) {
      outer = {sizes[i], strides[i]};
    } else {
      return std::nullopt;
    }
  }
  const int64_t col_stride = sizes[dim] > 1 ? strides[dim] : 1;
  if (outer.size > 1) return RowLayout{inner.size, outer.stride, inner.stride, col_stride};
  if (col_stride != 1) return RowLayout{inner.size, 0, inner.stride, col_stride};
  return RowLayout{1, inner.size > 1 ? inner.stride : sizes[dim], 0, 1};
}

// Of a dense tensor whose dimensions behind the selected one have so many elements.
RowLayout dense_layout(int64_t inner, int64_t cols) {
  if (inner == 1 || cols == 1) return {1, cols, 0, 1};
  return {inner, cols * inner, 1, inner};
}

int64_t elements_behind(Sizes sizes, int64_t dim) {
  int64_t elements = 1;
  for (int64_t i = dim + 1; i < static_cast<int64_t>(sizes.size()); ++i) elements *= sizes[i];
  return elements;
}

}  // namespace

Request canonicalise(const Tensor& self, const Arguments& arguments) {
  Request request{{}, {}, {}, false, Algorithm::kAuto, self, 0, {}, scalar_type_of(self), ScalarType::Long};
  const Sizes sizes = self.sizes();
  const int64_t dims = std::max<int64_t>(1, static_cast<int64_t>(sizes.size()));
  check(arguments.dim >= -dims && arguments.dim < dims, kTopk,
        "Dimension out of range (expected to be in range of [", -dims, ", ", dims - 1, "], but got ",
        arguments.dim, ")");
  request.dim = arguments.dim < 0 ? arguments.dim + dims : arguments.dim;

  const int64_t cols = sizes.empty() ? 1 : sizes[request.dim];
  check(arguments.k >= 0 && arguments.k <= cols, kTopk, "selected index k out of range: k is ", arguments.k,
        ", and dimension ", request.dim, " has size ", cols);

  const std::optional<DType> dtype = dtype_of(request.value_dtype);
  if (!dtype) refuse_dtype(self, request.value_dtype);

  request.index_dtype = arguments.index_dtype.value_or(ScalarType::Long);
  check(request.index_dtype == ScalarType::Long || request.index_dtype == ScalarType::Int, kTopk,
        "index_dtype must be torch.int64 or torch.int32");
  check(request.index_dtype == ScalarType::Long || cols <= INT32_MAX, kTopk,
        "index_dtype torch.int32 cannot index ", cols, " elements, at most ", INT32_MAX);

  check(arguments.algorithm >= 0 && arguments.algorithm < kAlgorithms, kTopk, "algorithm must be in [0, ",
        kAlgorithms - 1, "], but is ", arguments.algorithm);
  request.algorithm = static_cast<Algorithm>(arguments.algorithm);

  request.sizes = to_vector(sizes);
  int64_t rows = 1;
  if (!sizes.empty()) {
    request.sizes[request.dim] = 1;
    for (const int64_t size : request.sizes) rows *= size;
    request.sizes[request.dim] = arguments.k;
  }

  Problem& problem = request.problem;
  problem.dtype = *dtype;
  problem.rows = rows;
  problem.cols = cols;
  // torch answers k = 0 of a 0-dim tensor with a 0-dim value: there is nothing to leave out.
  problem.k = sizes.empty() ? 1 : arguments.k;
  problem.largest = arguments.largest;
  problem.sorted = arguments.sorted;
  problem.by_index = arguments.by_index;
  problem.last_alone = arguments.last_alone;
  problem.magnitude = arguments.magnitude;
  problem.wide_indices = request.index_dtype == ScalarType::Long;
  const int64_t inner = elements_behind(sizes, request.dim);
  request.rows_out = dense_layout(inner, problem.k);
  std::optional<RowLayout> layout = RowLayout{1, 1, 0, 1};  // of a tensor without dimensions
  if (!sizes.empty()) layout = layout_of(sizes, self.strides(), request.dim);
  request.scattered = !layout;
  request.rows_in = layout ? *layout : dense_layout(inner, cols);
  problem.row_stride = request.rows_in.outer_stride;
  return request;
}

void make_dense(Request& request) {
  if (!request.empty()) request.input = dense_copy(request.input, kTopk);
  request.rows_in = dense_layout(elements_behind(request.input.sizes(), request.dim), request.problem.cols);
  request.problem.row_stride = request.rows_in.outer_stride;
  request.scattered = false;
}

Buffers buffers_of(const Request& request, AtenTensorHandle values, AtenTensorHandle indices) {
  Buffers buffers;
  buffers.input = request.input.const_data_ptr();
  TORCH_ERROR_CODE_CHECK(torch_get_mutable_data_ptr(values, &buffers.values));
  TORCH_ERROR_CODE_CHECK(torch_get_mutable_data_ptr(indices, &buffers.indices));
  return buffers;
}

}  // namespace gputopk::binding
