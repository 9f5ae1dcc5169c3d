// From gputopk::topk_where's arguments to a checked request: topk_varlen's of whole rows, with conditions.
// The same for every device.
#pragma once

#include <vector>

#include "binding/varlen.h"

namespace gputopk::binding {

// What gputopk::topk_where's errors begin with.
inline constexpr const char* kWhere = "gputopk::topk_where: ";

// What says which elements are candidates; the lists have one condition after the other.
struct WhereArguments {
  const std::vector<Tensor>& columns;
  const std::vector<int64_t>& comparisons;
  const std::vector<Tensor>& thresholds;
  const MaybeTensor& mask;
};

// Checks everything first.
VarlenOutputs topk_where(const RowArguments& rows, const WhereArguments& where, VarlenRun run);

// gputopk::topk_where of one device, in the form that TORCH_BOX takes.
template <VarlenRun run>
VarlenOutputs boxed_topk_where(const Tensor& self, int64_t k, const std::vector<Tensor>& columns,
                               const std::vector<int64_t>& comparisons, const std::vector<Tensor>& thresholds,
                               const MaybeTensor& mask, const MaybeTensor& row_k, bool largest,
                               bool magnitude, int64_t order, int64_t pad_index,
                               std::optional<ScalarType> index_dtype) {
  return topk_where(
      {self, k, row_k, largest, magnitude, order, pad_index, index_dtype.value_or(ScalarType::Long)},
      {columns, comparisons, thresholds, mask}, run);
}

}  // namespace gputopk::binding
