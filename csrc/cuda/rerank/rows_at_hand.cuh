// Rows for a warp that sums them, read into registers, a piece of each of the rows that its lanes take at a
// time. As RowsAhead, which copies 16-byte words alone.
//
// A lane's 16 bytes begin anywhere in memory. Where rows are made of four bytes they are four words of 32
// bits; elsewhere they lie in five, and are shifted together.
#pragma once

#include <cstdint>

#include "cuda/device/ptx.cuh"
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
  static constexpr Alignment kAlignment = Layout::kAlignment;
  static constexpr int kRead = kAlignment == Alignment::kAny ? 5 : 4;
  static_assert(kAlignment != Alignment::kSixteen && Layout::kLoads == 1);

 public:
  static constexpr size_t kSharedBytes = 0;

  __device__ RowsAtHand(const Params& params, const CandidateRow& row, int tile, int64_t first, int64_t step,
                        void*)
      : Candidates(params, row, tile),
        tile_(static_cast<uint32_t>(first)),
        step_(static_cast<uint32_t>(step)) {
    next_id_ = this->ask_id(tile_);
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
    const uint32_t all_present = __ballot_sync(~0u, present);
    if (all_present == 0) return 0;
    // Who has none reads another's, which is left out: so that a load asks for nothing.
    const auto other = __shfl_sync(~0u, reinterpret_cast<unsigned long long>(from_), __ffs(all_present) - 1);
    if (!present) from_ = reinterpret_cast<const Storage*>(other);
    return all_present;
  }
  __device__ void pass_tile() {}

  // Zeros stand for what is behind the row's end.
  struct Step {
    uint32_t read[kRows][kRead];
    int first_bit[kRows];  // of the row, in the first word of 32
    uint32_t keep[4];      // of the lane's words

    __device__ void get(int row, int, uint32_t (&words)[4]) const {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (kAlignment == Alignment::kAny) {
          words[i] = __funnelshift_r(read[row][i], read[row][i + 1], first_bit[row]) & keep[i];
        } else {
          words[i] = read[row][i];
        }
      }
    }
  };

  // The rows of candidates from lane `base` on.
  struct Batch {
    const char* rows[kRows];
    int64_t dims;

    __device__ Step next(int64_t piece) {
      Step step;
      const int lane = static_cast<int>(threadIdx.x) % Layout::kLanes;
      const int64_t first = RowPiece::first(piece, lane) * static_cast<int64_t>(sizeof(Storage));
      const int left = RowPiece::left(dims, piece, lane) * static_cast<int>(sizeof(Storage));
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const char* const from = rows[i] + first;
        if constexpr (kAlignment == Alignment::kFour) {
#pragma unroll
          for (int w = 0; w < 4; ++w) step.read[i][w] = ask_for(from + 4 * w, 4 * w < left);
        } else {
          const int before = static_cast<int>(reinterpret_cast<uintptr_t>(from) & 3);
          step.first_bit[i] = 8 * before;
#pragma unroll
          for (int w = 0; w < 5; ++w) {
            step.read[i][w] = ask_for(from - before + 4 * w, left > 0 && 4 * w < left + before);
          }
        }
      }
      if constexpr (kAlignment == Alignment::kAny) {
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const int bytes = left - 4 * w;
          step.keep[w] = bytes >= 4 ? ~0u : bytes <= 0 ? 0u : (1u << 8 * bytes) - 1;
        }
      }
      return step;
    }
  };

  __device__ Batch batch(int base) {
    Batch batch;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      batch.rows[i] = reinterpret_cast<const char*>(
          __shfl_sync(~0u, reinterpret_cast<unsigned long long>(from_), base + Layout::row_lane(i)));
    }
    batch.dims = this->params_.problem.dims;
    return batch;
  }

 private:
  uint32_t tile_;  // the next one
  const uint32_t step_;
  int64_t next_id_;
  const Storage* from_;  // of this lane's candidate at hand
  float scale_ = 1;
};

}  // namespace gputopk::cuda::rerank
