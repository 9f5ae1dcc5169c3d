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
  problem.query_dtype = static_cast<gputopk::DType>(numbers[1]);
  problem.metric = static_cast<gputopk::Metric>(numbers[2]);
  problem.queries = numbers[3];
  problem.vectors = numbers[4];
  problem.candidates = numbers[5];
  problem.listed = numbers[6];
  problem.dims = numbers[7];
  problem.k = numbers[8];
  problem.id_stride = numbers[9];
  problem.wide_ids = numbers[10] != 0;
  problem.wide_ranges = numbers[11] != 0;
  problem.allow_shift = static_cast<int>(numbers[12]);
  problem.query_stride = problem.vector_stride = problem.dims;
  return problem;
}

}  // namespace

// `numbers`: as make_problem reads them; rows of queries and vectors are dense.
extern "C" int64_t probe_workspace_bytes(const int64_t* numbers, int threads) {
  return static_cast<int64_t>(gputopk::cpu::rerank_workspace_bytes(make_problem(numbers), threads));
}

// `inputs`: queries, vectors, ids, lengths, row offsets, allow, scales; null where there are none.
extern "C" void probe_rerank(const int64_t* numbers, int threads, const void* const* inputs, void* distances,
                             void* ids, void* workspace) {
  gputopk::RerankBuffers buffers;
  buffers.queries = inputs[0];
  buffers.vectors = inputs[1];
  buffers.candidate_ids = inputs[2];
  buffers.lengths = inputs[3];
  buffers.row_offsets = inputs[4];
  buffers.allow = static_cast<const uint8_t*>(inputs[5]);
  buffers.scales = static_cast<const float*>(inputs[6]);
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
