// gputopk::topk, gputopk::topk.out and gputopk::_plan but for what a device does.
#pragma once

#include <optional>
#include <string>
#include <tuple>

#include "binding/canonical.h"
#include "binding/outs.h"

namespace at {
class Tensor;
}

namespace gputopk::binding {

// at::cpu::topk_outf, at::cuda::topk_outf.
using TorchTopkOut = std::tuple<at::Tensor&, at::Tensor&>(const at::Tensor& self, int64_t k, int64_t dim,
                                                          bool largest, bool sorted, at::Tensor& values,
                                                          at::Tensor& indices);

// A device's part.
struct Backend {
  // Throws where the request's algorithm cannot serve it, be the outputs empty or not.
  void (*check)(const Request& request);
  // Fills dense outputs of request.sizes from rows wherever they lie; sees to workspace. Only for requests
  // that are not empty.
  void (*run)(const Request& request, Buffers buffers);
  // The plan as text. Only for requests that are not empty.
  std::string (*describe)(const Request& request);
  // torch's own kernel: what behind_aten.h does not serve. Null where this torch has none by that name.
  TorchTopkOut* torch_topk_out = nullptr;
};

struct Result {
  NewTensor values, indices;
};

Result topk(const Tensor& self, const Arguments& arguments, const Backend& backend);
// `claim`, as claim_topk_outs, refuses outs that cannot take the result, and readies the others.
using ClaimOuts = decltype(claim_topk_outs);
void topk_out(const Tensor& self, const Arguments& arguments, const Tensor& values, const Tensor& indices,
              const Backend& backend, ClaimOuts* claim = claim_topk_outs);
std::string plan(const Tensor& self, const Arguments& arguments, const Backend& backend);

// What the dispatcher passes, and takes: TORCH_BOX does the same, with another handle and another count for
// each result, in which a short call would spend a twentieth of its time.
template <class T>
T argument(StableIValue* stack, int place) {
  return torch::stable::detail::to<T>(stack[place]);
}
inline void give(StableIValue* stack, Result result) {
  stack[0] = torch::stable::detail::from(result.values.release());
  stack[1] = torch::stable::detail::from(result.indices.release());
}

// gputopk::topk of one device, as the dispatcher calls it.
template <const Backend& backend>
void boxed_topk(StableIValue* stack, uint64_t, uint64_t) {
  const Tensor self = argument<Tensor>(stack, 0);
  const Arguments arguments{argument<int64_t>(stack, 1), argument<int64_t>(stack, 2),
                            argument<bool>(stack, 3),    argument<bool>(stack, 4),
                            argument<bool>(stack, 5),    argument<std::optional<ScalarType>>(stack, 6),
                            argument<int64_t>(stack, 7)};
  give(stack, topk(self, arguments, backend));
}

// gputopk::_topk_by_index and gputopk::_topk_kth of one device: without `sorted`, in whose place `order` is.
template <const Backend& backend, bool Arguments::* order>
void boxed_topk_in_order(StableIValue* stack, uint64_t, uint64_t) {
  const Tensor self = argument<Tensor>(stack, 0);
  Arguments arguments{argument<int64_t>(stack, 1),
                      argument<int64_t>(stack, 2),
                      argument<bool>(stack, 3),
                      /*sorted=*/false,
                      argument<bool>(stack, 4),
                      argument<std::optional<ScalarType>>(stack, 5),
                      argument<int64_t>(stack, 6)};
  arguments.*order = true;
  give(stack, topk(self, arguments, backend));
}

// gputopk::topk.out and gputopk::_plan of one device, in the form that TORCH_BOX takes.
template <const Backend& backend>
void boxed_topk_out(const Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted, bool magnitude,
                    std::optional<ScalarType> index_dtype, int64_t algorithm, const Tensor& values,
                    const Tensor& indices) {
  topk_out(self, {k, dim, largest, sorted, magnitude, index_dtype, algorithm}, values, indices, backend);
}
template <const Backend& backend>
std::string boxed_plan(const Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted, bool magnitude,
                       std::optional<ScalarType> index_dtype, int64_t algorithm, bool last_alone) {
  return plan(self,
              {k, dim, largest, sorted && !last_alone, magnitude, index_dtype, algorithm,
               /*by_index=*/false, last_alone},
              backend);
}

}  // namespace gputopk::binding
