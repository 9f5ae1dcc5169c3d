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

// Where the dimension lies that is at place i once the selected one is last.
int64_t dim_at(int64_t place, int64_t dim, int64_t last) {
  if (place == last) return dim;
  return place == dim ? last : place;
}

// The distance between rows, if all dimensions but the selected can be walked with one, and that is dense.
std::optional<int64_t> row_stride(Sizes sizes, Sizes strides, int64_t dim) {
  if (sizes[dim] > 1 && strides[dim] != 1) return std::nullopt;
  const int64_t last = static_cast<int64_t>(sizes.size()) - 1;
  std::optional<int64_t> innermost;
  int64_t walked = 0;  // what the next outer dimension's stride must be
  for (int64_t place = last; place-- > 0;) {
    const int64_t i = dim_at(place, dim, last);
    if (sizes[i] == 1) continue;
    if (!innermost) {
      innermost = strides[i];
    } else if (strides[i] != walked) {
      return std::nullopt;
    }
    walked = strides[i] * sizes[i];
  }
  return innermost.value_or(sizes[dim]);
}

}  // namespace

Request canonicalise(const Tensor& self, const Arguments& arguments) {
  Request request{{}, Algorithm::kAuto, self, false, 0, {}, scalar_type_of(self), ScalarType::Long};
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

  const std::optional<int64_t> stride = sizes.empty() ? 1 : row_stride(sizes, self.strides(), request.dim);
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
  problem.magnitude = arguments.magnitude;
  problem.wide_indices = request.index_dtype == ScalarType::Long;
  problem.row_stride = stride.value_or(cols);
  request.scattered = !stride;
  return request;
}

void gather_rows(Request& request) {
  if (request.scattered && !request.empty()) {
    request.input = dense_copy(torch::stable::transpose(request.input, request.dim, -1), kTopk);
  }
  request.scattered = false;
}

std::vector<int64_t> sizes_dim_last(const Request& request) {
  std::vector<int64_t> sizes = request.sizes;
  if (!sizes.empty()) std::swap(sizes[request.dim], sizes.back());
  return sizes;
}

Buffers buffers_of(const Request& request, AtenTensorHandle values, AtenTensorHandle indices) {
  Buffers buffers;
  buffers.input = request.input.const_data_ptr();
  TORCH_ERROR_CODE_CHECK(torch_get_mutable_data_ptr(values, &buffers.values));
  TORCH_ERROR_CODE_CHECK(torch_get_mutable_data_ptr(indices, &buffers.indices));
  return buffers;
}

}  // namespace gputopk::binding
