// Plans that a thread has made lately. A plan is a pure function of the request and the device, and models
// call with few shapes: looking one up costs a tenth of weighing every form anew.
#pragma once

#include <array>
#include <cstdint>

#include "cuda/plan/plan.h"

namespace gputopk::binding {

inline bool same(const Problem& a, const Problem& b) {
  return a.dtype == b.dtype && a.rows == b.rows && a.cols == b.cols && a.row_stride == b.row_stride &&
         a.k == b.k && a.largest == b.largest && a.sorted == b.sorted && a.by_index == b.by_index &&
         a.last_alone == b.last_alone && a.magnitude == b.magnitude && a.wide_indices == b.wide_indices;
}

inline bool same(const StridedProblem& a, const StridedProblem& b) {
  return same(a.problem, b.problem) && a.input == b.input && a.outputs == b.outputs;
}

inline uint64_t mixed(const Problem& problem) {
  return (static_cast<uint64_t>(problem.rows) * 31 + static_cast<uint64_t>(problem.cols)) * 31 +
         static_cast<uint64_t>(problem.k);
}
inline uint64_t mixed(const StridedProblem& problem) { return mixed(problem.problem); }

template <class Plan>
class PlanCache {
 public:
  // make() gives the plan where it is not there. The reference is good until the next call.
  template <class Problem, class Make>
  const Plan& get(const Problem& problem, Algorithm algorithm, int32_t device, Make&& make) {
    Entry& entry = entries_[mixed(problem) * 0x9E3779B97F4A7C15u >> 58];
    if (!entry.plan || entry.algorithm != algorithm || entry.device != device ||
        !same(entry.plan->problem, problem)) {
      entry = {make(), algorithm, device};
    }
    return *entry.plan;
  }

 private:
  struct Entry {
    std::optional<Plan> plan;
    Algorithm algorithm;
    int32_t device;
  };
  std::array<Entry, 64> entries_;
};

}  // namespace gputopk::binding
