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

std::string text(const std::vector<int64_t>& sizes) {
  std::string list;
  for (const int64_t size : sizes) list += (list.empty() ? "" : ", ") + std::to_string(size);
  return "[" + list + "]";
}

void check_out_kind(const Tensor& out, ScalarType dtype, const Tensor& self, const char* name) {
  check(out.scalar_type() == dtype, kTopk, "Expected out tensor to have dtype ", legacy_name(dtype),
        ", but got ", legacy_name(out.scalar_type()), " instead (", name, ")");
  if (out.device() == self.device()) return;
  check(false, kTopk, "Expected out tensor to have device ", device_name(self.device()), ", but got ",
        device_name(out.device()), " instead (", name, ")");
}

void check_out_shape(const Tensor& out, const std::vector<int64_t>& sizes, const char* name) {
  const std::vector<int64_t> found = to_vector(out.sizes());
  if (found == sizes) return;
  check(false, kTopk, name, " has shape ", text(found), ", but the result has ", text(sizes));
}

void check_out_memory(const Tensor& out, const Tensor& other, const char* names) {
  check(!overlaps_itself(out), kTopk,
        "unsupported operation: more than one element of the written-to tensor refers to a single memory "
        "location. "
        "Please clone() the tensor before performing the operation. (",
        names, ")");
  check(!overlap(out, other), kTopk,
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
        "single memory "
        "location. Please clone() the tensor before performing the operation. (",
        names, ")");
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

void claim_in_place(const Tensor& tensor, const char* op, const char* name) {
  if (aoti_torch_grad_mode_is_enabled()) {
    check(!has_history(tensor), op, name, " is changed in place, without gradients, but has some to pass on");
  }
  mark_written(tensor, op, name);
}

void claim_outs(const Tensor& self, const Request& request, const std::vector<int64_t>& sizes,
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
  if (aoti_torch_grad_mode_is_enabled()) {
    check(
        !has_history(values) && !has_history(indices), kTopk,
        "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
        "requires grad.");
  }
  mark_written(values, kTopk, "values");
  mark_written(indices, kTopk, "indices");
}

}  // namespace gputopk::binding
