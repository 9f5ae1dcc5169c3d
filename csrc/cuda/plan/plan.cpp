#include "cuda/plan/plan.h"

#include <cstdio>

#include "cuda/plan/numbers.h"

namespace gputopk::cuda {
namespace {

// What `auto` goes by, behind AIR with clusters: GridSelect where it is ahead of both others, delegate where
// it is ahead of AIR.

bool delegate_is_ahead(const Problem& problem) {
  const bool many_winners = problem.k >= tuning::kAutoManyWinners;
  const int64_t elements =
      many_winners ? tuning::kAutoManyWinnersMinElements : tuning::kAutoDelegateMinElements;
  return problem.cols >= tuning::kAutoDelegateMinCols && problem.rows >= elements / problem.cols &&
         problem.k <= problem.cols / tuning::kAutoDelegateMinColsPerK;
}

bool grid_select_is_ahead(const Problem& problem, const Device& device) {
  const int64_t rows = problem.rows, cols = problem.cols, k = problem.k;
  const bool tiny = k <= tuning::kAutoTinyK, small = k <= tuning::kAutoSmallK;
  const bool a_row_an_sm = rows >= device.sm_count;
  const bool a_row_a_warp = rows >= int64_t{device.sm_count} * tuning::kAutoRowsPerSmForWarps;
  const int bytes = dtype_bytes(problem.dtype);
  if (bytes > 4) return false;  // its lists take twice the registers
  if (cols >= tuning::kAutoVeryLongCols) {
    if (!delegate_is_ahead(problem)) return tiny || (small && cols <= 2 * tuning::kAutoVeryLongCols);
    if (bytes < 4) return tiny && rows <= tuning::kAutoFewNarrowElements / cols;
    const bool many = rows >= tuning::kAutoManyRows && rows >= tuning::kAutoManyRowsElements / cols;
    return tiny || (small && many);
  }
  if (cols >= tuning::kAutoLongCols) {
    // With more winners, ascending rows are slow in a list a block.
    if (a_row_an_sm) return k <= 2 * tuning::kAutoMostK;
    return small && (rows <= tuning::kAutoFewRows || cols >= 2 * tuning::kAutoLongCols);
  }
  if (k > tuning::kAutoMostK) return false;
  if (cols >= tuning::kAutoMiddleCols) return a_row_a_warp || (a_row_an_sm && small);
  if (a_row_a_warp) {
    if (k <= tuning::kAutoMostK / 2) return problem.sorted || small || cols > tuning::kAutoShortCols / 4;
    return problem.sorted && (cols <= tuning::kAutoShortCols || cols >= tuning::kAutoFewWarpsCols);
  }
  if (cols > tuning::kAutoShortCols) return false;
  // AIR does not put these in order itself.
  if (a_row_an_sm) return problem.sorted || (cols > tuning::kAutoShortCols / 4 ? small : tiny);
  return tiny && cols > tuning::kAutoShortCols / 8 && cols <= tuning::kAutoShortCols / 2;
}

// The algorithm that `auto` takes.
Algorithm choose(const Problem& problem, const Device& device) {
  if (problem.k == 0 || problem.rows == 0) return Algorithm::kAir;
  if (bitonic::OneWarp::serves(problem, device)) return Algorithm::kBitonic;
  if (air::ResidentRow::serves(problem, device)) return Algorithm::kAir;
  if (air::OneCluster::serves(problem, device) && !delegate_is_ahead(problem)) return Algorithm::kAir;
  if (grid_select_is_ahead(problem, device)) return Algorithm::kGridSelect;
  return delegate_is_ahead(problem) ? Algorithm::kDelegate : Algorithm::kAir;
}

// The first form of `algorithm`, in the order of the list, that serves the request.
template <size_t kForm = 0>
Config first_form(const Problem& problem, const Device& device, Algorithm algorithm) {
  using Form = std::variant_alternative_t<kForm, Config>;
  if constexpr (kForm + 1 < std::variant_size_v<Config>) {
    if (Form::kAlgorithm != algorithm || !Form::serves(problem, device)) {
      return first_form<kForm + 1>(problem, device, algorithm);
    }
  }
  return Form::plan(problem, device);
}

}  // namespace

const char* unsupported_reason(const Problem& problem, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kAuto:
    case Algorithm::kAir: return nullptr;
    case Algorithm::kBitonic: return bitonic::unsupported_reason(problem);
    case Algorithm::kDelegate: return delegate::unsupported_reason(problem);
    case Algorithm::kGridSelect: return grid_select::unsupported_reason(problem);
    default: return "it is not implemented in this version";
  }
}

Plan plan_of(const Problem& problem, const Device& device, const Config& config) {
  const bool in_order = std::visit([&](const auto& form) { return form.in_order(problem); }, config);
  return {problem, device, config, problem.sorted && !in_order};
}

Plan make_plan(const Problem& problem, const Device& device, Algorithm algorithm) {
  if (algorithm == Algorithm::kAuto) algorithm = choose(problem, device);
  return plan_of(problem, device, first_form(problem, device, algorithm));
}

void describe(const Plan& plan, char* text, size_t text_bytes) {
  const Problem& problem = plan.problem;
  char form[200];
  std::visit([&](const auto& config) { config.describe(problem, form, sizeof(form)); }, plan.config);
  std::snprintf(text, text_bytes, "%s; %s; %lld rows x %lld cols, k %lld, %s, %s%s; %d SMs", form,
                plan.order_rows ? "then order_rows" : "no further step", static_cast<long long>(problem.rows),
                static_cast<long long>(problem.cols), static_cast<long long>(problem.k),
                dtype_name(problem.dtype), problem.largest ? "largest" : "smallest",
                problem.magnitude ? " by magnitude" : "", plan.device.sm_count);
}

RerankPlan make_rerank_plan(const RerankProblem& problem, const Device& device) {
  RerankPlan plan{problem, device, rerank::plan(problem, device), std::nullopt};
  if (plan.config.list_items > 0) return plan;
  Problem selection;
  selection.dtype = DType::kUInt32;
  selection.rows = problem.queries;
  selection.cols = problem.candidates;
  selection.row_stride = problem.candidates;
  selection.k = problem.k;
  selection.wide_indices = false;
  plan.selection = make_plan(selection, device, Algorithm::kAuto);
  return plan;
}

void describe(const RerankPlan& plan, char* text, size_t text_bytes) {
  const RerankProblem& problem = plan.problem;
  const rerank::Config& config = plan.config;
  char form[512];
  if (plan.selection) {
    const int length = std::snprintf(form, sizeof(form), "keys stored by %lld blocks a query, then ",
                                     static_cast<long long>(config.blocks_per_query));
    describe(*plan.selection, form + length, sizeof(form) - length);
  } else {
    std::snprintf(form, sizeof(form), "lists of %d, %d warps a query", 32 * config.list_items, config.warps);
  }
  std::snprintf(text, text_bytes,
                "rerank: %s; %lld queries x %lld candidates x %lld dims, k %lld, %s, %s; %d SMs", form,
                static_cast<long long>(problem.queries), static_cast<long long>(problem.candidates),
                static_cast<long long>(problem.dims), static_cast<long long>(problem.k),
                metric_name(problem.metric), dtype_name(problem.dtype), plan.device.sm_count);
}

}  // namespace gputopk::cuda
