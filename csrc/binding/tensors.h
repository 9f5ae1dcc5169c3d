// What the operators ask of torch about tensors and their memory.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/problem.h"

namespace gputopk::binding {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using Sizes = torch::headeronly::IntHeaderOnlyArrayRef;

std::optional<DType> dtype_of(ScalarType type);

// Tensor::scalar_type without its calls into torch, and Undefined for what no dtype of ours or of complex
// numbers is.
ScalarType scalar_type_of(const Tensor& tensor);

// "float32"; of a dtype that is none of ours torch's own name, "ComplexFloat".
std::string dtype_text(ScalarType type);

// "cuda:0", as torch prints it.
std::string device_name(const torch::stable::Device& device);

std::vector<int64_t> to_vector(Sizes array);

// "[3, 2]".
std::string sizes_text(const std::vector<int64_t>& sizes);
std::string sizes_text(const Tensor& tensor);

// Whether the elements of the last dimension lie side by side.
bool is_dense_in_rows(const Tensor& tensor);

// How far apart rows lie, of 1 or 2 dimensions. Of one row or none the stride says nothing, and may be any
// number.
int64_t row_stride(const Tensor& tensor);

// A forked child has none of the threads of its parent's pool, though the pool believes so, and would wait
// for them for ever. So it has one thread for good: whether the parent ever started the pool is not known.
bool in_forked_child();

// torch's words for what failed last in a shim; empty where it is too old to say.
std::string last_words();

// A tensor that this call has made and will hand to its caller. A Tensor shares its handle, with a count of
// its own on the heap, and so could only hand over another.
struct DeleteHandle {
  void operator()(AtenTensorHandle handle) const { aoti_torch_delete_tensor_object(handle); }
};
using NewTensor = std::unique_ptr<AtenTensorOpaque, DeleteHandle>;

// Dense. `op` opens the error where memory runs out.
NewTensor new_tensor(const std::vector<int64_t>& sizes, ScalarType dtype, const Tensor& like, const char* op);
Tensor new_empty(const std::vector<int64_t>& sizes, ScalarType dtype, const Tensor& like, const char* op);

// torch::stable::copy_, but in a forked child in parts that do not ask for its threads.
void copy(Tensor to, Tensor from);

// Like torch::stable::contiguous, but with new_empty's error where memory runs out.
Tensor dense_copy(const Tensor& tensor, const char* op);

}  // namespace gputopk::binding
