// Where winners go, and the staging that makes writing many of them cheap.
#pragma once

#include <cstdint>

namespace gputopk::cuda {

// A row's slice of the outputs, in the index dtype that the caller asked for.
template <class Bits>
struct WinnerWriter {
  Bits* values;
  void* indices;
  bool wide_indices;

  __device__ void write(int64_t at, Bits value, int64_t index) const {
    values[at] = value;
    if (wide_indices) {
      static_cast<int64_t*>(indices)[at] = index;
    } else {
      static_cast<int32_t*>(indices)[at] = static_cast<int32_t>(index);
    }
  }

  __device__ WinnerWriter row(int64_t row, int64_t k) const {
    const int index_bytes = wide_indices ? 8 : 4;
    return {values + row * k, static_cast<char*>(indices) + row * k * index_bytes, wide_indices};
  }
};

// A row's buffer of candidates: the value's bits and its index.
template <class Bits, class Index>
struct CandidateBuffer {
  Bits* values;
  Index* indices;

  __device__ void write(int64_t at, Bits value, Index index) const {
    values[at] = value;
    indices[at] = index;
  }
};

// Entries that one warp has found and not yet written. A global atomic an element costs up to 3.5 times
// the read (PERFORMANCE.md); here one atomic serves `full` entries or more, no barrier is needed, and what
// is left at the end goes out with one atomic a block. A lane pushes up to kAtOnce entries.
template <class Bits, class Index, class Sink, int kAtOnce = 1>
class StagedWriter {
 public:
  // A full warp may push when one entry is missing.
  static constexpr int capacity(int full) { return full + 32 * kAtOnce; }
  static constexpr size_t bytes(int full) { return capacity(full) * (sizeof(Bits) + sizeof(Index)); }

  // `stage` is bytes(full) of the warp's own shared memory; `cursor` counts what all blocks of the row
  // have written to `sink`.
  __device__ StagedWriter(unsigned char* stage, int full, Sink sink, unsigned long long* cursor)
      : indices_(reinterpret_cast<Index*>(stage)),
        values_(reinterpret_cast<Bits*>(stage + capacity(full) * sizeof(Index))),
        full_(full),
        sink_(sink),
        cursor_(cursor) {}

  // Called by all lanes of the warp together.
  __device__ void push(bool take, Bits value, Index index) {
    const unsigned takers = __ballot_sync(~0u, take);
    if (takers == 0) return;
    if (take) {
      const int at = count_ + __popc(takers & lanes_below());
      values_[at] = value;
      indices_[at] = index;
    }
    count_ += __popc(takers);
    if (count_ >= full_) flush();
  }

  // The same of kAtOnce elements a lane, value(i) at index(i), those whose bits are set in `taken`.
  template <class Value, class Place>
  __device__ void push_each(uint32_t taken, Value&& value, Place&& index) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const bool take = taken >> i & 1;
      const unsigned takers = __ballot_sync(~0u, take);
      if (take) {
        const int at = count_ + __popc(takers & lanes_below());
        values_[at] = value(i);
        indices_[at] = index(i);
      }
      count_ += __popc(takers);
    }
    if (count_ >= full_) flush();
  }

  // What is left, with one atomic a block. The three steps are called by all threads of the block with a
  // barrier between them, so that several writers can share the barriers; `counts` is shared memory, a
  // number a warp and one more.
  __device__ void publish(unsigned long long* counts) const {
    if (lane() == 0) counts[threadIdx.x / 32] = static_cast<unsigned long long>(count_);
  }
  __device__ void reserve(unsigned long long* counts) const {  // by one thread
    const int warps = static_cast<int>(blockDim.x) / 32;
    unsigned long long total = 0;
    for (int w = 0; w < warps; ++w) {
      const unsigned long long count = counts[w];
      counts[w] = total;
      total += count;
    }
    counts[warps] = total > 0 ? atomicAdd(cursor_, total) : 0;
  }
  __device__ void finish(const unsigned long long* counts) {
    write_out(counts[blockDim.x / 32] + counts[threadIdx.x / 32]);
  }

 private:
  __device__ void flush() {
    unsigned long long base = 0;
    if (lane() == 0) base = atomicAdd(cursor_, static_cast<unsigned long long>(count_));
    write_out(__shfl_sync(~0u, base, 0));
  }

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static unsigned lanes_below() { return (1u << lane()) - 1; }

  __device__ void write_out(unsigned long long base) {
    __syncwarp();  // the lanes' entries are in shared memory
    for (int i = lane(); i < count_; i += 32) sink_.write(base + i, values_[i], indices_[i]);
    __syncwarp();  // and have been read before the next ones arrive
    count_ = 0;
  }

  Index* indices_;
  Bits* values_;
  int full_;
  Sink sink_;
  unsigned long long* cursor_;
  int count_ = 0;  // the same in all lanes
};

}  // namespace gputopk::cuda
