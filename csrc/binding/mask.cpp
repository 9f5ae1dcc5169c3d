#include "binding/mask.h"

#include "binding/check.h"
#include "binding/outs.h"
#include "binding/overlap.h"

namespace gputopk::binding {
namespace {

// What either kind of request says of self [rows, cols].
template <class Request>
Request request_of(const Tensor& self, bool largest, bool magnitude, const char* op) {
  Request problem;
  problem.dtype = check_input(self, op);
  problem.rows = self.size(0);
  problem.cols = self.size(1);
  problem.largest = largest;
  problem.magnitude = magnitude;
  return problem;
}

Problem check_request(const Tensor& self, int64_t k, bool largest, bool magnitude, const char* op) {
  Problem problem = request_of<Problem>(self, largest, magnitude, op);
  problem.k = k;
  check(k >= 1 && k <= problem.cols, op, "k must be in [1, ", problem.cols, "], but is ", k);
  return problem;
}

// To `rows`, where there are any; of adjacent elements.
void run_kept(Problem problem, const Tensor& self, const Tensor& rows, KeptOutput output, const char* op,
              KeepRun run) {
  if (problem.rows == 0) return;
  const Tensor input = is_dense_in_rows(self) ? self : dense_copy(self, op);
  problem.row_stride = row_stride(input);
  output.rows = rows.mutable_data_ptr();
  output.row_stride = row_stride(rows);
  run(problem, {input.const_data_ptr(), output, nullptr}, input);
}

KeptOutput elements_and(int64_t fill) {
  KeptOutput output;
  output.keeps = true;
  output.fill = static_cast<uint64_t>(fill);
  return output;
}

}  // namespace

Tensor mask_of_kth(const Tensor& self, const Tensor& index, const MaybeTensor& lengths, bool largest,
                   bool magnitude, bool equals, MaskRun run) {
  MaskProblem problem = request_of<MaskProblem>(self, largest, magnitude, kMask);
  problem.equals = equals;
  problem.indices = of_rows(MaybeTensor(index), "index", self, true, kMask);
  check(index.scalar_type() == ScalarType::Long, kMask, "index must be int64, not ",
        dtype_text(index.scalar_type()));
  problem.lengths = of_rows(lengths, "lengths", self, true, kMask);

  Tensor mask = new_empty({problem.rows, problem.cols}, ScalarType::Bool, self, kMask);
  if (problem.rows == 0 || problem.cols == 0) return mask;
  const Tensor input = is_dense_in_rows(self) ? self : dense_copy(self, kMask);
  problem.row_stride = row_stride(input);
  MaskBuffers buffers;
  buffers.input = input.const_data_ptr();
  buffers.output.rows = mask.mutable_data_ptr();
  buffers.output.row_stride = problem.cols;
  run(problem, buffers, input);
  return mask;
}

Tensor topk_mask(const Tensor& self, int64_t k, bool largest, bool magnitude, KeepRun run) {
  const Problem problem = check_request(self, k, largest, magnitude, kTopkMask);
  Tensor mask = new_empty({problem.rows, problem.cols}, ScalarType::Bool, self, kTopkMask);
  run_kept(problem, self, mask, {}, kTopkMask, run);
  return mask;
}

Tensor keep_topk(const Tensor& self, int64_t k, int64_t fill, bool largest, bool magnitude, KeepRun run) {
  const Problem problem = check_request(self, k, largest, magnitude, kKeepTopk);
  Tensor kept = new_empty({problem.rows, problem.cols}, self.scalar_type(), self, kKeepTopk);
  run_kept(problem, self, kept, elements_and(fill), kKeepTopk, run);
  return kept;
}

void keep_topk_in_place(const Tensor& self, int64_t k, int64_t fill, bool largest, bool magnitude,
                        KeepRun run) {
  const Problem problem = check_request(self, k, largest, magnitude, kKeepTopk);
  check(is_dense_in_rows(self), kKeepTopk, "self's elements of a row must be adjacent, but are ",
        self.stride(1), " apart");
  check(!overlaps_itself(self), kKeepTopk, "self overlaps itself");
  claim_in_place(self, kKeepTopk, "self");
  run_kept(problem, self, self, elements_and(fill), kKeepTopk, run);
}

}  // namespace gputopk::binding
