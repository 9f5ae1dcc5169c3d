// Per-thread top-k, a baseline: every thread keeps the k best of the elements that it sees.
// Shanbhag, Pirk, Madden: Efficient Top-K Query Processing on Massively Parallel Hardware (SIGMOD '18),
// sections 3.1 and 4.1.
//
//   1. The threads of all blocks read the row in turn. An element better than the least of its thread's heap
//      takes the least's place. Heaps are in shared memory, striped: each thread's has a bank to itself.
//   2. A block hands on the k best of its threads' heaps, and one block finds the k best of what all blocks
//      of the row have handed on.
//
// Step 1 is the paper's; it says no more of step 2 than that it is there. Its heaps hold keys, these hold
// indices too, which takes twice the shared memory.

#include <algorithm>
#include <atomic>

#include "core/key_order.h"
#include "cuda/baselines.h"
#include "cuda/device/entry.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/list_selection.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/winner_writer.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda {
namespace {

constexpr int kMostThreads = 512;
constexpr int kBlocksOfMost = 3;  // on an SM, for the registers
constexpr int kThreadsPerSm = kMostThreads * kBlocksOfMost;
constexpr int kMostBlocksPerSm = 32;
constexpr int kFinalThreads = 1024;
constexpr int kStaticBytes = 2048;    // beside the heaps, at most
constexpr int kReservedBytes = 1024;  // of every block, by CUDA
constexpr int64_t kLoadedBytes = 32;  // in flight a thread
constexpr int kDigitBits = 8, kBins = 1 << kDigitBits;

// 64 bits for keys of 32, 128 for keys of 64.
template <class Bits>
using EntryTypes = EntryOf<Bits, uint32_t>;
constexpr int entry_bytes(DType dtype) { return 2 * dtype_bytes(dtype); }

// One thread's k best entries, the least first, of which each is no greater than its two children. Where
// there are not k yet, the rest are 0, which is less than any element's.
template <class Entry>
class Heap {
 public:
  __device__ Heap(Entry* heaps, int k) : slots_(heaps + threadIdx.x), k_(k) {
    for (int i = 0; i < k; ++i) slot(i) = 0;
  }

  __device__ void offer(Entry entry) {
    if (entry <= least_) return;
    int at = 0;
    for (int child = 1; child < k_; child = 2 * at + 1) {
      if (child + 1 < k_ && slot(child + 1) < slot(child)) ++child;
      if (entry <= slot(child)) break;
      slot(at) = slot(child);
      at = child;
    }
    slot(at) = entry;
    least_ = slot(0);
  }

 private:
  __device__ Entry& slot(int at) { return slots_[at * static_cast<int>(blockDim.x)]; }

  Entry* slots_;
  int k_;
  Entry least_ = 0;
};

template <class Bits>
struct Scratch {
  alignas(16) uint32_t histogram[kBins];
  ListSelectionScratch<typename KeyWord<Bits>::type> selection;
  int taken;
};

// Calls take(at, entry) for the k best of a list, at = 0 to k - 1 in no order. k of its entries at least are
// elements. By all threads of a block.
template <class Bits, class Take>
__device__ void take_best(const typename EntryTypes<Bits>::type* list, int count, int k,
                          Scratch<Bits>& scratch, Take&& take) {
  using Types = EntryTypes<Bits>;
  using Extended = ExtendedKey<typename Types::Word, uint32_t>;
  const auto extended = [&](int at) {
    const auto entry = list[at];
    return Extended{Types::key(entry), static_cast<uint32_t>(entry)};
  };
  if (threadIdx.x == 0) scratch.taken = 0;
  find_key_range<4>(count, scratch.selection, [&](int at) { return Types::key(list[at]); });
  const Extended bound = bound_in_list<typename Types::Word, uint32_t>(
      count, static_cast<uint64_t>(k), /*slack=*/0,
      /*index_bits=*/32, kDigitBits, scratch.histogram, scratch.selection, extended);
  for (int at = static_cast<int>(threadIdx.x); at < count; at += static_cast<int>(blockDim.x)) {
    if (!(extended(at) < bound)) take(atomicAdd(&scratch.taken, 1), list[at]);
  }
}

// Step 1, and what the block hands on.
template <class Order>
__global__ void __launch_bounds__(kMostThreads, kBlocksOfMost)
    keep_best(const typename Order::Bits* input, int64_t row_stride, int64_t cols, int k, int blocks_per_row,
              Order order, typename EntryTypes<typename Order::Bits>::type* handed_on) {
  using Bits = typename Order::Bits;
  using Types = EntryTypes<Bits>;
  using Entry = typename Types::type;
  constexpr int kLoads = kLoadedBytes / sizeof(Bits);
  __shared__ Scratch<Bits> scratch;
  Entry* const heaps = reinterpret_cast<Entry*>(dynamic_shared());
  Heap<Entry> heap(heaps, k);
  follow_kernel_before();

  const int threads = static_cast<int>(blockDim.x);
  const Bits* const row = input + blockIdx.x / blocks_per_row * row_stride;
  const int64_t step = static_cast<int64_t>(blocks_per_row) * threads;
  int64_t at = static_cast<int64_t>(blockIdx.x % blocks_per_row) * threads + threadIdx.x;
  for (; at < cols; at += kLoads * step) {
    Bits loaded[kLoads] = {};
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (at + i * step < cols) loaded[i] = __ldcs(row + at + i * step);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (at + i * step < cols) {
        heap.offer(Types::pack(order(loaded[i]), static_cast<uint32_t>(at + i * step)));
      }
    }
  }
  __syncthreads();  // all heaps are done
  Entry* const mine = handed_on + static_cast<int64_t>(blockIdx.x) * k;
  take_best(heaps, threads * k, k, scratch, [&](int place, Entry entry) { mine[place] = entry; });
}

// The rest of step 2.
template <class Bits>
__global__ void __launch_bounds__(kFinalThreads)
    take_best_of_blocks(const Bits* input, int64_t row_stride, int k, int blocks_per_row,
                        const typename EntryTypes<Bits>::type* handed_on, WinnerWriter<Bits> output) {
  __shared__ Scratch<Bits> scratch;
  const Bits* const row = input + blockIdx.x * row_stride;
  const WinnerWriter<Bits> winners = output.row(blockIdx.x, k);
  const int count = blocks_per_row * k;
  follow_kernel_before();
  take_best(handed_on + static_cast<int64_t>(blockIdx.x) * count, count, k, scratch,
            [&](int place, auto entry) {
              const uint32_t index = EntryTypes<Bits>::index(entry);
              winners.write(place, row[index], index);
            });
}

}  // namespace

int64_t PerThread::most_k(DType dtype, const Device& device) {
  return (device.shared_bytes_per_block - kStaticBytes) / (32 * entry_bytes(dtype));
}

PerThread PerThread::plan(const Problem& problem, const Device& device) {
  PerThread config{};
  int most_resident = 0, blocks_per_sm = 0;
  for (int threads = kMostThreads; threads >= 32; threads /= 2) {
    const int64_t bytes = threads * problem.k * entry_bytes(problem.dtype) + kStaticBytes;
    if (bytes > device.shared_bytes_per_block) continue;
    const int64_t fit = (device.shared_bytes_per_block + kReservedBytes) / (bytes + kReservedBytes);
    const int blocks = static_cast<int>(std::min<int64_t>({fit, kThreadsPerSm / threads, kMostBlocksPerSm}));
    if (blocks * threads <= most_resident) continue;
    most_resident = blocks * threads;
    config.threads = threads;
    blocks_per_sm = blocks;
  }
  // Each block must see k elements, as it hands on so many: a thread ceil(k / threads) at least.
  const int64_t of_thread = (problem.k + config.threads - 1) / config.threads;
  const int64_t most = problem.cols / (of_thread * config.threads);
  const int64_t resident = static_cast<int64_t>(blocks_per_sm) * device.sm_count / problem.rows;
  config.blocks_per_row = static_cast<int>(std::max<int64_t>(std::min(most, resident), 1));
  return config;
}

size_t PerThread::workspace_bytes(const Problem& problem) const {
  return static_cast<size_t>(problem.rows * blocks_per_row * problem.k * entry_bytes(problem.dtype));
}

ErrorCode PerThread::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) -> ErrorCode {
    using Order = decltype(order);
    using Bits = typename Order::Bits;
    if constexpr (sizeof(Bits) < 4) {
      return cudaErrorInvalidValue;
    } else {
      using Entry = typename EntryTypes<Bits>::type;
      const auto* const input = static_cast<const Bits*>(buffers.input);
      auto* const handed_on = static_cast<Entry*>(buffers.workspace);
      const int k = static_cast<int>(problem.k);
      const size_t heap_bytes = sizeof(Entry) * threads * k;
      static std::atomic<uint64_t> allowed;
      cudaError_t error = allow_shared_memory(keep_best<Order>, heap_bytes, allowed);
      if (error != cudaSuccess) return error;
      error = launch_kernel(/*ahead=*/true, keep_best<Order>,
                            static_cast<unsigned>(problem.rows * blocks_per_row), threads, heap_bytes, stream,
                            input, problem.row_stride, problem.cols, k, blocks_per_row, order, handed_on);
      if (error != cudaSuccess) return error;
      const WinnerWriter<Bits> output{static_cast<Bits*>(buffers.values), buffers.indices,
                                      problem.wide_indices};
      return launch_kernel(/*ahead=*/true, take_best_of_blocks<Bits>, static_cast<unsigned>(problem.rows),
                           kFinalThreads, 0, stream, input, problem.row_stride, k, blocks_per_row, handed_on,
                           output);
    }
  });
}

}  // namespace gputopk::cuda
