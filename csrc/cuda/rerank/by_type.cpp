// Which unit's kernels serve a request: by the type of its vectors.

#include "cuda/rerank/of_type.h"

namespace gputopk::cuda::rerank {
namespace {

template <class Visitor>
ErrorCode visit_type(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::kFloat16: return visitor(OfType<Float16>{});
    case DType::kBFloat16: return visitor(OfType<BFloat16>{});
    case DType::kInt8:
    case DType::kUInt8: return visitor(OfType<Bytes>{});
    default: return visitor(OfType<Float32>{});
  }
}

}  // namespace

ErrorCode select(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                 Stream stream) {
  return visit_type(problem.dtype,
                    [&](auto of_type) { return of_type.select(config, problem, buffers, stream); });
}

ErrorCode score(const Config& config, const RerankProblem& problem, const RerankBuffers& buffers,
                uint32_t* keys, Stream stream) {
  return visit_type(problem.dtype,
                    [&](auto of_type) { return of_type.score(config, problem, buffers, keys, stream); });
}

}  // namespace gputopk::cuda::rerank
