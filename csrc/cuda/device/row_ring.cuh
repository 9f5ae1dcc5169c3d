// A ring of chunks of rows in shared memory: a block's rows, one after the other, are copied there ahead of
// their use, so that the memory is never idle while a row is finished.
#pragma once

#include <cstdint>

#include "cuda/device/ptx.cuh"
#include "cuda/device/row_reader.cuh"

namespace gputopk::cuda {

// The rows of a launch, and how they are cut: chunks of `chunk_vectors` whole vectors, the last one of fewer,
// or of none where the row begins off a vector's boundary. A block takes the rows blockIdx.x, + gridDim.x...
template <class Bits>
struct ChunkedRows {
  const Bits* input;
  int64_t rows;
  int64_t row_stride;
  int64_t cols;
  uint32_t chunk_vectors;
  uint32_t chunks;  // a row
  uint32_t stride;  // prime to chunks - 1, and no more

  __device__ const Bits* row(int64_t row) const { return input + row * row_stride; }

  // The chunk that is visited after number `chunk`. The first is 0 and the second the last, so that the best
  // of an ascending or descending row are seen at once; the others follow spread over the row.
  __device__ uint32_t next(uint32_t chunk) const {
    const uint32_t others = chunks - 1;  // all but the last
    if (chunk == 0) return others;
    const uint32_t after = (chunk == others ? 0 : chunk) + stride;
    return after >= others ? after - others : after;
  }
  __device__ uint32_t vectors_of(uint32_t chunk, const RowShape<Bits>& shape) const {
    const int64_t left = shape.vectors - int64_t{chunk} * chunk_vectors;
    return static_cast<uint32_t>(max(int64_t{0}, min(left, int64_t{chunk_vectors})));
  }
};

// What the one thread that fills a ring knows, in shared memory: no other has registers for it.
struct RingFiller {
  int64_t row;
  uint32_t visited;  // chunks of the row
  uint32_t chunk;    // the next one
  uint32_t stage;
};

// `stages` of the ring hold a chunk each. All threads of the block follow the chunks together.
template <class Bits>
class RowRing {
 public:
  static constexpr size_t kStageExtra = sizeof(uint64_t);  // bytes a stage beside its chunk

  // `chunks`: stages * chunk_vectors vectors, 16-byte aligned; `copied`: a barrier a stage.
  __device__ RowRing(const ChunkedRows<Bits>& rows, unsigned char* chunks, uint64_t* copied,
                     RingFiller& filler, uint32_t stages)
      : rows_(rows), chunks_(chunks), copied_(copied), filler_(filler), stages_(stages) {}

  // By all threads, once. Begins to fill every stage.
  __device__ void start() {
    if (threadIdx.x == blockDim.x - 32) {
      for (uint32_t s = 0; s < stages_; ++s) init_copy_barrier(copied_ + s);
      fence_copy_barriers();
      filler_ = {static_cast<int64_t>(blockIdx.x), 0, 0, 0};
      for (uint32_t s = 0; s < stages_; ++s) fill();
    }
    __syncthreads();  // no thread waits at a barrier before it is one
  }

  // The chunk `ahead` of the current one, less than `stages`, when it is there. The same chunk may be asked
  // for again.
  __device__ const Bits* wait(uint32_t ahead) const {
    const uint32_t beyond = stage_ + ahead;
    const bool wraps = beyond >= stages_;
    const uint32_t stage = wraps ? beyond - stages_ : beyond;
    wait_for_copy(copied_ + stage, parity_ ^ (wraps ? 1u : 0u));
    return at(stage);
  }

  // The current chunk, which all threads have done with, a barrier before, makes room for another. A thread
  // of the last warp fills it, which has the least to do.
  __device__ void release() {
    if (threadIdx.x == blockDim.x - 32) fill();
    if (++stage_ == stages_) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  __device__ Bits* at(uint32_t stage) const {
    return reinterpret_cast<Bits*>(chunks_ + static_cast<size_t>(stage) * rows_.chunk_vectors * kVectorBytes);
  }

  // Has the next chunk of the block's rows copied into the stage that is free. By one thread.
  __device__ void fill() {
    if (filler_.row >= rows_.rows) return;
    const Bits* const row = rows_.row(filler_.row);
    const RowShape<Bits> shape(row, rows_.cols);
    const uint32_t vectors = rows_.vectors_of(filler_.chunk, shape);
    uint64_t* const copied = copied_ + filler_.stage;
    announce_copy(copied, vectors * kVectorBytes);
    if (vectors > 0) {
      const int64_t first = shape.head + int64_t{filler_.chunk} * rows_.chunk_vectors * kPerVector<Bits>;
      copy_bulk(at(filler_.stage), row + first, vectors * kVectorBytes, copied);
    }
    filler_.stage = filler_.stage + 1 == stages_ ? 0 : filler_.stage + 1;
    filler_.chunk = rows_.next(filler_.chunk);
    if (++filler_.visited == rows_.chunks) {
      filler_.visited = filler_.chunk = 0;
      filler_.row += gridDim.x;
    }
  }

  const ChunkedRows<Bits>& rows_;
  unsigned char* chunks_;
  uint64_t* copied_;
  RingFiller& filler_;
  uint32_t stages_;
  uint32_t stage_ = 0, parity_ = 0;  // of the current chunk
};

}  // namespace gputopk::cuda
