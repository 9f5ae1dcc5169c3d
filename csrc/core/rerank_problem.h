// One rerank request in plain numbers, and the order of distances: what the binding hands to the CPU and CUDA
// algorithms.
//
// The contract, which both keep:
//   - Each query has `candidates` ids of rows of `vectors`. An id outside [0, vectors) is a missing
//   candidate.
//   - A candidate's distance is a float32, from sums in float32: squared l2, where less is better, or inner
//     product or cosine similarity, where more is. The cosine of a zero vector is 0.
//   - The k best come out best first, ids as they were given, repeated ones as often as they were. Behind
//     every number come NaN distances, behind those missing candidates: id -1 and the worst distance.
//   - Among equal distances the earlier candidate wins. Zero is +0 and NaN one pattern, so that a distance
//   can
//     be had back from its key.
//   - The order of the sums, and with it the last bits of a distance, is the device's own; a function of the
//     query, the vector, their alignment and the processor, not of the other candidates.
#pragma once

#include <cstdint>

#include "core/key_order.h"
#include "core/problem.h"

namespace gputopk {

// The numbers are the operator's `metric` argument and never change meaning.
enum class Metric : uint8_t {
  kL2 = 0,
  kInnerProduct = 1,
  kCosine = 2,
};

constexpr int kMetrics = 3;

constexpr const char* metric_name(Metric metric) {
  constexpr const char* kNames[kMetrics] = {"l2", "inner_product", "cosine"};
  return kNames[static_cast<int>(metric)];
}

// A candidate's position and a key of 32 bits share a word of 64.
constexpr int64_t kMaxCandidates = INT32_MAX;

struct RerankProblem {
  DType dtype = DType::kFloat32;  // of queries and vectors: float32, float16 or bfloat16
  Metric metric = Metric::kL2;
  int64_t queries = 0;
  int64_t vectors = 0;
  int64_t candidates = 0;  // of each query, at most kMaxCandidates
  int64_t dims = 0;
  int64_t k = 0;             // 1 <= k <= candidates wherever an algorithm is called
  int64_t query_stride = 0;  // elements from one row to the next; elements of a row are adjacent
  int64_t vector_stride = 0;
  int64_t id_stride = 0;
  bool wide_ids = true;  // int64 ids; otherwise int32
};

struct RerankBuffers {
  const void* queries = nullptr;
  const void* vectors = nullptr;
  const void* candidate_ids = nullptr;
  float* distances = nullptr;  // queries x k, dense
  void* ids = nullptr;         // queries x k of the candidate ids' dtype, dense
  void* workspace = nullptr;   // as many bytes as asked for, 256-byte aligned, content arbitrary
};

// Distances as keys: the larger the better, NaN the least of all, and kMissingKey below that.
constexpr uint32_t kMissingKey = 0;

GPUTOPK_HOST_DEVICE constexpr bool larger_is_better(Metric metric) { return metric != Metric::kL2; }

// `bits` of a float32. NaN is the worst of the smallest-first order, so where more is better, signs change.
GPUTOPK_HOST_DEVICE uint32_t distance_key(Metric metric, uint32_t bits) {
  const uint32_t sign = larger_is_better(metric) ? 0x80000000u : 0u;
  return make_key_order<uint32_t, true>(DType::kFloat32, /*largest=*/false, /*magnitude=*/false)(bits ^ sign);
}

// Back to the distance's bits; of kMissingKey, the worst distance's.
GPUTOPK_HOST_DEVICE uint32_t distance_bits(Metric metric, uint32_t key) {
  constexpr uint32_t kSign = 0x80000000u, kInfinity = 0x7F800000u, kNan = 0x7FC00000u;
  const uint32_t sign = larger_is_better(metric) ? kSign : 0u;
  if (key == kMissingKey) return kInfinity ^ sign;
  const uint32_t lifted = ~key;  // -inf is 0, zero kInfinity, +inf twice that, NaN beyond
  if (lifted > 2 * kInfinity) return kNan;
  if (lifted == kInfinity) return 0;
  return (lifted > kInfinity ? lifted - kInfinity : kSign | (kInfinity - lifted)) ^ sign;
}

}  // namespace gputopk
