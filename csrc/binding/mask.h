// From the arguments of the operators that write sets of each row's elements to checked requests: what
// topk_mask, keep_topk and keep_topk_ are made of. The same for every device.
#pragma once

#include "binding/tensors.h"
#include "binding/varlen.h"
#include "core/mask_problem.h"

namespace gputopk::binding {

// What their errors begin with.
inline constexpr const char* kMask = "gputopk::_mask_of_kth: ";
inline constexpr const char* kTopkMask = "gputopk::_topk_mask: ";
inline constexpr const char* kKeepTopk = "gputopk::_keep_topk: ";

// A device's parts. Only for requests that have elements.
using MaskRun = void (*)(const MaskProblem& problem, const MaskBuffers& buffers, const Tensor& like);
using KeepRun = void (*)(const Problem& problem, KeepBuffers buffers, const Tensor& like);

// Of self [rows, cols] and index [rows], int64: bool [rows, cols].
Tensor mask_of_kth(const Tensor& self, const Tensor& index, const MaybeTensor& lengths, bool largest,
                   bool magnitude, bool equals, MaskRun run);

// Of self [rows, cols], 1 <= k <= cols: bool [rows, cols].
Tensor topk_mask(const Tensor& self, int64_t k, bool largest, bool magnitude, KeepRun run);
// The same, but self's elements, and in place of the others what has the bits of `fill`.
Tensor keep_topk(const Tensor& self, int64_t k, int64_t fill, bool largest, bool magnitude, KeepRun run);
// In place: elements of a row are adjacent.
void keep_topk_in_place(const Tensor& self, int64_t k, int64_t fill, bool largest, bool magnitude,
                        KeepRun run);

// In the form that TORCH_BOX takes.
template <MaskRun run>
Tensor boxed_mask_of_kth(const Tensor& self, const Tensor& index, const MaybeTensor& lengths, bool largest,
                         bool magnitude, bool equals) {
  return mask_of_kth(self, index, lengths, largest, magnitude, equals, run);
}
template <KeepRun run>
Tensor boxed_topk_mask(const Tensor& self, int64_t k, bool largest, bool magnitude) {
  return topk_mask(self, k, largest, magnitude, run);
}
template <KeepRun run>
Tensor boxed_keep_topk(const Tensor& self, int64_t k, int64_t fill, bool largest, bool magnitude) {
  return keep_topk(self, k, fill, largest, magnitude, run);
}
template <KeepRun run>
void boxed_keep_topk_in_place(const Tensor& self, int64_t k, int64_t fill, bool largest, bool magnitude) {
  keep_topk_in_place(self, k, fill, largest, magnitude, run);
}

}  // namespace gputopk::binding
