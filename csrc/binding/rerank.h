// From gputopk::rerank's arguments to a checked request. The same for every device.
#pragma once

#include <optional>
#include <string>
#include <tuple>

#include "binding/tensors.h"
#include "core/rerank_problem.h"

namespace gputopk::binding {

// What gputopk::rerank's errors begin with.
inline constexpr const char* kRerank = "gputopk::rerank: ";

// A device's part. Both only for requests that are not empty.
struct RerankBackend {
  // Fills dense outputs of problem.queries x problem.k. `queries`: what buffers.queries points into.
  void (*run)(RerankProblem problem, RerankBuffers buffers, const Tensor& queries);
  // The plan as text. `like` is a tensor of the device.
  std::string (*describe)(const RerankProblem& problem, const Tensor& like);
};

// The arguments of gputopk::rerank, as its schema has them.
struct RerankArguments {
  const Tensor& queries;
  const Tensor& vectors;
  const Tensor& candidate_ids;
  int64_t k;
  int64_t metric;
  const std::optional<Tensor>& lengths;
  const std::optional<Tensor>& row_offsets;
  const std::optional<Tensor>& allow;
  const std::optional<Tensor>& scales;
  bool positions;
};

// All check everything first.
std::tuple<Tensor, Tensor> rerank(const RerankArguments& arguments, const RerankBackend& backend);
void rerank_out(const RerankArguments& arguments, const Tensor& distances, const Tensor& ids,
                const RerankBackend& backend);
std::string rerank_plan(const RerankArguments& arguments, const RerankBackend& backend);

// gputopk::rerank, .out and gputopk::_rerank_plan of one device, in the form that TORCH_BOX takes.
template <const RerankBackend& backend>
std::tuple<Tensor, Tensor> boxed_rerank(Tensor queries, Tensor vectors, Tensor candidate_ids, int64_t k,
                                        int64_t metric, std::optional<Tensor> lengths,
                                        std::optional<Tensor> row_offsets, std::optional<Tensor> allow,
                                        std::optional<Tensor> scales, bool positions) {
  return rerank({queries, vectors, candidate_ids, k, metric, lengths, row_offsets, allow, scales, positions},
                backend);
}
template <const RerankBackend& backend>
void boxed_rerank_out(Tensor queries, Tensor vectors, Tensor candidate_ids, int64_t k, int64_t metric,
                      std::optional<Tensor> lengths, std::optional<Tensor> row_offsets,
                      std::optional<Tensor> allow, std::optional<Tensor> scales, bool positions,
                      Tensor distances, Tensor ids) {
  rerank_out({queries, vectors, candidate_ids, k, metric, lengths, row_offsets, allow, scales, positions},
             distances, ids, backend);
}
template <const RerankBackend& backend>
std::string boxed_rerank_plan(Tensor queries, Tensor vectors, Tensor candidate_ids, int64_t k, int64_t metric,
                              std::optional<Tensor> lengths, std::optional<Tensor> row_offsets,
                              std::optional<Tensor> allow, std::optional<Tensor> scales, bool positions) {
  return rerank_plan(
      {queries, vectors, candidate_ids, k, metric, lengths, row_offsets, allow, scales, positions}, backend);
}

}  // namespace gputopk::binding
