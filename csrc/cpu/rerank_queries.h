// What reranking on the CPU offers for each level of vector instructions. rerank_queries.cpp is compiled once
// a level, as select_rows.cpp is; rerank_cpu.cpp picks one at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rerank_problem.h"

namespace gputopk::cpu {

// Where a worker keeps what it has found. rerank_cpu.cpp sizes it by the constants below.
struct RerankScratch {
  char* candidates;  // twice rerank_capacity, 8 bytes each: what is not in use is a sort's second buffer
  float* query;      // dims, and kRerankSpareDims
};

// Distances computed at once, and tested against the worst that can still win.
constexpr int64_t kRerankStrip = 64;

// Candidates held before the losers among them are dropped.
GPUTOPK_HOST_DEVICE constexpr int64_t rerank_limit(int64_t k) { return 2 * k + kRerankStrip; }

// A strip may arrive when one candidate is missing, and appending it writes a vector too far.
GPUTOPK_HOST_DEVICE constexpr int64_t rerank_capacity(int64_t k) {
  return rerank_limit(k) + kRerankStrip + 8;
}

constexpr int64_t kRerankSpareDims = 16;  // to the end of a vector

// Fills the outputs of the queries [begin, end).
using RerankKernel = void (*)(const RerankProblem& problem, const RerankBuffers& buffers, int64_t begin,
                              int64_t end, const RerankScratch& scratch);

// One for each level that was compiled.
namespace baseline {
RerankKernel rerank_kernel(DType dtype, Metric metric);
}
namespace avx2 {
RerankKernel rerank_kernel(DType dtype, Metric metric);
}
namespace avx512 {
RerankKernel rerank_kernel(DType dtype, Metric metric);
}

}  // namespace gputopk::cpu
