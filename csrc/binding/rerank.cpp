#include "binding/rerank.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>

#include "binding/check.h"
#include "binding/outs.h"

namespace gputopk::binding {
namespace {

bool is_integer(ScalarType type) { return type == ScalarType::Int || type == ScalarType::Long; }

bool is_number(ScalarType type) {
  return type == ScalarType::Float || type == ScalarType::Half || type == ScalarType::BFloat16;
}

bool is_byte(ScalarType type) { return type == ScalarType::Char || type == ScalarType::Byte; }

void check_device(const Tensor& tensor, const char* name, const Tensor& queries) {
  if (tensor.device() == queries.device()) return;
  check(false, kRerank, name, " must be on the device of queries, ", device_name(queries.device()),
        ", but is on ", device_name(tensor.device()));
}

void check_form(const Tensor& tensor, const char* name, int64_t dims, const Tensor& queries) {
  check(tensor.dim() == dims, kRerank, name, " must have ", dims, dims == 1 ? " dimension" : " dimensions",
        ", but has ", tensor.dim());
  check_device(tensor, name, queries);
}

// Of an argument that is one number for each of `count` things.
void check_list(const Tensor& tensor, const char* name, int64_t count, const Tensor& queries) {
  check_form(tensor, name, 1, queries);
  check(tensor.size(0) == count, kRerank, name, " must have ", count, " elements, but has ", tensor.size(0));
}

void check_ranges(const Tensor& tensor, const char* name, int64_t count, const Tensor& queries) {
  check(is_integer(tensor.scalar_type()), kRerank, name, " must be int32 or int64, not ",
        dtype_text(tensor.scalar_type()));
  check_list(tensor, name, count, queries);
}

// Makes the tensor rows of adjacent elements, by a copy where the layout has none, and says how far apart.
int64_t make_rows(Tensor& tensor) {
  if (!is_dense_in_rows(tensor) && tensor.numel() > 0) tensor = dense_copy(tensor, kRerank);
  return row_stride(tensor);
}

// A list of adjacent elements, which `kept` holds where it takes a copy.
const void* make_list(const std::optional<Tensor>& tensor, std::optional<Tensor>& kept) {
  if (!tensor) return nullptr;
  kept = tensor;
  if (tensor->size(0) > 1 && tensor->stride(0) != 1) kept = dense_copy(*tensor, kRerank);
  return kept->const_data_ptr();
}

void check_vectors(const RerankArguments& arguments, RerankProblem& problem) {
  const auto& [queries, vectors, candidate_ids, k, metric, lengths, row_offsets, allow, scales, positions] =
      arguments;
  const ScalarType query_type = queries.scalar_type(), type = vectors.scalar_type();
  check(is_number(query_type), kRerank, "queries must be float32, float16 or bfloat16, not ",
        dtype_text(query_type));
  check(is_number(type) || is_byte(type), kRerank,
        "vectors must be float32, float16, bfloat16, int8 or uint8, not ", dtype_text(type));
  check(vectors.size(1) == queries.size(1), kRerank, "queries have ", queries.size(1),
        " elements each, but vectors have ", vectors.size(1));
  if (scales) {
    check(is_byte(type), kRerank, "scales are for int8 and uint8 vectors, not ", dtype_text(type));
    check(scales->scalar_type() == ScalarType::Float, kRerank, "scales must be float32, not ",
          dtype_text(scales->scalar_type()));
    check_list(*scales, "scales", vectors.size(0), queries);
  }
  if (allow) {
    const int64_t bits = allow->scalar_type() == ScalarType::Bool   ? 1
                         : allow->scalar_type() == ScalarType::Byte ? 8
                         : allow->scalar_type() == ScalarType::Int  ? 32
                                                                    : 0;
    check(bits > 0, kRerank, "allow must be bool, or bits in uint8 or int32, not ",
          dtype_text(allow->scalar_type()));
    check_list(*allow, "allow", (vectors.size(0) + bits - 1) / bits, queries);
    problem.allow_shift = bits == 1 ? 0 : 3;
  }
  problem.dtype = *dtype_of(type);
  problem.query_dtype = *dtype_of(query_type);
  problem.queries = queries.size(0);
  problem.vectors = vectors.size(0);
  problem.dims = queries.size(1);
}

void check_candidates(const RerankArguments& arguments, RerankProblem& problem) {
  const auto& [queries, vectors, candidate_ids, k, metric, lengths, row_offsets, allow, scales, positions] =
      arguments;
  const ScalarType type = candidate_ids.scalar_type();
  check(is_integer(type), kRerank, "candidate_ids must be int32 or int64, not ", dtype_text(type));
  const int64_t candidates = candidate_ids.size(candidate_ids.dim() - 1);
  check(candidates <= kMaxCandidates, kRerank, row_offsets ? "there are " : "each query has ", candidates,
        " candidates, at most ", kMaxCandidates);
  if (row_offsets) {
    check(candidate_ids.dim() == 1, kRerank,
          "candidate_ids must have 1 dimension where row_offsets are given");
    check(!lengths, kRerank, "lengths and row_offsets exclude each other");
    check_ranges(*row_offsets, "row_offsets", problem.queries + 1, queries);
    check(k >= 0 && k <= kMaxCandidates, kRerank, "selected index k out of range: k is ", k, ", at most ",
          kMaxCandidates);
    problem.listed = candidates;
  } else {
    check(candidate_ids.dim() == 1 || candidate_ids.size(0) == problem.queries, kRerank, "there are ",
          problem.queries, " queries, but candidate_ids has ", candidate_ids.size(0), " rows");
    check(k >= 0 && k <= candidates, kRerank, "selected index k out of range: k is ", k,
          ", and each query has ", candidates, " candidates");
    if (lengths) check_ranges(*lengths, "lengths", problem.queries, queries);
  }
  const std::optional<Tensor>& ranges = row_offsets ? row_offsets : lengths;
  problem.ragged = ranges.has_value();
  problem.wide_ranges = ranges && ranges->scalar_type() == ScalarType::Long;
  problem.wide_ids = type == ScalarType::Long;
  // A query may have all that are listed, or fewer than k.
  problem.candidates = std::max(candidates, k);
  problem.k = k;
}

// Throws before anything is launched or allocated.
RerankProblem check_request(const RerankArguments& arguments) {
  const auto& [queries, vectors, candidate_ids, k, metric, lengths, row_offsets, allow, scales, positions] =
      arguments;
  check_form(queries, "queries", 2, queries);
  check_form(vectors, "vectors", 2, queries);
  check(candidate_ids.dim() == 1 || candidate_ids.dim() == 2, kRerank,
        "candidate_ids must have 1 or 2 dimensions, but has ", candidate_ids.dim());
  check_device(candidate_ids, "candidate_ids", queries);
  RerankProblem problem;
  check_vectors(arguments, problem);
  check_candidates(arguments, problem);
  check(metric >= 0 && metric < kMetrics, kRerank, "metric must be in [0, ", kMetrics - 1, "], but is ",
        metric);
  problem.metric = static_cast<Metric>(metric);
  problem.positions = positions;
  return problem;
}

// Fills dense outputs.
void fill(const RerankArguments& arguments, RerankProblem problem, const Tensor& distances, const Tensor& ids,
          const RerankBackend& backend) {
  if (problem.queries == 0 || problem.k == 0) return;
  Tensor query_rows = arguments.queries, vector_rows = arguments.vectors, id_rows = arguments.candidate_ids;
  problem.query_stride = make_rows(query_rows);
  problem.vector_stride = make_rows(vector_rows);
  RerankBuffers buffers;
  std::optional<Tensor> kept[5];
  if (id_rows.dim() == 2) {
    problem.id_stride = make_rows(id_rows);
    buffers.candidate_ids = id_rows.const_data_ptr();
  } else {
    buffers.candidate_ids = make_list(id_rows, kept[0]);
  }
  buffers.queries = query_rows.const_data_ptr();
  buffers.vectors = vector_rows.const_data_ptr();
  buffers.lengths = make_list(arguments.lengths, kept[1]);
  buffers.row_offsets = make_list(arguments.row_offsets, kept[2]);
  buffers.allow = static_cast<const uint8_t*>(make_list(arguments.allow, kept[3]));
  buffers.scales = static_cast<const float*>(make_list(arguments.scales, kept[4]));
  buffers.distances = static_cast<float*>(distances.mutable_data_ptr());
  buffers.ids = ids.mutable_data_ptr();
  backend.run(problem, buffers, query_rows);
}

}  // namespace

std::tuple<Tensor, Tensor> rerank(const RerankArguments& arguments, const RerankBackend& backend) {
  const RerankProblem problem = check_request(arguments);
  const std::vector<int64_t> sizes{problem.queries, problem.k};
  const Tensor distances = new_empty(sizes, ScalarType::Float, arguments.queries, kRerank);
  const Tensor ids = new_empty(sizes, arguments.candidate_ids.scalar_type(), arguments.queries, kRerank);
  fill(arguments, problem, distances, ids, backend);
  return {distances, ids};
}

void rerank_out(const RerankArguments& arguments, const Tensor& distances, const Tensor& ids,
                const RerankBackend& backend) {
  const RerankProblem problem = check_request(arguments);
  const std::vector<int64_t> sizes{problem.queries, problem.k};
  const ScalarType id_type = arguments.candidate_ids.scalar_type();
  std::vector<const Tensor*> inputs{&arguments.queries, &arguments.vectors, &arguments.candidate_ids};
  for (const auto* given :
       {&arguments.lengths, &arguments.row_offsets, &arguments.allow, &arguments.scales}) {
    if (*given) inputs.push_back(&**given);
  }
  claim_outs(kRerank, inputs, sizes, {{distances, "distances", ScalarType::Float}, {ids, "ids", id_type}});
  if (distances.is_contiguous() && ids.is_contiguous()) {
    return fill(arguments, problem, distances, ids, backend);
  }
  const Tensor dense_distances = new_empty(sizes, ScalarType::Float, arguments.queries, kRerank);
  const Tensor dense_ids = new_empty(sizes, id_type, arguments.queries, kRerank);
  fill(arguments, problem, dense_distances, dense_ids, backend);
  copy(distances, dense_distances);
  copy(ids, dense_ids);
}

std::string rerank_plan(const RerankArguments& arguments, const RerankBackend& backend) {
  const RerankProblem problem = check_request(arguments);
  if (problem.queries == 0 || problem.k == 0) return "none: the outputs are empty";
  return backend.describe(problem, arguments.queries);
}

}  // namespace gputopk::binding
