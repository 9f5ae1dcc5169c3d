// Every operator of the namespace, in one place. Kernels are registered by the files of a device,
// topk_cpu.cpp and so on; fakes, autograd and vmap in torch_topk/_fakes.py, _autograd.py and _vmap.py, where
// the stable ABI has no way to.

#include <torch/csrc/stable/library.h>

#include "binding/check.h"
#include "binding/cuda_algorithm.h"
#include "binding/rerank.h"
#include "binding/topk_op.h"
#include "binding/varlen.h"
#include "cuda/plan/plan.h"

namespace gputopk::binding {
namespace {

// A meta tensor has no GPU, so its plan is for the one that the numbers were measured on.
std::string describe(const Request& request) {
  char text[1024];
  const StridedProblem strided = request.strided();
  if (strided.is_plain()) {
    cuda::describe(cuda::make_plan(request.problem, cuda::Device{}, request.algorithm), text, sizeof(text));
  } else {
    cuda::describe(cuda::make_strided_plan(strided, cuda::Device{}, request.algorithm), text, sizeof(text));
  }
  return text;
}

std::string describe_rerank(const RerankProblem& problem, const Tensor&) {
  char text[1024];
  cuda::describe(cuda::make_rerank_plan(problem, cuda::Device{}), text, sizeof(text));
  return text;
}

std::string describe_varlen(const VarlenProblem& problem, const Tensor&) {
  char text[1024];
  cuda::describe(varlen_plan_for(problem, cuda::Device{}, kVarlen), text, sizeof(text));
  return text;
}

std::string list_forms(const Request& request) { return forms_text(request, cuda::Device{}); }

void check_algorithm(const Request& request) { check_cuda_algorithm(request, cuda::Device{}); }

constexpr Backend kMeta{check_algorithm, nullptr, describe};
constexpr Backend kMetaForms{check_algorithm, nullptr, list_forms};
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

  // By ascending index; behind torch_topk.topk's order="index", of CUDA tensors.
  m.def(
      "_topk_by_index(Tensor self, SymInt k, int dim=-1, bool largest=True, *, bool magnitude=False, "
      "ScalarType? index_dtype=None, int algorithm=0) -> (Tensor values, Tensor indices)");
  // In any order, but the last of the sorted ones last; behind torch_topk.kth_value.
  m.def(
      "_topk_kth(Tensor self, SymInt k, int dim=-1, bool largest=True, *, bool magnitude=False, "
      "ScalarType? index_dtype=None, int algorithm=0) -> (Tensor values, Tensor indices)");

  // Distances from each query to its candidates, and the k best. `metric`: 0 l2, 1 inner product, 2 cosine.
  // `positions`: what comes out is where a winner stands among the query's candidates, not its id.
  m.def(
      "rerank(Tensor queries, Tensor vectors, Tensor candidate_ids, SymInt k, int metric=0, *, Tensor? "
      "lengths=None, Tensor? row_offsets=None, Tensor? allow=None, Tensor? scales=None, bool "
      "positions=False) -> (Tensor distances, Tensor ids)");
  m.def(
      "rerank.out(Tensor queries, Tensor vectors, Tensor candidate_ids, SymInt k, int metric=0, *, Tensor? "
      "lengths=None, Tensor? row_offsets=None, Tensor? allow=None, Tensor? scales=None, bool "
      "positions=False, Tensor(a!) distances, Tensor(b!) ids) -> ()");
  m.def(
      "_rerank_plan(Tensor queries, Tensor vectors, Tensor candidate_ids, SymInt k, int metric=0, *, Tensor? "
      "lengths=None, Tensor? row_offsets=None, Tensor? allow=None, Tensor? scales=None, bool "
      "positions=False) -> str");

  // Accumulates into self (self += alpha * add; with momentum: momentum = mu * momentum + add, self +=
  // momentum), takes the k largest magnitudes of each row, signed, by ascending index, and leaves zeros in
  // their places. index_dtype: int32 unless given. The contract: core/sparsify_problem.h.
  m.def(
      "sparsify_(Tensor(a!) self, SymInt k, *, Tensor? add=None, float alpha=1, Tensor(b!)? momentum=None, "
      "float mu=0, ScalarType? index_dtype=None) -> (Tensor values, Tensor indices)");

  // The k-th best element of each row of [rows, cols], [rows, 1]; where a row has none, -1 and padding.
  m.def(
      "kth_value(Tensor self, Tensor k, *, Tensor? lengths=None, bool largest=True, bool magnitude=False) -> "
      "(Tensor values, Tensor indices)");

  // True at elements of [rows, cols] that are no worse than the row's at `index`, [rows]: better, or equal
  // and, unless `equals`, at no higher an index; and at those behind the row's length. Where there is no such
  // element, index -1, everywhere. With the k-th's index, the mask of the k best.
  m.def(
      "_mask_of_kth(Tensor self, Tensor index, Tensor? lengths=None, *, bool largest=True, "
      "bool magnitude=False, bool equals=False) -> Tensor");

  // True at the k best of each row of [rows, cols]; or self with a number in place of the others, whose bits
  // are those of `fill`. Behind topk_mask, keep_topk and keep_topk_.
  m.def("_topk_mask(Tensor self, SymInt k, *, bool largest=True, bool magnitude=False) -> Tensor");
  m.def("_keep_topk(Tensor self, SymInt k, int fill, *, bool largest=True, bool magnitude=False) -> Tensor");
  m.def("_keep_topk_(Tensor(a!) self, SymInt k, int fill, *, bool largest=True, bool magnitude=False) -> ()");

  // Rows with a start, a length and a k of their own. `order`: 0 any, 1 by value, 2 by index.
  m.def(
      "topk_varlen(Tensor self, SymInt k, *, Tensor? lengths=None, Tensor? starts=None, Tensor? row_k=None, "
      "Tensor? mask=None, Tensor? offsets=None, Tensor? ids=None, Tensor? page_table=None, "
      "int page_size=1, Tensor? page_row=None, Tensor? page_start=None, bool largest=True, "
      "bool magnitude=False, int order=0, bool return_values=True, int pad_index=-1, "
      "ScalarType? index_dtype=None, SymInt? max_length=None) -> "
      "(Tensor values, Tensor indices, Tensor counts)");
  m.def(
      "topk_varlen.out(Tensor self, SymInt k, *, Tensor? lengths=None, Tensor? starts=None, "
      "Tensor? row_k=None, Tensor? mask=None, Tensor? offsets=None, Tensor? ids=None, "
      "Tensor? page_table=None, int page_size=1, Tensor? page_row=None, Tensor? page_start=None, "
      "bool largest=True, bool magnitude=False, int order=0, int pad_index=-1, "
      "ScalarType? index_dtype=None, SymInt? max_length=None, Tensor(a!)? values, Tensor(b!) indices, "
      "Tensor(c!) counts) -> ()");

  // Of each row the k best among the elements whose mask is set and of which columns[i] compares with
  // thresholds[i] as comparisons[i] has it (core/condition.h). `order`, and what is behind the winners, as in
  // topk_varlen; index_dtype: int64 unless given.
  m.def(
      "topk_where(Tensor self, SymInt k, Tensor[] columns, int[] comparisons, Tensor[] thresholds, "
      "Tensor? mask=None, Tensor? row_k=None, *, bool largest=True, bool magnitude=False, int order=1, "
      "int pad_index=-1, ScalarType? index_dtype=None) -> (Tensor values, Tensor indices, Tensor counts)");

  // Between selections by several keys, one after the other, and behind the last (core/stages.h). A stage's
  // values and counts are topk_where's, by value, of one place more than are needed: those that `needed`
  // says, or k.
  m.def(
      "_settle_stage(Tensor values, Tensor counts, Tensor? needed, SymInt k, int spare, bool largest, "
      "bool magnitude) -> (Tensor sure, Tensor left, Tensor row_k, Tensor last)");
  m.def(
      "_join_stages(Tensor[] keys, Tensor[] found, Tensor[] counts, SymInt k, SymInt most, bool[] largest, "
      "bool[] magnitude, int order, int pad_index) -> (Tensor[] values, Tensor indices, Tensor totals)");

  // The plan that the call would take, as text: for tests, benches and bug reports. `last_alone`: that of
  // _topk_kth.
  m.def(
      "_plan(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True, *, bool "
      "magnitude=False, "
      "ScalarType? index_dtype=None, int algorithm=0, bool last_alone=False) -> str");
  // The same of topk_varlen.
  m.def(
      "_varlen_plan(Tensor self, SymInt k, *, Tensor? lengths=None, Tensor? starts=None, Tensor? row_k=None, "
      "Tensor? mask=None, Tensor? offsets=None, Tensor? ids=None, Tensor? page_table=None, "
      "int page_size=1, Tensor? page_row=None, Tensor? page_start=None, bool largest=True, "
      "bool magnitude=False, int order=0, bool return_values=True, int pad_index=-1, "
      "ScalarType? index_dtype=None, SymInt? max_length=None) -> str");
  // Every form that could serve the call, a line each: its name, and the work that its time is estimated
  // from.
  m.def(
      "_forms(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True, *, bool "
      "magnitude=False, ScalarType? index_dtype=None, int algorithm=0, bool last_alone=False) -> str");
}

STABLE_TORCH_LIBRARY_IMPL(gputopk, Meta, m) {
  m.impl("_plan", TORCH_BOX(&gputopk::binding::boxed_plan<gputopk::binding::kMeta>));
  m.impl("_forms", TORCH_BOX(&gputopk::binding::boxed_plan<gputopk::binding::kMetaForms>));
  m.impl("_rerank_plan", TORCH_BOX(&gputopk::binding::boxed_rerank_plan<gputopk::binding::kMetaRerank>));
  m.impl("_varlen_plan", TORCH_BOX(&gputopk::binding::boxed_varlen_plan<gputopk::binding::describe_varlen>));
}
