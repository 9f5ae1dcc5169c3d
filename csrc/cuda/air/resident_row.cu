// AIR top-k of rows that one block keeps in registers: one read, one launch, and winners in order.
//
//   1. The block loads the row. Where k is small, its elements fall into groups, one or four a thread, and
//      the groups' maxima stand for them: the k-th best maximum is a bound that k elements reach and few
//      others.
//   2. A digit of the range that they span is counted in shared memory. The bin of the k-th best is a bound.
//   3. Elements that reach the bound are listed. Where they are too many, step 2 repeats, with the elements
//      of that bin, whose own range is the next digit's; where they are all equal, those of the lowest
//      indices are listed.
//   4. A bitonic network puts the list in order, and its k best are written.
// Elements are extended keys where a register has room for the index, so that only 4- and 8-byte rows have
// equals at all: device/resident_row.cuh.

#include "cuda/device/resident_row.cuh"

#include <cuda_runtime_api.h>

#include "core/key_order.h"
#include "cuda/air/air.h"
#include "cuda/air/numbers.h"
#include "cuda/device/key_range.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/list_sort.cuh"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/range_bins.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/sorted_list.cuh"
#include "cuda/device/warp.cuh"
#include "cuda/device/warp_sort.cuh"
#include "cuda/device/winner_writer.cuh"

namespace gputopk::cuda::air {
namespace {

constexpr int kMostWarps = tuning::kAirResidentMaxThreads / 32;
constexpr int kMostVectors = 8;
constexpr int kGroups = 4;  // a thread

template <class Bits>
struct Params {
  const Bits* input;
  int64_t row_stride;
  int cols;
  int k;
  int groups;
  int digit_bits;
  int room;
  WinnerWriter<Bits> output;
};

template <class Held>
struct Shared {
  KeyRange<Held> range;
  TargetDigit<uint32_t> target;
  uint32_t listed;
  uint32_t equals[kMostVectors * kMostWarps];  // of each vector of each warp, then those before
};

// Step 3: lists what reaches the bound, as far as there is room, and returns how many do.
template <class Order, class Share, class Entry>
__device__ __forceinline__ int list_from(const typename Share::Bits* input, int cols, const Order& order,
                                         const Share& share, typename Share::Held low, int room,
                                         PaddedList<Entry> list, uint32_t& listed) {
  using Own = Resident<typename Share::Bits>;
  uint32_t reaching = 0;
#pragma unroll
  for (int i = 0; i < Share::kElements; ++i) {
    if (share.held[i] >= low) reaching |= 1u << i;
  }
  const int own = __popc(reaching);
  const int so_far = sum_so_far(own);
  int before = 0;
  if (threadIdx.x % 32 == 31) before = static_cast<int>(atomicAdd(&listed, static_cast<uint32_t>(so_far)));
  int at = __shfl_sync(~0u, before, 31) + so_far - own;
  if (__any_sync(~0u, own > tuning::kAirResidentFewALane)) {
#pragma unroll
    for (int i = 0; i < Share::kElements; ++i) {
      const bool reaches = (reaching >> i & 1) != 0;
      if (reaches && at < room) Own::store(&list[at], share.held[i], share.index(i));
      at += reaches;
    }
  } else {
    // Read once more: a register has no run-time number.
    for (; reaching != 0 && at < room; reaching &= reaching - 1) {
      const uint32_t index = share.index(__ffs(static_cast<int>(reaching)) - 1);
      // What lies behind the row's end is not its own.
      const auto bits = index < static_cast<uint32_t>(cols) ? input[index] : order.worst();
      Own::store(&list[at++], Own::held(order(bits), index), index);
    }
  }
  __syncthreads();  // the list is whole
  return static_cast<int>(listed);
}

// Lists, behind the `taken` elements above `key`, those of `owed` equals of it that have the lowest indices.
template <class Share, class Entry>
__device__ __forceinline__ void list_equals(const Share& share, typename Share::Held key, int taken, int owed,
                                            PaddedList<Entry> list, uint32_t& listed, uint32_t* equals) {
  using Own = Resident<typename Share::Bits>;
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int warps = static_cast<int>(blockDim.x / 32);
  static_assert(Share::kVectors <= kMostVectors);
#pragma unroll
  for (int v = 0; v < Share::kVectors; ++v) {
    unsigned own = 0;
#pragma unroll
    for (int i = 0; i < Share::kInVector; ++i) own += share.held[v * Share::kInVector + i] == key;
    const unsigned all = __reduce_add_sync(~0u, own);
    if (lane == 0) equals[v * warps + warp] = all;
  }
  __syncthreads();  // all vectors of all warps are counted
  if (warp == 0) {
    // A vector of all warps lies before the next vector of any: in this order indices ascend.
    const int counts = Share::kVectors * warps, each = (counts + 31) / 32;
    int own = 0;
    for (int i = 0; i < each; ++i) {
      const int at = lane * each + i;
      own += at < counts ? static_cast<int>(equals[at]) : 0;
    }
    int before = sum_so_far(own) - own;
    for (int i = 0; i < each; ++i) {
      const int at = lane * each + i;
      if (at >= counts) break;
      const int count = static_cast<int>(equals[at]);
      equals[at] = static_cast<uint32_t>(before);
      before += count;
    }
  }
  __syncthreads();  // what lies before each is known
#pragma unroll
  for (int v = 0; v < Share::kVectors; ++v) {
    int own = 0;
#pragma unroll
    for (int i = 0; i < Share::kInVector; ++i) own += share.held[v * Share::kInVector + i] == key;
    int place = static_cast<int>(equals[v * warps + warp]) + sum_so_far(own) - own;
#pragma unroll
    for (int i = v * Share::kInVector; i < (v + 1) * Share::kInVector; ++i) {
      if (share.held[i] > key)
        Own::store(&list[static_cast<int>(atomicAdd(&listed, 1u))], share.held[i], share.index(i));
      const bool equal = share.held[i] == key;
      if (equal && place < owed) Own::store(&list[taken + place], share.held[i], share.index(i));
      place += equal;
    }
  }
  __syncthreads();  // the list is whole
}

template <class Order, int kElements>
__global__ void __launch_bounds__(tuning::kAirResidentMaxThreads, tuning::kAirResidentBlocks)
    select_resident_row(Params<typename Order::Bits> params, Order order) {
  using Bits = typename Order::Bits;
  using Share = RowShare<Order, kElements>;
  using Held = typename Share::Held;
  using Entry = typename Resident<Bits>::Entry;
  __shared__ Shared<Held> shared;
  unsigned char* const dynamic = dynamic_shared();
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic);
  const PaddedList<Entry> list(reinterpret_cast<Entry*>(dynamic + (sizeof(uint32_t) << params.digit_bits)));
  const int64_t row = blockIdx.x;
  const Bits* const input = params.input + row * params.row_stride;

  // Step 1.
  clear_histogram(histogram, 1 << params.digit_bits);
  if (threadIdx.x == 0) {
    shared.range.reset();
    shared.listed = 0;
  }
  const Share share(input, params.cols, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), order);
  Held best[kGroups];
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    best[i % kGroups] = i < kGroups ? share.held[i] : max(best[i % kGroups], share.held[i]);
  }
  const bool of_all = params.groups == 0;
  // Groups of one thread are joined with those of lanes far away, so that winners side by side are not one.
  Held joined = best[0];
#pragma unroll
  for (int i = 1; i < kGroups; ++i) {
    joined = max(joined, shuffle(best[i], static_cast<int>((threadIdx.x + i * (32 / kGroups)) % 32)));
  }
  const auto each_group = [&](auto&& visit) {
    if (params.groups == 1) {
      visit(joined);
    } else {
#pragma unroll
      for (int i = 0; i < kGroups; ++i) visit(best[i]);
    }
  };
  const auto each_element = [&](auto&& visit) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) visit(share.held[i]);
  };
  SeenKeys<Held> seen;
  const auto see = [&](Held element) { seen.see(element); };
  if (of_all) {
    each_element(see);
  } else {
    each_group(see);
  }
  __syncthreads();  // the range is reset, and no bin is yet to be cleared
  shared.range.add(seen);
  __syncthreads();  // all warps have added

  // Steps 2 and 3.
  Bounds<Held> bounds{static_cast<Held>(shared.range.least), static_cast<Held>(shared.range.greatest), 0};
  int shift = 0, listed = 0;
  if (!of_all) {
    const auto target =
        find_bin(bounds, params.k, params.digit_bits, shift, histogram, shared.target, each_group);
    bounds.low += static_cast<Held>(target.digit) << shift;
    listed = list_from(input, params.cols, order, share, bounds.low, params.room, list, shared.listed);
  }
  if (of_all || listed > params.room) {
    for (bool cleared = of_all;; cleared = false) {
      if (!cleared) {
        clear_histogram(histogram, 1 << params.digit_bits);
        __syncthreads();  // no thread counts into bins that another has yet to clear, and all know `listed`
        if (threadIdx.x == 0) shared.listed = 0;
      }
      const auto target =
          find_bin(bounds, params.k, params.digit_bits, shift, histogram, shared.target, each_element);
      bounds.narrow(target, shift);
      listed = bounds.taken + static_cast<int>(target.count);
      if (listed <= params.room || bounds.low == bounds.high) break;
    }
    if (listed <= params.room) {
      list_from(input, params.cols, order, share, bounds.low, params.room, list, shared.listed);
    } else {
      list_equals(share, bounds.low, bounds.taken, params.k - bounds.taken, list, shared.listed,
                  shared.equals);
      listed = params.k;
    }
  }

  // Step 4.
  const WinnerWriter<Bits> output = params.output.row(row, params.k);
  write_in_order(list, listed, params.k, [&](int rank, Entry entry) {
    const uint32_t index = Resident<Bits>::index(entry);
    output.write(rank, input[index], index);
  });
}

template <class Order, int kElements>
cudaError_t launch(const ResidentRow& config, const Problem& problem, const Buffers& buffers, Order order,
                   cudaStream_t stream) {
  using Bits = typename Order::Bits;
  using Entry = typename Resident<Bits>::Entry;
  Params<Bits> params{};
  params.input = static_cast<const Bits*>(buffers.input);
  params.row_stride = problem.row_stride;
  params.cols = static_cast<int>(problem.cols);
  params.k = static_cast<int>(problem.k);
  params.groups = config.groups;
  params.digit_bits = config.digit_bits;
  params.room = config.room;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  if (problem.rows > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
  static std::atomic<uint64_t> allowed{0};
  const auto kernel = select_resident_row<Order, kElements>;
  const size_t bytes =
      (sizeof(uint32_t) << config.digit_bits) + PaddedList<Entry>::places(config.room) * sizeof(Entry);
  const cudaError_t error = allow_shared_memory(kernel, bytes, allowed);
  if (error != cudaSuccess) return error;
  return launch_kernel(/*ahead=*/false, kernel, static_cast<unsigned>(problem.rows),
                       static_cast<unsigned>(config.threads), bytes, stream, params, order);
}

}  // namespace

ErrorCode ResidentRow::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Order = decltype(order);
    if constexpr (Order::kBits < 64) {
      if (elements == 32) return launch<Order, 32>(*this, problem, buffers, order, stream);
    }
    return launch<Order, 16>(*this, problem, buffers, order, stream);
  });
}

}  // namespace gputopk::cuda::air
