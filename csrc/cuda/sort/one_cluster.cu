// A row in one cluster of blocks, by regular sampling: one launch, and entries in shared memory throughout.
//
//   1. Each block puts a chunk of the row in order, and takes a sample at regular places of it.
//   2. All blocks put all samples in order. Every so manyth is a splitter, and what lies between two of those
//      is a part, a block each.
//   3. Each block says where the parts begin in its chunk; fetches its own part from all chunks; puts it in
//      order, and writes it.
// A part is no longer than twice a chunk, whatever the entries are: most_of_part. For their extended keys,
// (key, index), differ in all, and of each chunk a part has no more than its samples there and one more can
// keep apart. So nothing has to be seen to where entries crowd.

#include <algorithm>

#include "cuda/device/block_sort.cuh"
#include "cuda/device/cluster.cuh"
#include "cuda/device/cluster_launch.h"
#include "cuda/device/launch.h"
#include "cuda/device/shared_memory.cuh"
#include "cuda/sort/rows.h"

namespace gputopk::cuda::sort {
namespace {

constexpr int kMostBlocks = tuning::kSortClusterMostBlocks;

template <class Word, class Index>
struct Sample {
  Word key;
  Index index;

  __device__ bool before(const Sample& other) const {
    return (key > other.key) | ((key == other.key) & (index < other.index));
  }
};

template <class Word, class Index>
struct Shared {
  BlockScratch<Word, Index> sort;
  Sample<Word, Index> own[kMostBlocks];  // of this block's chunk
  Sample<Word, Index> all[kMostBlocks * kMostBlocks];
  Sample<Word, Index> splitters[kMostBlocks];  // number p is the first of part p; 0 is none
  int cuts[kMostBlocks + 1];                   // where parts begin in this block's chunk
  int first[kMostBlocks];                      // of this block's part, in each chunk
  int starts[kMostBlocks + 1];                 // where in the part those of each chunk are
  int64_t before;                              // entries of all parts before this one
};
static_assert(sizeof(Shared<uint64_t, uint64_t>) <= tuning::kSortClusterStaticBytes);

// A chunk in order, in a block's dynamic shared memory.
template <class Bits, class Index>
struct Chunk {
  Bits* values;
  Index* indices;
  int entries;
};

// Step 2, on samples that all blocks have taken. By all threads of a block.
template <class Word, class Index>
__device__ void find_splitters(int blocks, Shared<Word, Index>& shared) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int samples = blocks * blocks;
  for (int i = thread; i < samples; i += threads) {
    shared.all[i] = Cluster::of_block(shared.own, i / blocks)[i % blocks];
  }
  __syncthreads();
  for (int i = thread; i < samples; i += threads) {
    const Sample<Word, Index> own = shared.all[i];
    int rank = 0;
    for (int other = 0; other < samples; ++other) rank += shared.all[other].before(own);
    if (rank % blocks == 0) shared.splitters[rank / blocks] = own;
  }
  __syncthreads();
}

// Entries of a chunk that come before a splitter.
template <class Order, class Bits, class Index, class Word>
__device__ int entries_before(const Sample<Word, Index>& splitter, const Chunk<Bits, Index>& chunk,
                              const Order& order) {
  int low = 0, high = chunk.entries;
  while (low < high) {
    const int middle = (low + high) / 2;
    const Sample<Word, Index> entry{order(chunk.values[middle]), chunk.indices[middle]};
    if (entry.before(splitter)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Where this block's part is in all chunks, once their cuts are known. By the first warp.
template <class Word, class Index>
__device__ void find_part(int number, int blocks, Shared<Word, Index>& shared) {
  static_assert(kMostBlocks <= 32);
  const int lane = static_cast<int>(threadIdx.x);
  int first = 0, entries = 0;
  if (lane < blocks) {
    const int* const cuts = Cluster::of_block(shared.cuts, lane);
    first = cuts[number];
    entries = cuts[number + 1] - first;
    shared.first[lane] = first;
  }
  const int so_far = sum_so_far(entries);
  if (lane < blocks) shared.starts[lane + 1] = so_far;
  const int64_t before = static_cast<int64_t>(__reduce_add_sync(~0u, static_cast<unsigned>(first)));
  if (lane == 0) {
    shared.starts[0] = 0;
    shared.before = before;
  }
}

template <class Order, class Index>
__global__ void __launch_bounds__(tuning::kSortMaxThreads)
    sort_row(Rows rows, Order order, int blocks, int capacity, int chunk_capacity) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  __shared__ Shared<Word, Index> shared;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const BlockMemory<Bits, Index> memory(dynamic_shared(), capacity);
  Index* const chunk_indices =
      reinterpret_cast<Index*>(memory.counters + counters_of_block(capacity, threads));
  Bits* const chunk_values = reinterpret_cast<Bits*>(chunk_indices + chunk_capacity);
  const int number = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks));
  const int64_t row = blockIdx.x / static_cast<unsigned>(blocks);
  const Entries from = entries_from<Bits>(rows.from, row * rows.from_stride);
  const Entries to = entries_from<Bits>(rows.to, row * rows.kept);

  // Step 1.
  const int64_t first = number * rows.entries / blocks;
  const Chunk<Bits, Index> chunk{chunk_values, chunk_indices,
                                 static_cast<int>((number + 1) * rows.entries / blocks - first)};
  sort_in_block<kItems<Order, Index>>(
      chunk.entries, chunk.entries, order, memory, shared.sort,
      [&](int i, Bits& bits, Index& index) { read_entry(from, first + i, bits, index); },
      [&](int rank, Bits bits, Index index) {
        chunk.values[rank] = bits;
        chunk.indices[rank] = index;
      });
  __syncthreads();  // the chunk is in order
  if (thread < blocks) {
    const int at = thread * chunk.entries / blocks;
    shared.own[thread] = {order(chunk.values[at]), chunk.indices[at]};
  }
  Cluster::arrive();
  Cluster::wait();  // all have taken their samples

  // Step 2.
  find_splitters(blocks, shared);

  // Step 3.
  if (thread <= blocks) {
    shared.cuts[thread] = thread == 0        ? 0
                          : thread == blocks ? chunk.entries
                                             : entries_before(shared.splitters[thread], chunk, order);
  }
  Cluster::arrive();
  Cluster::wait();  // all have cut their chunks
  if (thread < 32) find_part(number, blocks, shared);
  __syncthreads();  // the part is known
  const int entries = shared.starts[blocks];
  for (int i = thread; i < entries; i += threads) {
    int block = 0;
    while (i >= shared.starts[block + 1]) ++block;
    const int at = shared.first[block] + i - shared.starts[block];
    memory.values[i] = Cluster::of_block(chunk.values, block)[at];
    memory.indices[i] = Cluster::of_block(chunk.indices, block)[at];
  }
  Cluster::arrive();  // no other chunk is looked at from here on
  const int64_t before = shared.before;
  if (before < rows.kept) {
    sort_in_block<kItems<Order, Index>>(
        entries, static_cast<int>(min(int64_t{entries}, rows.kept - before)), order, memory, shared.sort,
        [&](int i, Bits& bits, Index& index) {
          bits = memory.values[i];
          index = memory.indices[i];
        },
        [&](int rank, Bits bits, Index index) { write_entry(to, before + rank, bits, index); });
  }
  Cluster::wait();  // nor is this block's
}

template <class Order, class Index>
ErrorCode launch(const Rows& rows, const Order& order, const Shape& shape, Stream stream) {
  using Memory = BlockMemory<typename Order::Bits, Index>;
  const ClusterShape& cluster = shape.cluster;
  constexpr int64_t kMostBlocksOfGrid = INT32_MAX;
  if (rows.rows > kMostBlocksOfGrid / cluster.blocks) return cudaErrorInvalidConfiguration;
  const auto kernel = sort_row<Order, Index>;
  const size_t bytes = static_cast<size_t>(cluster_bytes(Memory::kEntryBytes, cluster));
  static std::atomic<uint64_t> allowed, allowed_clusters;
  cudaError_t error = allow_shared_memory(kernel, bytes, allowed);
  if (error == cudaSuccess) error = allow_large_clusters(kernel, allowed_clusters);
  if (error != cudaSuccess) return error;
  return launch_clusters(/*ahead=*/false, static_cast<unsigned>(cluster.blocks), kernel,
                         static_cast<unsigned>(rows.rows * cluster.blocks),
                         static_cast<unsigned>(cluster.threads), bytes, stream, rows, order, cluster.blocks,
                         cluster.capacity, cluster.chunk);
}

}  // namespace

ErrorCode sort_in_cluster(const Problem& problem, const Rows& rows, const Shape& shape, Stream stream) {
  return visit_row_order(problem, rows, [&](auto order) {
    return visit_index(problem.cols, [&](auto index) -> ErrorCode {
      return launch<decltype(order), decltype(index)>(rows, order, shape, stream);
    });
  });
}

}  // namespace gputopk::cuda::sort
