// gputopk::topk on the CPU.

#include "cpu/topk_cpu.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "binding/canonical.h"
#include "binding/check.h"

namespace gputopk::binding {
namespace {

void check_algorithm(const Request& request) {
  check(request.algorithm == Algorithm::kAuto, "gputopk::topk: algorithm ", algorithm_name(request.algorithm),
        " runs on CUDA tensors only; the CPU has one algorithm, auto");
}

void parallel_for(int64_t begin, int64_t end, int64_t grain, void (*body)(int64_t, int64_t, void*),
                  void* context) {
  TORCH_ERROR_CODE_CHECK(torch_parallel_for(begin, end, grain, body, context));
}

int usable_threads() { return in_forked_child() ? 1 : static_cast<int>(torch::stable::get_num_threads()); }

void run(const Request& request, const Tensor& values, const Tensor& indices) {
  const int threads = usable_threads();
  const int64_t bytes = static_cast<int64_t>(cpu::workspace_bytes(request.problem, threads));
  const Tensor workspace = new_empty({bytes}, ScalarType::Byte, request.input);
  Buffers buffers;
  buffers.input = request.input.const_data_ptr();
  buffers.values = values.mutable_data_ptr();
  buffers.indices = indices.mutable_data_ptr();
  buffers.workspace = workspace.mutable_data_ptr();
  cpu::topk(request.problem, buffers, threads, parallel_for);
}

std::string describe(const Request& request) {
  char text[256];
  return cpu::describe(request.problem, usable_threads(), text, sizeof(text));
}

constexpr Backend kCpu{check_algorithm, run, describe};

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CPU, m) {
  using namespace gputopk::binding;
  m.impl("topk", TORCH_BOX(&boxed_topk<kCpu>));
  m.impl("topk.out", TORCH_BOX(&boxed_topk_out<kCpu>));
  m.impl("_plan", TORCH_BOX(&boxed_plan<kCpu>));
}
