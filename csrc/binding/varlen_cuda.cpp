// gputopk::topk_varlen, gputopk::topk_where and gputopk::kth_value on CUDA: plan, allocate, run, one status
// check.

#include <torch/csrc/stable/library.h>

#include "binding/check.h"
#include "binding/cuda_device.h"
#include "binding/run_plan.h"
#include "binding/varlen.h"
#include "binding/where.h"

namespace gputopk::binding {
namespace {

cuda::VarlenPlan make_plan(const VarlenProblem& problem, const Tensor& like, const char* op) {
  constexpr int64_t kMostCols = 0xFFFFFFFF;
  check(problem.problem.cols <= kMostCols, op, "rows have ", problem.problem.cols,
        " columns, at most 2^32 - 1 on CUDA");
  return cuda::make_varlen_plan(problem, device_of(like.get_device_index()));
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
