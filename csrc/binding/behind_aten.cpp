#include "binding/behind_aten.h"

#include <algorithm>
#include <array>

#include "binding/check.h"
#include "binding/overlap.h"

// Exported by torch, but not through its stable ABI, which has no words for them. Where they are missing,
// nothing is taken to be deterministic, and nothing is served that may be a negative.
namespace at {
namespace native {
__attribute__((weak)) bool is_neg(const Tensor& self);
}
class Context {
 public:
  __attribute__((weak)) bool deterministicAlgorithms() const;
};
__attribute__((weak)) Context& globalContext();
}  // namespace at

namespace gputopk::binding {
namespace {

bool wants_deterministic() { return at::globalContext && at::globalContext().deterministicAlgorithms(); }

// Whatever the order of an unsorted result, it may differ from run to run: by value it does not.
Arguments ours(const AtenArguments& theirs) {
  Arguments arguments = arguments_of(theirs);
  arguments.sorted = theirs.sorted || wants_deterministic();
  return arguments;
}

// A handle of the stable ABI is a pointer to torch's tensor.
at::Tensor& torchs(AtenTensorHandle handle) { return *reinterpret_cast<at::Tensor*>(handle); }

void check_not_negative(const Tensor& tensor) {
  check(at::native::is_neg && !at::native::is_neg(torchs(tensor.get())), kTopk, "a negative's memory");
}

// Past the stable ABI, as an error that passes it has lost its type, and what goes here is mostly refused.
void torchs_own(const Tensor& self, const AtenArguments& arguments, AtenTensorHandle values,
                AtenTensorHandle indices, const Backend& backend) {
  if (!backend.torch_topk_out) throw;  // the refusal that led here
  backend.torch_topk_out(torchs(self.get()), arguments.k, arguments.dim, arguments.largest, arguments.sorted,
                         torchs(values), torchs(indices));
}

// Of no elements and so to be resized, and of whatever dtype torch has, be it none that a header here knows.
NewTensor empty_of(int32_t dtype, const Tensor& like) {
  const int64_t size = 0, stride = 1;
  int32_t device_type = 0, device_index = 0;
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device_type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(like.get(), &device_index));
  TORCH_ERROR_CODE_CHECK(
      aoti_torch_empty_strided(1, &size, &stride, dtype, device_type, device_index, &handle));
  return NewTensor(handle);
}

bool has_sizes(const Tensor& out, const std::vector<int64_t>& sizes) {
  const Sizes found = out.sizes();
  return std::equal(found.begin(), found.end(), sizes.begin(), sizes.end());
}

void resize(const Tensor& out, const std::vector<int64_t>& sizes) {
  if (has_sizes(out, sizes)) return;
  if (out.numel() > 0) {
    const std::string words = words_of(
        "An output with one or more elements was resized since it had shape ", sizes_text(out),
        ", which does not match the required output shape ", sizes_text(sizes),
        ". This behavior is deprecated, and in a future PyTorch release outputs will not be resized unless "
        "they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero "
        "elements with t.resize_(0).");
    aoti_torch_warn("topk", __FILE__, __LINE__, words.c_str());
  }
  std::array<StableIValue, 3> stack{torch::stable::detail::from(out), torch::stable::detail::from(sizes),
                                    torch::stable::detail::from(std::nullopt)};
  const AOTITorchError error = torch_call_dispatcher("aten::resize_", "", stack.data(), TORCH_ABI_VERSION);
  check(error == TORCH_SUCCESS, kTopk, "cannot resize an out: ", last_words());
  torch::stable::detail::to<Tensor>(stack[0]);  // takes the reference
}

// In place of claim_topk_outs: autograd has been here already, and outs that are refused, here without a
// word, are another's to judge.
void check_kinds(const Tensor& self, const Request& request, const Tensor& values, const Tensor& indices) {
  const auto device = self.device();
  check(scalar_type_of(values) == request.value_dtype && scalar_type_of(indices) == request.index_dtype &&
            values.device() == device && indices.device() == device,
        "");
}

void check_apart(const Tensor& self, const Tensor& values, const Tensor& indices) {
  // A lazy clone gets memory of its own before that is compared.
  values.mutable_data_ptr();
  indices.mutable_data_ptr();
  check(!overlaps_itself(values) && !overlaps_itself(indices) && !overlap(values, self) &&
            !overlap(indices, self) && !overlap(values, indices),
        "");
}

// Of another shape they are resized, with torch's warning.
void resize_outs(const Tensor& self, const Request& request, const std::vector<int64_t>& sizes,
                 const Tensor& values, const Tensor& indices) {
  check_kinds(self, request, values, indices);
  resize(values, sizes);
  resize(indices, sizes);
  check_apart(self, values, indices);
}

void check_outs(const Tensor& self, const Request& request, const std::vector<int64_t>& sizes,
                const Tensor& values, const Tensor& indices) {
  check_kinds(self, request, values, indices);
  check(has_sizes(values, sizes) && has_sizes(indices, sizes), "");
  check_not_negative(values);
  check_not_negative(indices);
  check_apart(self, values, indices);
}

}  // namespace

void check_torchs_dtype(const Request& request) {
  switch (request.problem.dtype) {
    case DType::kBool:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2: throw Refusal("");
    default: return;
  }
}

Result aten_topk(const Tensor& self, const AtenArguments& arguments, const Backend& backend) {
  try {
    return topk(self, ours(arguments), backend);
  } catch (const Refusal&) {
    int32_t dtype = 0;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(self.get(), &dtype));
    NewTensor values = empty_of(dtype, self), indices = empty_of(aoti_torch_dtype_int64(), self);
    torchs_own(self, arguments, values.get(), indices.get(), backend);
    return {std::move(values), std::move(indices)};
  }
}

void aten_topk_out(const Tensor& self, const AtenArguments& arguments, const Tensor& values,
                   const Tensor& indices, const Backend& backend) {
  try {
    topk_out(self, ours(arguments), values, indices, backend, resize_outs);
  } catch (const Refusal&) {
    torchs_own(self, arguments, values.get(), indices.get(), backend);
  }
}

void check_memory(const Request& request) {
  check_not_negative(request.input);
  check(request.empty() || request.input.const_data_ptr() != nullptr, kTopk, "the input has no memory");
}

void aten_topk_into(const Tensor& self, const AtenArguments& arguments, const Tensor& values,
                    const Tensor& indices, const Backend& backend) {
  topk_out(self, arguments_of(arguments), values, indices, backend, check_outs);
}

}  // namespace gputopk::binding
