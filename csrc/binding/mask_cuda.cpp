// Sets of each row's elements on CUDA.

#include <torch/csrc/stable/library.h>

#include "binding/check.h"
#include "binding/cuda_device.h"
#include "binding/mask.h"
#include "binding/plan_cache.h"
#include "binding/run_plan.h"

namespace gputopk::binding {
namespace {

void mask_on_cuda(const MaskProblem& problem, const MaskBuffers& buffers, const Tensor& like) {
  const CurrentDevice current(like.get_device_index());
  check_launch(cuda::mask::run(problem, buffers, current_stream(like.get_device_index())), kMask,
               [&] { return words_of(" (", problem.rows, " rows of ", problem.cols, " columns)"); });
}

void keep_on_cuda(const Problem& problem, KeepBuffers buffers, const Tensor& like) {
  static thread_local PlanCache<cuda::KeepPlan> cache;
  const int32_t device = like.get_device_index();
  const auto& plan = cache.get(problem, Algorithm::kAuto, device,
                               [&] { return cuda::make_keep_plan(problem, device_of(device)); });
  run_plan(plan, buffers, like, buffers.output.keeps ? kKeepTopk : kTopkMask);
}

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CUDA, m) {
  using namespace gputopk::binding;
  m.impl("_mask_of_kth", TORCH_BOX(&boxed_mask_of_kth<mask_on_cuda>));
  m.impl("_topk_mask", TORCH_BOX(&boxed_topk_mask<keep_on_cuda>));
  m.impl("_keep_topk", TORCH_BOX(&boxed_keep_topk<keep_on_cuda>));
  m.impl("_keep_topk_", TORCH_BOX(&boxed_keep_topk_in_place<keep_on_cuda>));
}
