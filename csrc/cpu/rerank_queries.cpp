// Reranking on the CPU: distances of one query's candidates, and the best k of them as they come.
//
//  1. The query is brought to float32 once. Candidates are taken a strip of 64 at a time, and the vectors of
//     the next few are asked for ahead: they lie anywhere in memory.
//  2. The strip's distances become keys, and those that reach the floor are appended, in the order of their
//     positions. The floor is a key below which nothing can win any more.
//  3. When some more than 2 k candidates are held, all but little more than the best k are dropped, and the
//     floor rises to just above the least of them: a later candidate equal to it loses by its position.
//  4. At the end the best k are sorted out, and places that no candidate fills are marked as missing.
// So the memory of a worker is O(k), and no distance is stored but of a candidate that may win.

#include "cpu/rerank_queries.h"

#include "cpu/candidates.h"
#include "cpu/lanes.h"

namespace gputopk::cpu::GPUTOPK_CPU_LEVEL {

// How many candidates ahead a vector is asked for, and how much of it: what follows the processor's own
// prefetcher finds.
constexpr int64_t kAhead = 4;
constexpr int64_t kAheadBytes = 1024;

// Sums that run side by side, so that an addition need not wait for the one before it.
constexpr int kSums = 4;

constexpr int kFloats = kVectorBytes / sizeof(float);
static_assert(kRerankSpareDims >= kFloats, "the query is padded to a whole vector");

// Elements as they lie in memory.
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

typedef uint16_t HalfWords __attribute__((vector_size(kVectorBytes / 2)));

// Of int8 and uint8, which alone may have scales.
template <class Element>
constexpr bool kIsScaled = sizeof(Element) == 1;

inline Vector<uint32_t> load_widened(const void* from) {
  HalfWords words;
  __builtin_memcpy(&words, from, sizeof(words));
  return __builtin_convertvector(words, Vector<uint32_t>);
}

inline Vector<float> load_floats(const float* from) { return load_vector(from); }

inline Vector<float> load_floats(const BFloat16* from) {
  return reinterpret_cast<Vector<float>>(load_widened(from) << 16);
}

inline Vector<float> load_floats(const int8_t* from) {
  typedef int8_t Bytes __attribute__((vector_size(kFloats)));
  Bytes bytes;
  __builtin_memcpy(&bytes, from, sizeof(bytes));
  return __builtin_convertvector(bytes, Vector<float>);
}

inline Vector<float> load_floats(const uint8_t* from) {
  typedef uint8_t Bytes __attribute__((vector_size(kFloats)));
  Bytes bytes;
  __builtin_memcpy(&bytes, from, sizeof(bytes));
  return __builtin_convertvector(bytes, Vector<float>);
}

// Exponents are moved by the difference of the biases, twice for infinity and NaN. A subnormal is put behind
// a leading one, which is then subtracted as a number: no step has a subnormal float32, so it does not matter
// how the processor treats those.
inline Vector<float> load_floats(const Float16* from) {
  constexpr uint32_t kBias = 112u << 23;
  const Vector<uint32_t> words = load_widened(from);
  const Vector<uint32_t> magnitude = (words & 0x7FFF) << 13;
  const Vector<uint32_t> sign = (words & 0x8000) << 16;
  const Vector<uint32_t> exponent = magnitude & (0x1Fu << 23);
  const Vector<uint32_t> special = reinterpret_cast<Vector<uint32_t>>(exponent == (0x1Fu << 23));
  const Vector<uint32_t> subnormal = reinterpret_cast<Vector<uint32_t>>(exponent == 0);
  const Vector<uint32_t> normal_bits = magnitude + kBias + (special & kBias);
  const Vector<uint32_t> leading_one = magnitude + (113u << 23);
  const Vector<float> small = reinterpret_cast<Vector<float>>(leading_one) - 0x1p-14f;
  const Vector<uint32_t> small_bits = reinterpret_cast<Vector<uint32_t>>(small);
  return reinterpret_cast<Vector<float>>((subnormal & small_bits) | (~subnormal & normal_bits) | sign);
}

// The last `count` < kFloats elements of a row, and zeros: nothing behind the row is read.
template <class Element>
Vector<float> load_tail(const Element* from, int64_t count) {
  Element elements[kFloats] = {};
  __builtin_memcpy(elements, from, count * sizeof(Element));
  return load_floats(elements);
}

inline float sum_of(const Vector<float>& lanes) {
  float sum = 0;
  for (int lane = 0; lane < kFloats; ++lane) sum += lanes[lane];
  return sum;
}

// The sums that a metric is made of.
template <Metric metric>
struct Sums {
  Vector<float> product = {};  // of squared differences, for l2
  Vector<float> norm = {};     // of the vector's squares, for cosine

  // `scale` is for l2 alone: the others are multiplied once, at the end.
  void add(const Vector<float>& query, const Vector<float>& vector, float scale) {
    if constexpr (metric == Metric::kL2) {
      const Vector<float> difference = query - scale * vector;
      product += difference * difference;
    } else {
      product += query * vector;
      if constexpr (metric == Metric::kCosine) norm += vector * vector;
    }
  }

  void add(const Sums& other) {
    product += other.product;
    norm += other.norm;
  }
};

// `query` is padded with zeros to a whole vector. A scale of 1 that the compiler sees costs nothing.
template <Metric metric, class Element>
Sums<metric> sums_of(const float* query, const Element* vector, int64_t dims, float row_scale = 1) {
  const float scale = kIsScaled<Element> ? row_scale : 1;
  Sums<metric> sums[kSums];
  int64_t i = 0;
  for (; dims - i >= kSums * kFloats; i += kSums * kFloats) {
    for (int s = 0; s < kSums; ++s) {
      sums[s].add(load_floats(query + i + s * kFloats), load_floats(vector + i + s * kFloats), scale);
    }
  }
  for (; dims - i >= kFloats; i += kFloats)
    sums[0].add(load_floats(query + i), load_floats(vector + i), scale);
  if (i < dims) sums[1].add(load_floats(query + i), load_tail(vector + i, dims - i), scale);
  for (int s = 1; s < kSums; ++s) sums[0].add(sums[s]);
  return sums[0];
}

// One over a length; of a zero vector 1, as its products are zero anyhow.
inline float inverse_length(float squares) {
  const float length = __builtin_sqrtf(squares);
  return 1 / (length == 0 ? 1 : length);
}

inline void store(float* to, const Vector<float>& lanes) { __builtin_memcpy(to, &lanes, sizeof(lanes)); }

// Writes a query out as float32, padded with zeros to a whole vector.
template <class Element>
void widen(const Element* row, int64_t dims, float* room) {
  int64_t i = 0;
  for (; dims - i >= kFloats; i += kFloats) store(room + i, load_floats(row + i));
  store(room + i, load_tail(row + i, dims - i));
}

inline void widen_query(const RerankProblem& problem, const RerankBuffers& buffers, int64_t query,
                        float* room) {
  const int64_t at = query * problem.query_stride;
  switch (problem.query_dtype) {
    case DType::kFloat16: return widen(static_cast<const Float16*>(buffers.queries) + at, problem.dims, room);
    case DType::kBFloat16:
      return widen(static_cast<const BFloat16*>(buffers.queries) + at, problem.dims, room);
    default: return widen(static_cast<const float*>(buffers.queries) + at, problem.dims, room);
  }
}

// A query in float32, and what it brings to each of its distances.
template <Metric metric, class Element>
struct Query {
  const float* elements;
  int64_t dims;
  float inverse = 1;  // of its length, for cosine

  Query(const float* widened, int64_t count) : elements(widened), dims(count) {
    if constexpr (metric == Metric::kCosine) {
      inverse = inverse_length(sum_of(sums_of<metric>(elements, elements, dims).norm));
    }
  }

  uint32_t key(const Element* vector, float scale) const {
    const Sums<metric> sums = sums_of<metric>(elements, vector, dims, scale);
    float distance = sum_of(sums.product);
    if constexpr (metric == Metric::kCosine) {
      distance = clamped_cosine(distance * inverse * inverse_length(sum_of(sums.norm)));
      scale = sign_of(scale);
    }
    if constexpr (metric != Metric::kL2 && kIsScaled<Element>) distance *= scale;
    uint32_t bits;
    __builtin_memcpy(&bits, &distance, sizeof(bits));
    return distance_key(metric, bits);
  }
};

// The best candidates of one query so far, steps 2 and 3.
struct Best {
  using Candidate = NarrowCandidate<uint32_t>;

  const int64_t k;
  Candidate* const candidates;
  int64_t count = 0;
  uint32_t floor = kMissingKey + 1;
  bool decided = false;  // no candidate can win any more

  // `keys` are those of a strip from position `first` on.
  void take_strip(const uint32_t* keys, int64_t first) {
    count += append_masked(keys, first, mask_at_least(keys, floor), candidates + count);
    if (count < rerank_limit(k)) return;
    const int64_t slack = smaller<int64_t>(k / 8, 1024);
    const uint64_t cut = find_cut(candidates, count, k, slack);
    count = keep_best(candidates, count, k, slack, cut);
    floor = Candidate::key_of(cut) + 1;
    decided = floor == 0;
  }

  // Leaves the best, in order; returns how many there are, k at most.
  int64_t finish() {
    if (count > k) count = keep_best(candidates, count, k, 0, find_cut(candidates, count, k, 0));
    if (count > 1) sort_candidates<uint32_t>(candidates, count, candidates + count);
    return count;
  }
};

template <class Id, Metric metric, class Element>
void rerank_query(const RerankProblem& problem, const RerankBuffers& buffers, int64_t row,
                  const RerankScratch& scratch) {
  const Element* const vectors = static_cast<const Element*>(buffers.vectors);
  const CandidateRow candidates = candidate_row(problem, buffers, row);
  const Id* const candidate_ids = static_cast<const Id*>(buffers.candidate_ids) + candidates.begin;
  widen_query(problem, buffers, row, scratch.query);
  const Query<metric, Element> query(scratch.query, problem.dims);
  const auto is_present = [&](int64_t position) {
    return is_candidate(problem, buffers, candidate_ids[position]);
  };
  const int64_t ahead_bytes = smaller(problem.dims * static_cast<int64_t>(sizeof(Element)), kAheadBytes);

  Best best{problem.k, reinterpret_cast<Best::Candidate*>(scratch.candidates)};
  for (int64_t first = 0; first < candidates.count && !best.decided; first += kRerankStrip) {
    uint32_t keys[kRerankStrip] = {};
    const int64_t end = smaller(first + kRerankStrip, candidates.count);
    for (int64_t i = first; i < end; ++i) {
      if (i + kAhead < candidates.count && is_present(i + kAhead)) {
        const Element* const next = vectors + candidate_ids[i + kAhead] * problem.vector_stride;
        for (int64_t byte = 0; byte < ahead_bytes; byte += 64) {
          __builtin_prefetch(reinterpret_cast<const char*>(next) + byte);
        }
      }
      if (!is_present(i)) continue;
      const Id id = candidate_ids[i];
      const float scale = kIsScaled<Element> && buffers.scales != nullptr ? buffers.scales[id] : 1;
      keys[i - first] = query.key(vectors + id * problem.vector_stride, scale);
    }
    best.take_strip(keys, first);
  }

  const int64_t count = best.finish();
  float* const distances = buffers.distances + row * problem.k;
  Id* const ids = static_cast<Id*>(buffers.ids) + row * problem.k;
  for (int64_t i = 0; i < problem.k; ++i) {
    const uint32_t key = i < count ? best.candidates[i].key() : kMissingKey;
    const uint32_t bits = distance_bits(metric, key);
    __builtin_memcpy(distances + i, &bits, sizeof(bits));
    ids[i] = Id{-1};
    if (i >= count) continue;
    const int64_t position = best.candidates[i].index();
    ids[i] = problem.positions ? static_cast<Id>(position) : candidate_ids[position];
  }
}

template <Metric metric, class Element>
void rerank_queries(const RerankProblem& problem, const RerankBuffers& buffers, int64_t begin, int64_t end,
                    const RerankScratch& scratch) {
  for (int64_t row = begin; row < end; ++row) {
    if (problem.wide_ids) {
      rerank_query<int64_t, metric, Element>(problem, buffers, row, scratch);
    } else {
      rerank_query<int32_t, metric, Element>(problem, buffers, row, scratch);
    }
  }
}

template <class Element>
RerankKernel kernel_of(Metric metric) {
  switch (metric) {
    case Metric::kL2: return rerank_queries<Metric::kL2, Element>;
    case Metric::kInnerProduct: return rerank_queries<Metric::kInnerProduct, Element>;
    default: return rerank_queries<Metric::kCosine, Element>;
  }
}

RerankKernel rerank_kernel(DType dtype, Metric metric) {
  switch (dtype) {
    case DType::kFloat16: return kernel_of<Float16>(metric);
    case DType::kBFloat16: return kernel_of<BFloat16>(metric);
    case DType::kInt8: return kernel_of<int8_t>(metric);
    case DType::kUInt8: return kernel_of<uint8_t>(metric);
    default: return kernel_of<float>(metric);
  }
}

}  // namespace gputopk::cpu::GPUTOPK_CPU_LEVEL
