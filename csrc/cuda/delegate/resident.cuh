// Parts of what a bound from delegates lets in, each of which a block of its own puts in order: how it is
// divided, as resident_cluster.cu and resident_grid.cu have it, and how a cluster's blocks send each other
// their parts.
#pragma once

#include <cstdint>

#include "cuda/delegate/numbers.h"
#include "cuda/delegate/sampled_row.cuh"
#include "cuda/device/block_sort.cuh"
#include "cuda/device/cluster.cuh"
#include "cuda/device/mailbox.cuh"
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

  // Where blocks have bounds of their own, and the least of them counts, keys may lie below `low`.
  __device__ int part_of(Word key) const {
    return part[min((max(key, low) - low) >> shift, static_cast<Word>(kBins - 1))];
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
  static constexpr uint32_t kNotAll = 1u << 31;  // of a count: the block has not sent all that it has

  Mailbox counts, entries;
  uint32_t listed[kMostBlocks];  // by this block
  uint32_t of_blocks[kMostBlocks][kMostBlocks];
  uint32_t before[kMostBlocks];  // of its part, from the blocks before each
  uint32_t count, better;        // of its part, and of better ones
  uint32_t not_all;              // kNotAll, or zero
  bool fits;

  // By all threads of a block, a barrier before any counts, and that of the cluster before any sends.
  __device__ void reset() {
    if (threadIdx.x < kMostBlocks) listed[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
      not_all = 0;
      counts.open();
      entries.open();
    }
  }
};

// Where a block has entries of parts, as rank keys and indices: each warp those that it sends, and behind
// them, some places from each block, those that come.
template <class Word>
struct PartPlaces {
  static constexpr uint32_t kEntryBytes = BlockMemory<Word, Index>::kEntryBytes;

  BlockMemory<Word, Index> memory;
  uint32_t of_warp, first, from_block;

  // In the memory of a list with room for so many entries.
  template <class Bits>
  __device__ PartPlaces(const BlockMemory<Bits, Index>& list, int room, int blocks)
      : memory(reinterpret_cast<unsigned char*>(list.indices),
               static_cast<int>(room * BlockMemory<Bits, Index>::kEntryBytes / kEntryBytes) & ~63) {
    const auto all = static_cast<uint32_t>(reinterpret_cast<Index*>(memory.values) - memory.indices);
    first = all - all / tuning::kResidentPartShare;
    of_warp = first >> bits_of(blockDim.x / 32 - 1);
    from_block = (all - first) >> bits_of(static_cast<uint32_t>(blocks - 1));
  }
};

// Sends what reaches the bound, `reaching` of the thread's elements, to the block of its part; no more than
// there are places for. By whole warps.
template <class Compared, class Share, class PartOf, class Word>
__device__ __forceinline__ void send_parts(const Share& share, uint32_t reaching, int number,
                                           const PartPlaces<Word>& places, PartOf&& part_of,
                                           PartScratch& scratch) {
  const uint32_t lane = threadIdx.x % 32, own = __popc(reaching);
  const uint32_t so_far = static_cast<uint32_t>(sum_so_far(static_cast<int>(own)));
  const uint32_t all = __shfl_sync(~0u, so_far, 31), list = threadIdx.x / 32 * places.of_warp;
  if (all > places.of_warp) {
    if (lane == 0) atomicOr(&scratch.not_all, PartScratch::kNotAll);
    return;
  }
  uint32_t at = list + so_far - own;
#pragma unroll
  for (int i = 0; i < Share::kElements; ++i) {
    if ((reaching >> i & 1) == 0) continue;
    places.memory.values[at] = Compared::rank_key_of(share.number[i]);
    places.memory.indices[at] = static_cast<Index>(share.index(i));
    ++at;
  }
  __syncwarp();  // the warp's list is whole
  for (uint32_t i = lane; i < all; i += 32) {
    const Word key = places.memory.values[list + i];
    const int part = part_of(key);
    const uint32_t place = atomicAdd(scratch.listed + part, 1u);
    if (place >= places.from_block) continue;
    const uint32_t to = places.first + static_cast<uint32_t>(number) * places.from_block + place;
    scratch.entries.send(places.memory.values + to, key, part);
    scratch.entries.send(places.memory.indices + to, places.memory.indices[list + i], part);
  }
}

// Steps 2 and 3 by parts: each is sent to a block of its own, which puts it in order and writes it behind the
// better ones. False, and nothing is written, where a block or a warp has more of them than places, or fewer
// than k reach the bound. By all threads of all blocks.
template <class Compared, class Share, class PartOf, class Row, class Output,
          class Word = typename KeyWord<typename Compared::Bits>::type>
__device__ __forceinline__ bool write_in_parts(const Share& share, uint32_t reaching, const Row& row,
                                               const Compared& numbers, const PartPlaces<Word>& places,
                                               int blocks, int number, PartOf&& part_of, PartScratch& scratch,
                                               BlockScratch<Word, Index>& of_sort, const Output& output) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32, warp = thread / 32;
  send_parts<Compared>(share, reaching, number, places, part_of, scratch);
  __syncthreads();  // all are counted
  const int part = thread % kMostBlocks, to = thread / kMostBlocks;
  if (part < blocks && to < blocks) {
    scratch.counts.send(&scratch.of_blocks[number][part], scratch.listed[part] | scratch.not_all, to);
  }
  if (warp == 0) {
    if (lane == 0) scratch.counts.expect(static_cast<uint32_t>(blocks * blocks * sizeof(uint32_t)));
    scratch.counts.wait();
    uint32_t of_part = 0;
    bool fits = true;
    for (int block = 0; lane < blocks && block < blocks; ++block) {
      const uint32_t listed = scratch.of_blocks[block][lane];
      of_part += listed;
      fits &= listed <= places.from_block;
    }
    const uint32_t better = __reduce_add_sync(~0u, lane < number ? of_part : 0);
    const uint32_t reach = __reduce_add_sync(~0u, of_part);
    fits = __all_sync(~0u, fits) && reach >= static_cast<uint32_t>(row.k);
    const uint32_t listed = lane < blocks ? scratch.of_blocks[lane][number] & ~PartScratch::kNotAll : 0;
    const uint32_t sent = min(listed, places.from_block);
    const uint32_t so_far = static_cast<uint32_t>(sum_so_far(static_cast<int>(sent)));
    if (lane < blocks) scratch.before[lane] = so_far - sent;
    if (lane == 31) {
      scratch.count = so_far;
      scratch.better = better;
      scratch.fits = fits;
      scratch.entries.expect(so_far * PartPlaces<Word>::kEntryBytes);
    }
  }
  __syncthreads();  // the sums are there
  // What was sent is waited for also where not all was: its places are used for others.
  scratch.entries.wait();
  if (!scratch.fits) return false;
  const int own = static_cast<int>(scratch.count), better = static_cast<int>(scratch.better);
  if (better >= row.k) return true;
  // To the list's beginning, side by side.
  const BlockMemory<Word, Index>& memory = places.memory;
#pragma unroll 1
  for (int block = warp; block < blocks; block += threads / 32) {
    const uint32_t from = places.first + static_cast<uint32_t>(block) * places.from_block;
    for (uint32_t i = static_cast<uint32_t>(lane); i < scratch.of_blocks[block][number]; i += 32) {
      memory.values[scratch.before[block] + i] = memory.values[from + i];
      memory.indices[scratch.before[block] + i] = memory.indices[from + i];
    }
  }
  prepare_sort(own, memory, of_sort);
  __syncthreads();  // the part is there, and the sort's memory is clear
  sort_prepared<tuning::kResidentClusterItems>(
      own, min(own, row.k - better), KeysAsTheyAre<Word>{}, memory, of_sort,
      [&](int i, Word& key, Index& index) {
        key = memory.values[i];
        index = memory.indices[i];
      },
      [&](int rank, Word key, Index index) {
        typename Compared::Bits bits;
        if (!numbers.bits_of_all(Compared::number_of(key), bits)) bits = row.begin[index];
        output.write(better + rank, bits, index);
      });
  return true;
}

}  // namespace gputopk::cuda::delegate
