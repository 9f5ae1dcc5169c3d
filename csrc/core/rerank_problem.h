// One rerank request in plain numbers, and the order of distances: what the binding hands to the CPU and CUDA
// algorithms.
//
// The contract, which both keep:
//   - Each query has ids of rows of `vectors`, at most `candidates`: a row of a matrix, all of it or the
//   first
//     `lengths[query]`; the one list that all queries share; or, of a list of all, those between two row
//     offsets. Lengths and offsets are clamped into what is there.
//   - An id outside [0, vectors), or one that `allow` rules out, is a missing candidate, whose vector is not
//     read.
//   - An element of a vector is a number, times the row's scale where there are scales. A query's is a
//   number.
//   - A candidate's distance is a float32, from sums in float32: squared l2, where less is better, or inner
//     product or cosine similarity, where more is. A cosine lies in [-1, 1]; that of a zero vector is 0.
//   - With u = 2^-24, terms t_i and no overflow or underflow, a sum is off by less than
//     (dims / 16 + 32) u sum |t_i|; a cosine by less than twice (dims / 16 + 32) u. A scaled element may
//     itself be off by u of its size.
//   - The k best come out best first, ids as they were given, or their positions in the query's candidates;
//     repeated ones as often as they were. Behind every number come NaN distances, behind those missing
//     candidates: id or position -1 and the worst distance.
//   - Among equal distances the earlier candidate wins. Zero is +0 and NaN one pattern, so that a distance
//     can be had back from its key.
//   - The order of the sums is fixed: the bits of a distance are a function of the query, the vector and the
//     processor, not of where they lie, nor of the other candidates, queries or threads.
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
  DType dtype = DType::kFloat32;        // of vectors: float32, float16, bfloat16, int8 or uint8
  DType query_dtype = DType::kFloat32;  // float32, float16 or bfloat16
  Metric metric = Metric::kL2;
  int64_t queries = 0;
  int64_t vectors = 0;
  int64_t candidates = 0;  // of each query, at most; at most kMaxCandidates
  int64_t listed = 0;      // ids in all, where row offsets say whose they are
  int64_t dims = 0;
  int64_t k = 0;             // 1 <= k <= candidates wherever an algorithm is called
  int64_t query_stride = 0;  // elements from one row to the next; elements of a row are adjacent
  int64_t vector_stride = 0;
  int64_t id_stride = 0;    // 0 where queries share a list
  int allow_shift = 0;      // 2^allow_shift vectors share a byte of `allow`: 0, or 3 for bits
  bool wide_ids = true;     // int64 ids; otherwise int32
  bool wide_ranges = true;  // the same of lengths and row offsets
  bool ragged = false;      // there are lengths or row offsets
  bool positions = false;   // what comes out for ids
};

struct RerankBuffers {
  const void* queries = nullptr;
  const void* vectors = nullptr;
  const float* scales = nullptr;  // one a vector; only of int8 and uint8
  const void* candidate_ids = nullptr;
  const void* lengths = nullptr;      // one a query; or
  const void* row_offsets = nullptr;  // queries + 1
  const uint8_t* allow = nullptr;     // the lowest bit, or bits from the lowest on
  float* distances = nullptr;         // queries x k, dense
  void* ids = nullptr;                // queries x k of the candidate ids' dtype, dense
  void* workspace = nullptr;          // as many bytes as asked for, 256-byte aligned, content arbitrary
};

// A query's candidates: where they begin among the ids, and how many they are, at most problem.candidates.
struct CandidateRow {
  int64_t begin, count;
};

GPUTOPK_HOST_DEVICE int64_t clamped(int64_t number, int64_t low, int64_t high) {
  return number < low ? low : number > high ? high : number;
}

GPUTOPK_HOST_DEVICE int64_t integer_at(const void* integers, bool wide, int64_t at) {
  return wide ? static_cast<const int64_t*>(integers)[at] : static_cast<const int32_t*>(integers)[at];
}

GPUTOPK_HOST_DEVICE CandidateRow candidate_row(const RerankProblem& problem, const RerankBuffers& buffers,
                                               int64_t query) {
  const bool wide = problem.wide_ranges;
  if (buffers.row_offsets != nullptr) {
    const int64_t begin = clamped(integer_at(buffers.row_offsets, wide, query), 0, problem.listed);
    const int64_t end = clamped(integer_at(buffers.row_offsets, wide, query + 1), begin, problem.listed);
    return {begin, end - begin};
  }
  const int64_t begin = query * problem.id_stride;
  if (buffers.lengths == nullptr) return {begin, problem.candidates};
  return {begin, clamped(integer_at(buffers.lengths, wide, query), 0, problem.candidates)};
}

// Whether an id names a vector that may win. Nothing is read for one that names none.
GPUTOPK_HOST_DEVICE bool is_candidate(const RerankProblem& problem, const RerankBuffers& buffers,
                                      int64_t id) {
  // As unsigned, negative ids are too large as well.
  if (static_cast<uint64_t>(id) >= static_cast<uint64_t>(problem.vectors)) return false;
  if (buffers.allow == nullptr) return true;
  const int64_t bit = id & ((1 << problem.allow_shift) - 1);
  return (buffers.allow[id >> problem.allow_shift] >> bit & 1) != 0;
}

// Rounding can take a cosine beyond 1, where acos() has no value. NaN stays.
GPUTOPK_HOST_DEVICE float clamped_cosine(float cosine) {
  return cosine > 1.0f ? 1.0f : cosine < -1.0f ? -1.0f : cosine;
}

// What a vector's scale makes of its cosine.
GPUTOPK_HOST_DEVICE float sign_of(float scale) { return scale > 0 ? 1.0f : scale < 0 ? -1.0f : scale; }

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
