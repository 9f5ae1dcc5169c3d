#include "binding/mask.h"

#include "binding/check.h"

namespace gputopk::binding {

Tensor mask_of_kth(const Tensor& self, const Tensor& index, const MaybeTensor& lengths, bool largest,
                   bool magnitude, bool equals, MaskRun run) {
  MaskProblem problem;
  problem.dtype = check_input(self, kMask);
  problem.rows = self.size(0);
  problem.cols = self.size(1);
  problem.largest = largest;
  problem.magnitude = magnitude;
  problem.equals = equals;
  of_rows(MaybeTensor(index), "index", self, true, kMask);  // its shape and its device
  check(index.scalar_type() == ScalarType::Long, kMask, "index must be int64, not ",
        dtype_text(index.scalar_type()));
  problem.lengths = of_rows(lengths, "lengths", self, true, kMask);

  Tensor mask = new_empty({problem.rows, problem.cols}, ScalarType::Bool, self, kMask);
  if (problem.rows == 0 || problem.cols == 0) return mask;
  const Tensor input = is_dense_in_rows(self) ? self : dense_copy(self, kMask);
  const Tensor indices = is_dense_in_rows(index) ? index : dense_copy(index, kMask);
  problem.row_stride = row_stride(input);
  MaskBuffers buffers;
  buffers.input = input.const_data_ptr();
  buffers.indices = static_cast<const int64_t*>(indices.const_data_ptr());
  buffers.mask = static_cast<uint8_t*>(mask.mutable_data_ptr());
  run(problem, buffers, input);
  return mask;
}

}  // namespace gputopk::binding
