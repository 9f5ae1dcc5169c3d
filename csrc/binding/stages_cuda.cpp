// gputopk::_settle_stage and gputopk::_join_stages on CUDA: one launch each.

#include <torch/csrc/stable/library.h>

#include "binding/check.h"
#include "binding/cuda_device.h"
#include "binding/run_plan.h"
#include "binding/stages.h"

namespace gputopk::binding {
namespace {

void settle_on_cuda(const Stage& stage, const StageBuffers& buffers, const Tensor& like) {
  const CurrentDevice current(like.get_device_index());
  check_launch(cuda::stages::settle(stage, buffers, current_stream(like.get_device_index())), kSettle,
               [&] { return words_of(" (", stage.rows, " rows of ", stage.places, " places)"); });
}

void join_on_cuda(const JoinProblem& problem, JoinBuffers buffers, const Tensor& like) {
  check(problem.order == WinnerOrder::kAny || problem.most <= cuda::stages::most_ordered(), kJoin, "at most ",
        cuda::stages::most_ordered(), " winners of a row are put in order on CUDA, not ", problem.most);
  const CurrentDevice current(like.get_device_index());
  check_launch(cuda::stages::join(problem, buffers, current_stream(like.get_device_index())), kJoin, [&] {
    return words_of(" (", problem.keys, " stages of ", problem.rows, " rows, ", problem.k, " places)");
  });
}

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CUDA, m) {
  using namespace gputopk::binding;
  m.impl("_settle_stage", TORCH_BOX(&boxed_settle_stage<settle_on_cuda>));
  m.impl("_join_stages", TORCH_BOX(&boxed_join_stages<join_on_cuda>));
}
