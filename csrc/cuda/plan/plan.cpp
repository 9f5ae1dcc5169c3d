#include "cuda/plan/plan.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <type_traits>

#include "cuda/plan/costs.h"
#ifdef GPUTOPK_COSTS
#include GPUTOPK_COSTS
#else
#include "cuda/plan/costs_h200.h"
#endif

namespace gputopk::cuda {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// By a form's costs; kNever where they were not measured.
double microseconds_at(const Places& places, const Problem& problem, const Work& work) {
  const int place = places.of_way[work.way];
  return place < 0 ? kNever : microseconds(kCosts[place], kMeasured, problem, work);
}

constexpr Places kPlacesOfOrder = places_of(kCosts, "order_rows");
constexpr Places kPlacesOfCopy = places_of(kCosts, sort::Copy::kName);

double microseconds_of_order(const Problem& problem, const Device& device) {
  return microseconds_at(kPlacesOfOrder, problem,
                         sort::OrderRows::plan(problem, device).work(problem, device));
}

// Not fitted by itself. By one block a row it is taken to cost what order_rows does, less what that does to
// winners, which its work leaves out: a launch and a read are left. By several, of more winners than a block
// was measured with, they are read as a copy reads them, and there is one launch more.
double microseconds_of_last(const Problem& problem, const Device& device) {
  const auto step = sort::LastInPlace::plan(problem, device);
  const Work work = step.work(problem, device);
  if (step.blocks_per_row == 1) return microseconds_at(kPlacesOfOrder, problem, work);
  Problem winners = problem;
  winners.cols = problem.k;
  return microseconds_at(kPlacesOfCopy, winners, work) + microseconds_at(kPlacesOfOrder, problem, Work{});
}

// What the request would take with this config. On a GPU of other size the forms keep their order as long as
// its parts are in proportion: Work is what an SM does and what the memory moves.
template <class Form>
double microseconds_of(const Form& form, const Problem& problem, const Device& device) {
  static constexpr Places kPlaces = places_of(kCosts, Form::kName);
  if constexpr (std::is_same_v<Form, air::ManyBlocks> || std::is_same_v<Form, air::ResidentGrid>) {
    // Digits of a last winner alone are resolved like those of a first: winners before it are only counted.
    if (problem.last_alone) {
      Problem one = problem;
      one.k = 1;
      return microseconds_at(kPlaces, one, form.work(one, device));
    }
  }
  const double selection = microseconds_at(kPlaces, problem, form.work(problem, device));
  if (needs_order(form, problem)) return selection + microseconds_of_order(problem, device);
  if (needs_last(form, problem)) return selection + microseconds_of_last(problem, device);
  return selection;
}

}  // namespace

const char* unsupported_reason(const Problem& problem, const Device& device, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kAuto:
    case Algorithm::kAir: return nullptr;
    case Algorithm::kBitonic: return bitonic::unsupported_reason(problem);
    case Algorithm::kDelegate: return delegate::unsupported_reason(problem, device);
    case Algorithm::kGridSelect: return grid_select::unsupported_reason(problem);
    case Algorithm::kSort: return sort::unsupported_reason(problem, device);
    case Algorithm::kSplitBucket: return split_bucket::unsupported_reason(problem);
  }
  return "there is no such algorithm";
}

const char* unsupported_reason(const StridedProblem& strided, const Device& device, Algorithm algorithm) {
  const bool across = algorithm == Algorithm::kDelegate && delegate::AcrossRows::serves(strided, device);
  return across ? nullptr : unsupported_reason(strided.problem, device, algorithm);
}

Plan plan_of(const Problem& problem, const Device& device, const Config& config) {
  Plan plan{};
  plan.config = config;
  plan.problem = problem;
  plan.device = device;
  const auto add_step = [&](const auto& form, auto& steps) {
    if (needs_order(form, problem)) steps.order_rows = sort::OrderRows::plan(problem, device);
    if (needs_last(form, problem)) steps.last_in_place = sort::LastInPlace::plan(problem, device);
  };
  std::visit(
      [&](const auto& form) {
        add_step(form, plan);
        if constexpr (std::is_same_v<std::decay_t<decltype(form)>, air::ResidentGrid>) {
          plan.without_room.emplace();
          plan.without_room->config = air::ManyBlocks::plan(problem, device);
          add_step(plan.without_room->config, *plan.without_room);
        }
      },
      config);
  return plan;
}

Plan make_plan(const Problem& problem, const Device& device, Algorithm algorithm) {
  std::optional<Config> best;
  double least = kNever;
  const auto offer_forms_for = [&](const Problem& selection) {
    visit_forms(selection, device, [&](const auto& config) {
      if (algorithm != Algorithm::kAuto && algorithm != config.kAlgorithm) return;
      const double us = microseconds_of(config, problem, device);
      if (best && !(us < least)) return;
      best = config;
      least = us;
    });
  };
  offer_forms_for(problem);
  if (problem.last_alone) {
    // Where a form puts winners in order itself if it is asked to, the last is in its place without a step.
    Problem sorted = problem;
    sorted.last_alone = false;
    sorted.sorted = true;
    offer_forms_for(sorted);
  }
  return plan_of(problem, device, *best);
}

namespace {

void describe(const Problem& problem, const Device& device, const char* form, const char* step,
              const char* name, char* text, size_t text_bytes) {
  std::snprintf(text, text_bytes, "%s; %s; %lld rows x %lld cols, k %lld, %s, %s%s; %d SMs; form %s", form,
                step, static_cast<long long>(problem.rows), static_cast<long long>(problem.cols),
                static_cast<long long>(problem.k), dtype_name(problem.dtype),
                problem.largest ? "largest" : "smallest", problem.magnitude ? " by magnitude" : "",
                device.sm_count, name);
}

constexpr char kNoStep[] = "no further step";

}  // namespace

void describe(const Plan& plan, char* text, size_t text_bytes) {
  const Problem& problem = plan.problem;
  char form[200];
  const char* name = "";
  std::visit(
      [&](const auto& config) {
        config.describe(problem, form, sizeof(form));
        name = config.kName;
      },
      plan.config);
  char step[100];
  std::snprintf(step, sizeof(step), "%s", kNoStep);
  if (plan.order_rows) plan.order_rows->describe(step, sizeof(step));
  if (plan.last_in_place) plan.last_in_place->describe(step, sizeof(step));
  describe(problem, plan.device, form, step, name, text, text_bytes);
}

StridedPlan make_strided_plan(const StridedProblem& strided, const Device& device, Algorithm algorithm,
                              std::optional<int64_t> panel_bytes, std::optional<int64_t> list_bytes) {
  Problem problem = strided.problem;
  StridedPlan plan{strided, device, {}, std::nullopt, std::nullopt};
  const auto is_wanted = [&](Algorithm form) { return algorithm == Algorithm::kAuto || algorithm == form; };
  if (!panel_bytes) {
    const bool lies_apart = !problem.by_index && !strided.input.is_plain();
    if (lies_apart && is_wanted(Algorithm::kBitonic) && bitonic::OneThread::serves(problem, device)) {
      plan.config = bitonic::OneThread::plan(problem, device);
      return plan;
    }
    // An algorithm's own way is taken wherever it serves, where that algorithm is asked for.
    double least = kNever;
    bool found = false;
    visit_strided_forms(strided, device, [&](const char* name, const Work& work, const auto& config) {
      using Form = std::decay_t<decltype(config)>;
      if constexpr (!std::is_same_v<Form, strided::Panels>) {
        if (!is_wanted(config.kAlgorithm)) return;
      } else if (found && algorithm != Algorithm::kAuto) {
        return;
      }
      const double us = microseconds_at(places_of(kCosts, name), problem, work);
      if (found && !(us < least)) return;
      plan.config = config;
      least = us;
      found = true;
    });
    auto* const across = std::get_if<delegate::AcrossRows>(&plan.config);
    if (across != nullptr && list_bytes) across->list_bytes = *list_bytes;
    if (!std::holds_alternative<strided::Panels>(plan.config)) return plan;
  }
  const strided::Panels panels = strided::plan(strided, panel_bytes.value_or(strided::kPanelBytes));
  plan.config = panels;
  problem.row_stride = panels.pitch;
  problem.rows = panels.rows;
  plan.selection = make_plan(problem, device, algorithm);
  if (strided.problem.rows % panels.rows != 0) {
    problem.rows = strided.problem.rows % panels.rows;
    plan.last_selection = make_plan(problem, device, algorithm);
  }
  return plan;
}

void describe(const StridedPlan& plan, char* text, size_t text_bytes) {
  const RowLayout& input = plan.problem.input;
  char way[200], form[600];
  const auto describe_form = [&](const auto& config) {
    describe(plan_of(plan.problem.problem, plan.device, config), form, sizeof(form));
  };
  if (const auto* const panels = std::get_if<strided::Panels>(&plan.config)) {
    std::snprintf(way, sizeof(way), "rows %s, winners %s, %lld rows at a time",
                  panels->gathers ? "moved together" : "read where they lie",
                  panels->scatters ? "moved to their place" : "written to their place",
                  static_cast<long long>(panels->rows));
    describe(*plan.selection, form, sizeof(form));
  } else if (const auto* const warp = std::get_if<bitonic::OneWarp>(&plan.config)) {
    std::snprintf(way, sizeof(way), "rows in tiles");
    describe_form(*warp);
  } else if (const auto* const across = std::get_if<delegate::AcrossRows>(&plan.config)) {
    std::snprintf(way, sizeof(way), "rows read across");
    char config[200];
    across->describe(plan.problem, config, sizeof(config));
    describe(plan.problem.problem, plan.device, config, kNoStep, across->kName, form, sizeof(form));
  } else {
    std::snprintf(way, sizeof(way), "rows where they lie");
    describe_form(std::get<bitonic::OneThread>(plan.config));
  }
  std::snprintf(
      text, text_bytes, "strided: %lld x %lld rows, %lld and %lld apart, of elements %lld apart; %s; %s",
      static_cast<long long>(plan.problem.problem.rows / input.inner), static_cast<long long>(input.inner),
      static_cast<long long>(input.outer_stride), static_cast<long long>(input.inner_stride),
      static_cast<long long>(input.col_stride), way, form);
}

RerankPlan make_rerank_plan(const RerankProblem& problem, const Device& device, int64_t most_stored_bytes) {
  RerankPlan plan{problem, device, rerank::plan(problem, device, most_stored_bytes), std::nullopt};
  if (plan.config.way != rerank::Way::kTopK) return plan;
  Problem selection;
  selection.dtype = DType::kUInt32;
  selection.rows = plan.config.slice;
  selection.cols = problem.candidates;
  selection.row_stride = problem.candidates;
  selection.k = problem.k;
  selection.wide_indices = false;
  plan.selection = make_plan(selection, device, Algorithm::kAuto);
  return plan;
}

namespace {

// What is selected of rows as long as the windows may be, or as they are expected to be.
Problem varlen_selection(const VarlenProblem& varlen, int64_t cols) {
  Problem selection = varlen.problem;
  // Padding entries have positions from cols on.
  if (!varlen.kth_alone) selection.wide_indices = varlen.problem.cols + varlen.problem.k > INT32_MAX;
  selection.sorted = varlen.order == WinnerOrder::kByValue && !varlen.kth_alone;
  selection.cols = cols;
  return selection;
}

VarlenPlan varlen_plan_of(const VarlenProblem& varlen, const Device& device, const VarlenConfig& config,
                          bool in_order) {
  VarlenPlan plan{varlen,       device, varlen_selection(varlen, varlen.problem.cols), config, {},
                  std::nullopt, false};
  if (varlen.kth_alone) return plan;
  plan.ordering = plan.selection;
  plan.ordering.cols = varlen.problem.cols + varlen.problem.k;
  if (varlen.order == WinnerOrder::kByIndex) {
    plan.ordering.by_index = true;
    plan.ordering.dtype = plan.selection.wide_indices ? DType::kUInt64 : DType::kUInt32;
    plan.ordering.largest = false;
    plan.ordering.magnitude = false;
  }
  const bool orders = varlen.order == WinnerOrder::kByIndex || (plan.selection.sorted && !in_order);
  if (orders && varlen.problem.k > 1) plan.order_rows = sort::OrderRows::plan(plan.ordering, device);
  plan.selection_finishes =
      !std::holds_alternative<air::OneBlock>(config) && !plan.order_rows && varlen.problem.k > 0;
  return plan;
}

}  // namespace

VarlenPlan make_varlen_plan(const VarlenProblem& varlen, const Device& device, std::string_view forms) {
  const Problem selection = varlen_selection(varlen, varlen.problem.cols);
  const Problem expected = varlen_selection(varlen, std::max<int64_t>(varlen.max_length, 1));
  const auto block = air::OneBlock::plan(expected, device);
  VarlenConfig best = block;
  bool in_order = block.lists_winners;
  const auto is_wanted = [&](std::string_view name) { return name.substr(0, forms.size()) == forms; };
  bool found = is_wanted(block.kName);
  // Moving candidates together before is taken to cost as much as selecting from them. Finding them costs the
  // same whatever follows.
  double least = microseconds_of(block, expected, device) * (varlen.filter.filters() ? 2 : 1);
  const auto offer = [&](const auto& config, const Problem& problem) {
    if (!is_wanted(config.kName)) return;
    const double us = microseconds_of(config, problem, device);
    if (found && !(us < least)) return;
    best = config;
    in_order = true;
    found = true;
    least = us;
  };
  constexpr int64_t kMostRows = INT32_MAX / 16;  // of a grid of clusters
  const bool selects =
      !varlen.kth_alone && selection.k > 0 && selection.cols > 0 && selection.rows <= kMostRows;
  if (selects && delegate::OneCluster::serves_windows(expected, device)) {
    offer(delegate::OneCluster::plan(expected, device, /*windows=*/true), expected);
  }
  if (selects && delegate::EqualShares::serves_windows(expected, device)) {
    offer(delegate::EqualShares::plan(expected, device, /*windows=*/true), expected);
  }
  // Registers, and tiles, are those of whole rows, however short the windows are said to be.
  if (selects && bitonic::OneWarp::serves(selection, device)) {
    offer(bitonic::OneWarp::plan(selection, device), selection);
  }
  if (selects && split_bucket::Tree::serves(selection, device)) {
    offer(split_bucket::Tree::plan(selection, device), selection);
  }
  return varlen_plan_of(varlen, device, best, in_order);
}

void describe(const VarlenPlan& plan, char* text, size_t text_bytes) {
  const Problem& problem = plan.problem.problem;
  char step[100];
  std::snprintf(step, sizeof(step), "%s", kNoStep);
  if (plan.order_rows) plan.order_rows->describe(step, sizeof(step));
  char form[200];
  const char* name = "";
  std::visit(
      [&](const auto& config) {
        config.describe(plan.selection, form, sizeof(form));
        name = config.kName;
      },
      plan.config);
  const bool moves = plan.problem.filter.filters() && std::holds_alternative<air::OneBlock>(plan.config);
  std::snprintf(text, text_bytes,
                "varlen: %s%s; %s; %lld rows x %lld cols, max_length %lld, k %lld, %s; %d SMs; form %s", form,
                moves ? ", candidates moved together" : "", step, static_cast<long long>(problem.rows),
                static_cast<long long>(problem.cols), static_cast<long long>(plan.problem.max_length),
                static_cast<long long>(problem.k), dtype_name(problem.dtype), plan.device.sm_count, name);
}

void describe(const RerankPlan& plan, char* text, size_t text_bytes) {
  const RerankProblem& problem = plan.problem;
  const rerank::Config& config = plan.config;
  char form[512];
  if (config.way == rerank::Way::kLists) {
    std::snprintf(form, sizeof(form), "lists of %d, %d warps a query, %d candidates at a time",
                  32 * config.list_items, config.warps, config.tile);
  } else {
    char interleaved[80] = "";
    if (config.blocks_per_query > 0) {
      std::snprintf(interleaved, sizeof(interleaved), ", %lld a query, %d candidates at a time",
                    static_cast<long long>(config.blocks_per_query), config.tile);
    }
    const int length = std::snprintf(
        form, sizeof(form), "keys stored by %lld blocks of %d warps%s%s, %lld queries at a time, then ",
        static_cast<long long>(config.blocks), config.warps, interleaved,
        config.row_at_a_time ? ", row by row" : "", static_cast<long long>(config.slice));
    const size_t room = sizeof(form) - length;
    if (config.way == rerank::Way::kFinish) {
      const bool listed = config.finish_room == 0;
      std::snprintf(form + length, room, "%s by %d warps a query, room for %d",
                    listed ? "listed" : "put in order", config.finish_warps,
                    listed ? 32 : config.finish_room);
    } else {
      describe(*plan.selection, form + length, room);
    }
  }
  std::snprintf(text, text_bytes,
                "rerank: %s; %lld queries x %lld candidates x %lld dims, k %lld, %s, %s in %s; %d SMs", form,
                static_cast<long long>(problem.queries), static_cast<long long>(problem.candidates),
                static_cast<long long>(problem.dims), static_cast<long long>(problem.k),
                metric_name(problem.metric), dtype_name(problem.query_dtype), dtype_name(problem.dtype),
                plan.device.sm_count);
}

namespace {

double microseconds_of_plan(const Plan& plan) {
  return std::visit([&](const auto& form) { return microseconds_of(form, plan.problem, plan.device); },
                    plan.config);
}

// Of a step behind the selection. Not fitted by itself: it is taken to cost what a copy of the rows does.
double microseconds_of_keeping(const Problem& problem, const Device& device) {
  Problem copied = problem;
  copied.k = problem.cols;
  copied.sorted = copied.by_index = copied.last_alone = false;
  return microseconds_at(kPlacesOfCopy, copied, sort::Copy::plan(copied, device).work(copied, device));
}

}  // namespace

KeepPlan make_keep_plan(const Problem& problem, const Device& device, std::string_view form) {
  Problem selection = problem;
  selection.by_index = selection.sorted = false;
  selection.last_alone = !is_listed(problem);
  selection.wide_indices = problem.cols > INT32_MAX;
  KeepPlan plan{problem, device, selection.last_alone ? KeepWay::kFromKth : KeepWay::kListed,
                make_plan(selection, device, Algorithm::kAuto)};
  double least =
      form.empty() ? microseconds_of_plan(plan.selection) + microseconds_of_keeping(problem, device) : kNever;
  visit_forms(selection, device, [&](const auto& config) {
    using Form = std::decay_t<decltype(config)>;
    if constexpr (kKeepsInRow<Form>) {
      if (!form.empty() && form != Form::kName) return;
      const double us = microseconds_of(config, selection, device);
      if (!(us < least)) return;
      least = us;
      plan.way = KeepWay::kInRegisters;
      plan.selection = plan_of(selection, device, config);
    }
  });
  return plan;
}

void describe(const KeepPlan& plan, char* text, size_t text_bytes) {
  char selection[400];
  describe(plan.selection, selection, sizeof(selection));
  const char* const way = plan.way == KeepWay::kInRegisters ? "in registers"
                          : plan.way == KeepWay::kListed    ? "from a list"
                                                            : "from the k-th";
  std::snprintf(text, text_bytes, "kept: %s; %s", way, selection);
}

SparsifyPlan make_sparsify_plan(const SparsifyProblem& problem, const Device& device, bool aligned,
                                std::optional<bool> resident, std::optional<bool> one_read,
                                std::optional<bool> two_sided) {
  SparsifyPlan plan{problem, device, sparsify::plan(problem, device, aligned), {}, {}, {}, {}};
  if (problem.k == 0) return plan;
  if (resident.value_or(true) && sparsify::Resident::serves(problem, device, aligned)) {
    plan.resident = sparsify::Resident::plan(problem, device);
  }
  Problem selection;
  selection.dtype = problem.dtype;
  selection.rows = problem.rows;
  selection.cols = problem.cols;
  selection.row_stride = problem.self_stride;
  selection.k = problem.k;
  selection.sorted = false;
  selection.magnitude = true;
  selection.wide_indices = problem.wide_indices;
  if (sparsify::OneRead::serves(problem, aligned) && one_read.value_or(sparsify::OneRead::pays(problem))) {
    plan.one_read = sparsify::OneRead::plan(problem, selection, device, two_sided);
    return plan;
  }
  plan.selection = make_plan(selection, device, Algorithm::kAuto);
  Problem order;
  order.dtype = problem.wide_indices ? DType::kInt64 : DType::kInt32;
  order.rows = problem.rows;
  order.cols = order.row_stride = order.k = problem.k;
  order.largest = false;
  order.wide_indices = problem.k > INT32_MAX;
  plan.order = make_plan(order, device, Algorithm::kAuto);
  return plan;
}

void describe(const SparsifyPlan& plan, char* text, size_t text_bytes) {
  const SparsifyProblem& problem = plan.problem;
  char selection[400] = "nothing is selected", order[400] = "";
  if (plan.selection) describe(*plan.selection, selection, sizeof(selection));
  if (plan.order) describe(*plan.order, order, sizeof(order));
  if (plan.one_read) plan.one_read->describe(selection, sizeof(selection));
  if (plan.resident) {
    plan.resident->describe(selection, sizeof(selection));
    order[0] = '\0';
  }
  std::snprintf(text, text_bytes, "sparsify: %s of %s, %d elements at a time in %d blocks; %s; %s",
                update_name(problem.update), dtype_name(problem.add_dtype), plan.config.width,
                plan.config.accumulate_blocks, selection, order);
}

}  // namespace gputopk::cuda
