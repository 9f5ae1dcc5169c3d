// gputopk::topk on the CPU.

#include "cpu/topk_cpu.h"

#include <torch/csrc/stable/library.h>

#include "binding/behind_aten.h"
#include "binding/check.h"
#include "binding/cpu_call.h"
#include "binding/topk_op.h"

namespace at::cpu {
__attribute__((weak)) gputopk::binding::TorchTopkOut topk_outf;
}

namespace gputopk::binding {
namespace {

void check_algorithm(const Request& request) {
  check(request.algorithm == Algorithm::kAuto, "gputopk::topk: algorithm ", algorithm_name(request.algorithm),
        " runs on CUDA tensors only; the CPU has one algorithm, auto");
}

cpu::Layout layout_of(const Request& request) {
  const auto sizes = request.input.sizes();
  return cpu::layout_of(sizes.data(), request.input.strides().data(), static_cast<int64_t>(sizes.size()),
                        request.dim);
}

void run(const Request& request, Buffers buffers) {
  const int threads = usable_threads();
  const cpu::Layout layout = layout_of(request);
  CpuWorkspace workspace(cpu::workspace_bytes(request.problem, layout, threads), request.input, kTopk);
  buffers.workspace = workspace.data();
  cpu::topk(request.problem, layout, buffers, threads, parallel_for);
}

std::string describe(const Request& request) {
  char text[256];
  return cpu::describe(request.problem, layout_of(request), usable_threads(), text, sizeof(text));
}

constexpr Backend kCpu{check_algorithm, run, describe};
constexpr Backend kAtenCpu{check_torchs_dtype, run, nullptr, at::cpu::topk_outf};
constexpr Backend kOwnCpu{check_memory, run, nullptr};

bool install_cpu(bool on) { return install<kAtenCpu>(on, "CPU"); }

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CPU, m) {
  using namespace gputopk::binding;
  m.impl("topk", boxed_topk<kCpu>);
  m.impl("topk.out", TORCH_BOX(&boxed_topk_out<kCpu>));
  m.impl("_topk_kth", boxed_topk_in_order<kCpu, &Arguments::last_alone>);
  m.impl("differentiable_topk", boxed_topk<kCpu>);
  m.impl("_plan", TORCH_BOX(&boxed_plan<kCpu>));
}

// No device goes by this key. torch_topk/ops.py says it.
STABLE_TORCH_LIBRARY_IMPL(aten, PrivateUse3, m) {
  using namespace gputopk::binding;
  m.impl("topk", boxed_own_topk<kOwnCpu>);
  m.impl("topk.values", TORCH_BOX(&boxed_own_topk_out<kOwnCpu>));
}

STABLE_TORCH_LIBRARY_FRAGMENT(gputopk, m) { m.def("_install_cpu(bool on) -> bool"); }
STABLE_TORCH_LIBRARY_IMPL(gputopk, CompositeExplicitAutograd, m) {
  using namespace gputopk::binding;
  m.impl("_install_cpu", TORCH_BOX(&install_cpu));
}
