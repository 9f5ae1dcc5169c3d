#include "binding/varlen.h"

#include <algorithm>
#include <string>
#include <vector>

#include "binding/check.h"
#include "binding/outs.h"
#include "binding/overlap.h"

namespace gputopk::binding {
namespace {

void check_device(const Tensor& tensor, const char* name, const Tensor& self, const char* op = kVarlen) {
  if (tensor.device() == self.device()) return;
  check(false, op, name, " must be on the device of the input, ", device_name(self.device()), ", but is on ",
        device_name(tensor.device()));
}

void check_integers(const Tensor& tensor, const char* name, bool may_be_wide, const char* op = kVarlen) {
  const ScalarType type = tensor.scalar_type();
  check(type == ScalarType::Int || (may_be_wide && type == ScalarType::Long), op, name, " must be ",
        may_be_wide ? "int32 or int64" : "int32", ", not ", dtype_text(type));
}

Numbers numbers_of(const Tensor& tensor, int64_t row_stride, int64_t col_stride) {
  Numbers numbers;
  // A tensor of no elements, or of the meta device, may have no memory, and is not read; but it is there.
  static const int64_t kNothing = 0;
  numbers.data = tensor.numel() > 0 ? tensor.const_data_ptr() : nullptr;
  if (numbers.data == nullptr) numbers.data = &kNothing;
  numbers.wide = tensor.scalar_type() == ScalarType::Long;
  numbers.row_stride = row_stride;
  numbers.col_stride = col_stride;
  return numbers;
}

}  // namespace

Numbers of_rows(const MaybeTensor& tensor, const char* name, const Tensor& self, bool may_be_wide,
                const char* op) {
  if (!tensor) return {};
  check(tensor->dim() == 1 && tensor->size(0) == self.size(0), op, name, " must have shape [", self.size(0),
        "], a number a row, but has ", sizes_text(*tensor));
  check_integers(*tensor, name, may_be_wide, op);
  check_device(*tensor, name, self, op);
  return numbers_of(*tensor, tensor->stride(0), 0);
}

DType check_input(const Tensor& self, const char* op) {
  check(self.dim() == 2, op, "the input must have 2 dimensions, but has ", self.dim());
  const std::optional<DType> dtype = dtype_of(self.scalar_type());
  check(dtype.has_value(), op, "dtype ", dtype_text(self.scalar_type()), " is not supported");
  return *dtype;
}

namespace {

// A table of columns that all rows share has stride 0.
Numbers of_columns(const MaybeTensor& tensor, const char* name, const Tensor& self) {
  if (!tensor) return {};
  check_columns(*tensor, name, self);
  check_integers(*tensor, name, true);
  const bool shared = tensor->dim() == 1;
  return numbers_of(*tensor, shared ? 0 : tensor->stride(0), tensor->stride(shared ? 0 : 1));
}

void set_page_map(const VarlenArguments& arguments, IndexMap& map) {
  const auto& [table, size] = std::tie(arguments.page_table, arguments.page_size);
  if (!table) {
    check(!arguments.page_row && !arguments.page_start && size == 1, kVarlen,
          "page_size, page_row and page_start need a page_table");
    return;
  }
  check(table->dim() == 2, kVarlen, "page_table must have 2 dimensions, but has ", table->dim());
  check_integers(*table, "page_table", false);
  check_device(*table, "page_table", arguments.self);
  check(size >= 1 && size <= INT32_MAX && (size & (size - 1)) == 0, kVarlen,
        "page_size must be a power of two below 2^31, but is ", size);
  map.page_table = numbers_of(*table, table->stride(0), table->stride(1));
  map.tables = table->size(0);
  map.pages = table->size(1);
  map.page_shift = bit_width(static_cast<uint64_t>(size)) - 1;
  map.page_row = of_rows(arguments.page_row, "page_row", arguments.self, false);
  map.page_start = of_rows(arguments.page_start, "page_start", arguments.self, false);
}

VarlenRequest canonicalise(const VarlenArguments& arguments) {
  const Tensor& self = arguments.self;
  VarlenRequest request =
      request_of_rows({self, arguments.k, arguments.row_k, arguments.largest, arguments.magnitude,
                       arguments.order, arguments.pad_index, arguments.index_dtype.value_or(ScalarType::Int)},
                      kVarlen);
  check(arguments.max_length.value_or(0) >= 0, kVarlen, "max_length must be at least 0, but is ",
        arguments.max_length.value_or(0));
  const int maps = (arguments.offsets ? 1 : 0) + (arguments.ids ? 1 : 0) + (arguments.page_table ? 1 : 0);
  check(maps <= 1, kVarlen, "offsets, ids and page_table exclude each other");
  check(!arguments.starts || !arguments.lengths ||
            arguments.starts->scalar_type() == arguments.lengths->scalar_type(),
        kVarlen, "starts and lengths must have one dtype");

  VarlenProblem& varlen = request.varlen;
  varlen.windows.lengths = of_rows(arguments.lengths, "lengths", self);
  varlen.windows.starts = of_rows(arguments.starts, "starts", self);
  varlen.map.offsets = of_rows(arguments.offsets, "offsets", self);
  varlen.map.ids = varlen.filter.ids = of_columns(arguments.ids, "ids", self);
  check(varlen.problem.wide_indices || !varlen.map.ids.wide, kVarlen,
        "ids are int64: index_dtype must be torch.int64 too");
  set_page_map(arguments, varlen.map);
  set_mask(request, arguments.mask, kVarlen);
  varlen.max_length = std::min(varlen.problem.cols, arguments.max_length.value_or(varlen.problem.cols));
  return request;
}

// How far apart its rows lie; 0 where all share one.
int64_t shared_row_stride(const Tensor& tensor) { return tensor.dim() == 2 ? tensor.stride(0) : 0; }

// After all checks.
void gather_rows(VarlenRequest& request, const char* op) {
  VarlenProblem& varlen = request.varlen;
  if (!is_dense_in_rows(request.input)) request.input = dense_copy(request.input, op);
  varlen.problem.row_stride = row_stride(request.input);
  for (size_t i = 0; i < request.columns.size(); ++i) {
    Tensor& column = request.columns[i];
    if (!is_dense_in_rows(column)) column = dense_copy(column, op);
    varlen.filter.conditions[i].column = column.const_data_ptr();
    varlen.filter.conditions[i].row_stride = shared_row_stride(column);
  }
  if (!request.mask) return;
  if (!is_dense_in_rows(*request.mask)) request.mask = dense_copy(*request.mask, op);
  if (request.mask->numel() > 0)
    varlen.filter.mask = static_cast<const uint8_t*>(request.mask->const_data_ptr());
  varlen.filter.mask_row_stride = shared_row_stride(*request.mask);
}

void check_out(const Tensor& out, const char* name, ScalarType dtype, const std::vector<int64_t>& sizes,
               const Tensor& self) {
  check(out.scalar_type() == dtype, kVarlen, "Expected out tensor to have dtype ", dtype_text(dtype),
        ", but got ", dtype_text(out.scalar_type()), " instead (", name, ")");
  check_device(out, name, self);
  check(to_vector(out.sizes()) == sizes, kVarlen, name, " has shape ", sizes_text(out),
        ", but the result has ", sizes_text(sizes));
  check(is_dense_in_rows(out), kVarlen, name, " must have adjacent elements within a row");
  check(!overlaps_itself(out), kVarlen, name, " has elements that share memory");
}

void check_apart(const Tensor& out, const char* name, const MaybeTensor& other, const char* other_name) {
  if (other) check(!overlap(out, *other), kVarlen, name, " and ", other_name, " share memory");
}

void check_outs(const VarlenArguments& arguments, const VarlenRequest& request, const MaybeTensor& values,
                const Tensor& indices, const Tensor& counts) {
  const Tensor& self = arguments.self;
  const int64_t rows = request.varlen.problem.rows, k = request.varlen.problem.k;
  if (values) check_out(*values, "values", self.scalar_type(), {rows, k}, self);
  check_out(indices, "indices", request.index_dtype, {rows, k}, self);
  check_out(counts, "counts", ScalarType::Int, {rows}, self);
  check_apart(indices, "indices", values, "values");
  check_apart(counts, "counts", values, "values");
  check_apart(counts, "counts", indices, "indices");
  const auto check_inputs = [&](const Tensor& out, const char* name) {
    check_apart(out, name, self, "the input");
    check_apart(out, name, arguments.lengths, "lengths");
    check_apart(out, name, arguments.starts, "starts");
    check_apart(out, name, arguments.row_k, "row_k");
    check_apart(out, name, arguments.mask, "mask");
    check_apart(out, name, arguments.offsets, "offsets");
    check_apart(out, name, arguments.ids, "ids");
    check_apart(out, name, arguments.page_table, "page_table");
    check_apart(out, name, arguments.page_row, "page_row");
    check_apart(out, name, arguments.page_start, "page_start");
  };
  if (values) check_inputs(*values, "values");
  check_inputs(indices, "indices");
  check_inputs(counts, "counts");
  if (values) claim_in_place(*values, kVarlen, "values");
  claim_in_place(indices, kVarlen, "indices");
  claim_in_place(counts, kVarlen, "counts");
}

void fill(VarlenRequest& request, const MaybeTensor& values, const Tensor& indices, const Tensor& counts,
          VarlenRun run, const char* op) {
  if (request.empty()) return;
  gather_rows(request, op);
  const VarlenProblem& varlen = request.varlen;
  VarlenBuffers buffers;
  buffers.input = request.input.const_data_ptr();
  buffers.values = values && varlen.problem.k > 0 ? values->mutable_data_ptr() : nullptr;
  buffers.indices = indices.mutable_data_ptr();
  buffers.value_stride = values ? row_stride(*values) : varlen.problem.k;
  buffers.index_stride = row_stride(indices);
  buffers.counts = static_cast<int32_t*>(counts.mutable_data_ptr());
  run(varlen, buffers, request.input, op);
}

}  // namespace

void check_columns(const Tensor& tensor, const char* name, const Tensor& self, const char* op) {
  const bool shared = tensor.dim() == 1 && tensor.size(0) == self.size(1);
  const bool own = tensor.dim() == 2 && tensor.size(0) == self.size(0) && tensor.size(1) == self.size(1);
  check(shared || own, op, name, " must have shape [", self.size(0), ", ", self.size(1), "] or [",
        self.size(1), "], but has ", sizes_text(tensor));
  check_device(tensor, name, self, op);
}

void set_mask(VarlenRequest& request, const MaybeTensor& mask, const char* op) {
  if (!mask) return;
  check_columns(*mask, "mask", request.input, op);
  check(mask->scalar_type() == ScalarType::Bool, op, "mask must be bool, not ",
        dtype_text(mask->scalar_type()));
  request.mask = mask;
}

VarlenRequest request_of_rows(const RowArguments& arguments, const char* op) {
  const auto& [self, k, row_k, largest, magnitude, order, pad_index, index_dtype] = arguments;
  const DType dtype = check_input(self, op);
  const int64_t rows = self.size(0), cols = self.size(1);
  check(k >= 0 && k <= INT32_MAX, op, "k must be in [0, ", INT32_MAX, "], but is ", k);
  check(order >= 0 && order < kWinnerOrders, op, "order must be in [0, ", kWinnerOrders - 1, "], but is ",
        order);
  check(index_dtype == ScalarType::Long || index_dtype == ScalarType::Int, op,
        "index_dtype must be torch.int64 or torch.int32");
  const bool wide = index_dtype == ScalarType::Long;
  check(wide || cols <= INT32_MAX, op, "index_dtype torch.int32 cannot index ", cols, " elements, at most ",
        INT32_MAX);
  check(wide || (pad_index >= INT32_MIN && pad_index <= INT32_MAX), op, "pad_index is ", pad_index,
        ", which torch.int32 does not hold");

  VarlenRequest request{{}, self, {}, {}, index_dtype};
  VarlenProblem& varlen = request.varlen;
  varlen.windows.cols = varlen.max_length = cols;
  varlen.windows.k = k;
  varlen.windows.row_k = of_rows(row_k, "row_k", self, true, op);
  varlen.map.pad_index = pad_index;
  varlen.order = static_cast<WinnerOrder>(order);
  Problem& problem = varlen.problem;
  problem.dtype = dtype;
  problem.rows = rows;
  problem.cols = cols;
  problem.k = k;
  problem.largest = largest;
  problem.magnitude = magnitude;
  problem.sorted = varlen.order == WinnerOrder::kByValue;
  problem.wide_indices = wide;
  return request;
}

VarlenOutputs fill_new(VarlenRequest& request, bool return_values, VarlenRun run, const char* op) {
  const Tensor self = request.input;
  const int64_t rows = request.varlen.problem.rows, k = request.varlen.problem.k;
  const std::vector<int64_t> value_sizes =
      return_values ? std::vector<int64_t>{rows, k} : std::vector<int64_t>{0};
  Tensor values = new_empty(value_sizes, self.scalar_type(), self, op);
  Tensor indices = new_empty({rows, k}, request.index_dtype, self, op);
  Tensor counts = new_empty({rows}, ScalarType::Int, self, op);
  fill(request, return_values ? MaybeTensor(values) : MaybeTensor(), indices, counts, run, op);
  return {std::move(values), std::move(indices), std::move(counts)};
}

VarlenOutputs topk_varlen(const VarlenArguments& arguments, VarlenRun run) {
  VarlenRequest request = canonicalise(arguments);
  return fill_new(request, arguments.return_values, run, kVarlen);
}

void topk_varlen_out(const VarlenArguments& arguments, const MaybeTensor& values, const Tensor& indices,
                     const Tensor& counts, VarlenRun run) {
  VarlenRequest request = canonicalise(arguments);
  check_outs(arguments, request, values, indices, counts);
  fill(request, values, indices, counts, run, kVarlen);
}

std::string varlen_plan(const VarlenArguments& arguments, VarlenDescribe describe) {
  VarlenRequest request = canonicalise(arguments);
  if (request.empty()) return "none: the outputs are empty";
  VarlenProblem& varlen = request.varlen;
  varlen.problem.row_stride = varlen.problem.cols;
  static const uint8_t kThere = 1;  // a plan goes by sizes, and by whether there is a mask
  if (request.mask) varlen.filter.mask = &kThere;
  return describe(varlen, request.input);
}

std::tuple<Tensor, Tensor> kth_value(const Tensor& self, const Tensor& k, const MaybeTensor& lengths,
                                     bool largest, bool magnitude, VarlenRun run) {
  VarlenProblem varlen;
  Problem& problem = varlen.problem;
  problem.dtype = check_input(self, kKthValue);
  problem.rows = self.size(0);
  problem.cols = varlen.max_length = self.size(1);
  problem.k = 1;
  problem.largest = largest;
  problem.magnitude = magnitude;
  varlen.kth_alone = true;
  varlen.windows.cols = varlen.windows.k = problem.cols;
  varlen.windows.row_k = of_rows(MaybeTensor(k), "k", self, true, kKthValue);
  varlen.windows.lengths = of_rows(lengths, "lengths", self, true, kKthValue);

  const Tensor values = new_empty({problem.rows, 1}, self.scalar_type(), self, kKthValue);
  const Tensor indices = new_empty({problem.rows, 1}, ScalarType::Long, self, kKthValue);
  if (problem.rows == 0) return {values, indices};
  const Tensor input = is_dense_in_rows(self) ? self : dense_copy(self, kKthValue);
  problem.row_stride = row_stride(input);
  VarlenBuffers buffers;
  buffers.input = input.const_data_ptr();
  buffers.values = values.mutable_data_ptr();
  buffers.indices = indices.mutable_data_ptr();
  run(varlen, buffers, input, kKthValue);
  return {values, indices};
}

}  // namespace gputopk::binding
