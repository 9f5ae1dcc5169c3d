// The plan of a request: which form of which algorithm, with which numbers. Pure host code, a function of the
// request and the device alone, so it is tested without a GPU. A form is a type: what it may be asked is in
// air/air.h, delegate/delegate.h and so on; how it decides, in that folder's decisions.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "core/problem.h"
#include "core/rerank_problem.h"
#include "core/strided_problem.h"
#include "core/varlen_problem.h"
#include "cuda/air/air.h"
#include "cuda/bitonic/bitonic.h"
#include "cuda/delegate/delegate.h"
#include "cuda/gpu.h"
#include "cuda/grid_select/grid_select.h"
#include "cuda/mask/mask.h"
#include "cuda/rerank/rerank.h"
#include "cuda/sort/sort.h"
#include "cuda/sparsify/sparsify.h"
#include "cuda/split_bucket/split_bucket.h"
#include "cuda/stages/stages.h"
#include "cuda/strided/strided.h"
#include "cuda/varlen/varlen.h"

namespace gputopk::cuda {

// Every form there is.
using Config =
    std::variant<air::OneCluster, air::ResidentRow, air::ResidentGrid, air::OneBlock, air::ManyBlocks,
                 bitonic::OneThread, bitonic::OneWarp, bitonic::ManyBlocks, grid_select::Registers,
                 grid_select::SharedList, sort::Copy, sort::WholeRows, delegate::FromSample,
                 delegate::OneGrid, delegate::GridParts, delegate::OneCluster, delegate::ResidentCluster,
                 delegate::ResidentGrid, delegate::EqualShares, delegate::TwoBounds, delegate::FromMaxima,
                 split_bucket::Tree, split_bucket::Radix>;

// A selection, and the step behind it where one follows.
template <class Selection>
struct Steps {
  Selection config;
  std::optional<sort::OrderRows> order_rows;
  std::optional<sort::LastInPlace> last_in_place;  // or this one
};

struct Plan : Steps<Config> {
  Problem problem;
  Device device;
  // In place of all of it, where a context has no room for blocks that must run together.
  std::optional<Steps<air::ManyBlocks>> without_room;
};

// Forms that write winners by index where they are wanted so.
template <class Form>
inline constexpr bool kWritesByIndex =
    std::is_same_v<Form, sort::Copy> || std::is_same_v<Form, bitonic::OneWarp> ||
    std::is_same_v<Form, air::ResidentGrid>;

// Forms that may keep winners in their places themselves: see KeepPlan.
template <class Form>
inline constexpr bool kKeepsInRow =
    std::is_same_v<Form, bitonic::OneThread> || std::is_same_v<Form, bitonic::OneWarp>;

// Whether one of the steps follows a selection by this form, which is in_order(problem) where it leaves what
// the problem wants.
template <class Form>
bool needs_order(const Form& form, const Problem& problem) {
  if (problem.by_index) return problem.k > 1 && !kWritesByIndex<Form>;
  return problem.sorted && !form.in_order(problem);
}
template <class Form>
bool needs_last(const Form& form, const Problem& problem) {
  return problem.last_alone && problem.k > 1 && !form.in_order(problem);
}

// Why `algorithm` cannot serve the request on the device, or nullptr.
const char* unsupported_reason(const Problem& problem, const Device& device, Algorithm algorithm);
const char* unsupported_reason(const StridedProblem& strided, const Device& device, Algorithm algorithm);

// The form of `algorithm`, or of any for kAuto, that takes the least time by the costs that were measured.
// `algorithm` must be supported.
Plan make_plan(const Problem& problem, const Device& device, Algorithm algorithm);

// Calls visitor(config) with the config of every form that serves the request.
template <size_t kForm = 0, class Visitor>
void visit_forms(const Problem& problem, const Device& device, Visitor&& visitor) {
  using Form = std::variant_alternative_t<kForm, Config>;
  if (Form::serves(problem, device)) visitor(Form::plan(problem, device));
  if constexpr (kForm + 1 < std::variant_size_v<Config>) {
    visit_forms<kForm + 1>(problem, device, std::forward<Visitor>(visitor));
  }
}

// The plan that runs the request with a config of the caller's.
Plan plan_of(const Problem& problem, const Device& device, const Config& config);

// The plan in one line, "air: ...".
void describe(const Plan& plan, char* text, size_t text_bytes);

// Rows that do not lie side by side: forms that read and write them where they lie, or panels of rows that
// are moved together for any form.
using StridedConfig =
    std::variant<bitonic::OneThread, bitonic::OneWarp, delegate::AcrossRows, strided::Panels>;

// Calls visitor(name, work, config) for each of these that serves rows which a thread has no registers for:
// by that name, and of that work, are its costs.
template <class Visitor>
void visit_strided_forms(const StridedProblem& strided, const Device& device, Visitor&& visitor) {
  if (!strided.problem.by_index && !strided.input.is_plain()) {
    if (bitonic::OneWarp::serves(strided.problem, device)) {
      const auto tiles = bitonic::OneWarp::plan(strided.problem, device);
      visitor(tiles.kStridedName, tiles.strided_work(strided, device), tiles);
    }
    if (delegate::AcrossRows::serves(strided, device)) {
      const auto across = delegate::AcrossRows::plan(strided, device);
      visitor(across.kName, across.work(strided, device), across);
    }
  }
  const strided::Panels panels = strided::plan(strided, strided::kPanelBytes);
  visitor(panels.kName, panels.work(strided, device), panels);
}

struct StridedPlan {
  StridedProblem problem;
  Device device;
  StridedConfig config;
  std::optional<Plan> selection;  // of a panel's rows, and of the last one's where those are fewer
  std::optional<Plan> last_selection;
};

// `algorithm` must be supported for the problem. `panel_bytes`: a test's choice of panels, and of their size;
// `list_bytes`: of memory for lists of rows that are read across.
StridedPlan make_strided_plan(const StridedProblem& strided, const Device& device, Algorithm algorithm,
                              std::optional<int64_t> panel_bytes = std::nullopt,
                              std::optional<int64_t> list_bytes = std::nullopt);

// "strided: ..."
void describe(const StridedPlan& plan, char* text, size_t text_bytes);

struct RerankPlan {
  RerankProblem problem;
  Device device;
  rerank::Config config;
  std::optional<Plan> selection;  // of stored keys
};

// `most_stored_bytes`: of keys, where those are stored; tests give less.
RerankPlan make_rerank_plan(const RerankProblem& problem, const Device& device,
                            int64_t most_stored_bytes = rerank::kMostStoredBytes);

// "rerank: ..."
void describe(const RerankPlan& plan, char* text, size_t text_bytes);

// How the k best of each row are kept in their places.
enum class KeepWay {
  kInRegisters,  // by the selection itself
  kListed,       // the selection lists them
  kFromKth,      // it finds the last of them, with which all elements are compared
};

struct KeepPlan {
  Problem problem;
  Device device;
  KeepWay way;
  Plan selection;
};

// Of the problem's k best, in whatever order it wants them. `form`: a test's choice, one that keeps winners
// in their places, where it serves the request.
KeepPlan make_keep_plan(const Problem& problem, const Device& device, std::string_view form = {});

// "kept: ..."
void describe(const KeepPlan& plan, char* text, size_t text_bytes);

struct SparsifyPlan {
  SparsifyProblem problem;
  Device device;
  sparsify::Config config;
  std::optional<Plan> selection;              // of the winners, in any order; k > 0
  std::optional<Plan> order;                  // of their indices, the least first, all of them
  std::optional<sparsify::OneRead> one_read;  // in place of all of these
  // In place of what is above, but where a context has no room for it.
  std::optional<sparsify::Resident> resident;
};

// `resident`, `one_read`, and its `two_sided`: a test's choice, where that serves.
SparsifyPlan make_sparsify_plan(const SparsifyProblem& problem, const Device& device, bool aligned,
                                std::optional<bool> resident = std::nullopt,
                                std::optional<bool> one_read = std::nullopt,
                                std::optional<bool> two_sided = std::nullopt);

// "sparsify: ..."
void describe(const SparsifyPlan& plan, char* text, size_t text_bytes);

// The forms that take windows, whatever those hold: so a plan is good for any starts, lengths and k on the
// device. A block a row serves all requests.
using VarlenConfig = std::variant<air::OneBlock, bitonic::OneWarp, delegate::OneCluster,
                                  delegate::EqualShares, split_bucket::Tree>;

struct VarlenPlan {
  VarlenProblem problem;
  Device device;
  Problem selection;  // of positions in windows, dense
  VarlenConfig config;
  Problem ordering;  // of the selection's entries, or of its positions alone
  std::optional<sort::OrderRows> order_rows;
  bool selection_finishes = false;  // it writes what the caller wants; else positions, for steps that follow
};

// The cheapest, or, a test's choice, that of the forms whose names begin with `forms`, where one serves the
// request. problem.cols < 2^32.
VarlenPlan make_varlen_plan(const VarlenProblem& problem, const Device& device, std::string_view forms = {});

// "varlen: ..."
void describe(const VarlenPlan& plan, char* text, size_t text_bytes);

}  // namespace gputopk::cuda
