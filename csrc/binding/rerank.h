// From gputopk::rerank's arguments to a checked request. The same for every device.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <tuple>

#include "binding/canonical.h"
#include "core/rerank_problem.h"

namespace gputopk::binding {

// What gputopk::rerank's errors begin with.
inline constexpr const char* kRerank = "gputopk::rerank: ";

// Fills dense outputs of problem.queries x problem.k. Only for requests that are not empty.
using RunRerank = void (*)(const RerankProblem& problem, const RerankBuffers& buffers, const Tensor& like);

// Checks everything, then allocates and runs.
std::tuple<Tensor, Tensor> rerank(const Tensor& queries, const Tensor& vectors, const Tensor& candidate_ids,
                                  int64_t k, int64_t metric, RunRerank run);

// gputopk::rerank of one device, in the form that TORCH_BOX takes.
template <RunRerank run>
std::tuple<Tensor, Tensor> boxed_rerank(Tensor queries, Tensor vectors, Tensor candidate_ids, int64_t k,
                                        int64_t metric) {
  return rerank(queries, vectors, candidate_ids, k, metric, run);
}

}  // namespace gputopk::binding
