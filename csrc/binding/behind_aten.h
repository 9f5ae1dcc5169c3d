// Our kernels behind aten::topk and aten::topk.values.
//
// On request, of one device's dispatch key, so that torch.topk and at::topk are ours wherever they are
// called: what they do not serve goes to torch's own kernel.
//
// Always, of a key that no device goes by: torch_topk.topk names it (ops.py), and so has torch's own
// autograd, version counters and arguments, in C++, in front of our kernels. What they do not serve is
// refused.
#pragma once

#include <torch/csrc/stable/library.h>

#include <mutex>
#include <optional>
#include <tuple>

#include "binding/topk_op.h"

namespace gputopk::binding {

// The arguments of aten::topk behind `self`.
struct AtenArguments {
  int64_t k, dim;
  bool largest, sorted;
};

// A Backend's check: refuses the dtypes that torch.topk does not serve.
void check_torchs_dtype(const Request& request);

Result aten_topk(const Tensor& self, const AtenArguments& arguments, const Backend& backend);
void aten_topk_out(const Tensor& self, const AtenArguments& arguments, const Tensor& values,
                   const Tensor& indices, const Backend& backend);

// Refuses outs of another shape too, and otherwise does as aten_topk_out.
void aten_topk_into(const Tensor& self, const AtenArguments& arguments, const Tensor& values,
                    const Tensor& indices, const Backend& backend);

// A Backend's check where autograd alone stands before the kernel: torch keeps some tensors without memory,
// as zeros that nobody has written, and some with a bit that says they are the negative of their memory.
void check_memory(const Request& request);

inline AtenArguments aten_arguments(StableIValue* stack) {
  return {argument<int64_t>(stack, 1), argument<int64_t>(stack, 2), argument<bool>(stack, 3),
          argument<bool>(stack, 4)};
}
inline Arguments arguments_of(const AtenArguments& theirs) {
  return {theirs.k,       theirs.dim, theirs.largest, theirs.sorted, /*magnitude=*/false, std::nullopt,
          /*algorithm=*/0};
}

template <const Backend& backend>
void boxed_aten_topk(StableIValue* stack, uint64_t, uint64_t) {
  const Tensor self = argument<Tensor>(stack, 0);
  give(stack, aten_topk(self, aten_arguments(stack), backend));
}
template <const Backend& backend>
std::tuple<Tensor, Tensor> boxed_aten_topk_out(const Tensor& self, int64_t k, int64_t dim, bool largest,
                                               bool sorted, const Tensor& values, const Tensor& indices) {
  aten_topk_out(self, {k, dim, largest, sorted}, values, indices, backend);
  return {values, indices};
}

template <const Backend& backend>
void boxed_own_topk(StableIValue* stack, uint64_t, uint64_t) {
  const Tensor self = argument<Tensor>(stack, 0);
  give(stack, topk(self, arguments_of(aten_arguments(stack)), backend));
}
template <const Backend& backend>
std::tuple<Tensor, Tensor> boxed_own_topk_out(const Tensor& self, int64_t k, int64_t dim, bool largest,
                                              bool sorted, const Tensor& values, const Tensor& indices) {
  aten_topk_into(self, {k, dim, largest, sorted}, values, indices, backend);
  return {values, indices};
}

// Puts ours behind aten::topk, or takes them away again. Returns whether they were there.
template <const Backend& backend>
bool install(bool on, const char* dispatch_key) {
  using torch::stable::detail::StableLibrary;
  static std::mutex mutex;
  static std::optional<StableLibrary> registered;
  const std::lock_guard<std::mutex> lock(mutex);
  const bool was_on = registered.has_value();
  if (!on) {
    registered.reset();
  } else if (!was_on) {
    registered.emplace(StableLibrary::Kind::IMPL, "aten", dispatch_key, __FILE__, __LINE__);
    registered->impl("topk", boxed_aten_topk<backend>);
    registered->impl("topk.values", TORCH_BOX(&boxed_aten_topk_out<backend>));
  }
  return was_on;
}

}  // namespace gputopk::binding
