// From the arguments of gputopk::_settle_stage and gputopk::_join_stages to checked requests: what
// torch_topk.topk_where does between the selections by several keys, and behind the last. The same for every
// device.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "binding/tensors.h"
#include "binding/varlen.h"
#include "core/stages.h"

namespace gputopk::binding {

// What their errors begin with.
inline constexpr const char* kSettle = "gputopk::_settle_stage: ";
inline constexpr const char* kJoin = "gputopk::_join_stages: ";

// A device's part; sees to workspace. Only for requests that have rows.
using SettleRun = void (*)(const Stage& stage, const StageBuffers& buffers, const Tensor& like);
using JoinRun = void (*)(const JoinProblem& problem, JoinBuffers buffers, const Tensor& like);

struct SettleArguments {
  const Tensor& values;
  const Tensor& counts;
  const MaybeTensor& needed;
  int64_t k;
  int64_t spare;
  bool largest;
  bool magnitude;
};

// sure, left, row_k, of shape [rows], and last, of shape [rows] and the values' dtype.
using Settled = std::tuple<Tensor, Tensor, Tensor, Tensor>;
Settled settle_stage(const SettleArguments& arguments, SettleRun run);

struct JoinArguments {
  const std::vector<Tensor>& keys;
  const std::vector<Tensor>& found;
  const std::vector<Tensor>& counts;
  int64_t k;
  int64_t most;
  const std::vector<bool>& largest;
  const std::vector<bool>& magnitude;
  int64_t order;
  int64_t pad_index;
};

// values of each key [rows, k], indices [rows, k] and totals [rows].
using Joined = std::tuple<std::vector<Tensor>, Tensor, Tensor>;
Joined join_stages(const JoinArguments& arguments, JoinRun run);

// Both of one device, in the form that TORCH_BOX takes.
template <SettleRun run>
Settled boxed_settle_stage(const Tensor& values, const Tensor& counts, const MaybeTensor& needed, int64_t k,
                           int64_t spare, bool largest, bool magnitude) {
  return settle_stage({values, counts, needed, k, spare, largest, magnitude}, run);
}
template <JoinRun run>
Joined boxed_join_stages(const std::vector<Tensor>& keys, const std::vector<Tensor>& found,
                         const std::vector<Tensor>& counts, int64_t k, int64_t most,
                         const std::vector<bool>& largest, const std::vector<bool>& magnitude, int64_t order,
                         int64_t pad_index) {
  return join_stages({keys, found, counts, k, most, largest, magnitude, order, pad_index}, run);
}

}  // namespace gputopk::binding
