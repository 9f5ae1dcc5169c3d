// From gputopk::topk_varlen's arguments to a checked request. The same for every device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "binding/tensors.h"
#include "core/varlen_problem.h"

namespace gputopk::binding {

// What gputopk::topk_varlen's errors begin with.
inline constexpr const char* kVarlen = "gputopk::topk_varlen: ";

// A device's part: fills the outputs; sees to workspace. Only for requests that are not empty. `op` opens the
// errors.
using VarlenRun = void (*)(const VarlenProblem& problem, VarlenBuffers buffers, const Tensor& like,
                           const char* op);

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

// The input's dtype, as this library has it; it has rows. `op` opens the errors.
DType check_input(const Tensor& self, const char* op);
// A number a row of int32 or, where it may be wide, int64.
Numbers of_rows(const MaybeTensor& tensor, const char* name, const Tensor& self, bool may_be_wide = true,
                const char* op = kVarlen);

// Both check everything first.
std::tuple<Tensor, Tensor, Tensor> topk_varlen(const VarlenArguments& arguments, VarlenRun run);
void topk_varlen_out(const VarlenArguments& arguments, const MaybeTensor& values, const Tensor& indices,
                     const Tensor& counts, VarlenRun run);

// What a device would do.
using VarlenDescribe = std::string (*)(const VarlenProblem& problem, const Tensor& like);
std::string varlen_plan(const VarlenArguments& arguments, VarlenDescribe describe);

// A request whose tensors have been checked. `input`, `mask` and `columns` are rows of adjacent elements, by
// a copy where the layout has none.
struct VarlenRequest {
  VarlenProblem varlen;
  Tensor input;
  MaybeTensor mask;
  std::vector<Tensor> columns;  // of the filter's conditions
  ScalarType index_dtype;

  bool empty() const { return varlen.problem.rows == 0; }
};

// The outputs of a request: values [rows, k], or [0] where they are not wanted, indices [rows, k] and counts
// [rows].
using VarlenOutputs = std::tuple<Tensor, Tensor, Tensor>;

// What rows are selected by, beside what says which of their elements are candidates. `op` opens the errors.
struct RowArguments {
  const Tensor& self;
  int64_t k;
  const MaybeTensor& row_k;
  bool largest;
  bool magnitude;
  int64_t order;
  int64_t pad_index;
  ScalarType index_dtype;
};

// Checks them, for whole rows without a filter.
VarlenRequest request_of_rows(const RowArguments& arguments, const char* op);
// Refuses what is neither [rows, cols] nor [cols] on the input's device.
void check_columns(const Tensor& tensor, const char* name, const Tensor& self, const char* op = kVarlen);
void set_mask(VarlenRequest& request, const MaybeTensor& mask, const char* op);
// After all checks: makes the outputs, and fills them unless the request is empty.
VarlenOutputs fill_new(VarlenRequest& request, bool return_values, VarlenRun run, const char* op);

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
template <VarlenDescribe describe>
std::string boxed_varlen_plan(const Tensor& self, int64_t k, const MaybeTensor& lengths,
                              const MaybeTensor& starts, const MaybeTensor& row_k, const MaybeTensor& mask,
                              const MaybeTensor& offsets, const MaybeTensor& ids,
                              const MaybeTensor& page_table, int64_t page_size, const MaybeTensor& page_row,
                              const MaybeTensor& page_start, bool largest, bool magnitude, int64_t order,
                              bool return_values, int64_t pad_index, std::optional<ScalarType> index_dtype,
                              std::optional<int64_t> max_length) {
  return varlen_plan(
      {self, k, lengths, starts, row_k, mask, offsets, ids, page_table, page_size, page_row, page_start,
       largest, magnitude, order, return_values, pad_index, index_dtype, max_length},
      describe);
}

}  // namespace gputopk::binding
