#include "binding/tensors.h"

#include <pthread.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "binding/check.h"

// torch's own words for what failed last in a shim; from 2.13 on, so null in an older torch.
extern "C" __attribute__((weak)) const char* torch_exception_get_what_without_backtrace();

namespace gputopk::binding {
namespace {

// A shim's error code tells no type: torch_topk.topk makes torch.OutOfMemoryError of these words.
void refuse_allocation(int64_t elements, ScalarType dtype, const torch::stable::Device& device,
                       const char* op) {
  // Of 2^60 elements the bytes need not fit an integer; no memory does either.
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, int64_t{dtype_bytes(*dtype_of(dtype))}, &bytes)) bytes = INT64_MAX;
  const std::string words = last_words();
  check(false, op, "cannot allocate ", bytes, " bytes on ", device_name(device),
        words.empty() ? " (out of memory?)" : ": ", words);
}

// Set by a handler: asking for the process' number is a system call.
bool forked = false;
const int fork_handler = pthread_atfork(nullptr, nullptr, [] { forked = true; });

int32_t torchs_number(ScalarType type) {
  return torch::stable::detail::to<int32_t>(torch::stable::detail::from(type));
}

// torch copies fewer elements than this on one thread.
constexpr int64_t kSerialCopy = 32768;

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

ScalarType scalar_type_of(const Tensor& tensor) {
  struct Known {
    int32_t torchs;
    ScalarType type;
  };
  static const std::array<Known, 18> known = [] {
    std::array<Known, 18> all{{{0, ScalarType::Float},
                               {0, ScalarType::Half},
                               {0, ScalarType::BFloat16},
                               {0, ScalarType::Double},
                               {0, ScalarType::Byte},
                               {0, ScalarType::Char},
                               {0, ScalarType::Short},
                               {0, ScalarType::Int},
                               {0, ScalarType::Long},
                               {0, ScalarType::Bool},
                               {0, ScalarType::UInt16},
                               {0, ScalarType::UInt32},
                               {0, ScalarType::UInt64},
                               {0, ScalarType::Float8_e4m3fn},
                               {0, ScalarType::Float8_e5m2},
                               {0, ScalarType::ComplexHalf},
                               {0, ScalarType::ComplexFloat},
                               {0, ScalarType::ComplexDouble}}};
    for (Known& one : all) one.torchs = torchs_number(one.type);
    return all;
  }();
  int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  for (const Known& one : known) {
    if (one.torchs == dtype) return one.type;
  }
  return ScalarType::Undefined;
}

std::string dtype_text(ScalarType type) {
  const std::optional<DType> dtype = dtype_of(type);
  return dtype ? dtype_name(*dtype) : torch::headeronly::toString(type);
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

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string list;
  for (const int64_t size : sizes) list += (list.empty() ? "" : ", ") + std::to_string(size);
  return "[" + list + "]";
}

std::string sizes_text(const Tensor& tensor) { return sizes_text(to_vector(tensor.sizes())); }

bool is_dense_in_rows(const Tensor& tensor) {
  const int64_t last = tensor.dim() - 1;
  return tensor.size(last) <= 1 || tensor.stride(last) == 1;
}

int64_t row_stride(const Tensor& tensor) {
  return tensor.dim() == 2 && tensor.size(0) > 1 ? tensor.stride(0) : tensor.size(tensor.dim() - 1);
}

bool in_forked_child() { return forked; }

std::string last_words() {
  const bool known = torch_exception_get_what_without_backtrace != nullptr;
  return known ? torch_exception_get_what_without_backtrace() : "";
}

NewTensor new_tensor(const std::vector<int64_t>& sizes, ScalarType dtype, const Tensor& like,
                     const char* op) {
  constexpr size_t kFewDims = 8;  // on the stack: an allocation is a hundredth of a short call
  int64_t few[kFewDims];
  std::vector<int64_t> many(sizes.size() > kFewDims ? sizes.size() : 0);
  int64_t* const strides = many.empty() ? few : many.data();
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    check(!__builtin_mul_overflow(stride, std::max<int64_t>(sizes[i], 1), &stride), op,
          "cannot allocate a tensor of more than 2^63 elements");
  }
  int32_t device_type = 0, device_index = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device_type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(like.get(), &device_index));
  AtenTensorHandle handle = nullptr;
  const AOTITorchError error =
      aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides,
                               torchs_number(dtype), device_type, device_index, &handle);
  if (error != TORCH_SUCCESS) refuse_allocation(stride, dtype, like.device(), op);
  return NewTensor(handle);
}

Tensor new_empty(const std::vector<int64_t>& sizes, ScalarType dtype, const Tensor& like, const char* op) {
  return Tensor(new_tensor(sizes, dtype, like, op).release());
}

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

Tensor dense_copy(const Tensor& tensor, const char* op) {
  Tensor dense = new_empty(to_vector(tensor.sizes()), tensor.scalar_type(), tensor, op);
  copy(dense, tensor);
  return dense;
}

}  // namespace gputopk::binding
