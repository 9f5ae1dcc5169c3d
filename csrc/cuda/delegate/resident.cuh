// Parts of what a bound from delegates lets in, each of which a block of its own puts in order: how it is
// divided, and how a cluster's blocks send each other their parts. Common to resident_cluster.cu and
// resident_grid.cu.
#pragma once

#include <cstdint>

#include "cuda/delegate/numbers.h"
#include "cuda/delegate/sampled_row.cuh"
#include "cuda/device/block_sort.cuh"
#include "cuda/device/cluster.cuh"
#include "cuda/device/maxima_bound.cuh"
#include "cuda/device/warp.cuh"

namespace gputopk::cuda::delegate {

// By how much the rank of a bound among delegates may exceed what it is to be.
GPUTOPK_HOST_DEVICE int slack_of_rank(int rank) {
  return tuning::kResidentLeastSlack + rank / tuning::kResidentRankSlack;
}

// Of keys that reach a bound, the better, the lower the part: by the first digit of the delegates that the
// bound is found among, of which each part has about as many. In shared memory.
template <class Word>
struct PartBins {
  static constexpr int kBins = 1 << kBoundBits;

  Word low;
  int shift;
  alignas(4) uint8_t part[kBins];

  __device__ int part_of(Word key) const {
    return part[min((key - low) >> shift, static_cast<Word>(kBins - 1))];  // bound <= key, low <= bound
  }
  // bound_within's `divide`, into so many parts; `rank` is the bound's.
  __device__ auto divide(int parts, int rank) {
    return [this, parts, rank](Word first, int digit_shift, int so_far, const int (&count)[4]) {
      if (threadIdx.x >= 32) return;
      const float parts_a_key = static_cast<float>(parts) / static_cast<float>(rank);
      uint32_t of_four = 0;
      int better = so_far - (count[0] + count[1] + count[2] + count[3]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int own = min(static_cast<int>(static_cast<float>(better) * parts_a_key), parts - 1);
        of_four |= static_cast<uint32_t>(own) << (24 - 8 * i);
        better += count[i];
      }
      reinterpret_cast<uint32_t*>(part)[31 - threadIdx.x] = of_four;
      if (threadIdx.x == 0) {
        low = first;
        shift = digit_shift;
      }
    };
  }
};

constexpr int kMostBlocks = tuning::kClusterMostBlocks;

static_assert(kMostBlocks * kMostBlocks <= tuning::kClusterMinThreads, "a thread for each count");

// Entries of each part that blocks have listed, and of the block's own part.
struct PartScratch {
  uint32_t listed[kMostBlocks];  // by this block
  uint32_t of_blocks[kMostBlocks][kMostBlocks];
  uint32_t before[kMostBlocks];  // of its part, from the blocks before each
  uint32_t count, better;        // of its part, and of better ones
  bool fits;

  // By all threads of a block, a barrier before any counts.
  __device__ void reset() {
    if (threadIdx.x < kMostBlocks) listed[threadIdx.x] = 0;
  }
};

// Where parts are sent: to the end of the room, which lists leave to them, some places from each block.
struct PartPlaces {
  uint32_t first, from_block;

  __device__ PartPlaces(uint32_t room, int blocks)
      : first(room - room / tuning::kResidentPartShare),
        from_block(room / tuning::kResidentPartShare / static_cast<uint32_t>(blocks)) {}
};

// Step 3 by parts: each is sent to a block of its own, which puts it in order and writes it behind the better
// ones. False, and nothing is written, where a block has more of a part than places, or its list is not
// whole. By all threads of all blocks.
template <class Order, class PartOf, class Output, class Bits = typename Order::Bits>
__device__ __forceinline__ bool write_in_parts(uint32_t own_listed, const PartPlaces& places, int blocks,
                                               int number, int k, const Order& order, PartOf&& part_of,
                                               const BlockMemory<Bits, Index>& memory, PartScratch& scratch,
                                               BlockScratch<typename KeyWord<Bits>::type, Index>& of_sort,
                                               const Output& output) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32, warp = thread / 32;
  const bool is_whole = own_listed <= places.first;
  const uint32_t sent_to = places.first + static_cast<uint32_t>(number) * places.from_block;
  for (uint32_t i = threadIdx.x; is_whole && i < own_listed; i += blockDim.x) {
    const Bits bits = memory.values[i];
    const int part = part_of(bits);
    const uint32_t place = atomicAdd(scratch.listed + part, 1u);
    if (place >= places.from_block) continue;
    Cluster::of_block(memory.values, part)[sent_to + place] = bits;
    Cluster::of_block(memory.indices, part)[sent_to + place] = memory.indices[i];
  }
  __syncthreads();  // all are counted
  if (thread < blocks * blocks) {
    const int part = thread % blocks;
    Cluster::of_block(&scratch, thread / blocks)->of_blocks[number][part] =
        is_whole ? scratch.listed[part] : places.from_block + 1;
  }
  Cluster::arrive();
  Cluster::wait();  // the parts are where they belong, and all counts
  if (warp == 0) {
    uint32_t of_part = 0, most = 0;
    for (int block = 0; lane < blocks && block < blocks; ++block) {
      const uint32_t listed = scratch.of_blocks[block][lane];
      of_part += listed;
      most = max(most, listed);
    }
    const uint32_t better = __reduce_add_sync(~0u, lane < number ? of_part : 0);
    most = __reduce_max_sync(~0u, most);
    const int from_block = lane < blocks ? static_cast<int>(scratch.of_blocks[lane][number]) : 0;
    const int so_far = sum_so_far(from_block);
    if (lane < blocks) scratch.before[lane] = static_cast<uint32_t>(so_far - from_block);
    if (lane == 31) {
      scratch.count = static_cast<uint32_t>(so_far);
      scratch.better = better;
      scratch.fits = most <= places.from_block;
    }
  }
  __syncthreads();  // the sums are there
  if (!scratch.fits) return false;
  const int own = static_cast<int>(scratch.count), better = static_cast<int>(scratch.better);
  if (better >= k) return true;
  // To the room's beginning, side by side.
  for (int block = warp; block < blocks; block += threads / 32) {
    const uint32_t from = places.first + static_cast<uint32_t>(block) * places.from_block;
    for (uint32_t i = lane; i < scratch.of_blocks[block][number]; i += 32) {
      memory.values[scratch.before[block] + i] = memory.values[from + i];
      memory.indices[scratch.before[block] + i] = memory.indices[from + i];
    }
  }
  prepare_sort(own, memory, of_sort);
  __syncthreads();  // the part is there, and the sort's memory is clear
  sort_prepared<tuning::kResidentClusterItems>(
      own, min(own, k - better), order, memory, of_sort,
      [&](int i, Bits& bits, Index& index) {
        bits = memory.values[i];
        index = memory.indices[i];
      },
      [&](int rank, Bits bits, Index index) { output.write(better + rank, bits, index); });
  return true;
}

}  // namespace gputopk::cuda::delegate
