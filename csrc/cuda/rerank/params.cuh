// A rerank request as its kernels take it.
#pragma once

#include <cstdint>

#include "cuda/rerank/rerank.h"

namespace gputopk::cuda::rerank {

// Whether all rows are made of whole words of so many bytes, a power of two.
GPUTOPK_HOST_DEVICE bool is_aligned(const void* rows, int64_t stride, int64_t dims, DType dtype, int word) {
  const auto begins = static_cast<int64_t>(reinterpret_cast<uintptr_t>(rows));
  return ((begins | stride * dtype_bytes(dtype) | dims * dtype_bytes(dtype)) & (word - 1)) == 0;
}

struct Params {
  RerankProblem problem;
  RerankBuffers buffers;
  int64_t blocks_per_query;  // that store keys; 0: warps share all tiles alike
  int tile;                  // candidates that a warp takes at a time: see Config

  __device__ int64_t id_at(int64_t at) const {
    return integer_at(buffers.candidate_ids, problem.wide_ids, at);
  }

  __device__ void write(int64_t query, int64_t rank, uint32_t key, int64_t position) const {
    const int64_t at = query * problem.k + rank;
    int64_t id = -1;
    if (key != kMissingKey) {
      id = problem.positions ? position : id_at(candidate_row(problem, buffers, query).begin + position);
    }
    buffers.distances[at] = __uint_as_float(distance_bits(problem.metric, key));
    if (problem.wide_ids) {
      static_cast<int64_t*>(buffers.ids)[at] = id;
    } else {
      static_cast<int32_t*>(buffers.ids)[at] = static_cast<int32_t>(id);
    }
  }
};

}  // namespace gputopk::cuda::rerank
