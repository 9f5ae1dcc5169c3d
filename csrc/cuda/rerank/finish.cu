// The k best of keys that rerank.cu has stored, where these are few enough for a block a query: in the launch
// behind that of the distances, which it follows without a gap.
//
//   1. Up to 256 winners: each warp has a list, as in select_candidates; the scores are those in memory.
//   2. More: all keys of a query are sorted in shared memory.
// What a top-k of its own has selected is only looked up.

#include <algorithm>
#include <type_traits>

#include "cuda/device/launch.h"
#include "cuda/device/list_sort.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/rerank/numbers.h"
#include "cuda/rerank/params.cuh"
#include "cuda/rerank/rerank.h"
#include "cuda/rerank/score_selection.cuh"

namespace gputopk::cuda::rerank {
namespace {

// Keys of a row in memory, for a warp of a block, which has four of them a lane under way.
class StoredScores {
 public:
  __device__ StoredScores(const uint32_t* row, int64_t count) : row_(row), count_(count) {
    const int64_t tile = first(threadIdx.x / 32);
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) next_[i] = load(tile + i * step());
  }

  __device__ int64_t count() const { return count_; }
  __device__ int64_t first(int64_t warp) const { return 32 * warp; }
  __device__ int64_t step() const { return blockDim.x; }
  __device__ int64_t position(int64_t tile) const { return tile + threadIdx.x % 32; }

  __device__ uint32_t operator()(int64_t tile) {
    const uint32_t key = next_[0];
#pragma unroll
    for (int i = 0; i + 1 < kInFlight; ++i) next_[i] = next_[i + 1];
    next_[kInFlight - 1] = load(tile + kInFlight * step());
    return key;
  }

 private:
  static constexpr int kInFlight = 4;

  __device__ uint32_t load(int64_t tile) const {
    return position(tile) < count_ ? __ldcg(row_ + position(tile)) : kMissingKey;
  }

  const uint32_t* row_;
  int64_t count_;
  uint32_t next_[kInFlight];
};

// A block a query, as below.
template <int kItems>
__global__ void __launch_bounds__(32 * tuning::kRerankFinishMaxWarps)
    finish_with_lists(const __grid_constant__ Params params, const uint32_t* keys) {
  const RerankProblem& problem = params.problem;
  unsigned char* const shared = dynamic_shared();
  wait_for_kernel_before();
  for (int64_t query = blockIdx.x; query < problem.queries; query += gridDim.x) {
    StoredScores scores(keys + query * problem.candidates,
                        candidate_row(problem, params.buffers, query).count);
    select_scores<kItems>(scores, static_cast<int>(problem.k), shared,
                          [&](int rank, uint32_t key, uint32_t position) {
                            params.write(query, rank, key, static_cast<int64_t>(position));
                          });
  }
}

__global__ void __launch_bounds__(32 * tuning::kRerankSortMaxWarps)
    finish_with_sort(const __grid_constant__ Params params, const uint32_t* keys) {
  const RerankProblem& problem = params.problem;
  const PaddedList<uint64_t> list(reinterpret_cast<uint64_t*>(dynamic_shared()));
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  wait_for_kernel_before();
  for (int64_t query = blockIdx.x; query < problem.queries; query += gridDim.x) {
    const uint32_t* const row = keys + query * problem.candidates;
    const int count = static_cast<int>(candidate_row(problem, params.buffers, query).count);
    const int size = static_cast<int>(sorted_entries(count));
    for (int i = thread; i < size; i += threads) {
      list[i] = i < count ? ScoreEntry::pack(__ldcg(row + i), static_cast<uint32_t>(i)) : 0;
    }
    __syncthreads();  // the list is there
    sort_list(list, size, BlockItems{});
    for (int rank = thread; rank < problem.k; rank += threads) {
      const uint64_t entry = rank < count ? list[rank] : 0;
      params.write(query, rank, ScoreEntry::key(entry), ScoreEntry::index(entry));
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
  const auto launch = [&](auto kernel, size_t shared_bytes) -> ErrorCode {
    return launch_kernel(/*ahead=*/true, kernel, grid_of(problem.queries), 32 * config.finish_warps,
                         shared_bytes, stream, Params{problem, buffers, 1, 0}, keys);
  };
  switch (config.list_items) {
    case 0: {
      const int size = static_cast<int>(sorted_entries(problem.candidates));
      return launch(finish_with_sort, PaddedList<uint64_t>::places(size) * sizeof(uint64_t));
    }
    case 1: return launch(finish_with_lists<1>, score_selection_bytes<1>(config.finish_warps));
    case 4: return launch(finish_with_lists<4>, score_selection_bytes<4>(config.finish_warps));
    default: return launch(finish_with_lists<8>, score_selection_bytes<8>(config.finish_warps));
  }
}

ErrorCode look_up(const RerankProblem& problem, const uint32_t* keys, const int32_t* positions,
                  const RerankBuffers& buffers, Stream stream) {
  constexpr int kThreads = 256;
  const int64_t winners = problem.queries * problem.k;
  return launch_kernel(/*ahead=*/false, write_winners, grid_of((winners + kThreads - 1) / kThreads), kThreads,
                       0, stream, Params{problem, buffers, 1, 0}, keys, positions);
}

}  // namespace gputopk::cuda::rerank
