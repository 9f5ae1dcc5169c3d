#include "binding/outs.h"

#include <array>

#include "binding/check.h"
#include "binding/overlap.h"

namespace gputopk::binding {
namespace {

// The dtype as torch's own messages about out= name it.
std::string legacy_name(ScalarType type) {
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
    default: return dtype_text(type);
  }
}

void check_out_kind(const char* op, const Out& out, const Tensor& self) {
  const ScalarType found = out.tensor.scalar_type();
  check(found == out.dtype, op, "Expected out tensor to have dtype ", legacy_name(out.dtype), ", but got ",
        legacy_name(found), " instead (", out.name, ")");
  if (out.tensor.device() == self.device()) return;
  check(false, op, "Expected out tensor to have device ", device_name(self.device()), ", but got ",
        device_name(out.tensor.device()), " instead (", out.name, ")");
}

void check_out_shape(const char* op, const Out& out, const std::vector<int64_t>& sizes) {
  const std::vector<int64_t> found = to_vector(out.tensor.sizes());
  if (found == sizes) return;
  check(false, op, out.name, " has shape ", sizes_text(found), ", but the result has ", sizes_text(sizes));
}

void check_apart(const char* op, const Out& out, const Tensor& other, const char* other_name) {
  check(!overlap(out.tensor, other), op,
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
        "single memory "
        "location. Please clone() the tensor before performing the operation. (",
        out.name, " and ", other_name, ")");
}

void check_out_memory(const char* op, const Out& out, const std::vector<const Tensor*>& inputs) {
  check(!overlaps_itself(out.tensor), op,
        "unsupported operation: more than one element of the written-to tensor refers to a single memory "
        "location. "
        "Please clone() the tensor before performing the operation. (",
        out.name, ")");
  for (const Tensor* input : inputs) check_apart(op, out, *input, "the input");
}

// Whether autograd would have a gradient flow into what is written: a leaf that requires grad is left to
// mark_written.
bool has_history(const Tensor& tensor) {
  std::array<StableIValue, 1> stack{torch::stable::detail::from(tensor)};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::is_leaf", "", stack.data(), TORCH_ABI_VERSION));
  return !torch::stable::detail::to<bool>(stack[0]);
}

// An in-place call that moves nothing. It raises the version, by which autograd knows that what it kept is
// gone, and refuses leaves that require grad and inference tensors as torch does.
void mark_written(const Tensor& out, const char* op, const char* name) {
  std::array<StableIValue, 3> stack{torch::stable::detail::from(out), torch::stable::detail::from(int64_t{0}),
                                    torch::stable::detail::from(int64_t{0})};
  const AOTITorchError error = torch_call_dispatcher("aten::transpose_", "", stack.data(), TORCH_ABI_VERSION);
  check(error == TORCH_SUCCESS, op, "cannot be written to: ", last_words(), " (", name, ")");
  torch::stable::detail::to<Tensor>(stack[0]);  // takes the reference
}

}  // namespace

void claim_outs(const char* op, const std::vector<const Tensor*>& inputs, const std::vector<int64_t>& sizes,
                const std::vector<Out>& outs) {
  for (const Out& out : outs) check_out_kind(op, out, *inputs.front());
  for (const Out& out : outs) check_out_shape(op, out, sizes);
  // A lazy clone gets memory of its own before that is compared.
  for (const Out& out : outs) out.tensor.mutable_data_ptr();
  for (const Out& out : outs) check_out_memory(op, out, inputs);
  for (size_t i = 1; i < outs.size(); ++i) {
    for (size_t j = 0; j < i; ++j) check_apart(op, outs[j], outs[i].tensor, outs[i].name);
  }
  if (aoti_torch_grad_mode_is_enabled()) {
    for (const Out& out : outs) {
      check(!has_history(out.tensor), op,
            "functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad.");
    }
  }
  for (const Out& out : outs) mark_written(out.tensor, op, out.name);
}

void claim_in_place(const Tensor& tensor, const char* op, const char* name) {
  if (aoti_torch_grad_mode_is_enabled()) {
    check(!has_history(tensor), op, name, " is changed in place, without gradients, but has some to pass on");
  }
  mark_written(tensor, op, name);
}

void claim_topk_outs(const Tensor& self, const Request& request, const std::vector<int64_t>& sizes,
                     const Tensor& values, const Tensor& indices) {
  claim_outs(kTopk, {&self}, sizes,
             {{values, "values", request.value_dtype}, {indices, "indices", request.index_dtype}});
}

}  // namespace gputopk::binding
