// Reranking: the distances of each query's candidates and the best k of them, with no distance stored where
// the k best fit a warp's registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rerank_problem.h"
#include "cuda/gpu.h"
#include "cuda/stream.h"

namespace gputopk::cuda::rerank {

// How the k best are found.
enum class Way {
  kLists,   // by lists in registers, a block a query: one launch, and no distance is stored
  kFinish,  // of stored keys, by a block a query in the launch behind
  kTopK,    // of stored keys, by a top-k
};

struct Config {
  Way way;
  int list_items;            // entries a lane of the lists, 32 of them k at least; with kLists
  int warps;                 // of a block that computes distances
  int64_t blocks;            // that compute a slice's
  int64_t blocks_per_query;  // that store keys, where only the device knows how long rows are; 0: the warps
                             // of all blocks share all candidates alike
  int64_t slice;             // queries whose keys are stored at a time; all of them with kLists
  int tile;  // candidates that a warp takes at a time, where its rows in flight are no more: a power
             // of two, at most 32
  bool row_at_a_time;  // rows of whole words are in flight one at a time; not with kLists
  int finish_warps;    // of a block that selects, with kFinish
  int finish_room;     // entries that it puts in order: a multiple of 64; 0: it keeps lists of 32
  int finish_digit_bits;
  int finish_keys_at;  // in its shared memory, behind what puts entries in order
};

// Keys stored at a time, in bytes: queries are taken in slices of no more, or one by one.
inline constexpr int64_t kMostStoredBytes = int64_t{256} << 20;

Config plan(const RerankProblem& problem, const Device& device, int64_t most_stored_bytes);

// Whether kernels read the queries as they are: float32, or of the vectors' own type.
bool reads_queries(const RerankProblem& problem);

// kLists: the whole work, in one launch. Needs no workspace.
ErrorCode select(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                 Stream stream);

// Otherwise, a slice of config.slice queries after another: the distances as queries x candidates keys...
ErrorCode score(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                uint32_t* keys, Stream stream);

// ...and, kFinish, the outputs from them, right behind `score` on the stream...
ErrorCode finish(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                 const uint32_t* keys, Stream stream);

// ...or, kTopK, from the queries x k keys and positions that a selection of the largest gave, in order.
ErrorCode look_up(const RerankProblem& problem, const uint32_t* keys, const int32_t* positions,
                  const RerankBuffers& buffers, Stream stream);

}  // namespace gputopk::cuda::rerank
