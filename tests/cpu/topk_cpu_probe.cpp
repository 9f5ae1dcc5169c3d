// csrc/cpu behind a C interface, for test_levels.py.
#include <cstdint>

#include "core/problem.h"
#include "cpu/topk_cpu.h"

namespace {

// One task after the other, last one first: workers may come in any order.
void backwards(int64_t begin, int64_t end, int64_t, void (*body)(int64_t, int64_t, void*), void* context) {
  for (int64_t i = end; i-- > begin;) body(i, i + 1, context);
}

gputopk::Problem make_problem(const int64_t* numbers) {
  gputopk::Problem problem;
  problem.dtype = static_cast<gputopk::DType>(numbers[0]);
  problem.rows = numbers[1];
  problem.cols = numbers[2];
  problem.k = numbers[3];
  problem.largest = numbers[4] != 0;
  problem.sorted = numbers[5] != 0;
  problem.magnitude = numbers[6] != 0;
  problem.wide_indices = numbers[7] != 0;
  return problem;
}

gputopk::cpu::Layout make_layout(const int64_t* numbers) {
  const int64_t dim = numbers[8], dims = numbers[9];
  return gputopk::cpu::layout_of(numbers + 10, numbers + 10 + dims, dims, dim);
}

}  // namespace

// `numbers`: dtype, rows, cols, k, largest, sorted, magnitude, wide indices; the selected
// dimension, how many there are, sizes and strides.
extern "C" int64_t probe_workspace_bytes(const int64_t* numbers, int threads) {
  return static_cast<int64_t>(
      gputopk::cpu::workspace_bytes(make_problem(numbers), make_layout(numbers), threads));
}

extern "C" void probe_topk(const int64_t* numbers, int threads, const void* input, void* values,
                           void* indices, void* workspace) {
  gputopk::Buffers buffers;
  buffers.input = input;
  buffers.values = values;
  buffers.indices = indices;
  buffers.workspace = workspace;
  gputopk::cpu::topk(make_problem(numbers), make_layout(numbers), buffers, threads, backwards);
}

extern "C" void probe_describe(char* text, int64_t text_bytes) {
  const gputopk::Problem problem{gputopk::DType::kFloat32, 1, 1, 1, 1};
  gputopk::cpu::describe(problem, gputopk::cpu::Layout{}, 1, text, static_cast<size_t>(text_bytes));
}

extern "C" const char* probe_dtype_name(int dtype) {
  return gputopk::dtype_name(static_cast<gputopk::DType>(dtype));
}
