// Of equal elements that a warp's lanes, or a block's threads, hold, those of the lowest indices.
#pragma once

#include <cstdint>

#include "cuda/device/team.cuh"
#include "cuda/device/warp.cuh"

namespace gputopk::cuda {

// Of elements that each kLanes lanes side by side hold, a bit for each, how many are in each vector: fields
// of a word, which are added up together.
template <int kLanes, class Share>
class VectorCounts {
  static constexpr int kInVector = Share::kInVector;
  static constexpr int kFieldBits = kLanes * kInVector < 1 << 8 ? 8 : 16;
  static_assert(kLanes * kInVector < 1 << 16, "a vector of all lanes, in a field");

 public:
  static constexpr int kVectors = 32 / kFieldBits;  // of a word
  static constexpr int kWords = (Share::kVectors + kVectors - 1) / kVectors;

  // Of the vectors from kVectors * word on.
  __device__ __forceinline__ VectorCounts(uint32_t elements, int word)
      : elements_(elements), first_(word * kVectors) {
    uint32_t own = 0;
#pragma unroll
    for (int v = 0; v < kVectors && first_ + v < Share::kVectors; ++v) {
      const unsigned of_vector = elements >> ((first_ + v) * kInVector) & ((1u << kInVector) - 1);
      own |= static_cast<uint32_t>(__popc(of_vector)) << (v * kFieldBits);
    }
    const uint32_t so_far = sum_so_far<kLanes>(own);
    before_ = so_far - own;
    of_all_ = Team<kLanes>::from(so_far, kLanes - 1);
  }

  // Of all of these lanes, in vector number v of the word.
  __device__ __forceinline__ int of_all(int v) const { return field(of_all_, v); }

  // Calls visit(place, i) for the lane's elements number i of that vector where `place`, `before` and how
  // many come before it among these lanes', is less than `wanted`.
  template <class Visit>
  __device__ __forceinline__ void visit(int v, int before, int wanted, Visit&& visit) const {
    int place = before + field(before_, v);
#pragma unroll
    for (int e = 0; e < kInVector; ++e) {
      const int i = (first_ + v) * kInVector + e;
      if (elements_ >> i & 1) {
        if (place < wanted) visit(place, i);
        ++place;
      }
    }
  }

 private:
  __device__ static int field(uint32_t word, int v) {
    return static_cast<int>(word >> (v * kFieldBits) & ((1u << kFieldBits) - 1));
  }

  uint32_t elements_, before_, of_all_;
  int first_;
};

// Of elements with a bit that a team of lanes holds, calls visit(place, i) for those of the `wanted` lowest
// indices; is how many these are.
template <int kLanes, class Share, class Visit>
__device__ __forceinline__ int visit_lowest(uint32_t elements, int wanted, Visit&& visit) {
  using Counts = VectorCounts<kLanes, Share>;
  int before = 0;
#pragma unroll
  for (int w = 0; w < Counts::kWords; ++w) {
    if (!__any_sync(~0u, before < wanted)) break;
    const Counts counts(elements, w);
#pragma unroll
    for (int v = 0; v < Counts::kVectors && w * Counts::kVectors + v < Share::kVectors; ++v) {
      // Most vectors lie behind the last that is wanted.
      if (v > 0 && !__any_sync(~0u, before < wanted)) break;
      counts.visit(v, before, wanted, visit);
      before += counts.of_all(v);
    }
  }
  return min(before, wanted);
}

// How many there are in each cell: a vector of a group of lanes, of all warps. In ascending order of cells,
// and of a cell's warps, indices ascend. In shared memory.
template <int kWarps>
struct EqualsTable {
  uint32_t of_all[32];
  uint16_t of_warps[kWarps][32];

  // By all threads, a barrier before any counts.
  __device__ void reset() {
    if (threadIdx.x < 32) of_all[threadIdx.x] = 0;
  }
};

// Of a thread's elements, those that are equal, a bit for each: `own`. Each kLanes lanes side by side hold
// vectors side by side, behind those of the same lanes of the warps before, and these behind those of the
// lanes before. By all threads of a block, a barrier between the count and what goes by it.
template <class Share, int kLanes = 32>
class Equals {
  static constexpr int kGroups = 32 / kLanes, kCells = Share::kVectors * kGroups;
  static constexpr int kInVector = Share::kInVector;
  static_assert(kCells <= 32, "a lane each");
  static constexpr int kFieldBits = kLanes == 32 ? 16 : 32 / kGroups;
  static_assert(kLanes * kInVector < 1 << kFieldBits, "a cell of a warp, in a field");

 public:
  template <int kWarps>
  __device__ __forceinline__ Equals(uint32_t own, EqualsTable<kWarps>& table) : own_(own) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int v = 0; v < Share::kVectors; ++v) {
      const unsigned count = static_cast<unsigned>(__popc(of_vector(v)));
      const unsigned of_groups = __reduce_add_sync(~0u, count << (kFieldBits * (lane / kLanes)));
      if (lane / kGroups == v)
        cell_ = of_groups >> (kFieldBits * (lane % kGroups)) & ((1u << kFieldBits) - 1);
    }
    table.of_warps[threadIdx.x / 32][lane] = static_cast<uint16_t>(cell_);
    if (cell_ > 0) atomicAdd(table.of_all + lane, cell_);
  }

  // All that the block has.
  template <int kWarps>
  __device__ __forceinline__ uint32_t count(const EqualsTable<kWarps>& table) const {
    return __reduce_add_sync(~0u, table.of_all[threadIdx.x % 32]);
  }

  // Calls visit(place, i) for the thread's equal elements number i of which less than `wanted` of the block's
  // have lower indices, `place` of them.
  template <int kWarps, class Visit>
  __device__ __forceinline__ void visit_lowest(int wanted, const EqualsTable<kWarps>& table,
                                               Visit&& visit) const {
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    const int of_all = static_cast<int>(table.of_all[lane]);
    int before = sum_so_far(of_all) - of_all;  // the cell
    if (!__any_sync(~0u, cell_ > 0 && before < wanted)) return;
    for (int w = 0; w < warp; ++w) before += table.of_warps[w][lane];
#pragma unroll
    for (int v = 0; v < Share::kVectors; ++v) {
      // Most vectors lie behind the last that is wanted.
      if (!__any_sync(~0u, lane / kGroups == v && cell_ > 0 && before < wanted)) continue;
      const int count = __popc(of_vector(v));
      int place = __shfl_sync(~0u, before, v * kGroups + lane / kLanes) + sum_so_far<kLanes>(count) - count;
      for (uint32_t left = of_vector(v); left != 0 && place < wanted; left &= left - 1, ++place) {
        visit(place, v * kInVector + __ffs(static_cast<int>(left)) - 1);
      }
    }
  }

 private:
  __device__ __forceinline__ uint32_t of_vector(int v) const {
    return own_ >> (v * kInVector) & ((1u << kInVector) - 1);
  }

  uint32_t own_, cell_ = 0;
};

}  // namespace gputopk::cuda
