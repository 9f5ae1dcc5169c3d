// Whether an algorithm of the CUDA side serves a request: for CUDA tensors, and for meta tensors, which have
// no GPU.
#pragma once

#include <cstdio>
#include <string>

#include "binding/canonical.h"
#include "binding/check.h"
#include "cuda/plan/plan.h"

namespace gputopk::binding {

inline void check_cuda_algorithm(const Request& request, const cuda::Device& device) {
  // Rows that are copied first are side by side in no way that is known here.
  const char* reason = request.scattered
                           ? cuda::unsupported_reason(request.problem, device, request.algorithm)
                           : cuda::unsupported_reason(request.strided(), device, request.algorithm);
  check(reason == nullptr, "gputopk::topk: algorithm ", algorithm_name(request.algorithm),
        " cannot serve this: ", reason);
}

// The plan of ragged rows, or an error that `op` opens.
inline cuda::VarlenPlan varlen_plan_for(const VarlenProblem& problem, const cuda::Device& device,
                                        const char* op) {
  constexpr int64_t kMostCols = 0xFFFFFFFF;
  check(problem.problem.cols <= kMostCols, op, "rows have ", problem.problem.cols,
        " columns, at most 2^32 - 1 on CUDA");
  return cuda::make_varlen_plan(problem, device);
}

// Every form that serves, a line each: "name; what it would do; in_order 1 bytes 4e6 ...", the last part
// being the work that its time is estimated from. Of rows that do not lie side by side, the ways to read
// them.
inline std::string forms_text(const Request& request, const cuda::Device& device) {
  const Problem& problem = request.problem;
  const StridedProblem strided = request.strided();
  std::string text;
  const auto add = [&](const char* name, const char* form, bool in_order, const cuda::Work& work) {
    char line[512];
    std::snprintf(
        line, sizeof(line),
        "%s; %s; in_order %d bytes %.6g elements %.6g depth %.6g waves %.6g blocks %.6g winners %.6g "
        "entries %.6g way %d\n",
        name, form, in_order ? 1 : 0, work.bytes, work.elements, work.depth, work.waves, work.blocks,
        work.winners, work.entries, work.way);
    text += line;
  };
  if (strided.is_plain()) {
    cuda::visit_forms(problem, device, [&](const auto& config) {
      char form[200];
      config.describe(problem, form, sizeof(form));
      add(config.kName, form, config.in_order(problem), config.work(problem, device));
    });
  } else {
    cuda::visit_strided_forms(strided, device, [&](const char* name, const cuda::Work& work, const auto&) {
      add(name, "of rows that do not lie side by side", true, work);
    });
  }
  add("order_rows", "the step behind a form that leaves rows unordered", true,
      cuda::sort::OrderRows::plan(problem, device).work(problem, device));
  return text;
}

}  // namespace gputopk::binding
