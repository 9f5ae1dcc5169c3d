// Rows on their way from memory to a warp that sums them.
//
// What a warp reads at a time is a step: a piece of each of the rows that its lanes take in one batch. The
// pieces of some steps ahead are being copied to shared memory while those at hand are summed, of this tile
// of candidates and of the next ones, so that the memory is never idle. A lane reads what it has copied
// itself.
#pragma once

#include <cstdint>

#include "cuda/device/ptx.cuh"
#include "cuda/rerank/numbers.h"
#include "cuda/rerank/params.cuh"
#include "cuda/rerank/row_layout.cuh"
#include "cuda/rerank/tile_candidates.cuh"

namespace gputopk::cuda::rerank {

template <class Type, class Layout>
class RowsAhead : public TileCandidates<Type, Layout> {
  using Candidates = TileCandidates<Type, Layout>;
  using Candidates::params_, Candidates::count, Candidates::ask_id;
  using Storage = typename Type::Storage;
  using RowPiece = Piece<Type, Layout>;
  static constexpr int kRows = Layout::kRows;
  static constexpr int kLoads = Layout::kLoads;
  static constexpr int kLoadBytes = 16;
  static constexpr int kStepBytes = 32 * kRows * kLoads * kLoadBytes;  // of a warp
  static constexpr int kTileBytes = 32 * 2 * sizeof(uint32_t);
  // That are copied, with the one at hand.
  static constexpr int kSteps = tuning::rerank_steps(kStepBytes, kTileBytes);
  static constexpr int kTiles = kSteps + 1;  // that steps may be of, or begin behind them
  // A tile is one step, whether it has a candidate or not.
  static constexpr bool kStepIsTile = Candidates::kBatchRows == 32 && Layout::kLanes < 32;

  // What a lane keeps of a tile until it is summed.
  struct Tile {
    uint32_t present;  // a bit for each lane that has a candidate
    float scale;       // of its own
  };

 public:
  static constexpr size_t kSharedBytes = kSteps * kStepBytes + kTiles * kTileBytes;
  static_assert(kSharedBytes <= tuning::kRerankAheadBytes && 32 * sizeof(Tile) == kTileBytes);

  // Of the candidates of `row` those of tiles from `first` on that lie `step` apart, one for each lane that
  // has a place in it. `shared` is kSharedBytes of this warp's own, 16-byte aligned.
  __device__ RowsAhead(const Params& params, const CandidateRow& row, int tile, int64_t first, int64_t step,
                       void* shared)
      : Candidates(params, row, tile),
        batches_(tile / Candidates::kBatchRows),
        step_(static_cast<uint32_t>(step)),
        shared_(shared) {
    pieces_ = RowPiece::count(params.problem.dims);
    const auto tile_of_warp = static_cast<uint32_t>(first);
    next_id_ = ask_id(tile_of_warp);
    later_id_ = ask_id(tile_of_warp + step_);
    begin_tile(tile_of_warp);
#pragma unroll 1
    for (int i = 0; i + 1 < kSteps; ++i) start_step();
  }

  // Goes on to the next tile. Its lanes that have a candidate: it has a step for each piece of each batch of
  // theirs, or one where there is none.
  __device__ uint32_t next_tile() {
    tile_at_hand_ = tile_at_hand_ + 1 == kTiles ? 0 : tile_at_hand_ + 1;
    return tile_of(tile_at_hand_).present;
  }

  // Goes on behind a tile without candidates.
  __device__ void pass_tile() { next_step(); }

  // Of this lane's candidate, from the tile's first step on.
  __device__ float scale() const {
    return params_.buffers.scales == nullptr ? 1.0f : tile_of(tile_at_hand_).scale;
  }

  // Load number `load` of row number `row`. Zeros stand for what is behind the row's end, and for a row that
  // is missing.
  struct Step {
    const RowsAhead& rows;

    __device__ void get(int row, int load, uint32_t (&words)[4]) const {
      load_word<kLoadBytes>(rows.word_at(rows.at_hand_, row, load), true, words);
    }
  };

  // The rows that the warp's groups take, piece after piece, those of candidates from lane `base` on.
  struct Batch {
    RowsAhead& rows;

    __device__ Step next(int64_t) {
      rows.next_step();
      return {rows};
    }
  };
  __device__ Batch batch(int) { return {*this}; }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int group_lane() { return lane() % Layout::kLanes; }

  __device__ char* word_at(int step, int row, int load) const {
    return static_cast<char*>(shared_) + step * kStepBytes +
           ((row * kLoads + load) * 32 + lane()) * kLoadBytes;
  }
  __device__ Tile& tile_of(int number) const {
    return reinterpret_cast<Tile*>(static_cast<char*>(shared_) + kSteps * kStepBytes)[number * 32 + lane()];
  }

  // Of the tile whose steps are started next. Behind the last one there are no steps.
  __device__ void begin_tile(uint32_t tile) {
    tile_ = tile;
    if (tile >= count()) return;
    const bool present = this->is_present(next_id_);
    from_ = this->vector_of(next_id_, present);
    started_tile_ = started_tile_ + 1 == kTiles ? 0 : started_tile_ + 1;
    Tile& own = tile_of(started_tile_);
    if constexpr (kIsBytes<Type>) {
      if (params_.buffers.scales != nullptr) {
        copy_ahead<4>(&own.scale, params_.buffers.scales + (present ? next_id_ : 0), present);
      }
    }
    present_ = __ballot_sync(~0u, present);
    own.present = present_;
    next_id_ = later_id_;
    later_id_ = ask_id(tile + 2 * step_);
    if constexpr (kStepIsTile) return;
    batch_ = piece_ = 0;
    skip_missing();
  }

  __device__ void skip_missing() {
    while (batch_ < batches_ && (present_ & lanes_of_batch<Layout>(batch_)) == 0) ++batch_;
  }

  __device__ void next_step() {
    start_step();
    wait_for_copies<kSteps - 1>();
    at_hand_ = at_hand_ + 1 == kSteps ? 0 : at_hand_ + 1;
  }

  __device__ void start_step() {
    started_ = started_ + 1 == kSteps ? 0 : started_ + 1;
    if (kStepIsTile && tile_ < count()) {
      start_copies();
      begin_tile(tile_ + step_);
    } else if (tile_ < count()) {
      if (batch_ < batches_) {
        start_copies();
        if (++piece_ == pieces_) {
          piece_ = 0;
          ++batch_;
          skip_missing();
        }
      }
      if (batch_ == batches_) begin_tile(tile_ + step_);
    }
    end_copies();
  }

  __device__ void start_copies() {
    const int base = lane() - group_lane() + batch_ * Layout::kBatchLane;
    const int64_t first = RowPiece::first(piece_, group_lane());
    const int left = RowPiece::left(params_.problem.dims, piece_, group_lane());
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int owner = base + Layout::row_lane(i);
      const auto* const row = reinterpret_cast<const Storage*>(
                                  __shfl_sync(~0u, reinterpret_cast<unsigned long long>(from_), owner)) +
                              first;
      const bool present = (present_ >> owner & 1) != 0;
#pragma unroll
      for (int load = 0; load < kLoads; ++load) {
        const bool there = present && load * RowPiece::kLoadStep < left;
        const Storage* const from = row + load * RowPiece::kLoadStep;
        copy_ahead<kLoadBytes>(word_at(started_, i, load), from, there);
      }
    }
  }

  const int batches_;  // of a tile
  const uint32_t step_;
  void* const shared_;
  int64_t pieces_;
  // Of the steps that are started next: this lane's row, and which lanes have one.
  uint32_t tile_;
  int batch_ = 0;
  int64_t piece_ = 0;
  const Storage* from_;
  uint32_t present_;
  int64_t next_id_, later_id_;  // of this lane's candidates in the two tiles behind
  // Among the steps, and the tiles, that there is room for.
  int started_ = kSteps - 1, at_hand_ = kSteps - 1;
  int started_tile_ = kTiles - 1, tile_at_hand_ = kTiles - 1;
};

}  // namespace gputopk::cuda::rerank
