// Per-thread top-k, a baseline: every thread keeps the k best of the elements that it sees.
// Shanbhag, Pirk, Madden: Efficient Top-K Query Processing on Massively Parallel Hardware (SIGMOD '18),
// sections 3.1 and 4.1, and appendix A.
//
//   1. The threads of all blocks read the row in turn. An element better than the least of its thread's heap
//      takes the least's place. Heaps are in shared memory, striped: each thread's has a bank to itself. Or,
//      in the appendix, a thread keeps a list in registers, and looks through all of it for the new least.
//   2. A block hands on the k best of its threads' heaps, and one block finds the k best of what all blocks
//      of the row have handed on.
//
// Step 1 is the paper's; it says no more of step 2 than that it is there. Its heaps hold keys, these hold
// indices too, which takes twice the shared memory.

#include <algorithm>
#include <atomic>
#include <type_traits>

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
constexpr int kRegisterThreads = 128;  // of a block with lists in registers
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

// The same in registers, in any order: every index is known when this is compiled.
template <class Entry, int kCount>
class RegisterList {
 public:
  __device__ void offer(Entry entry) {
    if (entry <= least_) return;
    const int replaced = least_at_;
    least_ = ~Entry{0};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i == replaced) list_[i] = entry;
      if (list_[i] < least_) {
        least_ = list_[i];
        least_at_ = i;
      }
    }
  }

  __device__ void store(Entry* lists) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) lists[threadIdx.x + i * blockDim.x] = list_[i];
  }

 private:
  Entry list_[kCount] = {};
  Entry least_ = 0;
  int least_at_ = 0;
};

template <class Bits>
struct Scratch {
  alignas(16) uint32_t histogram[kBins];
  ListSelectionScratch<typename KeyWord<Bits>::type> selection;
  int taken;
};

// Calls take(at, entry) for the k best of a list, at = 0 to k - 1 in no order. k of its entries at least are
// elements. By all threads of a block, which may have written it: a barrier comes before the first look.
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

// Offers a thread's share of the row to what it keeps.
template <class Order, class Kept>
__device__ void keep_best(const typename Order::Bits* row, int64_t cols, int blocks_per_row,
                          const Order& order, Kept& kept) {
  using Bits = typename Order::Bits;
  constexpr int kLoads = kLoadedBytes / sizeof(Bits);
  const int64_t step = static_cast<int64_t>(blocks_per_row) * blockDim.x;
  int64_t at = static_cast<int64_t>(blockIdx.x % blocks_per_row) * blockDim.x + threadIdx.x;
  for (; at < cols; at += kLoads * step) {
    Bits loaded[kLoads] = {};
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (at + i * step < cols) loaded[i] = __ldcs(row + at + i * step);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (at + i * step < cols) {
        kept.offer(EntryTypes<Bits>::pack(order(loaded[i]), static_cast<uint32_t>(at + i * step)));
      }
    }
  }
}

// Step 1, and what the block hands on. Lists of kRegisters entries each are written to `lists`, for the block
// to select from.
template <class Order, int kRegisters>
__global__ void __launch_bounds__(kRegisters > 0 ? kRegisterThreads : kMostThreads,
                                  kRegisters > 0 ? 1 : kBlocksOfMost)
    reduce_row(const typename Order::Bits* input, int64_t row_stride, int64_t cols, int k, int blocks_per_row,
               Order order, typename EntryTypes<typename Order::Bits>::type* lists,
               typename EntryTypes<typename Order::Bits>::type* handed_on) {
  using Entry = typename EntryTypes<typename Order::Bits>::type;
  __shared__ Scratch<typename Order::Bits> scratch;
  follow_kernel_before();
  const auto* const row = input + blockIdx.x / blocks_per_row * row_stride;
  const int count = static_cast<int>(blockDim.x) * k;
  Entry* of_block;
  if constexpr (kRegisters > 0) {
    RegisterList<Entry, kRegisters> list;
    keep_best(row, cols, blocks_per_row, order, list);
    of_block = lists + static_cast<int64_t>(blockIdx.x) * count;
    list.store(of_block);
  } else {
    of_block = reinterpret_cast<Entry*>(dynamic_shared());
    Heap<Entry> heap(of_block, k);
    keep_best(row, cols, blocks_per_row, order, heap);
  }
  Entry* const mine = handed_on + static_cast<int64_t>(blockIdx.x) * k;
  take_best(of_block, count, k, scratch, [&](int place, Entry entry) { mine[place] = entry; });
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

struct Fit {
  int threads;  // of a block
  int blocks_per_sm;
};

// The most threads whose heaps an SM has room for, in the largest blocks of those.
Fit fit_heaps(const Problem& problem, const Device& device) {
  Fit best{};
  for (int threads = kMostThreads; threads >= 32; threads /= 2) {
    const int64_t bytes = threads * problem.k * entry_bytes(problem.dtype) + kStaticBytes;
    if (bytes > device.shared_bytes_per_block) continue;
    const int64_t room = (device.shared_bytes_per_block + kReservedBytes) / (bytes + kReservedBytes);
    const int64_t blocks = std::min<int64_t>({room, kThreadsPerSm / threads, kMostBlocksPerSm});
    if (blocks * threads > best.blocks_per_sm * best.threads) best = {threads, static_cast<int>(blocks)};
  }
  return best;
}

// The registers of a thread are two for an entry, and some for the rest; an SM has 2^16.
Fit fit_lists(const Problem& problem) {
  const int64_t of_thread = std::min<int64_t>(2 * problem.k + 60, 255);
  return {kRegisterThreads, static_cast<int>(65536 / (of_thread * kRegisterThreads))};
}

}  // namespace

int64_t PerThread::most_k(DType dtype, const Device& device) {
  return (device.shared_bytes_per_block - kStaticBytes) / (32 * entry_bytes(dtype));
}

bool PerThread::fits_registers(const Problem& problem) {
  const int64_t k = problem.k;
  return problem.dtype == DType::kFloat32 && (k == 8 || k == 16 || k == 32 || k == 64 || k == 128);
}

PerThread PerThread::plan(const Problem& problem, const Device& device, bool registers) {
  const Fit fit = registers ? fit_lists(problem) : fit_heaps(problem, device);
  // A block hands on k elements, so it must see as many: ceil(k / threads) a thread are enough.
  const int64_t of_thread = (problem.k + fit.threads - 1) / fit.threads;
  const int64_t most = problem.cols / (of_thread * fit.threads);
  const int64_t resident = static_cast<int64_t>(fit.blocks_per_sm) * device.sm_count / problem.rows;
  const int64_t blocks_per_row = std::max<int64_t>(std::min(most, resident), 1);
  return {registers, fit.threads, static_cast<int>(blocks_per_row)};
}

size_t PerThread::workspace_bytes(const Problem& problem) const {
  const int64_t entries = problem.rows * blocks_per_row * problem.k;
  return static_cast<size_t>(entries * (registers ? 1 + threads : 1) * entry_bytes(problem.dtype));
}

namespace {

template <class Order, int kRegisters>
ErrorCode run_with(const PerThread& config, const Problem& problem, const Buffers& buffers, Order order,
                   Stream stream) {
  using Bits = typename Order::Bits;
  using Entry = typename EntryTypes<Bits>::type;
  const auto kernel = reduce_row<Order, kRegisters>;
  const auto* const input = static_cast<const Bits*>(buffers.input);
  auto* const handed_on = static_cast<Entry*>(buffers.workspace);
  const int k = static_cast<int>(problem.k), blocks_per_row = config.blocks_per_row;
  const unsigned blocks = static_cast<unsigned>(problem.rows * blocks_per_row);
  Entry* const lists = handed_on + static_cast<int64_t>(blocks) * k;
  const size_t heap_bytes = kRegisters > 0 ? 0 : sizeof(Entry) * config.threads * k;
  static std::atomic<uint64_t> allowed;
  cudaError_t error = allow_shared_memory(kernel, heap_bytes, allowed);
  if (error != cudaSuccess) return error;
  error = launch_kernel(/*ahead=*/true, kernel, blocks, config.threads, heap_bytes, stream, input,
                        problem.row_stride, problem.cols, k, blocks_per_row, order, lists, handed_on);
  if (error != cudaSuccess) return error;
  const WinnerWriter<Bits> output{static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  return launch_kernel(/*ahead=*/true, take_best_of_blocks<Bits>, static_cast<unsigned>(problem.rows),
                       kFinalThreads, 0, stream, input, problem.row_stride, k, blocks_per_row, handed_on,
                       output);
}

}  // namespace

ErrorCode PerThread::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) -> ErrorCode {
    using Order = decltype(order);
    const auto run_as = [&](auto count) {
      return run_with<Order, decltype(count)::value>(*this, problem, buffers, order, stream);
    };
    if constexpr (sizeof(typename Order::Bits) < 4) {
      return cudaErrorInvalidValue;
    } else {
      if constexpr (sizeof(typename Order::Bits) == 4 && Order::kFloating) {
        if (registers) {
          switch (problem.k) {
            case 8: return run_as(std::integral_constant<int, 8>{});
            case 16: return run_as(std::integral_constant<int, 16>{});
            case 32: return run_as(std::integral_constant<int, 32>{});
            case 64: return run_as(std::integral_constant<int, 64>{});
            default: return run_as(std::integral_constant<int, 128>{});
          }
        }
      }
      return run_as(std::integral_constant<int, 0>{});
    }
  });
}

}  // namespace gputopk::cuda
