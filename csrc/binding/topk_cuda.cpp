// gputopk::topk on CUDA: plan, allocate, run, one status check.

#include <torch/csrc/stable/library.h>

#include "binding/behind_aten.h"
#include "binding/cuda_algorithm.h"
#include "binding/cuda_device.h"
#include "binding/plan_cache.h"
#include "binding/run_plan.h"
#include "binding/topk_op.h"
#include "cuda/topk.h"

namespace at::cuda {
__attribute__((weak)) gputopk::binding::TorchTopkOut topk_outf;
}

namespace gputopk::binding {
namespace {

const cuda::Plan& plan_of(const Problem& problem, Algorithm algorithm, int32_t device) {
  static thread_local PlanCache<cuda::Plan> cache;
  return cache.get(problem, algorithm, device,
                   [&] { return cuda::make_plan(problem, device_of(device), algorithm); });
}

const cuda::StridedPlan& plan_of(const StridedProblem& problem, Algorithm algorithm, int32_t device) {
  static thread_local PlanCache<cuda::StridedPlan> cache;
  return cache.get(problem, algorithm, device,
                   [&] { return cuda::make_strided_plan(problem, device_of(device), algorithm); });
}

// use(plan), of whichever kind the request's is.
template <class Use>
auto with_plan(const Request& request, Use&& use) {
  const int32_t device = request.input.get_device_index();
  const StridedProblem strided = request.strided();
  if (strided.is_plain()) return use(plan_of(request.problem, request.algorithm, device));
  return use(plan_of(strided, request.algorithm, device));
}

void run(const Request& request, Buffers buffers) {
  if (request.scattered) {
    Request dense = request;
    make_dense(dense);
    buffers.input = dense.input.const_data_ptr();
    return run(dense, buffers);
  }
  with_plan(request, [&](const auto& plan) { run_plan(plan, buffers, request.input, kTopk); });
}

std::string describe_plan(const Request& request) {
  return with_plan(request, [](const auto& plan) { return text_of_plan(plan); });
}

std::string list_forms(const Request& request) {
  return forms_text(request, device_of(request.input.get_device_index()));
}

// A call without an algorithm, as most are, asks for no device here.
void check_algorithm(const Request& request) {
  if (request.algorithm == Algorithm::kAuto) return;
  check_cuda_algorithm(request, device_of(request.input.get_device_index()));
}

constexpr Backend kCuda{check_algorithm, run, describe_plan};
constexpr Backend kAtenCuda{check_torchs_dtype, run, nullptr, at::cuda::topk_outf};
constexpr Backend kOwnCuda{check_memory, run, nullptr};
constexpr Backend kCudaForms{check_algorithm, nullptr, list_forms};

bool install_cuda(bool on) { return install<kAtenCuda>(on, "CUDA"); }

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CUDA, m) {
  using namespace gputopk::binding;
  m.impl("topk", boxed_topk<kCuda>);
  m.impl("topk.out", TORCH_BOX(&boxed_topk_out<kCuda>));
  m.impl("_topk_by_index", boxed_topk_in_order<kCuda, &Arguments::by_index>);
  m.impl("_topk_kth", boxed_topk_in_order<kCuda, &Arguments::last_alone>);
  m.impl("differentiable_topk", boxed_topk<kCuda>);
  m.impl("_plan", TORCH_BOX(&boxed_plan<kCuda>));
  m.impl("_forms", TORCH_BOX(&boxed_plan<kCudaForms>));
}

// No device goes by this key. torch_topk/ops.py says it.
STABLE_TORCH_LIBRARY_IMPL(aten, PrivateUse2, m) {
  using namespace gputopk::binding;
  m.impl("topk", boxed_own_topk<kOwnCuda>);
  m.impl("topk.values", TORCH_BOX(&boxed_own_topk_out<kOwnCuda>));
}

STABLE_TORCH_LIBRARY_FRAGMENT(gputopk, m) { m.def("_install_cuda(bool on) -> bool"); }
STABLE_TORCH_LIBRARY_IMPL(gputopk, CompositeExplicitAutograd, m) {
  using namespace gputopk::binding;
  m.impl("_install_cuda", TORCH_BOX(&install_cuda));
}
