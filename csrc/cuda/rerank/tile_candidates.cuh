// A warp's candidates, a tile of 32 or fewer at a time: one for each lane that has a place in it.
#pragma once

#include <cstdint>

#include "cuda/rerank/params.cuh"
#include "cuda/rerank/row_layout.cuh"

namespace gputopk::cuda::rerank {

// Common to RowsAhead and RowsAtHand, which bring their vectors.
template <class Type, class Layout>
class TileCandidates {
 public:
  static constexpr int kBatchRows = 32 / Layout::kLanes * Layout::kRows;  // of all groups

  // Of this lane's candidate in a tile; beyond all candidates, where the tile has none for it.
  __device__ int64_t position(int64_t tile) const { return static_cast<uint32_t>(tile) + place_; }

 protected:
  using Storage = typename Type::Storage;

  __device__ TileCandidates(const Params& params, const CandidateRow& row, int tile)
      : params_(params), row_(row) {
    const int place = Layout::place(static_cast<int>(threadIdx.x) % 32);
    place_ = place < tile ? static_cast<uint32_t>(place) : kNowhere;
  }

  // Of this lane; -1 where there is none.
  __device__ int64_t ask_id(uint32_t tile) const {
    const uint32_t at = tile + place_;
    return at < count() ? params_.id_at(row_.begin + at) : -1;
  }
  // tile < count <= kMaxCandidates, so that tile + place_ < 2^32. What is asked for beyond is not used.
  __device__ uint32_t count() const { return static_cast<uint32_t>(row_.count); }
  __device__ bool is_present(int64_t id) const { return is_candidate(params_.problem, params_.buffers, id); }
  __device__ const Storage* vector_of(int64_t id, bool present) const {
    return static_cast<const Storage*>(params_.buffers.vectors) +
           (present ? id * params_.problem.vector_stride : 0);
  }

  const Params& params_;
  const CandidateRow row_;

 private:
  static constexpr uint32_t kNowhere = uint32_t{1} << 31;
  static_assert(kMaxCandidates < kNowhere);
  uint32_t place_;
};

}  // namespace gputopk::cuda::rerank
