// From gputopk::topk_varlen's arguments to a checked request. The same for every device.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "binding/tensors.h"
#include "core/varlen_problem.h"

namespace gputopk::binding {

// What gputopk::topk_varlen's errors begin with.
inline constexpr const char* kVarlen = "gputopk::topk_varlen: ";

// A device's part: fills the outputs; sees to workspace. Only for requests that are not empty.
using VarlenRun = void (*)(const VarlenProblem& problem, VarlenBuffers buffers, const Tensor& like);

using MaybeTensor = std::optional<Tensor>;

// The arguments of gputopk::topk_varlen, as its schema has them.
struct VarlenArguments {
  const Tensor& self;
  int64_t k;
  const MaybeTensor& lengths;
  const MaybeTensor& starts;
  const MaybeTensor& row_k;
  const MaybeTensor& mask;
  const MaybeTensor& offsets;
  const MaybeTensor& ids;
  const MaybeTensor& page_table;
  int64_t page_size;
  const MaybeTensor& page_row;
  const MaybeTensor& page_start;
  bool largest;
  bool magnitude;
  int64_t order;
  bool return_values;
  int64_t pad_index;
  std::optional<ScalarType> index_dtype;
  std::optional<int64_t> max_length;
};

// Both check everything first.
std::tuple<Tensor, Tensor, Tensor> topk_varlen(const VarlenArguments& arguments, VarlenRun run);
void topk_varlen_out(const VarlenArguments& arguments, const MaybeTensor& values, const Tensor& indices,
                     const Tensor& counts, VarlenRun run);

// What gputopk::kth_value's errors begin with.
inline constexpr const char* kKthValue = "gputopk::kth_value: ";

// The k-th best element of each row, or padding: [rows, 1] each.
std::tuple<Tensor, Tensor> kth_value(const Tensor& self, const Tensor& k, const MaybeTensor& lengths,
                                     bool largest, bool magnitude, VarlenRun run);

template <VarlenRun run>
std::tuple<Tensor, Tensor> boxed_kth_value(const Tensor& self, const Tensor& k, const MaybeTensor& lengths,
                                           bool largest, bool magnitude) {
  return kth_value(self, k, lengths, largest, magnitude, run);
}

// gputopk::topk_varlen and .out of one device, in the form that TORCH_BOX takes.
template <VarlenRun run>
std::tuple<Tensor, Tensor, Tensor> boxed_topk_varlen(
    const Tensor& self, int64_t k, const MaybeTensor& lengths, const MaybeTensor& starts,
    const MaybeTensor& row_k, const MaybeTensor& mask, const MaybeTensor& offsets, const MaybeTensor& ids,
    const MaybeTensor& page_table, int64_t page_size, const MaybeTensor& page_row,
    const MaybeTensor& page_start, bool largest, bool magnitude, int64_t order, bool return_values,
    int64_t pad_index, std::optional<ScalarType> index_dtype, std::optional<int64_t> max_length) {
  return topk_varlen(
      {self, k, lengths, starts, row_k, mask, offsets, ids, page_table, page_size, page_row, page_start,
       largest, magnitude, order, return_values, pad_index, index_dtype, max_length},
      run);
}
template <VarlenRun run>
void boxed_topk_varlen_out(const Tensor& self, int64_t k, const MaybeTensor& lengths,
                           const MaybeTensor& starts, const MaybeTensor& row_k, const MaybeTensor& mask,
                           const MaybeTensor& offsets, const MaybeTensor& ids, const MaybeTensor& page_table,
                           int64_t page_size, const MaybeTensor& page_row, const MaybeTensor& page_start,
                           bool largest, bool magnitude, int64_t order, int64_t pad_index,
                           std::optional<ScalarType> index_dtype, std::optional<int64_t> max_length,
                           const MaybeTensor& values, const Tensor& indices, const Tensor& counts) {
  topk_varlen_out(
      {self, k, lengths, starts, row_k, mask, offsets, ids, page_table, page_size, page_row, page_start,
       largest, magnitude, order, values.has_value(), pad_index, index_dtype, max_length},
      values, indices, counts, run);
}

}  // namespace gputopk::binding
