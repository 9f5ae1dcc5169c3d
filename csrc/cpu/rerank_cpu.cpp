// Reranking's plan on the CPU: workers take queries, a few at a time, until none is left. rerank_queries.cpp
// does the work.
#include "cpu/rerank_cpu.h"

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "cpu/level.h"
#include "cpu/rerank_queries.h"
#include "cpu/workers.h"
#include "cpu/workspace.h"

namespace gputopk::cpu {
namespace {

// Finding, testing and keeping a candidate costs about as much as reading this many bytes.
constexpr int64_t kWorkPerCandidate = 128;

// Batches of queries that a worker takes: enough to even out threads that are held up.
constexpr int64_t kBatchesPerWorker = 16;

RerankKernel kernel_for(Level level, DType dtype, Metric metric) {
  switch (level) {
#ifdef __x86_64__
    case Level::kAvx512: return avx512::rerank_kernel(dtype, metric);
    case Level::kAvx2: return avx2::rerank_kernel(dtype, metric);
#endif
    default: return baseline::rerank_kernel(dtype, metric);
  }
}

struct Plan {
  int64_t workers;         // each with its own slot of scratch
  size_t candidate_bytes;  // at the start of a slot; the query is behind
  size_t slot_bytes;
};

Plan make_plan(const RerankProblem& problem, int threads) {
  Plan plan{};
  const double work = static_cast<double>(problem.queries) * static_cast<double>(problem.candidates) *
                      static_cast<double>(problem.dims * dtype_bytes(problem.dtype) + kWorkPerCandidate);
  plan.workers = std::min(workers_for(work, threads), problem.queries);
  plan.candidate_bytes = aligned(2 * rerank_capacity(problem.k) * sizeof(uint64_t));
  plan.slot_bytes = plan.candidate_bytes + aligned((problem.dims + kRerankSpareDims) * sizeof(float));
  return plan;
}

// One call, as its workers see it.
struct Call {
  const RerankProblem& problem;
  const RerankBuffers& buffers;
  const Plan& plan;
  RerankKernel kernel;
  std::atomic<int64_t> next_query;
};

void take_queries(Call& call, int64_t worker) {
  char* const slot = static_cast<char*>(call.buffers.workspace) + worker * call.plan.slot_bytes;
  const RerankScratch scratch{slot, reinterpret_cast<float*>(slot + call.plan.candidate_bytes)};
  const int64_t queries = call.problem.queries;
  const int64_t batch = std::max<int64_t>(1, queries / (call.plan.workers * kBatchesPerWorker));
  for (;;) {
    const int64_t begin = call.next_query.fetch_add(batch, std::memory_order_relaxed);
    if (begin >= queries) return;
    call.kernel(call.problem, call.buffers, begin, std::min(begin + batch, queries), scratch);
  }
}

}  // namespace

size_t rerank_workspace_bytes(const RerankProblem& problem, int threads) {
  const Plan plan = make_plan(problem, threads);
  return plan.workers * plan.slot_bytes;
}

void rerank(const RerankProblem& problem, const RerankBuffers& buffers, int threads,
            ParallelFor parallel_for) {
  const Plan plan = make_plan(problem, threads);
  Call call{problem, buffers, plan, kernel_for(detect_level(), problem.dtype, problem.metric), {}};
  run_tasks<take_queries>(call, plan.workers, parallel_for);
}

const char* describe_rerank(const RerankProblem& problem, int threads, char* text, size_t text_bytes) {
  std::snprintf(text, text_bytes, "cpu: queries over %lld workers, %s vectors",
                static_cast<long long>(make_plan(problem, threads).workers), level_name(detect_level()));
  return text;
}

}  // namespace gputopk::cpu
