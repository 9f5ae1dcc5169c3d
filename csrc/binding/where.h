// From gputopk::topk_where's arguments to a checked request: topk_varlen's of whole rows, with conditions. The
// same for every device.
#pragma once

#include <vector>

#include "binding/varlen.h"

namespace gputopk::binding {

// What gputopk::topk_where's errors begin with.
inline constexpr const char* kWhere = "gputopk::topk_where: ";

// What an element's place in other tensors must hold, one condition after the other.
struct WhereArguments {
  const MaybeTensor& mask;
  const std::vector<Tensor>& columns;
  const std::vector<int64_t>& comparisons;
  const std::vector<Tensor>& thresholds;
};

// Checks everything first.
VarlenOutputs topk_where(const RowArguments& rows, const WhereArguments& where, VarlenRun run);

// gputopk::topk_where of one device, in the form that TORCH_BOX takes.
template <VarlenRun run>
VarlenOutputs boxed_topk_where(const Tensor& self, int64_t k, const MaybeTensor& mask,
                               const std::vector<Tensor>& columns, const std::vector<int64_t>& comparisons,
                               const std::vector<Tensor>& thresholds, const MaybeTensor& row_k, bool largest,
                               bool magnitude, int64_t order, int64_t pad_index,
                               std::optional<ScalarType> index_dtype) {
  return topk_where({self, k, row_k, largest, magnitude, order, pad_index,
                     index_dtype.value_or(ScalarType::Long)},
                    {mask, columns, comparisons, thresholds}, run);
}

}  // namespace gputopk::binding
