// gputopk::_mask_of_kth on CUDA: one launch.

#include <torch/csrc/stable/library.h>

#include "binding/check.h"
#include "binding/cuda_device.h"
#include "binding/mask.h"
#include "binding/run_plan.h"

namespace gputopk::binding {
namespace {

void mask_on_cuda(const MaskProblem& problem, const MaskBuffers& buffers, const Tensor& like) {
  const CurrentDevice current(like.get_device_index());
  check_launch(cuda::mask::run(problem, buffers, current_stream(like.get_device_index())), kMask,
               [&] { return words_of(" (", problem.rows, " rows of ", problem.cols, " columns)"); });
}

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CUDA, m) {
  using namespace gputopk::binding;
  m.impl("_mask_of_kth", TORCH_BOX(&boxed_mask_of_kth<mask_on_cuda>));
}
