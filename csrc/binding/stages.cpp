#include "binding/stages.h"

#include <algorithm>
#include <optional>

#include "binding/check.h"

namespace gputopk::binding {
namespace {

DType checked_dtype(const Tensor& tensor, const char* name, const char* op) {
  const std::optional<DType> dtype = dtype_of(tensor.scalar_type());
  check(dtype.has_value(), op, name, " has dtype ", dtype_text(tensor.scalar_type()),
        ", which is not supported");
  return *dtype;
}

void check_dense(const Tensor& tensor, const char* name, const std::vector<int64_t>& sizes,
                 const Tensor& like, const char* op) {
  check(to_vector(tensor.sizes()) == sizes, op, name, " must have shape ", sizes_text(sizes), ", but has ",
        sizes_text(tensor));
  check(tensor.device() == like.device(), op, name, " must be on ", device_name(like.device()),
        ", but is on ", device_name(tensor.device()));
  check(tensor.is_contiguous(), op, name, " must be contiguous");
}

const int32_t* numbers_of_rows(const Tensor& tensor, const char* name, int64_t rows, const Tensor& like,
                               const char* op) {
  check_dense(tensor, name, {rows}, like, op);
  check(tensor.scalar_type() == ScalarType::Int, op, name, " must be int32, not ",
        dtype_text(tensor.scalar_type()));
  return static_cast<const int32_t*>(tensor.const_data_ptr());
}

}  // namespace

Settled settle_stage(const SettleArguments& arguments, SettleRun run) {
  const auto& [values, counts, needed, k, spare, largest, magnitude] = arguments;
  check(values.dim() == 2, kSettle, "values must have 2 dimensions, but has ", values.dim());
  Stage stage;
  stage.dtype = checked_dtype(values, "values", kSettle);
  stage.largest = largest;
  stage.magnitude = magnitude;
  stage.rows = values.size(0);
  stage.places = values.size(1);
  stage.k = k;
  check(k >= 0 && k < stage.places && k < INT32_MAX, kSettle, "k must be in [0, ", stage.places,
        "), less than the values of a row, but is ", k);
  check(spare == 0 || spare == 1, kSettle, "spare must be 0 or 1, but is ", spare);
  stage.spare = static_cast<int32_t>(spare);
  check_dense(values, "values", {stage.rows, stage.places}, values, kSettle);
  StageBuffers buffers;
  buffers.values = values.const_data_ptr();
  buffers.counts = numbers_of_rows(counts, "counts", stage.rows, values, kSettle);
  if (needed) buffers.needed = numbers_of_rows(*needed, "needed", stage.rows, values, kSettle);
  const auto new_numbers = [&] { return new_empty({stage.rows}, ScalarType::Int, values, kSettle); };
  const Tensor sure = new_numbers(), left = new_numbers(), row_k = new_numbers();
  const Tensor last = new_empty({stage.rows}, values.scalar_type(), values, kSettle);
  buffers.sure = static_cast<int32_t*>(sure.mutable_data_ptr());
  buffers.left = static_cast<int32_t*>(left.mutable_data_ptr());
  buffers.row_k = static_cast<int32_t*>(row_k.mutable_data_ptr());
  buffers.last = last.mutable_data_ptr();
  if (stage.rows > 0) run(stage, buffers, values);
  return {sure, left, row_k, last};
}

Joined join_stages(const JoinArguments& arguments, JoinRun run) {
  const auto& [keys, found, counts, k, most, largest, magnitude, order, pad_index] = arguments;
  const size_t count = keys.size();
  check(count >= 1 && count <= kMostKeys, kJoin, "there must be 1 to ", kMostKeys, " keys, but are ", count);
  check(
      found.size() == count && counts.size() == count && largest.size() == count && magnitude.size() == count,
      kJoin, "keys, found, counts, largest and magnitude must be as many");
  check(order >= 0 && order < kWinnerOrders, kJoin, "order must be in [0, ", kWinnerOrders - 1, "], but is ",
        order);
  check(most >= 0 && most <= k, kJoin, "most must be in [0, ", k, "], but is ", most);
  const Tensor& first = keys[0];
  check(first.dim() == 2, kJoin, "keys must have 2 dimensions, but have ", first.dim());

  JoinProblem problem;
  problem.rows = first.size(0);
  problem.k = k;
  problem.most = most;
  problem.keys = static_cast<int>(count);
  problem.order = static_cast<WinnerOrder>(order);
  problem.pad_index = pad_index;
  const ScalarType index_type = found[0].scalar_type();
  check(index_type == ScalarType::Long || index_type == ScalarType::Int, kJoin,
        "found must be int32 or int64, not ", dtype_text(index_type));
  problem.wide_indices = index_type == ScalarType::Long;
  JoinBuffers buffers;
  std::vector<Tensor> values;
  for (size_t i = 0; i < count; ++i) {
    const Tensor& key = keys[i];
    check(to_vector(key.sizes()) == to_vector(first.sizes()), kJoin, "keys must have one shape");
    check(key.device() == first.device(), kJoin, "keys must be on one device");
    problem.columns[i] = {key.const_data_ptr(), key.stride(0),
                          key.stride(1),        checked_dtype(key, "a key", kJoin),
                          largest[i],           magnitude[i]};
    check(found[i].dim() == 2 && found[i].scalar_type() == index_type, kJoin,
          "found must have 2 dimensions and one dtype");
    problem.places[i] = found[i].size(1);
    check_dense(found[i], "found", {problem.rows, problem.places[i]}, first, kJoin);
    buffers.found[i] = found[i].const_data_ptr();
    buffers.counts[i] = numbers_of_rows(counts[i], "counts", problem.rows, first, kJoin);
  }
  for (size_t i = 0; i < count; ++i) {
    values.push_back(new_empty({problem.rows, k}, keys[i].scalar_type(), first, kJoin));
    buffers.values[i] = values[i].mutable_data_ptr();
  }
  const Tensor indices = new_empty({problem.rows, k}, index_type, first, kJoin);
  const Tensor totals = new_empty({problem.rows}, ScalarType::Int, first, kJoin);
  buffers.indices = indices.mutable_data_ptr();
  buffers.totals = static_cast<int32_t*>(totals.mutable_data_ptr());
  if (problem.rows > 0) run(problem, buffers, first);
  return {values, indices, totals};
}

}  // namespace gputopk::binding
