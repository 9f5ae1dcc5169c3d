// The scores of one query's candidates, computed as they are asked for: see rerank.cuh.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/rerank/params.cuh"
#include "cuda/rerank/row_layout.cuh"
#include "cuda/rerank/rows_ahead.cuh"
#include "cuda/rerank/rows_at_hand.cuh"

namespace gputopk::cuda::rerank {

// One over a length; of a zero vector 1, as its products are zero anyhow.
__device__ inline float inverse_length(float squares) {
  const float length = sqrtf(squares);
  return 1.0f / (length == 0 ? 1.0f : length);
}

// The keys of one query's candidates before `end`, of tiles from `first` on that lie `step` apart, for a
// warp.
template <class Type, class Layout>
class CandidateScores {
  using Storage = typename Type::Storage;
  using Rows = std::conditional_t<Layout::kAhead, RowsAhead<Type, Layout>, RowsAtHand<Type, Layout>>;
  using RowPiece = Piece<Type, Layout>;
  static constexpr int kLanes = Layout::kLanes;
  static constexpr int kRows = Layout::kRows;
  static constexpr int kPerLoad = Layout::kPerLoad;
  static constexpr int kElements = RowPiece::kElements;
  static constexpr int kSums = Layout::kSums;
  static constexpr bool kKeepsOwn = Layout::kBatchStep == 0 && 32 / Rows::kBatchRows > 1;
  // Elements that are there together, or are behind the row's end.
  static constexpr int kTogether = Layout::kAlignment == Alignment::kSixteen ? kPerLoad
                                   : Layout::kAlignment == Alignment::kFour  ? RowPiece::kPerWord
                                                                             : 1;

 public:
  static constexpr int kBatchRows = Rows::kBatchRows;
  static constexpr size_t kSharedBytes = Rows::kSharedBytes;

  // `shared` is kSharedBytes of this warp's own, 16-byte aligned.
  __device__ CandidateScores(const Params& params, int64_t query, int64_t first, int64_t step, int64_t end,
                             void* shared)
      : params_(params),
        query_(query),
        row_(row_before(end)),
        pieces_(RowPiece::count(params.problem.dims)),
        rows_(params, row_, tile_of(params), first, step, shared),
        query_is_wide_(is_aligned(params.buffers.queries, params.problem.query_stride, params.problem.dims,
                                  params.problem.query_dtype, 16)) {
    if (params.problem.metric == Metric::kCosine) inverse_query_ = inverse_length(squares_of_query());
    load_query(0);
  }

  // Candidates that a warp takes at a time: as many as it has rows in a batch, at least.
  __device__ static int tile_of(const Params& params) {
    return kBatchRows == 32 ? 32 : max(params.tile, kBatchRows);
  }
  // Where those that there are end.
  __device__ int64_t count() const { return row_.count; }
  __device__ int64_t position(int64_t tile) const { return rows_.position(tile); }

  // By whole warps, tile after tile from `first` on; see score_selection.cuh.
  __device__ uint32_t operator()() {
    const uint32_t present = rows_.next_tile();
    if (present == 0) {
      rows_.pass_tile();
      return kMissingKey;
    }
    const float distance = distance_to(present);
    const bool own = (present >> lane() & 1) != 0;
    return own ? distance_key(params_.problem.metric, __float_as_uint(distance)) : kMissingKey;
  }

 private:
  static constexpr int kBatches = 32 / kBatchRows;  // of a tile of 32

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int group_lane() { return lane() % kLanes; }

  __device__ CandidateRow row_before(int64_t end) const {
    CandidateRow row = candidate_row(params_.problem, params_.buffers, query_);
    row.count = min(row.count, end);
    return row;
  }

  __device__ int left(int64_t piece) const {
    return RowPiece::left(params_.problem.dims, piece, group_lane());
  }

  __device__ void load_query(int64_t piece) {
    const RerankProblem& problem = params_.problem;
    const int64_t at = query_ * problem.query_stride + RowPiece::first(piece, group_lane());
    if constexpr (!kIsBytes<Type>) {
      if (problem.query_dtype != DType::kFloat32) {
        load_query<Type>(static_cast<const Storage*>(params_.buffers.queries) + at, left(piece));
        return;
      }
    }
    load_query<Float32>(static_cast<const uint32_t*>(params_.buffers.queries) + at, left(piece));
  }

  // The query lies anywhere, whatever the vectors are made of.
  template <class QueryType>
  __device__ void load_query(const typename QueryType::Storage* from, int left) {
    if (query_is_wide_) {
      load_query<QueryType, 16 / static_cast<int>(sizeof(*from))>(from, left);
    } else {
      load_query<QueryType, 1>(from, left);
    }
  }

  template <class QueryType, int kStep>
  __device__ void load_query(const typename QueryType::Storage* from, int left) {
    constexpr int kBytes = kStep * static_cast<int>(sizeof(*from));
    constexpr int kWords = kBytes < 4 ? 1 : kBytes / 4, kPerWord = kStep / kWords;
#pragma unroll
    for (int e = 0; e < kElements; e += kStep) {
      const int at = e / kPerLoad * RowPiece::kLoadStep + e % kPerLoad;
      uint32_t words[kWords];
      load_word<kBytes>(from + at, at < left, words);
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        query_part_[e + i] = QueryType::widen(words[i / kPerWord], i % kPerWord);
      }
    }
  }

  // Added up in an order of its own: over the contract's lanes that differ by 16, 8, 4, 2, 1.
  __device__ float squares_of_query() {
    static_assert(kSums <= 2, "lanes that differ by 16 alone are one lane's own");
    float squares[kSums] = {};
#pragma unroll 1
    for (int64_t turn = 0; turn < pieces_; turn += kSums) {
#pragma unroll
      for (int sum = 0; sum < kSums; ++sum) {
        if (sum > 0 && turn + sum >= pieces_) break;
        load_query(turn + sum);
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
          squares[sum] = fmaf(query_part_[e], query_part_[e], squares[sum]);
        }
      }
    }
    if constexpr (kSums == 2) squares[0] += squares[1];
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
      squares[0] += __shfl_xor_sync(~0u, squares[0], step);
    }
    return squares[0];
  }

  // Of each lane's own candidate; of no meaning where it is missing.
  __device__ float distance_to(uint32_t present) {
    const Metric metric = params_.problem.metric;
    constexpr int kKept = kKeepsOwn ? 1 : kBatches;
    float products[kKept] = {}, norms[kKept] = {};
    const int batches = tile_of(params_) / kBatchRows;
#pragma unroll 1
    for (int batch = 0; batch < batches; ++batch) {
      if ((present & lanes_of_batch<Layout>(batch)) == 0) continue;
      const int base = lane() - group_lane() + batch * Layout::kBatchLane;
      float product[kRows * kSums] = {}, norm[kRows * kSums] = {};
      if (metric == Metric::kL2) {
        read_batch<Metric::kL2>(base, product, norm);
      } else if (metric == Metric::kInnerProduct) {
        read_batch<Metric::kInnerProduct>(base, product, norm);
      } else {
        read_batch<Metric::kCosine>(base, product, norm);
      }
      const float batch_product = add_batch(product);
      const float batch_norm = metric == Metric::kCosine ? add_batch(norm) : 0.0f;
#pragma unroll
      for (int i = 0; i < kKept; ++i) {  // a register array has no run-time index
        if (kKeepsOwn ? (lanes_of_batch<Layout>(batch) >> lane() & 1) != 0 : i == batch) {
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
    return distance * (metric == Metric::kCosine ? sign_of(rows_.scale()) : rows_.scale());
  }

  __device__ static float add_batch(float (&values)[kRows * kSums]) {
    return add_up<Layout, first_step<Layout>(), Layout::kBatchStep, kRows, kSums>(values);
  }

  template <int kKept>
  __device__ static float add_batches(float (&values)[kKept]) {
    return add_up<Layout, Layout::kBatchStep, 0, kKept, 1>(values);
  }

  // Adds this lane's part of each row to the sums. A loop for each metric: with one for all, the compiler
  // would widen whole batches ahead of the choice, and run out of registers.
  template <Metric metric>
  __device__ void read_batch(int base, float (&product)[kRows * kSums], float (&norm)[kRows * kSums]) {
    typename Rows::Batch rows = rows_.batch(base);
    float scales[kRows];
#pragma unroll 1
    for (int64_t turn = 0; turn < pieces_; turn += kSums) {
#pragma unroll
      for (int sum = 0; sum < kSums; ++sum) {
        const int64_t piece = turn + sum;
        if (sum > 0 && piece >= pieces_) break;
        // Under way before what comes from memory is waited for: L1 does not hold the queries of many warps.
        if (pieces_ > 1) load_query(piece);
        const typename Rows::Step step = rows.next(piece);
        if (kIsBytes<Type> && metric == Metric::kL2 && piece == 0) {
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
            scales[i] = __shfl_sync(~0u, rows_.scale(), base + Layout::row_lane(i));
          }
        }
        add_piece<metric>(step, piece, sum, scales, product, norm);
      }
    }
  }

  template <Metric metric>
  __device__ __forceinline__ void add_piece(const typename Rows::Step& step, int64_t piece, int sum,
                                            const float (&scales)[kRows], float (&product)[kRows * kSums],
                                            float (&norm)[kRows * kSums]) {
    const Widened<Type> widen(params_.problem.dtype);
    const int own_left = left(piece);
    const int64_t all_left = params_.problem.dims - piece * RowPiece::kRowElements;
#pragma unroll
    for (int load = 0; load < Layout::kLoads; ++load) {
      if (load > 0 && load * RowPiece::kLoadStep >= all_left) break;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        float& products = product[i * kSums + sum];
        uint32_t words[4];
        step.get(i, load, words);
#pragma unroll
        for (int e = 0; e < kPerLoad; ++e) {
          // Behind the row's end no infinite scale meets a zero.
          float scale = 1;
          if constexpr (kIsBytes<Type>) {
            scale = load * RowPiece::kLoadStep + e / kTogether * kTogether < own_left ? scales[i] : 0;
          }
          const float own = query_part_[load * kPerLoad + e];
          const float number = widen(words[e / RowPiece::kPerWord], e % RowPiece::kPerWord);
          if constexpr (metric == Metric::kL2) {
            const float difference = kIsBytes<Type> ? fmaf(-scale, number, own) : own - number;
            products = fmaf(difference, difference, products);
          } else {
            products = fmaf(own, number, products);
            if constexpr (metric == Metric::kCosine) {
              norm[i * kSums + sum] = fmaf(number, number, norm[i * kSums + sum]);
            }
          }
        }
      }
    }
  }

  const Params& params_;
  const int64_t query_;
  const CandidateRow row_;
  const int64_t pieces_;
  Rows rows_;
  const bool query_is_wide_;     // made of 16-byte words
  float query_part_[kElements];  // this lane's piece of the query: the only one, or the one last loaded
  float inverse_query_ = 1;      // of the query's length, for cosine
};

}  // namespace gputopk::cuda::rerank
