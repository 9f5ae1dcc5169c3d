#include "binding/where.h"

#include <string>

#include "binding/check.h"

namespace gputopk::binding {
namespace {

Condition condition_of(const Tensor& column, int64_t comparison, const Tensor& threshold, size_t place,
                       const Tensor& self) {
  const std::string number = "[" + std::to_string(place) + "]";
  const std::string column_name = "columns" + number, threshold_name = "thresholds" + number;
  check(comparison >= 0 && comparison < kComparisons, kWhere, "comparisons", number, " must be in [0, ",
        kComparisons - 1, "], but is ", comparison);
  check_columns(column, column_name.c_str(), self, kWhere);
  const ScalarType type = column.scalar_type();
  const std::optional<DType> dtype = dtype_of(type);
  check(dtype.has_value(), kWhere, column_name, " has dtype ", dtype_text(type), ", which is not supported");
  check(threshold.scalar_type() == type, kWhere, threshold_name, " must have the dtype of its column, ",
        dtype_text(type), ", not ", dtype_text(threshold.scalar_type()));
  check(threshold.dim() == 0 || (threshold.dim() == 1 && threshold.size(0) == self.size(0)), kWhere,
        threshold_name, " must have shape [] or [", self.size(0), "], a number a row, but has ",
        sizes_text(threshold));
  check(threshold.device() == self.device(), kWhere, threshold_name, " must be on the device of the input, ",
        device_name(self.device()), ", but is on ", device_name(threshold.device()));
  Condition condition;
  condition.dtype = *dtype;
  condition.comparison = static_cast<Comparison>(comparison);
  condition.thresholds = threshold.const_data_ptr();
  condition.threshold_stride = threshold.dim() == 1 ? threshold.stride(0) : 0;
  return condition;
}

}  // namespace

VarlenOutputs topk_where(const RowArguments& rows, const WhereArguments& where, VarlenRun run) {
  const auto& [columns, comparisons, thresholds, mask] = where;
  VarlenRequest request = request_of_rows(rows, kWhere);
  set_mask(request, mask, kWhere);
  check(columns.size() <= kMostConditions, kWhere, "there may be ", kMostConditions, " conditions, but are ",
        columns.size());
  check(columns.size() == comparisons.size() && columns.size() == thresholds.size(), kWhere,
        "columns, comparisons and thresholds must be as many, but are ", columns.size(), ", ",
        comparisons.size(), " and ", thresholds.size());
  Filter& filter = request.varlen.filter;
  for (size_t i = 0; i < columns.size(); ++i) {
    filter.conditions[i] = condition_of(columns[i], comparisons[i], thresholds[i], i, rows.self);
  }
  filter.condition_count = static_cast<int>(columns.size());
  request.columns = columns;
  return fill_new(request, /*return_values=*/true, run, kWhere);
}

}  // namespace gputopk::binding
