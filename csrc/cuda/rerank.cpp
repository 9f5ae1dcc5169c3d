// How a rerank's plan is run: in one go, or slice by slice through stored keys and a top-k of them.
#include "cuda/topk.h"

#include <algorithm>
#include <type_traits>

#include "cuda/workspace.h"

namespace gputopk::cuda {
namespace {

// Where reranking stores keys: those of a slice's candidates, and what a top-k, if there is one, makes of
// them.
struct RerankMemory {
  uint32_t* keys = nullptr;
  uint32_t* winner_keys = nullptr;
  int32_t* winner_positions = nullptr;
  char* selection = nullptr;
  size_t bytes = 0;

  RerankMemory(const RerankPlan& plan, void* base) {
    if (plan.config.way == rerank::Way::kLists) return;
    const RerankProblem& problem = plan.problem;
    Workspace workspace(base);
    const int64_t queries = plan.config.slice;
    keys = workspace.take<uint32_t>(queries * problem.candidates);
    if (plan.selection) {
      winner_keys = workspace.take<uint32_t>(queries * problem.k);
      winner_positions = workspace.take<int32_t>(queries * problem.k);
      selection = workspace.take<char>(static_cast<int64_t>(workspace_bytes(*plan.selection)));
    }
    bytes = workspace.bytes();
  }
};

// The same buffers from query `first` on.
RerankBuffers buffers_from(const RerankProblem& problem, const RerankBuffers& buffers, int64_t first) {
  const auto advanced = [](auto* pointer, int64_t bytes) {
    using Byte =
        std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(pointer)>>, const char, char>;
    return pointer == nullptr ? pointer : static_cast<decltype(pointer)>(static_cast<Byte*>(pointer) + bytes);
  };
  const int64_t id_bytes = problem.wide_ids ? 8 : 4, range_bytes = problem.wide_ranges ? 8 : 4;
  RerankBuffers rest = buffers;
  rest.queries = advanced(buffers.queries, first * problem.query_stride * dtype_bytes(problem.query_dtype));
  if (buffers.row_offsets == nullptr) {
    rest.candidate_ids = advanced(buffers.candidate_ids, first * problem.id_stride * id_bytes);
  }
  rest.lengths = advanced(buffers.lengths, first * range_bytes);
  rest.row_offsets = advanced(buffers.row_offsets, first * range_bytes);
  rest.distances = buffers.distances + first * problem.k;
  rest.ids = advanced(buffers.ids, first * problem.k * id_bytes);
  return rest;
}

ErrorCode run_slice(const RerankPlan& plan, const RerankBuffers& buffers, const RerankMemory& memory,
                    Stream stream) {
  RerankProblem problem = plan.problem;
  problem.queries = plan.config.slice;
  ErrorCode error = rerank::score(plan.config, problem, buffers, memory.keys, stream);
  if (error != 0) return error;
  if (!plan.selection) return rerank::finish(plan.config, problem, buffers, memory.keys, stream);
  Buffers selection;
  selection.input = memory.keys;
  selection.values = memory.winner_keys;
  selection.indices = memory.winner_positions;
  selection.workspace = memory.selection;
  error = run(*plan.selection, selection, stream);
  if (error != 0) return error;
  return rerank::look_up(problem, memory.winner_keys, memory.winner_positions, buffers, stream);
}

}  // namespace

size_t workspace_bytes(const RerankPlan& plan) { return RerankMemory(plan, nullptr).bytes; }

ErrorCode run(const RerankPlan& plan, const RerankBuffers& buffers, Stream stream) {
  if (plan.config.way == rerank::Way::kLists) {
    return rerank::select(plan.config, plan.problem, buffers, stream);
  }
  const RerankMemory memory(plan, buffers.workspace);
  const int64_t slice = plan.config.slice, queries = plan.problem.queries;
  for (int64_t first = 0; first < queries; first += slice) {
    // The last slice is as long as the others, and may write some of the one before again.
    const int64_t from = std::min(first, queries - slice);
    const ErrorCode error = run_slice(plan, buffers_from(plan.problem, buffers, from), memory, stream);
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace gputopk::cuda
