// Reranking: distances from a query to candidates that lie anywhere in memory, selected as they are computed.
// The selection is score_selection.cuh's (SC '23, section 4); the distances are its functor.
//
//   1. A warp takes 32 candidates at a time, or as few as it has rows in flight, an id a lane.
//   2. A group of lanes that a vector fills reads the vectors of as many candidates one after the other, 16
//      bytes a lane, eight of them in flight: the gather is what costs. Each lane keeps its part of each
//      candidate's sum, in float32, while the vector's pieces go by. See row_layout.cuh.
//   3. The parts are added up and handed out in one: in each step a lane gives half of its sums to the lane
//      across and takes the other half's from there. So 32 candidates take 31 shuffles, and leave each lane
//      with the distance of one.
//   4. The distances, as keys, go to the warp's queue; the lists of a block's warps are merged at the end.
// Where queries are too few to fill the GPU with a block each, or k is larger than a list, step 4 stores the
// keys instead, 4 bytes a candidate, and as many blocks as it takes share a query. finish.cu or a top-k of
// its own selects from them.
//
// Where candidates are so few that warps have no eight of them, step 2 reads one row at a time, eight words a
// lane. Where rows are not made of whole 16-byte words, it reads the widest that they are made of. Vectors
// are read as they are and widened in registers; a query is float32 or of the vectors' type. The order of a
// sum is the same in all of these: a distance's bits do not tell how the work was shared out.

#include "cuda/rerank/rerank.h"

#include <algorithm>
#include <type_traits>

#include "cuda/device/launch.h"
#include "cuda/device/shared_memory.cuh"
#include "cuda/rerank/candidate_scores.cuh"
#include "cuda/rerank/numbers.h"
#include "cuda/rerank/score_selection.cuh"

namespace gputopk::cuda::rerank {
namespace {

constexpr int kWordBytes = 16;

// A block a query.
template <class Type, class Layout, int kItems>
__global__ void __launch_bounds__(32 * tuning::kRerankMaxWarps)
    select_candidates(const __grid_constant__ Params params) {
  uint4* const shared = reinterpret_cast<uint4*>(dynamic_shared());
  const RerankProblem& problem = params.problem;
  for (int64_t query = blockIdx.x; query < problem.queries; query += gridDim.x) {
    CandidateScores<Type, Layout> scores(params, query, threadIdx.x / 32, blockDim.x / 32);
    select_scores<kItems>(scores, static_cast<int>(problem.k), shared,
                          [&](int rank, uint32_t key, uint32_t position) {
                            params.write(query, rank, key, static_cast<int64_t>(position));
                          });
  }
}

// The keys of all candidates; blocks_per_query blocks share a query's. `whole_rows`: behind a shorter row
// too, where they say that nothing is there.
template <class Type, class Layout>
__global__ void __launch_bounds__(32 * tuning::kRerankMaxWarps)
    store_scores(const __grid_constant__ Params params, uint32_t* keys, bool whole_rows) {
  let_next_kernel_start();
  const RerankProblem& problem = params.problem;
  const int64_t blocks = params.blocks_per_query;
  for (int64_t item = blockIdx.x; item < problem.queries * blocks; item += gridDim.x) {
    const int64_t query = item / blocks;
    const int64_t warp = item % blocks * (blockDim.x / 32) + threadIdx.x / 32;
    CandidateScores<Type, Layout> scores(params, query, warp, blocks * (blockDim.x / 32));
    const int64_t count = whole_rows ? problem.candidates : scores.count();
    uint32_t* const row = keys + query * problem.candidates;
    visit_scores(scores, count, warp, [&](int64_t position, uint32_t key) {
      if (position < count) row[position] = key;
    });
  }
}

unsigned grid_of(int64_t blocks) { return static_cast<unsigned>(std::min<int64_t>(blocks, 0x7FFFFFFF)); }

// Whether all rows are made of whole words of so many bytes.
bool is_aligned(const void* rows, int64_t stride, int64_t dims, DType dtype, int64_t word) {
  const int64_t bytes = dtype_bytes(dtype);
  return reinterpret_cast<uintptr_t>(rows) % word == 0 && stride * bytes % word == 0 &&
         dims * bytes % word == 0;
}

// Calls visitor(type, layout) with the instance that reads the problem's rows. Which sums there are depends
// on the rows' alignment alone.
template <bool kHasRowAtATime, class Visitor>
ErrorCode visit_reader(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                       Visitor&& visitor) {
  const auto visit_type = [&](auto type) -> ErrorCode {
    using Type = decltype(type);
    constexpr int kBytes = sizeof(typename Type::Storage);
    const auto vectors_have_words_of = [&](int64_t bytes) {
      return is_aligned(buffers.vectors, problem.vector_stride, problem.dims, problem.dtype, bytes);
    };
    if (!is_aligned(buffers.queries, problem.query_stride, problem.dims, problem.query_dtype, kWordBytes) ||
        !vectors_have_words_of(kWordBytes)) {
      if constexpr (kBytes < 4) {
        if (vectors_have_words_of(4 * kBytes)) return visitor(type, NarrowWords<Type, 4>{});
      }
      if constexpr (kBytes == 2) {
        if (vectors_have_words_of(2 * kBytes)) return visitor(type, NarrowWords<Type, 2>{});
      }
      return visitor(type, NarrowWords<Type, 1>{});
    }
    if (problem.dims * kBytes <= 16 * kWordBytes) return visitor(type, WholeWords<Type, 16>{});
    if constexpr (kHasRowAtATime) {
      if (config.row_at_a_time) return visitor(type, RowAtATime<Type>{});
    }
    return visitor(type, WholeWords<Type, 32>{});
  };
  switch (problem.dtype) {
    case DType::kFloat16: return visit_type(Float16{});
    case DType::kBFloat16: return visit_type(BFloat16{});
    case DType::kInt8:
    case DType::kUInt8: return visit_type(Bytes{});
    default: return visit_type(Float32{});
  }
}

}  // namespace

ErrorCode select(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                 Stream stream) {
  return visit_reader<false>(config, problem, buffers, [&](auto type, auto layout) -> ErrorCode {
    const auto launch = [&](auto items) -> ErrorCode {
      constexpr int kItems = decltype(items)::value;
      return launch_kernel(/*ahead=*/false, select_candidates<decltype(type), decltype(layout), kItems>,
                           grid_of(problem.queries), 32 * config.warps,
                           score_selection_bytes<kItems>(config.warps), stream,
                           Params{problem, buffers, 1, config.tile});
    };
    switch (config.list_items) {
      case 1: return launch(std::integral_constant<int, 1>{});
      case 4: return launch(std::integral_constant<int, 4>{});
      default: return launch(std::integral_constant<int, 8>{});
    }
  });
}

ErrorCode score(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                uint32_t* keys, Stream stream) {
  return visit_reader<true>(config, problem, buffers, [&](auto type, auto layout) -> ErrorCode {
    return launch_kernel(/*ahead=*/false, store_scores<decltype(type), decltype(layout)>,
                         grid_of(problem.queries * config.blocks_per_query), 32 * config.warps, 0, stream,
                         Params{problem, buffers, config.blocks_per_query, config.tile}, keys,
                         config.way == Way::kTopK);
  });
}

}  // namespace gputopk::cuda::rerank
