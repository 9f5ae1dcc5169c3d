// Of equal elements that a block's threads hold, those of the lowest indices.
#pragma once

#include <cstdint>

#include "cuda/device/warp.cuh"

namespace gputopk::cuda {

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
