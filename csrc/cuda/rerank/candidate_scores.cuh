// The scores of one query's candidates, computed as they are asked for: see rerank.cu.
#pragma once

#include <cstdint>

#include "cuda/rerank/params.cuh"
#include "cuda/rerank/row_layout.cuh"

namespace gputopk::cuda::rerank {

// One over a length; of a zero vector 1, as its products are zero anyhow.
__device__ inline float inverse_length(float squares) {
  const float length = sqrtf(squares);
  return 1.0f / (length == 0 ? 1.0f : length);
}

// The keys of one query's candidates, for warp number `warp` of `warps` that share them, a tile at a time.
template <class Type, class Layout>
class CandidateScores {
  using Storage = typename Type::Storage;
  using RowPiece = Piece<Type, Layout>;
  static constexpr int kLanes = Layout::kLanes;
  static constexpr int kRows = Layout::kRows;
  static constexpr int kSums = Layout::kSums;
  static constexpr int kPerLoad = Layout::kPerLoad;
  static constexpr int kElements = RowPiece::kElements;
  static constexpr int kBatchRows = 32 / kLanes * kRows;  // of all groups
  static constexpr int kBatches = 32 / kBatchRows;        // of a tile of 32

 public:
  __device__ CandidateScores(const Params& params, int64_t query, int64_t warp, int64_t warps)
      : params_(params), query_(query), tile_(max(params.tile, kBatchRows)), warps_(warps) {
    const RerankProblem& problem = params.problem;
    row_ = candidate_row(problem, params.buffers, query);
    pieces_ = (problem.dims + RowPiece::kRowElements - 1) / RowPiece::kRowElements;
    const int place = Layout::place(lane());
    place_ = place < tile_ ? place : kNoPlace;
    ask_id(first(warp));
    if (problem.metric == Metric::kCosine) inverse_query_ = inverse_length(squares_of_query());
    load_query(0);
  }

  // How many candidates there are.
  __device__ int64_t count() const { return row_.count; }
  // The tile of this warp's that comes first, and how far apart tiles are.
  __device__ int64_t first(int64_t warp) const { return warp * tile_; }
  __device__ int64_t step() const { return warps_ * tile_; }
  // Of this lane's candidate in a tile; beyond all candidates, where the tile has none for it.
  __device__ int64_t position(int64_t tile) const { return tile + place_; }

  // By whole warps; see score_selection.cuh.
  __device__ uint32_t operator()(int64_t tile) {
    const RerankProblem& problem = params_.problem;
    const bool present = is_candidate(problem, params_.buffers, next_id_);
    const Storage* const row = vectors() + (present ? next_id_ * problem.vector_stride : 0);
    if constexpr (kIsBytes<Type>) {
      scale_ = present && params_.buffers.scales != nullptr ? params_.buffers.scales[next_id_] : 1.0f;
    }
    ask_id(tile + step());  // under way while these are computed
    const unsigned all_present = __ballot_sync(~0u, present);
    if (all_present == 0) return kMissingKey;
    const float distance = distance_to(row, all_present);
    return present ? distance_key(problem.metric, __float_as_uint(distance)) : kMissingKey;
  }

 private:
  static constexpr int64_t kNoPlace = int64_t{1} << 40;

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int group_lane() { return lane() % kLanes; }
  __device__ const Storage* vectors() const { return static_cast<const Storage*>(params_.buffers.vectors); }

  // Elements of a row from this lane's first of the piece on; more than a piece are as good as a piece.
  __device__ int left(int64_t piece) const {
    const int64_t left = params_.problem.dims - RowPiece::first(piece, group_lane());
    return static_cast<int>(clamped(left, 0, RowPiece::kRowElements));
  }

  __device__ void load_query(int64_t piece) {
    const RerankProblem& problem = params_.problem;
    const int64_t at = query_ * problem.query_stride + RowPiece::first(piece, group_lane());
    if (kIsBytes<Type> || problem.query_dtype == DType::kFloat32) {
      load_query<Float32>(static_cast<const uint32_t*>(params_.buffers.queries) + at, left(piece));
    } else {
      load_query<Type>(static_cast<const Storage*>(params_.buffers.queries) + at, left(piece));
    }
  }

  // Where vectors are made of whole 16-byte words the query is too; elsewhere it lies anywhere.
  template <class QueryType>
  __device__ void load_query(const typename QueryType::Storage* from, int left) {
    constexpr int kPerWord = 4 / static_cast<int>(sizeof(*from));
    constexpr int kStep = Layout::kWhole ? 4 * kPerWord : 1;
#pragma unroll
    for (int e = 0; e < kElements; e += kStep) {
      const int at = e / kPerLoad * RowPiece::kLoadStep + e % kPerLoad;
      if constexpr (Layout::kWhole) {
        uint4 loaded{};
        if (at < left) loaded = *reinterpret_cast<const uint4*>(from + at);
        const uint32_t words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
#pragma unroll
        for (int i = 0; i < kStep; ++i) {
          query_part_[e + i] = QueryType::widen(words[i / kPerWord], i % kPerWord);
        }
      } else {
        query_part_[e] = at < left ? QueryType::widen(from[at], 0) : 0.0f;
      }
    }
  }

  // Added up in an order of its own: over the numbers that differ by 16, 8, 4, 2, 1.
  __device__ float squares_of_query() {
    float squares[kSums] = {};
#pragma unroll 1
    for (int64_t piece = 0; piece < pieces_; ++piece) {
      load_query(piece);
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        float& sum = squares[e % kSums];
        sum = fmaf(query_part_[e], query_part_[e], sum);
      }
    }
#pragma unroll
    for (int step = kLanes * kSums / 2; step > 0; step /= 2) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        if (step >= kSums) {
          squares[i] += __shfl_xor_sync(~0u, squares[i], step / kSums);
        } else if (i < step) {
          squares[i] += squares[i + step];
        }
      }
    }
    return squares[0];
  }

  __device__ void ask_id(int64_t tile) {
    const int64_t at = position(tile);
    next_id_ = at < row_.count ? params_.id_at(row_.begin + at) : -1;
  }

  // Of each lane's own candidate; of no meaning where it is missing.
  __device__ float distance_to(const Storage* row, unsigned all_present) {
    const Metric metric = params_.problem.metric;
    // A warp that takes a row at a time has the sums in all lanes, and keeps its own.
    constexpr int kKept = kRows == 1 ? 1 : kBatches;
    float products[kKept] = {}, norms[kKept] = {};
    const int batches = tile_ / kBatchRows;
#pragma unroll 1
    for (int batch = 0; batch < batches; ++batch) {
      if ((all_present & first_batch_lanes<Layout>() << batch * Layout::kBatchLane) == 0) continue;
      const int base = lane() - group_lane() + batch * Layout::kBatchLane;
      const Storage* rows[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        rows[i] = reinterpret_cast<const Storage*>(
            __shfl_sync(~0u, reinterpret_cast<unsigned long long>(row), base + Layout::row_lane(i)));
      }
      float product[kRows * kSums] = {}, norm[kRows * kSums] = {};
      if (metric == Metric::kL2) {
        read_batch<Metric::kL2>(base, rows, all_present >> base, product, norm);
      } else if (metric == Metric::kInnerProduct) {
        read_batch<Metric::kInnerProduct>(base, rows, all_present >> base, product, norm);
      } else {
        read_batch<Metric::kCosine>(base, rows, all_present >> base, product, norm);
      }
      const float batch_product = add_batch(product);
      const float batch_norm = metric == Metric::kCosine ? add_batch(norm) : 0.0f;
#pragma unroll
      for (int i = 0; i < kKept; ++i) {  // a register array has no run-time index
        if (kRows == 1 ? lane() == batch : i == batch) {
          products[i] = batch_product;
          norms[i] = batch_norm;
        }
      }
    }
    float distance = add_batches(products);
    if (metric == Metric::kCosine) {
      distance = clamped_cosine(distance * inverse_query_ * inverse_length(add_batches(norms)));
    }
    if (!kIsBytes<Type> || metric == Metric::kL2) return distance;
    return distance * (metric == Metric::kCosine ? sign_of(scale_) : scale_);
  }

  __device__ static float add_batch(float (&values)[kRows * kSums]) {
    return add_up<Layout, 4, Layout::kBatchStep, kRows, kSums>(values);
  }

  template <int kKept>
  __device__ static float add_batches(float (&values)[kKept]) {
    return add_up<Layout, Layout::kBatchStep, 0, kKept, 1>(values);
  }

  // A byte's place value; see Bytes.
  __device__ float element(const RowPiece& piece, int e) const {
    const uint32_t word = piece.words[e / RowPiece::kPerWord];
    const int part = e % RowPiece::kPerWord;
    if constexpr (!kIsBytes<Type>) return Type::widen(word, part);
    const bool is_signed = params_.problem.dtype == DType::kInt8;
    return Type::widen(word ^ (is_signed ? 0x80808080u : 0u), part) - (is_signed ? 128.0f : 0.0f);
  }

  // Adds this lane's part of each row to the sums. A loop for each metric: with one for all, the compiler
  // would widen whole batches ahead of the choice, and run out of registers.
  template <Metric metric>
  __device__ void read_batch(int base, const Storage* const (&rows)[kRows], unsigned present,
                             float (&product)[kRows * kSums], float (&norm)[kRows * kSums]) {
    float scales[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      scales[i] = 1.0f;
      if constexpr (kIsBytes<Type> && metric == Metric::kL2) {
        scales[i] = __shfl_sync(~0u, scale_, base + Layout::row_lane(i));
      }
    }
#pragma unroll 1
    for (int64_t piece = 0; piece < pieces_; ++piece) {
      const int own_left = left(piece);
      RowPiece read[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        read[i].template load<true>(rows[i] + RowPiece::first(piece, group_lane()), own_left,
                                    (present >> Layout::row_lane(i) & 1) != 0);
      }
      if (pieces_ > 1) load_query(piece);
      const int64_t all_left = params_.problem.dims - piece * RowPiece::kRowElements;
#pragma unroll
      for (int load = 0; load < Layout::kLoads; ++load) {
        if (load > 0 && load * RowPiece::kLoadStep >= all_left) break;
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
          for (int e = load * kPerLoad; e < (load + 1) * kPerLoad; ++e) {
            const int sum = i * kSums + e % kSums;
            const float number = element(read[i], e);
            if constexpr (metric == Metric::kL2) {
              const float difference = fmaf(-scales[i], number, query_part_[e]);  // of scale 1, to the bit
              product[sum] = fmaf(difference, difference, product[sum]);
            } else {
              product[sum] = fmaf(query_part_[e], number, product[sum]);
              if constexpr (metric == Metric::kCosine) norm[sum] = fmaf(number, number, norm[sum]);
            }
          }
        }
      }
    }
  }

  const Params& params_;
  const int64_t query_;
  const int tile_;
  const int64_t warps_;
  CandidateRow row_;
  int64_t pieces_;
  int64_t place_;                // of this lane's candidate in a tile
  float query_part_[kElements];  // this lane's piece of the query: the only one, or the one last loaded
  float inverse_query_ = 1;      // of the query's length, for cosine
  float scale_ = 1;              // of this lane's candidate
  int64_t next_id_;              // of the candidate in the tile that is next
};

}  // namespace gputopk::cuda::rerank
