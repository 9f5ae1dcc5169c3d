// From the arguments of gputopk::_mask_of_kth to a checked request: what topk_mask and keep_topk do where
// their winners are not listed. The same for every device.
#pragma once

#include "binding/tensors.h"
#include "binding/varlen.h"
#include "core/mask_problem.h"

namespace gputopk::binding {

// What its errors begin with.
inline constexpr const char* kMask = "gputopk::_mask_of_kth: ";

// A device's part. Only for requests that have elements.
using MaskRun = void (*)(const MaskProblem& problem, const MaskBuffers& buffers, const Tensor& like);

// Of self [rows, cols] and index [rows], int64: bool [rows, cols].
Tensor mask_of_kth(const Tensor& self, const Tensor& index, const MaybeTensor& lengths, bool largest,
                   bool magnitude, bool equals, MaskRun run);

// In the form that TORCH_BOX takes.
template <MaskRun run>
Tensor boxed_mask_of_kth(const Tensor& self, const Tensor& index, const MaybeTensor& lengths, bool largest,
                         bool magnitude, bool equals) {
  return mask_of_kth(self, index, lengths, largest, magnitude, equals, run);
}

}  // namespace gputopk::binding
