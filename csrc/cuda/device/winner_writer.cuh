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

// Entries that one warp has found, in its own shared memory, until there are `full` of them. A lane pushes up
// to kAtOnce before the warp looks whether there are.
template <class Bits, class Index, int kAtOnce = 1>
class WarpStage {
 public:
  // A full warp may push when one entry is missing.
  static constexpr int capacity(int full) { return full + 32 * kAtOnce; }
  static constexpr size_t bytes(int full) { return capacity(full) * (sizeof(Bits) + sizeof(Index)); }

  // `stage` is bytes(full) of the warp's own shared memory.
  __device__ WarpStage(unsigned char* stage, int full)
      : indices_(reinterpret_cast<Index*>(stage)),
        values_(reinterpret_cast<Bits*>(stage + capacity(full) * sizeof(Index))),
        full_(full) {}

  __device__ int count() const { return count_; }
  __device__ bool is_full() const { return count_ >= full_; }
  __device__ Bits value(int i) const { return values_[i]; }
  __device__ Index index(int i) const { return indices_[i]; }

  // Called by all lanes of the warp together, as what follows; `takers` are the lanes that take.
  __device__ __forceinline__ void push(unsigned takers, bool take, Bits value, Index index) {
    if (take) {
      const int at = count_ + __popc(takers & lanes_below());
      values_[at] = value;
      indices_[at] = index;
    }
    count_ += __popc(takers);
  }
  __device__ __forceinline__ void push(bool take, Bits value, Index index) {
    push(__ballot_sync(~0u, take), take, value, index);
  }
  // The same of kAtOnce elements a lane, value(i) at index(i), those whose bits are set in `taken`.
  template <class Value, class Place>
  __device__ __forceinline__ void push_each(uint32_t taken, Value&& value, Place&& index) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) push(taken >> i & 1, value(i), index(i));
  }
  // Once its entries have been read, with a barrier of the warp before new ones arrive.
  __device__ void clear() { keep(0); }
  // The first so many of them stay.
  __device__ void keep(int count) {
    __syncwarp();
    count_ = count;
  }
  // In the place of entry number i, which has been read.
  __device__ void put(int i, Bits value, Index index) {
    values_[i] = value;
    indices_[i] = index;
  }

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static unsigned lanes_below() { return (1u << lane()) - 1; }

 private:
  Index* indices_;
  Bits* values_;
  int full_;
  int count_ = 0;  // the same in all lanes
};

// Places for what a block's warps have: `counts` says how many of each, and then how many before it; behind
// them stands the first place, of those that `cursor` counts. By one thread.
__device__ inline void reserve_places(unsigned long long* counts, unsigned long long* cursor) {
  const int warps = static_cast<int>(blockDim.x) / 32;
  unsigned long long total = 0;
  for (int w = 0; w < warps; ++w) {
    const unsigned long long count = counts[w];
    counts[w] = total;
    total += count;
  }
  counts[warps] = total > 0 ? atomicAdd(cursor, total) : 0;
}

// Writes what it stages. A global atomic an element costs up to 3.5 times the read (PERFORMANCE.md); here one
// atomic serves `full` entries or more, no barrier is needed, and what is left at the end goes out with one
// atomic a block.
template <class Bits, class Index, class Sink, int kAtOnce = 1>
class StagedWriter {
  using Stage = WarpStage<Bits, Index, kAtOnce>;

 public:
  static constexpr size_t bytes(int full) { return Stage::bytes(full); }

  // `stage` is bytes(full) of the warp's own shared memory; `cursor` counts what all blocks of the row
  // have written to `sink`.
  __device__ StagedWriter(unsigned char* stage, int full, Sink sink, unsigned long long* cursor)
      : stage_(stage, full), sink_(sink), cursor_(cursor) {}

  // Called by all lanes of the warp together.
  __device__ void push(bool take, Bits value, Index index) {
    const unsigned takers = __ballot_sync(~0u, take);
    if (takers == 0) return;
    stage_.push(takers, take, value, index);
    if (stage_.is_full()) flush();
  }
  // The same of kAtOnce elements a lane, as WarpStage has them.
  template <class Value, class Place>
  __device__ void push_each(uint32_t taken, Value&& value, Place&& index) {
    stage_.push_each(taken, value, index);
    if (stage_.is_full()) flush();
  }

  // What is left.
  __device__ Stage& staged() { return stage_; }
  __device__ const Stage& staged() const { return stage_; }

  // It is written out, with one atomic a block. The three steps are called by all threads of the block with a
  // barrier between them, so that several writers can share the barriers; `counts` is shared memory, a
  // number a warp and one more.
  __device__ void publish(unsigned long long* counts) const {
    if (Stage::lane() == 0) counts[threadIdx.x / 32] = static_cast<unsigned long long>(stage_.count());
  }
  __device__ void reserve(unsigned long long* counts) const { reserve_places(counts, cursor_); }  // by one
  __device__ void finish(const unsigned long long* counts) {
    write_out(counts[blockDim.x / 32] + counts[threadIdx.x / 32]);
  }

  // By the warp, from the sink's place number `base` on, which it has reserved.
  __device__ void write_out(unsigned long long base) {
    __syncwarp();  // the lanes' entries are in shared memory
    for (int i = Stage::lane(); i < stage_.count(); i += 32) {
      sink_.write(base + i, stage_.value(i), stage_.index(i));
    }
    stage_.clear();
  }
  __device__ unsigned long long* cursor() const { return cursor_; }

 private:
  __device__ void flush() {
    unsigned long long base = 0;
    if (Stage::lane() == 0) base = atomicAdd(cursor_, static_cast<unsigned long long>(stage_.count()));
    write_out(__shfl_sync(~0u, base, 0));
  }

  Stage stage_;
  Sink sink_;
  unsigned long long* cursor_;
};

}  // namespace gputopk::cuda
