// GridSelect: candidates are queued on the fly, while the row is read once. For k up to kMaxK.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/problem.h"
#include "cuda/cost.h"
#include "cuda/gpu.h"
#include "cuda/stream.h"

namespace gputopk::cuda::grid_select {

inline constexpr int64_t kMaxK = 4096;
inline constexpr int64_t kRegistersMaxK = 256;

// Why GridSelect cannot serve the request, or nullptr.
const char* unsupported_reason(const Problem& problem);

// Overrides of the plan's numbers for ablations and tuning studies; zero: the plan's choice.
struct Study {
  enum class Form { kPlan, kRegisters, kSharedList };  // kRegisters: k of at most kRegistersMaxK

  Form form = Form::kPlan;
  int blocks = 0;              // a row; kWarpARow: none, a warp takes a row
  int threads = 0;             // a block
  bool thread_queues = false;  // of lists in registers

  static constexpr int kWarpARow = -1;
};

// Each warp keeps the k best entries that it has read, in registers.
struct Registers {
  static constexpr Algorithm kAlgorithm = Algorithm::kGridSelect;
  static constexpr const char* kName = "grid_select.registers";

  int blocks_per_row;   // 0: a warp takes a row
  int threads;          // a block
  int samplers;         // warps of a block that look at a sample first, 1 at least
  bool thread_queues;   // a queue a lane instead of one a warp: float32 only, for the paper's ablation
  bool launches_ahead;  // the GPU can start a kernel while the one before ends

  static bool serves(const Problem& problem, const Device& device);
  static Registers plan(const Problem& problem, const Device& device) { return plan(problem, device, {}); }
  static Registers plan(const Problem& problem, const Device& device, const Study& study);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return true; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

// Each block keeps a list of candidates in shared memory, and prunes it by a radix selection when it is full.
struct SharedList {
  static constexpr Algorithm kAlgorithm = Algorithm::kGridSelect;
  static constexpr const char* kName = "grid_select.shared_list";

  int threads;
  int blocks_per_row;
  int blocks_per_group;  // whose candidates one block merges
  int capacity;          // entries of a block's list: more than k, and even
  int digit_bits;        // of the digits by which a list is pruned
  int first_review;      // tiles after which a block first prunes its list and publishes its bound...
  int review_growth;     // ...and then after so many times as many; at least 2
  bool ranks_winners;    // a small k: they are in order

  static bool serves(const Problem& problem, const Device&) { return problem.k <= kMaxK; }
  static SharedList plan(const Problem& problem, const Device& device) { return plan(problem, device, {}); }
  static SharedList plan(const Problem& problem, const Device& device, const Study& study);
  Work work(const Problem& problem, const Device& device) const;
  bool in_order(const Problem&) const { return ranks_winners; }
  void describe(const Problem& problem, char* text, size_t text_bytes) const;
  size_t workspace_bytes(const Problem& problem) const;
  ErrorCode run(const Problem& problem, const Buffers& buffers, Stream stream) const;
};

}  // namespace gputopk::cuda::grid_select
