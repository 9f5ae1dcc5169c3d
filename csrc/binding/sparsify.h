// From gputopk::sparsify_'s arguments to a checked request. The same for every device.
#pragma once

#include <optional>
#include <tuple>

#include "binding/tensors.h"
#include "core/sparsify_problem.h"

namespace gputopk::binding {

// What gputopk::sparsify_'s errors begin with.
inline constexpr const char* kSparsify = "gputopk::sparsify_: ";

// A device's part: updates self and momentum, and fills the outputs. Only for problems that are not empty.
using RunSparsify = void (*)(const SparsifyProblem& problem, SparsifyBuffers buffers, const Tensor& like);

// The arguments of gputopk::sparsify_, as its schema has them.
struct SparsifyArguments {
  const Tensor& self;
  int64_t k;
  const std::optional<Tensor>& add;
  double alpha;
  const std::optional<Tensor>& momentum;
  double mu;
  std::optional<ScalarType> index_dtype;
};

// Checks everything before it writes anything.
std::tuple<Tensor, Tensor> sparsify(const SparsifyArguments& arguments, RunSparsify run);

// gputopk::sparsify_ of one device, in the form that TORCH_BOX takes.
template <RunSparsify run>
std::tuple<Tensor, Tensor> boxed_sparsify(Tensor self, int64_t k, std::optional<Tensor> add, double alpha,
                                          std::optional<Tensor> momentum, double mu,
                                          std::optional<ScalarType> index_dtype) {
  return sparsify({self, k, add, alpha, momentum, mu, index_dtype}, run);
}

}  // namespace gputopk::binding
