// Rows of words narrower than 16 bytes, for a warp that sums them: read into registers, a piece of each of
// the rows that its lanes take at a time. As RowsAhead, which would take longer: copies of few bytes are
// many.
#pragma once

#include <cstdint>

#include "cuda/rerank/params.cuh"
#include "cuda/rerank/row_layout.cuh"
#include "cuda/rerank/tile_candidates.cuh"

namespace gputopk::cuda::rerank {

template <class Type, class Layout>
class RowsAtHand : public TileCandidates<Type, Layout> {
  using Candidates = TileCandidates<Type, Layout>;
  using Storage = typename Type::Storage;
  using RowPiece = Piece<Type, Layout>;
  static constexpr int kRows = Layout::kRows;
  static constexpr int kLoads = Layout::kLoads;
  static constexpr int kWords = RowPiece::kWords;

 public:
  static constexpr size_t kSharedBytes = 0;

  __device__ RowsAtHand(const Params& params, const CandidateRow& row, int tile, int64_t first, int64_t step,
                        void*)
      : Candidates(params, row, tile), tile_(first), step_(step) {
    next_id_ = this->ask_id(first);
  }

  __device__ float scale() const { return scale_; }

  __device__ uint32_t next_tile() {
    const bool present = this->is_present(next_id_);
    from_ = this->vector_of(next_id_, present);
    if constexpr (kIsBytes<Type>) {
      const float* const scales = this->params_.buffers.scales;
      scale_ = present && scales != nullptr ? scales[next_id_] : 1.0f;
    }
    tile_ += step_;
    next_id_ = this->ask_id(tile_);  // under way while this tile is summed
    present_ = __ballot_sync(~0u, present);
    return present_;
  }
  __device__ void pass_tile() {}

  struct Step {
    uint32_t read[kRows * kLoads * kWords];

    __device__ void get(int row, int load, uint32_t (&words)[kWords]) const {
#pragma unroll
      for (int i = 0; i < kWords; ++i) words[i] = read[(row * kLoads + load) * kWords + i];
    }
  };

  struct Batch {
    const Storage* rows[kRows];
    uint32_t present;
    int64_t dims;

    __device__ Step next(int64_t piece) {
      Step step;
      const int lane = static_cast<int>(threadIdx.x) % Layout::kLanes;
      const int64_t first = RowPiece::first(piece, lane);
      const int left = RowPiece::left(dims, piece, lane);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const bool there = (present >> Layout::row_lane(i) & 1) != 0;
#pragma unroll
        for (int load = 0; load < kLoads; ++load) {
          load_word<RowPiece::kLoadBytes>(rows[i] + first + load * RowPiece::kLoadStep,
                                          there && load * RowPiece::kLoadStep < left,
                                          step.read + (i * kLoads + load) * kWords);
        }
      }
      return step;
    }
  };

  __device__ Batch batch(int base) {
    Batch batch;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      batch.rows[i] = reinterpret_cast<const Storage*>(
          __shfl_sync(~0u, reinterpret_cast<unsigned long long>(from_), base + Layout::row_lane(i)));
    }
    batch.present = present_ >> base;
    batch.dims = this->params_.problem.dims;
    return batch;
  }

 private:
  int64_t tile_;  // the next one
  const int64_t step_;
  int64_t next_id_;
  const Storage* from_;  // of this lane's candidate at hand
  uint32_t present_;
  float scale_ = 1;
};

}  // namespace gputopk::cuda::rerank
