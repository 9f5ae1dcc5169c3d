// The k best of keys that rerank.cuh has stored, where these are few enough for a block a query: in the
// launch behind that of the distances, which it follows without a gap.
//
// Few winners of few keys are selected by the warps' lists, as in select_candidates; the scores are those in
// memory. Otherwise
//   1. the keys come into shared memory, and their range is found;
//   2. AIR's digits of that range give a bound that k of them reach, and few more (SC '23, section 3); where
//      the query has no more than there is room for, all of them do;
//   3. what reaches the bound is listed and put in order.
// What a top-k of its own has selected is only looked up.

#include <algorithm>
#include <atomic>

#include "cuda/device/block_sort.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/list_selection.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/rerank/numbers.h"
#include "cuda/rerank/params.cuh"
#include "cuda/rerank/rerank.h"
#include "cuda/rerank/score_selection.cuh"

namespace gputopk::cuda::rerank {
namespace {

// Keys of a row in memory, for a warp of a block, from one tile of 32 to the next that is its own: four of
// them a lane are under way.
class StoredScores {
 public:
  __device__ StoredScores(const uint32_t* row, int64_t count) : row_(row), count_(count), at_(threadIdx.x) {
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) next_[i] = load();
  }

  __device__ int64_t position(int64_t tile) const { return tile + threadIdx.x % 32; }

  __device__ uint32_t operator()() {
    const uint32_t key = next_[0];
#pragma unroll
    for (int i = 0; i + 1 < kInFlight; ++i) next_[i] = next_[i + 1];
    next_[kInFlight - 1] = load();
    return key;
  }

 private:
  static constexpr int kInFlight = 4;

  __device__ uint32_t load() {
    const uint32_t key = at_ < count_ ? __ldcg(row_ + at_) : kMissingKey;
    at_ += blockDim.x;
    return key;
  }

  const uint32_t* row_;
  int64_t count_, at_;
  uint32_t next_[kInFlight];
};

// A block a query, as below.
__global__ void __launch_bounds__(32 * tuning::kRerankFinishMaxWarps)
    finish_with_lists(const __grid_constant__ Params params, const uint32_t* keys) {
  const RerankProblem& problem = params.problem;
  wait_for_kernel_before();
  for (int64_t query = blockIdx.x; query < problem.queries; query += gridDim.x) {
    const int64_t count = candidate_row(problem, params.buffers, query).count;
    StoredScores scores(keys + query * problem.candidates, count);
    select_scores</*kItems=*/1>(scores, threadIdx.x / 32 * 32, blockDim.x, count, static_cast<int>(problem.k),
                                dynamic_shared(), [&](int rank, uint32_t key, uint32_t position) {
                                  params.write(query, rank, key, static_cast<int64_t>(position));
                                });
  }
}

using Memory = BlockMemory<uint32_t, uint32_t>;
static_assert(sizeof(ListSelectionScratch<uint32_t>) + sizeof(BlockScratch<uint32_t, uint32_t>) + 64 <=
              tuning::kRerankFinishStaticBytes);
static_assert(tuning::kRerankMostFinished + tuning::kRerankFinishSlack <=
              tuning::kRerankFinishItems * 32 * tuning::kRerankFinishMaxWarps);

// A block a query. Its dynamic shared memory is the list with what sorts it, in whose place digits are
// counted first, and the keys.
__global__ void __launch_bounds__(32 * tuning::kRerankFinishMaxWarps)
    finish_query(const __grid_constant__ Params params, const uint32_t* keys, int room, int digit_bits,
                 int keys_at) {
  __shared__ ListSelectionScratch<uint32_t> search;
  __shared__ BlockScratch<uint32_t, uint32_t> scratch;
  __shared__ uint32_t present, listed;
  const RerankProblem& problem = params.problem;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const Memory memory(dynamic_shared(), room);
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic_shared());
  uint32_t* const own = reinterpret_cast<uint32_t*>(dynamic_shared() + keys_at);
  wait_for_kernel_before();
  for (int64_t query = blockIdx.x; query < problem.queries; query += gridDim.x) {
    const uint32_t* const row = keys + query * problem.candidates;
    const int count = static_cast<int>(candidate_row(problem, params.buffers, query).count);
    if (thread == 0) {
      search.range.reset();
      present = listed = 0;
    }
    __syncthreads();  // nothing has been counted yet
    SeenKeys<uint32_t> seen;
    unsigned own_present = 0;
#pragma unroll 8
    for (int i = thread; i < count; i += threads) {
      const uint32_t key = __ldcg(row + i);
      own[i] = key;
      if (key == kMissingKey) continue;
      seen.see(key);
      ++own_present;
    }
    search.range.add(seen);
    own_present = __reduce_add_sync(~0u, own_present);
    if (thread % 32 == 0) atomicAdd(&present, own_present);
    __syncthreads();  // the keys are there, and what is known of them

    const int wanted = min(static_cast<int>(problem.k), static_cast<int>(present));
    ExtendedKey<uint32_t, uint32_t> bound{kMissingKey + 1, 0};
    const auto entry = [&](int i) {
      return ExtendedKey<uint32_t, uint32_t>{own[i], static_cast<uint32_t>(count - 1 - i)};
    };
    if (static_cast<int>(present) > room) {
      auto selection = Selection<uint32_t, uint32_t>::whole_row(wanted, present);
      selection.low.key = search.range.least;  // above missing candidates
      bound = narrow_in_list(count, selection, static_cast<uint64_t>(room - wanted), digit_bits,
                             bits_of(search.range.greatest - search.range.least),
                             bits_of(static_cast<uint32_t>(count - 1)), histogram, search.target, entry);
    }
    for (int base = 0; base < count; base += threads) {
      const int i = base + thread;
      const bool reaches = i < count && !(entry(i) < bound);
      const unsigned takers = __ballot_sync(~0u, reaches);
      if (takers == 0) continue;
      uint32_t first = 0;
      if (thread % 32 == 0) first = atomicAdd(&listed, static_cast<uint32_t>(__popc(takers)));
      first = __shfl_sync(~0u, first, 0);
      if (reaches) {
        const uint32_t at = first + __popc(takers & ((1u << thread % 32) - 1));
        memory.values[at] = own[i];
        memory.indices[at] = static_cast<uint32_t>(i);
      }
    }
    __syncthreads();  // the list is whole
    sort_in_block<tuning::kRerankFinishItems>(
        static_cast<int>(listed), wanted, KeysAsTheyAre<uint32_t>{}, memory, scratch,
        [&](int i, uint32_t& key, uint32_t& position) {
          key = memory.values[i];
          position = memory.indices[i];
        },
        [&](int rank, uint32_t key, uint32_t position) {
          params.write(query, rank, key, static_cast<int64_t>(position));
        });
    for (int rank = wanted + thread; rank < problem.k; rank += threads) {
      params.write(query, rank, kMissingKey, 0);
    }
    __syncthreads();  // and has been read
  }
}

// A thread a winner.
__global__ void write_winners(const __grid_constant__ Params params, const uint32_t* keys,
                              const int32_t* positions) {
  const int64_t k = params.problem.k;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < params.problem.queries * k;
       at += step) {
    params.write(at / k, at % k, keys[at], positions[at]);
  }
}

unsigned grid_of(int64_t blocks) { return static_cast<unsigned>(std::min<int64_t>(blocks, 0x7FFFFFFF)); }

}  // namespace

ErrorCode finish(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                 const uint32_t* keys, Stream stream) {
  const unsigned blocks = grid_of(problem.queries);
  if (config.finish_room == 0) {
    return launch_kernel(/*ahead=*/true, finish_with_lists, blocks, 32 * config.finish_warps,
                         score_selection_bytes<1>(config.finish_warps), stream,
                         Params{problem, buffers, 0, 0}, keys);
  }
  const size_t shared_bytes = config.finish_keys_at + sizeof(uint32_t) * problem.candidates;
  static std::atomic<uint64_t> allowed;
  const cudaError_t error = allow_shared_memory(finish_query, shared_bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_kernel(/*ahead=*/true, finish_query, blocks, 32 * config.finish_warps, shared_bytes, stream,
                       Params{problem, buffers, 0, 0}, keys, config.finish_room, config.finish_digit_bits,
                       config.finish_keys_at);
}

ErrorCode look_up(const RerankProblem& problem, const uint32_t* keys, const int32_t* positions,
                  const RerankBuffers& buffers, Stream stream) {
  constexpr int kThreads = 256;
  const int64_t winners = problem.queries * problem.k;
  return launch_kernel(/*ahead=*/false, write_winners, grid_of((winners + kThreads - 1) / kThreads), kThreads,
                       0, stream, Params{problem, buffers, 0, 0}, keys, positions);
}

}  // namespace gputopk::cuda::rerank
