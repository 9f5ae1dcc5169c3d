// Sparsification on the CPU behind a C interface, for test_sparsify_levels.py.
#include <cstdint>

#include "core/sparsify_problem.h"
#include "cpu/level.h"
#include "cpu/sparsify_cpu.h"

namespace {

// One task after the other, last one first: workers may come in any order.
void backwards(int64_t begin, int64_t end, int64_t, void (*body)(int64_t, int64_t, void*), void* context) {
  for (int64_t i = end; i-- > begin;) body(i, i + 1, context);
}

gputopk::DType dtype_named(const char* name) {
  for (int dtype = 0;; ++dtype) {
    const char* a = gputopk::dtype_name(static_cast<gputopk::DType>(dtype));
    const char* b = name;
    while (*a != 0 && *a == *b) ++a, ++b;
    if (*a == *b) return static_cast<gputopk::DType>(dtype);
  }
}

gputopk::SparsifyProblem make_problem(const char* dtype, const char* add_dtype, const int64_t* numbers,
                                      const double* factors) {
  gputopk::SparsifyProblem problem;
  problem.dtype = dtype_named(dtype);
  problem.add_dtype = dtype_named(add_dtype);
  problem.update = static_cast<gputopk::Update>(numbers[0]);
  problem.rows = numbers[1];
  problem.cols = problem.self_stride = problem.add_stride = problem.momentum_stride = numbers[2];
  problem.k = numbers[3];
  problem.wide_indices = numbers[4] != 0;
  problem.alpha = factors[0];
  problem.mu = factors[1];
  return problem;
}

}  // namespace

// `numbers`: update, rows, cols, k, wide indices; `factors`: alpha, mu. All rows dense.
extern "C" int64_t probe_workspace_bytes(const char* dtype, const char* add_dtype, const int64_t* numbers,
                                         const double* factors, int threads) {
  const auto problem = make_problem(dtype, add_dtype, numbers, factors);
  return static_cast<int64_t>(gputopk::cpu::sparsify_workspace_bytes(problem, threads));
}

extern "C" void probe_sparsify(const char* dtype, const char* add_dtype, const int64_t* numbers,
                               const double* factors, int threads, void* self, const void* add,
                               void* momentum, void* values, void* indices, void* workspace) {
  gputopk::SparsifyBuffers buffers;
  buffers.self = self;
  buffers.add = add;
  buffers.momentum = momentum;
  buffers.values = values;
  buffers.indices = indices;
  buffers.workspace = workspace;
  gputopk::cpu::sparsify(make_problem(dtype, add_dtype, numbers, factors), buffers, threads, backwards);
}

extern "C" const char* probe_level() { return gputopk::cpu::level_name(gputopk::cpu::detect_level()); }
