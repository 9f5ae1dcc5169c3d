// Every operator of the namespace, in one place. Kernels are registered by the files of a device,
// topk_cpu.cpp and so on; fakes, autograd and vmap in torch_topk/_fakes.py, _autograd.py and _vmap.py, where
// the stable ABI has no way to.

#include <torch/csrc/stable/library.h>

#include "binding/check.h"
#include "binding/rerank.h"
#include "binding/topk_op.h"
#include "cuda/plan.h"

namespace gputopk::binding {
namespace {

void check_algorithm(const Request& request) {
  const char* reason = cuda::unsupported_reason(request.problem, request.algorithm);
  check(reason == nullptr, "gputopk::topk: algorithm ", algorithm_name(request.algorithm),
        " cannot serve this: ", reason);
}

// A meta tensor has no GPU, so its plan is for the one that the numbers were measured on.
std::string describe(const Request& request) {
  char text[512];
  cuda::describe(cuda::make_plan(request.problem, cuda::Device{}, request.algorithm), text, sizeof(text));
  return text;
}

std::string describe_rerank(const RerankProblem& problem, const Tensor&) {
  char text[1024];
  cuda::describe(cuda::make_rerank_plan(problem, cuda::Device{}), text, sizeof(text));
  return text;
}

constexpr Backend kMeta{check_algorithm, nullptr, describe};
constexpr RerankBackend kMetaRerank{nullptr, describe_rerank};

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY(gputopk, m) {
  m.def(
      "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True, *, bool magnitude=False, "
      "ScalarType? index_dtype=None, int algorithm=0) -> (Tensor values, Tensor indices)");
  m.def(
      "topk.out(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True, *, bool "
      "magnitude=False, "
      "ScalarType? index_dtype=None, int algorithm=0, Tensor(a!) values, Tensor(b!) indices) -> ()");

  // The same, for a caller who may want gradients: torch_topk._autograd gives it an Autograd kernel, where
  // topk has none to pay for.
  m.def(
      "differentiable_topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True, *, bool "
      "magnitude=False, ScalarType? index_dtype=None, int algorithm=0) -> (Tensor values, Tensor indices)");

  // Distances from each query to its candidates, and the k best. `metric`: 0 l2, 1 inner product, 2 cosine.
  m.def(
      "rerank(Tensor queries, Tensor vectors, Tensor candidate_ids, SymInt k, int metric=0) -> "
      "(Tensor distances, Tensor ids)");
  m.def("_rerank_plan(Tensor queries, Tensor vectors, Tensor candidate_ids, SymInt k, int metric=0) -> str");

  // The plan that the call would take, as text: for tests, benches and bug reports.
  m.def(
      "_plan(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True, *, bool "
      "magnitude=False, "
      "ScalarType? index_dtype=None, int algorithm=0) -> str");
  // CUDA only. AIR along the last dimension, with parts of it off or other numbers: for the paper's ablations
  // and tuning studies. Over many blocks a row, or one block of so many threads, or one cluster of so many
  // blocks. Zero is the plan's choice.
  m.def(
      "_air(Tensor self, SymInt k, bool largest=True, bool sorted=True, *, int digit_bits=0, int blocks=0, "
      "bool adaptive=True, bool early_stop=True, int threads=0, int cluster=0) -> (Tensor values, Tensor "
      "indices)");
  // The same for delegate: subranges of 2^alpha elements with beta delegates each. Zero is the plan's choice.
  m.def(
      "_delegate(Tensor self, SymInt k, bool largest=True, bool sorted=True, *, int alpha=0, int beta=0) -> "
      "(Tensor values, Tensor indices)");
  // CUDA only. The same of GridSelect: so many blocks a row, or a warp a row where that is -1; form 1 keeps
  // lists in registers, with a queue a thread as in WarpSelect if asked (float32), form 2 a list a block.
  m.def(
      "_grid_select(Tensor self, SymInt k, bool largest=True, bool sorted=True, *, int blocks=0, int "
      "threads=0, "
      "bool thread_queues=False, int form=0) -> (Tensor values, Tensor indices)");
  // CUDA only. Reads `self` once and leaves one number a block in `scratch`: the yardstick of the benchmarks.
  m.def("_read_floor(Tensor self, Tensor(a!) scratch) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(gputopk, Meta, m) {
  m.impl("_plan", TORCH_BOX(&gputopk::binding::boxed_plan<gputopk::binding::kMeta>));
  m.impl("_rerank_plan", TORCH_BOX(&gputopk::binding::boxed_rerank_plan<gputopk::binding::kMetaRerank>));
}
