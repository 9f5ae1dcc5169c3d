// Winners of a row in ascending order of their indices: a block keeps them in shared memory, and marks each,
// a bit of the row's. As many marks as come before it are its place.
#pragma once

#include <cstdint>

#include "cuda/device/cluster.cuh"
#include "cuda/device/index_marks.h"
#include "cuda/device/warp.cuh"

namespace gputopk::cuda {

template <class Bits>
class IndexMarks {
 public:
  // `at`: of marks_behind. Of a row of so many elements, and k winners at most.
  __device__ IndexMarks(unsigned char* base, int at, int64_t cols, int k)
      : words_(at > 0 ? reinterpret_cast<uint32_t*>(base + at) : nullptr),
        count_(static_cast<int>(mark_words(cols))),
        room_((k + 3) / 4 * 4) {}

  // Whether winners are to be marked; else they are written where they are found.
  __device__ explicit operator bool() const { return words_ != nullptr; }

  // By all threads of a block, a barrier before any marks.
  __device__ void clear() const {
    for (int i = static_cast<int>(threadIdx.x); i < count_ / 4; i += static_cast<int>(blockDim.x)) {
      reinterpret_cast<uint4*>(words_)[i] = uint4{};
    }
  }
  // Winner number `at`, in any order.
  __device__ __forceinline__ void mark(int64_t at, Bits bits, uint32_t index) const {
    values()[at] = bits;
    indices()[at] = index;
    atomicOr(words_ + index / 32, 1u << index % 32);
  }
  // Those of another block of the cluster.
  __device__ IndexMarks of_block(int rank) const {
    return words_ != nullptr ? IndexMarks(Cluster::of_block(words_, rank), count_, room_) : *this;
  }

  // write(place, bits, index) for all winners, of which there are k. `warp_sums` has a number a warp, in
  // shared memory. By all threads of a block.
  template <class Write>
  __device__ __forceinline__ void visit(int k, uint32_t* warp_sums, Write&& write) const {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const int lane = thread % 32, warp = thread / 32;
    const int share = (count_ + threads - 1) / threads;
    const int begin = min(thread * share, count_), end = min(begin + share, count_);
    __syncthreads();  // all are marked
    int own = 0;
    for (int i = begin; i < end; ++i) own += __popc(words_[i]);
    const int so_far = sum_so_far(own);
    if (lane == 31) warp_sums[warp] = static_cast<uint32_t>(so_far);
    __syncthreads();  // all warps have counted
    int before = so_far - own + static_cast<int>(__reduce_add_sync(~0u, lane < warp ? warp_sums[lane] : 0));
    for (int i = begin; i < end; ++i) {
      before_words()[i] = static_cast<uint16_t>(before);
      before += __popc(words_[i]);
    }
    __syncthreads();  // all words know what comes before them
    for (int i = thread; i < k; i += threads) {
      const uint32_t index = indices()[i], word = index / 32;
      const uint32_t lower = words_[word] & ((1u << index % 32) - 1);
      write(before_words()[word] + __popc(lower), values()[i], index);
    }
  }

 private:
  __device__ IndexMarks(uint32_t* words, int count, int room) : words_(words), count_(count), room_(room) {}

  // Aligned, as counts of words, and of winners, are multiples of 4.
  __device__ Bits* values() const { return reinterpret_cast<Bits*>(words_ + count_); }
  __device__ uint32_t* indices() const { return reinterpret_cast<uint32_t*>(values() + room_); }
  // How many are marked before each word: fewer than 2^16, as a block holds them.
  __device__ uint16_t* before_words() const { return reinterpret_cast<uint16_t*>(indices() + room_); }

  uint32_t* words_;
  int count_;  // of them
  int room_;   // for winners
};

// Writes a row's winners where they are found, or marks them.
template <class Bits, class Output>
struct MarkingWriter {
  Output output;
  IndexMarks<Bits> marks;

  __device__ __forceinline__ void write(int64_t at, Bits bits, uint32_t index) const {
    if (marks) {
      marks.mark(at, bits, index);
    } else {
      output.write(at, bits, index);
    }
  }
};

}  // namespace gputopk::cuda
