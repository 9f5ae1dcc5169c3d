// From gputopk::rerank's arguments to a checked request. The same for every device.
#pragma once

#include <string>
#include <tuple>

#include "binding/tensors.h"
#include "core/rerank_problem.h"

namespace gputopk::binding {

// What gputopk::rerank's errors begin with.
inline constexpr const char* kRerank = "gputopk::rerank: ";

// A device's part. `like` is a tensor of that device. Both only for requests that are not empty.
struct RerankBackend {
  // Fills dense outputs of problem.queries x problem.k.
  void (*run)(const RerankProblem& problem, const RerankBuffers& buffers, const Tensor& like);
  // The plan as text.
  std::string (*describe)(const RerankProblem& problem, const Tensor& like);
};

// The arguments of gputopk::rerank, as its schema has them.
struct RerankArguments {
  const Tensor& queries;
  const Tensor& vectors;
  const Tensor& candidate_ids;
  int64_t k;
  int64_t metric;
};

// Both check everything first.
std::tuple<Tensor, Tensor> rerank(const RerankArguments& arguments, const RerankBackend& backend);
std::string rerank_plan(const RerankArguments& arguments, const RerankBackend& backend);

// gputopk::rerank and gputopk::_rerank_plan of one device, in the form that TORCH_BOX takes.
template <const RerankBackend& backend>
std::tuple<Tensor, Tensor> boxed_rerank(Tensor queries, Tensor vectors, Tensor candidate_ids, int64_t k,
                                        int64_t metric) {
  return rerank({queries, vectors, candidate_ids, k, metric}, backend);
}
template <const RerankBackend& backend>
std::string boxed_rerank_plan(Tensor queries, Tensor vectors, Tensor candidate_ids, int64_t k,
                              int64_t metric) {
  return rerank_plan({queries, vectors, candidate_ids, k, metric}, backend);
}

}  // namespace gputopk::binding
