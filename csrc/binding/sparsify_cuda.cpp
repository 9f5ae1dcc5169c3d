// gputopk::sparsify_ on CUDA: plan, allocate, run, one status check.

#include <torch/csrc/stable/library.h>

#include "binding/cuda_device.h"
#include "binding/run_plan.h"
#include "binding/sparsify.h"

namespace gputopk::binding {
namespace {

void run_on_cuda(const SparsifyProblem& problem, SparsifyBuffers buffers, const Tensor& like) {
  const CurrentDevice current(like.get_device_index());
  const bool aligned = cuda::sparsify::is_aligned(problem, buffers);
  const cuda::Device device = device_of(like.get_device_index());
  run_plan(cuda::make_sparsify_plan(problem, device, aligned), buffers, like, kSparsify);
}

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CUDA, m) {
  using namespace gputopk::binding;
  m.impl("sparsify_", TORCH_BOX(&boxed_sparsify<run_on_cuda>));
}
