#include "binding/canonical.h"

#include <pthread.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "binding/check.h"
#include "binding/overlap.h"

// torch's own words for what failed last in a shim; from 2.13 on, so null in an older torch.
extern "C" __attribute__((weak)) const char* torch_exception_get_what_without_backtrace();

namespace gputopk::binding {
namespace {

constexpr const char* kOp = kTopk;

using Sizes = torch::headeronly::IntHeaderOnlyArrayRef;

bool is_complex(ScalarType type) {
  return type == ScalarType::ComplexHalf || type == ScalarType::ComplexFloat ||
         type == ScalarType::ComplexDouble;
}

// The dtype as torch's own messages about out= name it.
const char* legacy_name(ScalarType type) {
  switch (type) {
    case ScalarType::Bool: return "bool";
    case ScalarType::Byte: return "unsigned char";
    case ScalarType::Char: return "signed char";
    case ScalarType::Short: return "short";
    case ScalarType::Int: return "int";
    case ScalarType::Long: return "long int";
    case ScalarType::Half: return "c10::Half";
    case ScalarType::BFloat16: return "c10::BFloat16";
    case ScalarType::Float: return "float";
    case ScalarType::Double: return "double";
    default: {
      const std::optional<DType> dtype = dtype_of(type);
      return dtype ? dtype_name(*dtype) : "a dtype that topk does not know";
    }
  }
}

std::string text(const std::vector<int64_t>& sizes) {
  std::string list;
  for (const int64_t size : sizes) list += (list.empty() ? "" : ", ") + std::to_string(size);
  return "[" + list + "]";
}

// The distance between rows, if all dimensions but the last can be walked with one, and the last is dense.
std::optional<int64_t> row_stride(Sizes sizes, Sizes strides) {
  const size_t last = sizes.size() - 1;
  if (sizes[last] > 1 && strides[last] != 1) return std::nullopt;
  std::optional<int64_t> innermost;
  int64_t walked = 0;  // what the next outer dimension's stride must be
  for (size_t i = last; i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (!innermost) {
      innermost = strides[i];
    } else if (strides[i] != walked) {
      return std::nullopt;
    }
    walked = strides[i] * sizes[i];
  }
  return innermost.value_or(sizes[last]);
}

Tensor with_dim_last(const Tensor& tensor, int64_t dim) {
  return dim == tensor.dim() - 1 ? tensor : torch::stable::transpose(tensor, dim, -1);
}

// A shim's error code tells no type: torch_topk.topk makes torch.OutOfMemoryError of these words.
void refuse_allocation(int64_t bytes, const torch::stable::Device& device, const char* op) {
  const bool known = torch_exception_get_what_without_backtrace != nullptr;
  check(false, op, "cannot allocate ", bytes, " bytes on ", device_name(device),
        known ? ": " : " (out of memory?)", known ? torch_exception_get_what_without_backtrace() : "");
}

// Set by a handler: asking for the process' number is a system call.
bool forked = false;
const int fork_handler = pthread_atfork(nullptr, nullptr, [] { forked = true; });

// torch copies fewer elements than this on one thread.
constexpr int64_t kSerialCopy = 32768;

// torch::stable::copy_, but in a forked child in parts that do not ask for its threads.
void copy(Tensor to, Tensor from) {
  if (!in_forked_child() || to.numel() < kSerialCopy) {
    torch::stable::copy_(to, from);
    return;
  }
  int64_t dim = 0;
  for (int64_t i = 1; i < to.dim(); ++i) dim = to.size(i) > to.size(dim) ? i : dim;
  const int64_t half = to.size(dim) / 2, rest = to.size(dim) - half;
  copy(torch::stable::narrow(to, dim, 0, half), torch::stable::narrow(from, dim, 0, half));
  copy(torch::stable::narrow(to, dim, half, rest), torch::stable::narrow(from, dim, half, rest));
}

// Makes request.sizes the caller's.
void restore_sizes(Request& request) {
  if (!request.dim_is_last()) std::swap(request.sizes[request.dim], request.sizes.back());
}

// A dense result whose selected dimension is last and belongs elsewhere, in the caller's shape.
Tensor restore(const Tensor& result, int64_t dim) {
  const Tensor moved = torch::stable::transpose(result, dim, -1);
  // A view, as the strides of sizes 0 and 1 are to be those of a new tensor.
  if (moved.is_contiguous()) return torch::stable::view(result, moved.sizes());
  return dense_copy(moved);
}

void check_out_kind(const Tensor& out, ScalarType dtype, const Tensor& self, const char* name) {
  check(out.scalar_type() == dtype, kOp, "Expected out tensor to have dtype ", legacy_name(dtype),
        ", but got ", legacy_name(out.scalar_type()), " instead (", name, ")");
  if (out.device() == self.device()) return;
  check(false, kOp, "Expected out tensor to have device ", device_name(self.device()), ", but got ",
        device_name(out.device()), " instead (", name, ")");
}

void check_out_shape(const Tensor& out, const std::vector<int64_t>& sizes, const char* name) {
  const std::vector<int64_t> found = to_vector(out.sizes());
  if (found == sizes) return;
  check(false, kOp, name, " has shape ", text(found), ", but the result has ", text(sizes));
}

void check_out_memory(const Tensor& out, const Tensor& other, const char* names) {
  check(!overlaps_itself(out), kOp,
        "unsupported operation: more than one element of the written-to tensor refers to a single memory "
        "location. "
        "Please clone() the tensor before performing the operation. (",
        names, ")");
  check(!overlap(out, other), kOp,
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
        "single memory "
        "location. Please clone() the tensor before performing the operation. (",
        names, ")");
}

void check_outs(const Tensor& self, const Request& request, const std::vector<int64_t>& sizes,
                const Tensor& values, const Tensor& indices) {
  check_out_kind(values, request.value_dtype, self, "values");
  check_out_kind(indices, request.index_dtype, self, "indices");
  check_out_shape(values, sizes, "values");
  check_out_shape(indices, sizes, "indices");
  // A lazy clone gets memory of its own before that is compared.
  values.mutable_data_ptr();
  indices.mutable_data_ptr();
  check_out_memory(values, self, "values and the input");
  check_out_memory(indices, self, "indices and the input");
  check_out_memory(values, indices, "values and indices");
}

}  // namespace

std::optional<DType> dtype_of(ScalarType type) {
  switch (type) {
    case ScalarType::Bool: return DType::kBool;
    case ScalarType::Byte: return DType::kUInt8;
    case ScalarType::Char: return DType::kInt8;
    case ScalarType::UInt16: return DType::kUInt16;
    case ScalarType::Short: return DType::kInt16;
    case ScalarType::UInt32: return DType::kUInt32;
    case ScalarType::Int: return DType::kInt32;
    case ScalarType::UInt64: return DType::kUInt64;
    case ScalarType::Long: return DType::kInt64;
    case ScalarType::Float8_e4m3fn: return DType::kFloat8E4M3;
    case ScalarType::Float8_e5m2: return DType::kFloat8E5M2;
    case ScalarType::Half: return DType::kFloat16;
    case ScalarType::BFloat16: return DType::kBFloat16;
    case ScalarType::Float: return DType::kFloat32;
    case ScalarType::Double: return DType::kFloat64;
    default: return std::nullopt;
  }
}

std::string device_name(const torch::stable::Device& device) {
  const torch::headeronly::DeviceType type = device.type();
  std::string name = "device type " + std::to_string(static_cast<int>(type));
  if (type == torch::headeronly::kCPU) name = "cpu";
  if (type == torch::headeronly::kCUDA) name = "cuda";
  if (type == torch::headeronly::kMeta) name = "meta";
  return device.index() < 0 || type == torch::headeronly::kCPU ? name
                                                               : name + ":" + std::to_string(device.index());
}

std::vector<int64_t> to_vector(torch::headeronly::IntHeaderOnlyArrayRef array) {
  return {array.begin(), array.end()};
}

bool in_forked_child() { return forked; }

Request canonicalise(const Tensor& self, const Arguments& arguments) {
  Request request{{}, Algorithm::kAuto, self, false, 0, {}, self.scalar_type(), ScalarType::Long};
  Sizes sizes = self.sizes();
  const int64_t dims = std::max<int64_t>(1, static_cast<int64_t>(sizes.size()));
  check(arguments.dim >= -dims && arguments.dim < dims, kOp,
        "Dimension out of range (expected to be in range of [", -dims, ", ", dims - 1, "], but got ",
        arguments.dim, ")");
  request.dim = arguments.dim < 0 ? arguments.dim + dims : arguments.dim;

  const int64_t cols = sizes.empty() ? 1 : sizes[request.dim];
  check(arguments.k >= 0 && arguments.k <= cols, kOp, "selected index k out of range: k is ", arguments.k,
        ", and dimension ", request.dim, " has size ", cols);

  const std::optional<DType> dtype = dtype_of(request.value_dtype);
  check(!is_complex(request.value_dtype), " topk does not support complex dtypes on ",
        self.is_cuda() ? "CUDA" : "CPU");
  check(dtype.has_value(), kOp, "dtype number ", static_cast<int>(request.value_dtype), " is not supported");

  request.index_dtype = arguments.index_dtype.value_or(ScalarType::Long);
  check(request.index_dtype == ScalarType::Long || request.index_dtype == ScalarType::Int, kOp,
        "index_dtype must be torch.int64 or torch.int32");
  check(request.index_dtype == ScalarType::Long || cols <= INT32_MAX, kOp,
        "index_dtype torch.int32 cannot index ", cols, " elements, at most ", INT32_MAX);

  check(arguments.algorithm >= 0 && arguments.algorithm < kAlgorithms, kOp, "algorithm must be in [0, ",
        kAlgorithms - 1, "], but is ", arguments.algorithm);
  request.algorithm = static_cast<Algorithm>(arguments.algorithm);

  if (request.dim != dims - 1) {
    request.input = torch::stable::transpose(self, request.dim, -1);
    sizes = request.input.sizes();
  }
  const std::optional<int64_t> stride = sizes.empty() ? 1 : row_stride(sizes, request.input.strides());
  request.sizes = to_vector(sizes);
  int64_t rows = 1;
  if (!sizes.empty()) {
    for (size_t i = 0; i + 1 < sizes.size(); ++i) rows *= sizes[i];
    request.sizes.back() = arguments.k;
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
  if (request.scattered && !request.empty()) request.input = dense_copy(request.input);
  request.scattered = false;
}

Buffers buffers_of(const Request& request, const Tensor& values, const Tensor& indices) {
  Buffers buffers;
  buffers.input = request.input.const_data_ptr();
  buffers.values = values.mutable_data_ptr();
  buffers.indices = indices.mutable_data_ptr();
  return buffers;
}

Tensor new_empty(const std::vector<int64_t>& sizes, ScalarType dtype, const Tensor& like, const char* op) {
  constexpr size_t kFewDims = 8;  // on the stack: an allocation is a hundredth of a short call
  int64_t few[kFewDims];
  std::vector<int64_t> many(sizes.size() > kFewDims ? sizes.size() : 0);
  int64_t* const strides = many.empty() ? few : many.data();
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  int32_t device_type = 0, device_index = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device_type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(like.get(), &device_index));
  const int32_t shim_dtype = torch::stable::detail::to<int32_t>(torch::stable::detail::from(dtype));
  AtenTensorHandle handle = nullptr;
  const AOTITorchError error =
      aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides, shim_dtype,
                               device_type, device_index, &handle);
  if (error != TORCH_SUCCESS) refuse_allocation(stride * dtype_bytes(*dtype_of(dtype)), like.device(), op);
  return Tensor(handle);
}

Tensor dense_copy(const Tensor& tensor, const char* op) {
  Tensor dense = new_empty(to_vector(tensor.sizes()), tensor.scalar_type(), tensor, op);
  copy(dense, tensor);
  return dense;
}

std::tuple<Tensor, Tensor> topk(const Tensor& self, const Arguments& arguments, const Backend& backend) {
  Request request = canonicalise(self, arguments);
  backend.check(request);
  if (backend.any_dim) {
    restore_sizes(request);
  } else {
    gather_rows(request);
  }
  Tensor values = new_empty(request.sizes, request.value_dtype, self);
  Tensor indices = new_empty(request.sizes, request.index_dtype, self);
  if (!request.empty()) backend.run(request, buffers_of(request, values, indices));
  if (backend.any_dim || request.dim_is_last()) return {std::move(values), std::move(indices)};
  return {restore(values, request.dim), restore(indices, request.dim)};
}

void topk_out(const Tensor& self, const Arguments& arguments, const Tensor& values, const Tensor& indices,
              const Backend& backend) {
  Request request = canonicalise(self, arguments);
  backend.check(request);
  const std::vector<int64_t> sizes_dim_last = request.sizes;
  restore_sizes(request);
  check_outs(self, request, request.sizes, values, indices);
  if (request.empty()) return;

  const bool in_place = backend.any_dim || request.dim_is_last();
  if (!backend.any_dim) gather_rows(request);
  if (in_place && values.is_contiguous() && indices.is_contiguous()) {
    return backend.run(request, buffers_of(request, values, indices));
  }
  const std::vector<int64_t>& sizes = in_place ? request.sizes : sizes_dim_last;
  const Tensor dense_values = new_empty(sizes, request.value_dtype, self);
  const Tensor dense_indices = new_empty(sizes, request.index_dtype, self);
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
