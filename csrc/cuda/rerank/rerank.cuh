// Reranking: distances from a query to candidates that lie anywhere in memory, selected as they are computed.
// The selection is score_selection.cuh's (SC '23, section 4); the distances are its functor.
//
//   1. A warp takes 32 candidates at a time, or as few as it has rows in a step, an id a lane.
//   2. A group of lanes that a vector fills takes as many candidates as it has lanes, up to eight, 16 bytes a
//      lane of each: a step. Those of the next steps are being copied to shared memory meanwhile: the gather
//      is what costs (rows_ahead.cuh). Each lane keeps its part of each candidate's sum, in float32, while
//      the vector's pieces go by (row_layout.cuh).
//   3. The parts are added up and handed out in one: in each step a lane gives half of its sums to the lane
//      across and takes the other half's from there. So 32 candidates take 31 shuffles, and leave each lane
//      with the distance of one.
//   4. The distances, as keys, go to the warp's queue; the lists of a block's warps are merged at the end.
// Where queries are too few to fill the GPU with a block each, or k is larger than a list or rows are so
// short that lists take longer than they, step 4 stores the keys instead, 4 bytes a candidate, and all warps
// share all candidates alike. finish.cu or a top-k of its own selects from them.
//
// Where candidates are so few that warps have no eight of them, a step is one row, 32 numbers a lane. Rows
// that are not made of whole 16-byte words are read into registers (rows_at_hand.cuh). Vectors are read as
// they are and widened in registers; a query is float32 or of the vectors' type. The order of a sum is the
// same in all of these: a distance's bits do not tell how the work was shared out.

//
// A unit of its own for each type of vectors, of_*.cu, makes these kernels: they are many.
#pragma once

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "cuda/device/launch.h"
#include "cuda/device/shared_memory.cuh"
#include "cuda/rerank/candidate_scores.cuh"
#include "cuda/rerank/numbers.h"
#include "cuda/rerank/of_type.h"
#include "cuda/rerank/score_selection.cuh"

namespace gputopk::cuda::rerank {

// A block a query.
template <class Type, class Layout, int kItems>
__global__ void __launch_bounds__(32 * tuning::kRerankMaxWarps)
    select_candidates(const __grid_constant__ Params params) {
  unsigned char* const shared = dynamic_shared();
  const RerankProblem& problem = params.problem;
  using Scores = CandidateScores<Type, Layout>;
  const int64_t tile = Scores::tile_of(params), first = threadIdx.x / 32 * tile,
                step = blockDim.x / 32 * tile;
  for (int64_t query = blockIdx.x; query < problem.queries; query += gridDim.x) {
    Scores scores(params, query, first, step, problem.candidates,
                  shared + threadIdx.x / 32 * Scores::kSharedBytes);
    select_scores<kItems>(scores, first, step, scores.count(), static_cast<int>(problem.k),
                          shared + blockDim.x / 32 * Scores::kSharedBytes,
                          [&](int rank, uint32_t key, uint32_t position) {
                            params.write(query, rank, key, static_cast<int64_t>(position));
                          });
  }
}

// Of a query's candidates those that a warp takes, in tiles, and how far its next share lies from this one.
struct Share {
  int64_t query, first, step, end, next;
};

// The keys of all candidates. The warps of all blocks share the rows of all queries alike, adjacent ones
// each; or, where only the device knows how long they are, those of blocks_per_query blocks share a query's
// tiles, one after another. `whole_rows`: behind a shorter row too, where keys say that nothing is there.
template <class Type, class Layout>
__global__ void __launch_bounds__(32 * tuning::kRerankMaxWarps)
    store_scores(const __grid_constant__ Params params, uint32_t* keys, bool whole_rows) {
  using Scores = CandidateScores<Type, Layout>;
  constexpr int64_t kBatch = Scores::kBatchRows;
  let_next_kernel_start();
  const RerankProblem& problem = params.problem;
  const int64_t warp = threadIdx.x / 32, warps = blockDim.x / 32, blocks = params.blocks_per_query;
  const int64_t tile = Scores::tile_of(params), batches = (problem.candidates + kBatch - 1) / kBatch;
  const int64_t number = blockIdx.x * warps + warp, all = gridDim.x * warps;
  const int64_t begin = blocks > 0 ? blockIdx.x : problem.queries * batches * number / all;
  const int64_t end = blocks > 0 ? problem.queries * blocks : problem.queries * batches * (number + 1) / all;
  for (int64_t at = begin; at < end;) {
    Share share;
    if (blocks > 0) {
      share = {at / blocks, (at % blocks * warps + warp) * tile, blocks * warps * tile, problem.candidates,
               gridDim.x};
    } else {
      const int64_t first = at % batches, last = min(batches, first + end - at);
      share = {at / batches, first * kBatch, tile, min(last * kBatch, problem.candidates), last - first};
    }
    Scores scores(params, share.query, share.first, share.step, share.end,
                  dynamic_shared() + warp * Scores::kSharedBytes);
    const int64_t count = whole_rows ? share.end : scores.count();
    uint32_t* const row = keys + share.query * problem.candidates;
    for (int64_t next = share.first; next < count; next += share.step) {
      const uint32_t key = next < scores.count() ? scores() : kMissingKey;
      const int64_t position = scores.position(next);
      if (position < count) row[position] = key;
    }
    at += share.next;
  }
}

inline unsigned grid_of(int64_t blocks) {
  return static_cast<unsigned>(std::min<int64_t>(blocks, 0x7FFFFFFF));
}

// Calls visitor(layout) with the one that reads the problem's rows.
template <class Type, bool kHasRowAtATime, class Visitor>
ErrorCode visit_layout(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                       Visitor&& visitor) {
  constexpr int kBytes = sizeof(typename Type::Storage);
  const auto vectors_have_words_of = [&](int bytes) {
    return is_aligned(buffers.vectors, problem.vector_stride, problem.dims, problem.dtype, bytes);
  };
  const int64_t words = (problem.dims * kBytes + 15) / 16;
  if (!vectors_have_words_of(16)) {
    if constexpr (kBytes < 4) {
      if (!vectors_have_words_of(4)) {
        if (words <= 16) return visitor(RowsTogether<Type, 16, Alignment::kAny>{});
        return visitor(RowsTogether<Type, 32, Alignment::kAny>{});
      }
    }
    if (words <= 4) return visitor(RowsTogether<Type, 4, Alignment::kFour>{});
    if (words <= 8) return visitor(RowsTogether<Type, 8, Alignment::kFour>{});
    if (words <= 16) return visitor(RowsTogether<Type, 16, Alignment::kFour>{});
    // With two sums a row fewer lanes are idle at its end; of bytes there are not the registers.
    return visitor(RowsTogether<Type, kBytes == 1 ? 32 : 16, Alignment::kFour, kBytes == 1 ? 1 : 2>{});
  }
  if (words <= 2) return visitor(RowsTogether<Type, 2>{});
  if (words <= 4) return visitor(RowsTogether<Type, 4>{});
  if (words <= 8) return visitor(RowsTogether<Type, 8>{});
  if (words <= 16) return visitor(RowsTogether<Type, 16>{});
  if constexpr (kHasRowAtATime) {
    if (config.row_at_a_time) return visitor(RowAtATime<Type>{});
  }
  return visitor(RowsTogether<Type, 32>{});
}

template <class Type>
ErrorCode OfType<Type>::select(const Config& config, const RerankProblem& problem,
                               const RerankBuffers& buffers, Stream stream) {
  return visit_layout<Type, false>(config, problem, buffers, [&](auto layout) -> ErrorCode {
    const auto launch = [&](auto items) -> ErrorCode {
      constexpr int kItems = decltype(items)::value;
      using Scores = CandidateScores<Type, decltype(layout)>;
      const auto kernel = select_candidates<Type, decltype(layout), kItems>;
      const size_t bytes = config.warps * Scores::kSharedBytes + score_selection_bytes<kItems>(config.warps);
      static std::atomic<uint64_t> allowed;
      const cudaError_t error = allow_shared_memory(kernel, bytes, allowed);
      if (error != cudaSuccess) return error;
      return launch_kernel(/*ahead=*/false, kernel, grid_of(config.blocks), 32 * config.warps, bytes, stream,
                           Params{problem, buffers, 0, config.tile});
    };
    switch (config.list_items) {
      case 1: return launch(std::integral_constant<int, 1>{});
      case 4: return launch(std::integral_constant<int, 4>{});
      default: return launch(std::integral_constant<int, 8>{});
    }
  });
}

template <class Type>
ErrorCode OfType<Type>::score(const Config& config, const RerankProblem& problem,
                              const RerankBuffers& buffers, uint32_t* keys, Stream stream) {
  return visit_layout<Type, true>(config, problem, buffers, [&](auto layout) -> ErrorCode {
    using Scores = CandidateScores<Type, decltype(layout)>;
    const auto kernel = store_scores<Type, decltype(layout)>;
    const size_t bytes = config.warps * Scores::kSharedBytes;
    static std::atomic<uint64_t> allowed;
    const cudaError_t error = allow_shared_memory(kernel, bytes, allowed);
    if (error != cudaSuccess) return error;
    return launch_kernel(/*ahead=*/false, kernel, grid_of(config.blocks), 32 * config.warps, bytes, stream,
                         Params{problem, buffers, config.blocks_per_query, config.tile}, keys,
                         config.way == Way::kTopK);
  });
}

}  // namespace gputopk::cuda::rerank
