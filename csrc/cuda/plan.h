// All decisions of the CUDA side: which algorithm, in which form, with which numbers. Pure host code, a
// function of the request and the device alone, so it is tested without a GPU.
#pragma once

#include <cstddef>
#include <optional>
#include <variant>

#include "core/problem.h"
#include "core/rerank_problem.h"
#include "cuda/air.h"
#include "cuda/air_block.h"
#include "cuda/air_cluster.h"
#include "cuda/delegate.h"
#include "cuda/delegate_sample.h"
#include "cuda/grid_select.h"
#include "cuda/grid_select_block.h"
#include "cuda/rerank.h"

namespace gputopk::cuda {

// What a plan depends on of a GPU. The default is the one that the numbers were measured on.
struct Device {
  int sm_count = 132;
  int compute_capability = 90;              // ten times the major number and the minor
  int shared_bytes_per_block = 227 * 1024;  // at most, where a kernel asks for it
  int cluster_blocks = 16;                  // at most, of air_cluster's; 1: no clusters
};

struct Plan {
  Problem problem;
  Device device;
  std::variant<air::Config, air_block::Config, air_cluster::Config, grid_select::Config,
               grid_select_block::Config, delegate::Config, delegate_sample::Config>
      config;
  bool order_rows;  // a step of its own follows
};

// Overrides of the plan's numbers for ablations and tuning studies of AIR; zero: the plan's choice.
struct AirStudy {
  int threads = 0;  // set: one block of so many threads a row, or a cluster of such blocks
  int cluster = 0;  // set: one cluster of so many blocks a row; blocks and below are then of no account
  int digit_bits = 0;
  int blocks = 0;
  bool adaptive = true;
  bool early_stop = true;
};

// The same for delegate. With either set, the bound is from the delegates of the whole row.
struct DelegateStudy {
  int alpha = 0;
  int beta = 0;
};

// The same of GridSelect.
struct GridSelectStudy {
  enum class Form { kPlan, kRegisters, kBlock };  // where lists live; kRegisters: k of at most 256

  Form form = Form::kPlan;
  int blocks = 0;              // a row; kWarpARow: none, a warp takes a row
  int threads = 0;             // a block
  bool thread_queues = false;  // of lists in registers

  static constexpr int kWarpARow = -1;
};

// Why `algorithm` cannot serve the request, or nullptr.
const char* unsupported_reason(const Problem& problem, Algorithm algorithm);

// The algorithm that `auto` takes.
Algorithm choose(const Problem& problem, const Device& device);

// `algorithm` must be supported.
Plan make_plan(const Problem& problem, const Device& device, Algorithm algorithm);

// AIR with the study's numbers: over many blocks, unless it sets `cluster` or `threads`. The row must fit a
// cluster, or one block, then.
Plan make_air_study(const Problem& problem, const Device& device, const AirStudy& study);

// Delegate with the study's numbers, which delegate_alphas must allow.
Plan make_delegate_study(const Problem& problem, const Device& device, const DelegateStudy& study);

// The least and greatest alpha that serve the request; the first is the greater where none does.
struct AlphaRange {
  int least, most;
};
AlphaRange delegate_alphas(const Problem& problem, int beta);

// GridSelect with the study's numbers. Must be supported.
Plan make_grid_select_study(const Problem& problem, const Device& device, const GridSelectStudy& study);

// The plan in one line, "air: ...".
void describe(const Plan& plan, char* text, size_t text_bytes);

struct RerankPlan {
  RerankProblem problem;
  Device device;
  rerank::Config config;
  std::optional<Plan> selection;  // of stored keys
};

RerankPlan make_rerank_plan(const RerankProblem& problem, const Device& device);

// "rerank: ..."
void describe(const RerankPlan& plan, char* text, size_t text_bytes);

}  // namespace gputopk::cuda
