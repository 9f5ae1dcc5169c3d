// Reranking on the CPU behind a C interface, for test_rerank_levels.py.
#include <cstdint>

#include "core/rerank_problem.h"
#include "cpu/rerank_cpu.h"

namespace {

// One task after the other, last one first: workers may come in any order.
void backwards(int64_t begin, int64_t end, int64_t, void (*body)(int64_t, int64_t, void*), void* context) {
  for (int64_t i = end; i-- > begin;) body(i, i + 1, context);
}

gputopk::RerankProblem make_problem(const int64_t* numbers) {
  gputopk::RerankProblem problem;
  problem.dtype = static_cast<gputopk::DType>(numbers[0]);
  problem.metric = static_cast<gputopk::Metric>(numbers[1]);
  problem.queries = numbers[2];
  problem.vectors = numbers[3];
  problem.candidates = numbers[4];
  problem.dims = numbers[5];
  problem.k = numbers[6];
  problem.wide_ids = numbers[7] != 0;
  problem.query_stride = problem.vector_stride = problem.dims;
  problem.id_stride = problem.candidates;
  return problem;
}

}  // namespace

// `numbers`: dtype, metric, queries, vectors, candidates, dims, k, wide ids; all rows dense.
extern "C" int64_t probe_workspace_bytes(const int64_t* numbers, int threads) {
  return static_cast<int64_t>(gputopk::cpu::rerank_workspace_bytes(make_problem(numbers), threads));
}

extern "C" void probe_rerank(const int64_t* numbers, int threads, const void* queries, const void* vectors,
                             const void* candidate_ids, void* distances, void* ids, void* workspace) {
  gputopk::RerankBuffers buffers;
  buffers.queries = queries;
  buffers.vectors = vectors;
  buffers.candidate_ids = candidate_ids;
  buffers.distances = static_cast<float*>(distances);
  buffers.ids = ids;
  buffers.workspace = workspace;
  gputopk::cpu::rerank(make_problem(numbers), buffers, threads, backwards);
}

extern "C" const char* probe_describe() {
  static char text[256];
  gputopk::RerankProblem problem;
  problem.queries = problem.vectors = problem.candidates = problem.dims = problem.k = 1;
  return gputopk::cpu::describe_rerank(problem, 1, text, sizeof(text));
}

extern "C" int probe_dtype(const char* name) {
  for (int dtype = 0; dtype <= static_cast<int>(gputopk::DType::kFloat64); ++dtype) {
    const char* a = gputopk::dtype_name(static_cast<gputopk::DType>(dtype));
    const char* b = name;
    while (*a != 0 && *a == *b) ++a, ++b;
    if (*a == *b) return dtype;
  }
  return -1;
}
