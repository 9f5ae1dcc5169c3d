// rerank.cuh's kernels for vectors of one type, each in a unit of its own.
#pragma once

#include "cuda/rerank/rerank.h"

namespace gputopk::cuda::rerank {

struct Float32;
struct Float16;
struct BFloat16;
struct Bytes;  // int8 and uint8

// rerank.h's functions of the same names.
template <class Type>
struct OfType {
  static ErrorCode select(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                          Stream stream);
  static ErrorCode score(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                         uint32_t* keys, Stream stream);
};

}  // namespace gputopk::cuda::rerank
