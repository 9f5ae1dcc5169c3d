// Reranking: distances from a query to candidates that lie anywhere in memory, selected as they are computed.
// The selection is score_selection.cuh's (SC '23, section 4); the distances are its functor.
//
//   1. A warp takes 32 candidates at a time, an id a lane.
//   2. A group of lanes that a vector fills, 16 or 32, reads the vectors of as many candidates one after the
//      other, 16 bytes a lane, eight of them in flight: the gather is what costs. Each lane keeps its part of
//      each candidate's sum, in float32, while the vector's slices go by.
//   3. The parts are added up and handed out in one: in each step a lane gives half of its sums to the lane
//      across and takes the other half's from there. So 32 candidates take 31 shuffles, and leave each lane
//      with the distance of one.
//   4. The distances, as keys, go to the warp's queue; the lists of a block's warps are merged at the end.
// Where k is larger than a list, or queries are too few to fill the GPU with a block each, step 4 stores the
// keys instead, 4 bytes a candidate, and a top-k of its own follows.
//
// Where rows are not made of whole 16-byte words, step 2 reads single elements, a group's lanes side by side.
// Vectors are read as they are and widened in registers; a query is float32 or of the vectors' type.

#include "cuda/rerank/rerank.h"

#include <cuda_fp16.h>

#include <algorithm>
#include <type_traits>

#include "cuda/device/launch.h"
#include "cuda/device/shared_memory.cuh"
#include "cuda/rerank/numbers.h"
#include "cuda/rerank/score_selection.cuh"

namespace gputopk::cuda::rerank {
namespace {

constexpr int kInFlight = tuning::kRerankVectorsInFlight;
constexpr int kWordBytes = 16;
static_assert(kInFlight == 8, "a group has whole batches, and 8 values take three steps of add_up");

// An element as it lies in memory, and as a number: `part` is its place in a word of 32 bits.
struct Float32 {
  using Storage = uint32_t;
  __device__ static float widen(uint32_t word, int) { return __uint_as_float(word); }
};
struct Float16 {
  using Storage = uint16_t;
  __device__ static float widen(uint32_t word, int part) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(part == 0 ? word : word >> 16)));
  }
};
struct BFloat16 {
  using Storage = uint16_t;
  __device__ static float widen(uint32_t word, int part) {
    return __uint_as_float(part == 0 ? word << 16 : word & 0xFFFF0000u);
  }
};
// int8 and uint8: of the former with the sign flipped, so that it counts up from -128. One kernel for both.
struct Bytes {
  using Storage = uint8_t;
  __device__ static float widen(uint32_t word, int part) {
    return static_cast<float>(word >> 8 * part & 0xFF);
  }
};
template <class Type>
constexpr bool kIsBytes = std::is_same_v<Type, Bytes>;

template <class Type>
struct Params {
  using Storage = typename Type::Storage;

  RerankProblem problem;
  RerankBuffers buffers;
  int64_t blocks_per_query;

  __device__ const Storage* vectors() const { return static_cast<const Storage*>(buffers.vectors); }

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

// What a lane reads of a row at a time: 16 bytes or, where rows are not made of such words, four elements a
// group's lanes apart. Zeros stand for what is behind the row.
template <class Type, int kLanes, bool kAligned>
struct Slice {
  using Storage = typename Type::Storage;
  static constexpr int kPerWord = kAligned ? 4 / static_cast<int>(sizeof(Storage)) : 1;
  static constexpr int kElements = 4 * kPerWord;

  uint32_t words[4];

  // Where the i-th element of a slice lies in its row.
  __device__ static int64_t place(int64_t slice, int lane, int i) {
    return kAligned ? (slice * kLanes + lane) * kElements + i : (slice * kElements + i) * kLanes + lane;
  }

  // The vectors of candidates are kept out of L1, where the query stays.
  template <bool kGathered>
  __device__ void load(const Storage* row, int64_t slice, int lane, int64_t dims, bool present) {
    if constexpr (kAligned) {
      const int64_t at = place(slice, lane, 0);
      const uint4* const from = reinterpret_cast<const uint4*>(row + at);
      uint4 loaded{};
      if (present && at < dims) loaded = kGathered ? __ldcg(from) : *from;
      words[0] = loaded.x;
      words[1] = loaded.y;
      words[2] = loaded.z;
      words[3] = loaded.w;
    } else {
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        const int64_t at = place(slice, lane, i);
        words[i] = 0;
        if (present && at < dims) words[i] = kGathered ? __ldcg(row + at) : row[at];
      }
    }
  }
};

// Adds each of kValues numbers up over the lanes that differ in the bits of (kValues - 1) * kStep, and leaves
// the i-th sum with those of them whose bits make i. The order of the additions is the same for all.
template <int kStep, int kValues>
__device__ float add_up(float (&values)[kValues]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = kValues / 2; half > 0; half /= 2) {
    const bool upper = (lane & half * kStep) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float kept = upper ? values[i + half] : values[i];
      const float given = upper ? values[i] : values[i + half];
      values[i] = kept + __shfl_xor_sync(~0u, given, half * kStep);
    }
  }
  return values[0];
}

// One over a length; of a zero vector 1, as its products are zero anyhow.
__device__ inline float inverse_length(float squares) {
  const float length = sqrtf(squares);
  return 1.0f / (length == 0 ? 1.0f : length);
}

// The keys of one query's candidates, for a warp that asks for every `step`-th position of its lanes.
template <class Type, int kLanes, bool kAligned>
class CandidateScores {
  using Storage = typename Type::Storage;
  using Piece = Slice<Type, kLanes, kAligned>;
  static constexpr int kElements = Piece::kElements;
  static constexpr int kPerWord = Piece::kPerWord;
  static constexpr int kBatches = kLanes / kInFlight;

 public:
  __device__ CandidateScores(const Params<Type>& params, int64_t query, int64_t first, int64_t step)
      : params_(params), query_(query), step_(step) {
    const RerankProblem& problem = params.problem;
    row_ = candidate_row(problem, params.buffers, query);
    slices_ = (problem.dims + kLanes * kElements - 1) / (kLanes * kElements);
    if (problem.metric == Metric::kCosine) {
      float squares = 0;
#pragma unroll 1
      for (int64_t slice = 0; slice < slices_; ++slice) {
        load_query(slice);
#pragma unroll
        for (int i = 0; i < kElements; ++i) squares = fmaf(query_part_[i], query_part_[i], squares);
      }
#pragma unroll
      for (int step = kLanes / 2; step > 0; step /= 2) squares += __shfl_xor_sync(~0u, squares, step);
      inverse_query_ = inverse_length(squares);
    }
    load_query(0);
    ask_id(first + lane());
  }

  // How many candidates there are.
  __device__ int64_t count() const { return row_.count; }

  // By whole warps; see score_selection.cuh.
  __device__ uint32_t operator()(int64_t position) {
    const RerankProblem& problem = params_.problem;
    const bool present = is_candidate(problem, params_.buffers, next_id_);
    const Storage* const row = params_.vectors() + (present ? next_id_ * problem.vector_stride : 0);
    if constexpr (kIsBytes<Type>) {
      scale_ = present && params_.buffers.scales != nullptr ? params_.buffers.scales[next_id_] : 1.0f;
    }
    ask_id(position + step_);  // under way while these are computed
    const unsigned all_present = __ballot_sync(~0u, present);
    if (all_present == 0) return kMissingKey;
    const float distance = distance_to(row, all_present);
    return present ? distance_key(problem.metric, __float_as_uint(distance)) : kMissingKey;
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int group_lane() { return lane() % kLanes; }

  __device__ void load_query(int64_t slice) {
    const RerankProblem& problem = params_.problem;
    const int64_t first = query_ * problem.query_stride;
    if (kIsBytes<Type> || problem.query_dtype == DType::kFloat32) {
      load_floats(static_cast<const float*>(params_.buffers.queries) + first, slice);
      return;
    }
    Piece piece;
    piece.template load<false>(static_cast<const Storage*>(params_.buffers.queries) + first, slice,
                               group_lane(), problem.dims, true);
#pragma unroll
    for (int i = 0; i < kElements; ++i) query_part_[i] = Type::widen(piece.words[i / kPerWord], i % kPerWord);
  }

  __device__ void load_floats(const float* row, int64_t slice) {
    constexpr int kStep = kAligned ? 4 : 1;  // a float32 query's words are aligned where its vectors' are
#pragma unroll
    for (int i = 0; i < kElements; i += kStep) {
      const int64_t at = Piece::place(slice, group_lane(), i);
      const bool there = at < params_.problem.dims;
      if constexpr (kAligned) {
        float4 part{};
        if (there) part = *reinterpret_cast<const float4*>(row + at);
        query_part_[i] = part.x;
        query_part_[i + 1] = part.y;
        query_part_[i + 2] = part.z;
        query_part_[i + 3] = part.w;
      } else {
        query_part_[i] = there ? row[at] : 0.0f;
      }
    }
  }

  __device__ void ask_id(int64_t position) {
    next_id_ = position < row_.count ? params_.id_at(row_.begin + position) : -1;
  }

  // Of each lane's own candidate; of no meaning where it is missing.
  __device__ float distance_to(const Storage* row, unsigned all_present) {
    const Metric metric = params_.problem.metric;
    float products[kBatches], norms[kBatches];
#pragma unroll 1
    for (int batch = 0; batch < kBatches; ++batch) {
      const Storage* rows[kInFlight];
      const unsigned present = all_present >> (lane() - group_lane() + batch * kInFlight);
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int from = lane() - group_lane() + batch * kInFlight + i;
        rows[i] = reinterpret_cast<const Storage*>(
            __shfl_sync(~0u, reinterpret_cast<unsigned long long>(row), from));
      }
      float product[kInFlight] = {}, norm[kInFlight] = {};
      if (metric == Metric::kL2) {
        read_batch<Metric::kL2>(batch, rows, present, product, norm);
      } else if (metric == Metric::kInnerProduct) {
        read_batch<Metric::kInnerProduct>(batch, rows, present, product, norm);
      } else {
        read_batch<Metric::kCosine>(batch, rows, present, product, norm);
      }
      const float batch_product = add_up<1>(product);
      const float batch_norm = metric == Metric::kCosine ? add_up<1>(norm) : 0.0f;
#pragma unroll
      for (int i = 0; i < kBatches; ++i) {  // a register array has no run-time index
        if (i == batch) {
          products[i] = batch_product;
          norms[i] = batch_norm;
        }
      }
    }
    float distance = add_up<kInFlight>(products);
    if (metric == Metric::kCosine) {
      distance = clamped_cosine(distance * inverse_query_ * inverse_length(add_up<kInFlight>(norms)));
    }
    if (!kIsBytes<Type> || metric == Metric::kL2) return distance;
    return distance * (metric == Metric::kCosine ? sign_of(scale_) : scale_);
  }

  // A byte's place value; see Bytes.
  __device__ float element(const Piece& piece, int i) const {
    if constexpr (!kIsBytes<Type>) return Type::widen(piece.words[i / kPerWord], i % kPerWord);
    const bool is_signed = params_.problem.dtype == DType::kInt8;
    const uint32_t word = piece.words[i / kPerWord] ^ (is_signed ? 0x80808080u : 0u);
    return Type::widen(word, i % kPerWord) - (is_signed ? 128.0f : 0.0f);
  }

  // Adds this lane's part of each row to the sums. A loop for each metric: with one for all, the compiler
  // would widen whole batches ahead of the choice, and run out of registers.
  template <Metric metric>
  __device__ void read_batch(int batch, const Storage* const (&rows)[kInFlight], unsigned present,
                             float (&product)[kInFlight], float (&norm)[kInFlight]) {
    const int64_t dims = params_.problem.dims;
#pragma unroll 1
    for (int64_t slice = 0; slice < slices_; ++slice) {
      if (slices_ > 1) load_query(slice);
      Piece pieces[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        pieces[i].template load<true>(rows[i], slice, group_lane(), dims, (present >> i & 1) != 0);
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        float scale = 1.0f;
        if constexpr (kIsBytes<Type> && metric == Metric::kL2) {
          scale = __shfl_sync(~0u, scale_, lane() - group_lane() + batch * kInFlight + i);
        }
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
          const float number = element(pieces[i], e);
          if constexpr (metric == Metric::kL2) {
            const float difference = fmaf(-scale, number, query_part_[e]);  // of scale 1, to the bit
            product[i] = fmaf(difference, difference, product[i]);
          } else {
            product[i] = fmaf(query_part_[e], number, product[i]);
            if constexpr (metric == Metric::kCosine) norm[i] = fmaf(number, number, norm[i]);
          }
        }
      }
    }
  }

  const Params<Type>& params_;
  const int64_t query_;
  const int64_t step_;
  CandidateRow row_;
  int64_t slices_;
  float query_part_[kElements];  // this lane's slice of the query: the only one, or the one last loaded
  float inverse_query_ = 1;      // of the query's length, for cosine
  float scale_ = 1;              // of this lane's candidate
  int64_t next_id_;              // of the candidate at the position that is next
};

// A block a query.
template <class Type, int kLanes, bool kAligned, int kItems>
__global__ void __launch_bounds__(32 * tuning::kRerankMaxWarps, tuning::kRerankResident)
    select_candidates(const __grid_constant__ Params<Type> params) {
  uint4* const shared = reinterpret_cast<uint4*>(dynamic_shared());
  const RerankProblem& problem = params.problem;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int64_t query = blockIdx.x; query < problem.queries; query += gridDim.x) {
    CandidateScores<Type, kLanes, kAligned> scores(params, query, 32 * warp, blockDim.x);
    select_scores<kItems>(scores, scores.count(), static_cast<int>(problem.k), shared,
                          [&](int rank, uint32_t key, uint32_t position) {
                            params.write(query, rank, key, static_cast<int64_t>(position));
                          });
  }
}

// The keys of all candidates; blocks_per_query blocks share a query's.
template <class Type, int kLanes, bool kAligned>
__global__ void __launch_bounds__(32 * tuning::kRerankMaxWarps, tuning::kRerankResident)
    store_scores(const __grid_constant__ Params<Type> params, uint32_t* keys) {
  const RerankProblem& problem = params.problem;
  const int64_t blocks = params.blocks_per_query;
  for (int64_t item = blockIdx.x; item < problem.queries * blocks; item += gridDim.x) {
    const int64_t query = item / blocks;
    const int64_t warps = blocks * (blockDim.x / 32);
    const int64_t warp = item % blocks * (blockDim.x / 32) + threadIdx.x / 32;
    CandidateScores<Type, kLanes, kAligned> scores(params, query, 32 * warp, 32 * warps);
    uint32_t* const row = keys + query * problem.candidates;
    // Behind a shorter row, that nothing is there.
    visit_scores(scores, problem.candidates, warp, warps, [&](int64_t position, uint32_t key) {
      if (position < problem.candidates) row[position] = key;
    });
  }
}

// A thread a winner.
__global__ void write_winners(Params<Float32> params, const uint32_t* keys, const int32_t* positions) {
  const int64_t k = params.problem.k;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < params.problem.queries * k;
       at += step) {
    params.write(at / k, at % k, keys[at], positions[at]);
  }
}

unsigned grid_of(int64_t blocks) { return static_cast<unsigned>(std::min<int64_t>(blocks, 0x7FFFFFFF)); }

// Whether all rows are made of whole 16-byte words.
bool is_aligned(const void* rows, int64_t stride, int64_t dims, DType dtype) {
  const int64_t bytes = dtype_bytes(dtype);
  return reinterpret_cast<uintptr_t>(rows) % kWordBytes == 0 && stride * bytes % kWordBytes == 0 &&
         dims * bytes % kWordBytes == 0;
}

// Calls visitor(type, lanes, aligned) with the instance that reads the problem's rows.
template <class Visitor>
ErrorCode visit_reader(const RerankProblem& problem, const RerankBuffers& buffers, Visitor&& visitor) {
  const auto visit_type = [&](auto type) -> ErrorCode {
    if (!is_aligned(buffers.queries, problem.query_stride, problem.dims, problem.query_dtype) ||
        !is_aligned(buffers.vectors, problem.vector_stride, problem.dims, problem.dtype)) {
      return visitor(type, std::integral_constant<int, 32>{}, std::false_type{});
    }
    const int64_t words = problem.dims * dtype_bytes(problem.dtype) / kWordBytes;
    if (words <= 16) return visitor(type, std::integral_constant<int, 16>{}, std::true_type{});
    return visitor(type, std::integral_constant<int, 32>{}, std::true_type{});
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
  return visit_reader(problem, buffers, [&](auto type, auto lanes, auto aligned) -> ErrorCode {
    using Type = decltype(type);
    const auto launch = [&](auto items) -> ErrorCode {
      constexpr int kItems = decltype(items)::value;
      return launch_kernel(
          /*ahead=*/false, select_candidates<Type, decltype(lanes)::value, decltype(aligned)::value, kItems>,
          grid_of(problem.queries), 32 * config.warps, score_selection_bytes<kItems>(config.warps), stream,
          Params<Type>{problem, buffers, 1});
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
  return visit_reader(problem, buffers, [&](auto type, auto lanes, auto aligned) -> ErrorCode {
    using Type = decltype(type);
    return launch_kernel(/*ahead=*/false,
                         store_scores<Type, decltype(lanes)::value, decltype(aligned)::value>,
                         grid_of(problem.queries * config.blocks_per_query), 32 * config.warps, 0, stream,
                         Params<Type>{problem, buffers, config.blocks_per_query}, keys);
  });
}

ErrorCode look_up(const RerankProblem& problem, const uint32_t* keys, const int32_t* positions,
                  const RerankBuffers& buffers, Stream stream) {
  constexpr int kThreads = 256;
  const int64_t winners = problem.queries * problem.k;
  return launch_kernel(/*ahead=*/false, write_winners, grid_of((winners + kThreads - 1) / kThreads), kThreads,
                       0, stream, Params<Float32>{problem, buffers, 1}, keys, positions);
}

}  // namespace gputopk::cuda::rerank
