#include "binding/rerank.h"

#include "binding/check.h"

namespace gputopk::binding {
namespace {

void check_form(const Tensor& tensor, const char* name, const Tensor& queries) {
  check(tensor.dim() == 2, kRerank, name, " must have 2 dimensions, but has ", tensor.dim());
  if (tensor.device() == queries.device()) return;
  check(false, kRerank, name, " must be on the device of queries, ", device_name(queries.device()),
        ", but is on ", device_name(tensor.device()));
}

// Makes the tensor rows of adjacent elements, by a copy where the layout has none, and says how far apart.
int64_t make_rows(Tensor& tensor) {
  const bool dense = tensor.size(1) <= 1 || tensor.stride(1) == 1;
  if (!dense && tensor.numel() > 0) tensor = dense_copy(tensor, kRerank);
  // Of one row or none the stride says nothing, and may be any number.
  return tensor.size(0) > 1 ? tensor.stride(0) : tensor.size(1);
}

// Throws before anything is launched or allocated.
RerankProblem check_request(const RerankArguments& arguments) {
  const auto& [queries, vectors, candidate_ids, k, metric] = arguments;
  check_form(queries, "queries", queries);
  check_form(vectors, "vectors", queries);
  check_form(candidate_ids, "candidate_ids", queries);
  const ScalarType type = queries.scalar_type();
  check(type == ScalarType::Float || type == ScalarType::Half || type == ScalarType::BFloat16, kRerank,
        "queries must be float32, float16 or bfloat16, not ", dtype_text(type));
  check(vectors.scalar_type() == type, kRerank, "vectors must have the dtype of queries, ", dtype_text(type),
        ", not ", dtype_text(vectors.scalar_type()));
  const ScalarType id_type = candidate_ids.scalar_type();
  check(id_type == ScalarType::Int || id_type == ScalarType::Long, kRerank,
        "candidate_ids must be int32 or int64, not ", dtype_text(id_type));
  check(vectors.size(1) == queries.size(1), kRerank, "queries have ", queries.size(1),
        " elements each, but vectors have ", vectors.size(1));
  check(candidate_ids.size(0) == queries.size(0), kRerank, "there are ", queries.size(0),
        " queries, but candidate_ids has ", candidate_ids.size(0), " rows");
  const int64_t candidates = candidate_ids.size(1);
  check(k >= 0 && k <= candidates, kRerank, "selected index k out of range: k is ", k,
        ", and each query has ", candidates, " candidates");
  check(candidates <= kMaxCandidates, kRerank, "each query has ", candidates, " candidates, at most ",
        kMaxCandidates);
  check(metric >= 0 && metric < kMetrics, kRerank, "metric must be in [0, ", kMetrics - 1, "], but is ",
        metric);

  RerankProblem problem;
  problem.dtype = *dtype_of(type);
  problem.metric = static_cast<Metric>(metric);
  problem.queries = queries.size(0);
  problem.vectors = vectors.size(0);
  problem.candidates = candidates;
  problem.dims = queries.size(1);
  problem.k = k;
  problem.wide_ids = id_type == ScalarType::Long;
  return problem;
}

}  // namespace

std::tuple<Tensor, Tensor> rerank(const RerankArguments& arguments, const RerankBackend& backend) {
  RerankProblem problem = check_request(arguments);
  const auto& [queries, vectors, candidate_ids, k, metric] = arguments;
  const Tensor distances = new_empty({problem.queries, k}, ScalarType::Float, queries, kRerank);
  const Tensor ids = new_empty({problem.queries, k}, candidate_ids.scalar_type(), queries, kRerank);
  if (problem.queries == 0 || k == 0) return {distances, ids};

  Tensor query_rows = queries, vector_rows = vectors, id_rows = candidate_ids;
  problem.query_stride = make_rows(query_rows);
  problem.vector_stride = make_rows(vector_rows);
  problem.id_stride = make_rows(id_rows);
  RerankBuffers buffers;
  buffers.queries = query_rows.const_data_ptr();
  buffers.vectors = vector_rows.const_data_ptr();
  buffers.candidate_ids = id_rows.const_data_ptr();
  buffers.distances = static_cast<float*>(distances.mutable_data_ptr());
  buffers.ids = ids.mutable_data_ptr();
  backend.run(problem, buffers, queries);
  return {distances, ids};
}

std::string rerank_plan(const RerankArguments& arguments, const RerankBackend& backend) {
  const RerankProblem problem = check_request(arguments);
  if (problem.queries == 0 || problem.k == 0) return "none: the outputs are empty";
  return backend.describe(problem, arguments.queries);
}

}  // namespace gputopk::binding
