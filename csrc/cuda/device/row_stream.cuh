// Reads a block's tiles of a row through shared memory: loads are under way long before their tile is looked
// at, and before the block knows what to look for.
#pragma once

#include <cstdint>

#include "cuda/device/numbers.h"
#include "cuda/device/ptx.cuh"
#include "cuda/device/row_reader.cuh"

namespace gputopk::cuda {

// By blocks of kPassThreads. Tiles are those of scan_tiles (row_reader.cuh), and go to the parts in turn.
// Each thread reads back what it has copied itself, so that no thread waits for another.
template <class Bits, int kBytes>
class RowStream {
  static constexpr int kElements = kPerVector<Bits>, kVectors = kUnroll<Bits>;
  static constexpr int kThreads = tuning::kPassThreads;
  static constexpr int kDistance = kThreads * kElements;  // from one of a thread's vectors to the next
  static constexpr int kStages = kBytes / (kThreads * kVectors * kVectorBytes);
  static_assert(kStages >= 2 && kVectors * kElements <= 32, "a bit of `chosen` for each element");

 public:
  // `memory` has kBytes, 16-byte aligned.
  __device__ RowStream(const Bits* row, int64_t cols, int part, int parts, unsigned char* memory)
      : row_(row),
        shape_(row, cols),
        end_(cols - shape_.tail),
        tiles_((end_ - shape_.head + kDistance * kVectors - 1) / (kDistance * kVectors)),
        part_(part),
        parts_(parts),
        own_(reinterpret_cast<uint4*>(memory) + threadIdx.x) {}

  __device__ const RowShape<Bits>& shape() const { return shape_; }

  // Starts the loads of the first tiles, as many as there is memory for.
  __device__ void start() const {
    for (int stage = 0; stage < kStages; ++stage) load(part_ + int64_t{stage} * parts_, stage);
  }

  // Once started, scans the elements as scan_tiles does. All threads are done with `memory` after a barrier.
  template <class Probe, class Take, class EachTile>
  __device__ __forceinline__ void scan(Probe&& probe, Take&& take, EachTile&& each_tile) const {
    int stage = 0;
    for (int64_t tile = part_; tile < tiles_; tile += parts_) {
      wait_for_copies<kStages - 1>();
      Vector<Bits> loaded[kVectors];
#pragma unroll
      for (int v = 0; v < kVectors; ++v) loaded[v].words = *place(stage, v);
      const int64_t begin = begin_of(tile);
      each_tile(begin);
      uint32_t chosen = 0;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const bool valid = tile < tiles_ - 1 || begin + v * kDistance < end_;
        chosen |= probe(loaded[v], begin + v * kDistance, valid) << (v * kElements);
      }
      load(tile + int64_t{kStages} * parts_, stage);
      take(loaded, begin, kDistance, chosen);
      stage = stage + 1 < kStages ? stage + 1 : 0;
    }
    if (part_ == 0 && threadIdx.x < 32 && shape_.head + shape_.tail > 0) {
      each_tile(0);
      scan_ends(row_, shape_, end_, probe, take);
    }
  }

 private:
  __device__ int64_t begin_of(int64_t tile) const {
    return shape_.head + tile * (kDistance * kVectors) + static_cast<int>(threadIdx.x) * kElements;
  }
  __device__ uint4* place(int stage, int v) const { return own_ + (stage * kVectors + v) * kThreads; }

  // A group of copies for every tile, and for those beyond the last, so that all threads wait for as many.
  __device__ __forceinline__ void load(int64_t tile, int stage) const {
    if (tile < tiles_) {
      const int64_t begin = begin_of(tile);
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const bool there = tile < tiles_ - 1 || begin + v * kDistance < end_;
        copy_ahead<kVectorBytes>(place(stage, v), there ? row_ + begin + v * kDistance : row_ + shape_.head,
                                 there);
      }
    }
    end_copies();
  }

  const Bits* row_;
  RowShape<Bits> shape_;
  int64_t end_;  // of the whole vectors
  int64_t tiles_;
  int part_, parts_;
  uint4* own_;
};

}  // namespace gputopk::cuda
