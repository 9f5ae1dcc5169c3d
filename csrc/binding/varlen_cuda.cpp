// gputopk::topk_varlen, gputopk::topk_where and gputopk::kth_value on CUDA: plan, allocate, run, one status
// check.

#include <torch/csrc/stable/library.h>

#include "binding/cuda_algorithm.h"
#include "binding/cuda_device.h"
#include "binding/run_plan.h"
#include "binding/varlen.h"
#include "binding/where.h"

namespace gputopk::binding {
namespace {

cuda::VarlenPlan make_plan(const VarlenProblem& problem, const Tensor& like, const char* op) {
  return varlen_plan_for(problem, device_of(like.get_device_index()), op);
}

void run(const VarlenProblem& problem, VarlenBuffers buffers, const Tensor& like, const char* op) {
  const CurrentDevice current(like.get_device_index());
  run_plan(make_plan(problem, like, op), buffers, like, op);
}

std::string describe(const VarlenProblem& problem, const Tensor& like) {
  return text_of_plan(make_plan(problem, like, kVarlen));
}

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CUDA, m) {
  using namespace gputopk::binding;
  m.impl("topk_varlen", TORCH_BOX(&boxed_topk_varlen<run>));
  m.impl("topk_varlen.out", TORCH_BOX(&boxed_topk_varlen_out<run>));
  m.impl("_varlen_plan", TORCH_BOX(&boxed_varlen_plan<describe>));
  m.impl("topk_where", TORCH_BOX(&boxed_topk_where<run>));
  m.impl("kth_value", TORCH_BOX(&boxed_kth_value<run>));
}
