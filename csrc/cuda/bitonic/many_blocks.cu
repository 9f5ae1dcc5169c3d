// Bitonic top-k of rows of any length, by warps of several blocks a row.
// Shanbhag, Pirk, Madden: Efficient Top-K Query Processing on Massively Parallel Hardware (SIGMOD '18),
// section 3.2: of two sorted runs of k, one descending and one ascending, the greater of each pair of places
// are the k best of both, and a bitonic sequence.
//
//   1. Local sort: a warp sorts as many elements as its list has, in registers.
//   2. Merge: place by place the greater stay.
//   3. Rebuild: what stays is bitonic, so half a sort puts the list in order. Steps 1 to 3 repeat over the
//   warp's
//      share of the row, but for what has no element that is better than the k-th best of its list.
//   4. The warps of a block merge and rebuild their lists, and so do, in a second launch, the blocks of a
//   row.
// The paper keeps runs in shared memory, padded and permuted against bank conflicts, with 16 elements a
// thread and three operators a kernel, and halves the data with each launch. Here runs are in registers and
// meet by shuffles, which have no banks, and all operators are one loop.
//
// The dtype is data: it is looked up where elements are loaded and written, and the networks are compiled
// once.

#include <cuda_runtime_api.h>

#include <algorithm>

#include "core/key_order.h"
#include "cuda/bitonic/bitonic.h"
#include "cuda/bitonic/numbers.h"
#include "cuda/device/entry.cuh"
#include "cuda/device/index_width.h"
#include "cuda/device/launch.h"
#include "cuda/device/warp_queue.cuh"
#include "cuda/device/winner_writer.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda::bitonic {
namespace {

constexpr int kThreads = tuning::kManyBlocksThreads;
constexpr int kWarps = kThreads / 32;

template <class Entry>
struct Params {
  Problem problem;
  Buffers buffers;
  int blocks_per_row;
  Entry* lists;  // of each row, of each block: the workspace
};

// Keys and indices of one width: 32 bits, or 64 where either needs it.
template <class Word>
using PackOf = EntryOf<Word, Word>;

template <class Word, int kItems>
class Run : public WarpList<typename PackOf<Word>::type, kItems> {
 public:
  using Entry = typename PackOf<Word>::type;
  using WarpList<Entry, kItems>::WarpList;

  // Steps 1 to 3 for so many entries, 0 where there is none.
  __device__ __forceinline__ void take(Entry (&fresh)[kItems]) {
    bool matters = false;
#pragma unroll
    for (int i = 0; i < kItems; ++i) matters |= fresh[i] > this->threshold();
    if (__any_sync(~0u, matters)) this->insert(fresh);
  }
};

// Steps 1 to 3 of one warp's share of a row: number `at` of `shares`.
template <class Word, int kItems>
__device__ __forceinline__ void take_share(const Problem& problem, const void* input, int64_t row, int at,
                                           int shares, Run<Word, kItems>& run) {
  using Entry = typename PackOf<Word>::type;
  constexpr int kLoads = kItems < 4 ? 4 : kItems;  // in flight a lane
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll 1
  for (int64_t first = int64_t{at} * 32 * kLoads; first < problem.cols;
       first += int64_t{shares} * 32 * kLoads) {
    Entry fresh[kLoads / kItems][kItems];
    visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
      using Bits = typename decltype(order)::Bits;
      if constexpr (sizeof(Bits) <= sizeof(Word)) {
        const Bits* const elements = static_cast<const Bits*>(input) + row * problem.row_stride;
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
          const int64_t index = first + 32 * i + lane;
          const bool present = index < problem.cols;
          const Word key = order(present ? elements[index] : Bits{});
          fresh[i / kItems][i % kItems] =
              present ? PackOf<Word>::pack(key, static_cast<Word>(index)) : Entry{0};
        }
      }
    });
#pragma unroll
    for (int batch = 0; batch < kLoads / kItems; ++batch) run.take(fresh[batch]);
  }
}

// Writes a row's winners, by the warp whose list they are.
template <class Word, int kItems>
__device__ __forceinline__ void write_winners(const Problem& problem, const Buffers& buffers, int64_t row,
                                              const Run<Word, kItems>& run) {
  visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Bits = typename decltype(order)::Bits;
    if constexpr (sizeof(Bits) <= sizeof(Word)) {
      const Bits* const elements = static_cast<const Bits*>(buffers.input) + row * problem.row_stride;
      const WinnerWriter<Bits> all{static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
      const WinnerWriter<Bits> output = all.row(row, problem.k);
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        const int rank = static_cast<int>(threadIdx.x % 32) * kItems + i;
        if (rank >= problem.k) continue;
        const int64_t index = static_cast<int64_t>(PackOf<Word>::index(run.entry(i)));
        output.write(rank, elements[index], index);
      }
    }
  });
}

template <class Word, int kItems>
__global__ void __launch_bounds__(kThreads) reduce_part(Params<typename PackOf<Word>::type> params) {
  using List = Run<Word, kItems>;
  __shared__ typename List::Entry handed[(kWarps + 1) / 2 * List::kCapacity];
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int64_t row = blockIdx.x / params.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x % params.blocks_per_row);
  List run(static_cast<int>(params.problem.k));
  take_share(params.problem, params.buffers.input, row, part * kWarps + warp, params.blocks_per_row * kWarps,
             run);
  merge_lists(run, kWarps, handed);
  if (warp != 0) return;
  if (params.blocks_per_row == 1) {
    write_winners(params.problem, params.buffers, row, run);
  } else {
    run.store(params.lists + static_cast<int64_t>(blockIdx.x) * List::kCapacity);
  }
}

// Step 4 of a row's blocks.
template <class Word, int kItems>
__global__ void __launch_bounds__(kThreads) merge_parts(Params<typename PackOf<Word>::type> params) {
  using List = Run<Word, kItems>;
  __shared__ typename List::Entry handed[(kWarps + 1) / 2 * List::kCapacity];
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int64_t row = blockIdx.x;
  const auto* const lists = params.lists + row * params.blocks_per_row * List::kCapacity;
  List run(static_cast<int>(params.problem.k));
  for (int part = warp; part < params.blocks_per_row; part += kWarps)
    run.merge(lists + part * List::kCapacity);
  merge_lists(run, kWarps, handed);
  if (warp == 0) write_winners(params.problem, params.buffers, row, run);
}

template <class Entry>
size_t carve(const Problem& problem, int blocks_per_row, int items, void* base, Entry*& lists) {
  Workspace workspace(base);
  if (blocks_per_row > 1) lists = workspace.take<Entry>(problem.rows * blocks_per_row * 32 * items);
  return workspace.bytes();
}

template <class Word, int kItems>
cudaError_t launch(const ManyBlocks& config, const Problem& problem, const Buffers& buffers,
                   cudaStream_t stream) {
  Params<typename PackOf<Word>::type> params{problem, buffers, config.blocks_per_row, nullptr};
  carve(problem, config.blocks_per_row, kItems, buffers.workspace, params.lists);
  if (problem.rows > 0x7FFFFFFF / config.blocks_per_row) return cudaErrorInvalidConfiguration;
  const unsigned rows = static_cast<unsigned>(problem.rows);
  const cudaError_t error = launch_kernel(/*ahead=*/false, reduce_part<Word, kItems>,
                                          rows * config.blocks_per_row, kThreads, 0, stream, params);
  if (error != cudaSuccess || config.blocks_per_row == 1) return error;
  return launch_kernel(/*ahead=*/false, merge_parts<Word, kItems>, rows, kThreads, 0, stream, params);
}

// Calls visitor(word) with the width that keys and indices fit.
template <class Visitor>
auto visit_word(const Problem& problem, Visitor&& visitor) {
  return visit_index(dtype_bytes(problem.dtype) == 8 ? INT64_MAX : problem.cols, visitor);
}

}  // namespace

size_t ManyBlocks::workspace_bytes(const Problem& problem) const {
  return visit_word(problem, [&](auto word) {
    typename PackOf<decltype(word)>::type* lists = nullptr;
    return carve(problem, blocks_per_row, items, nullptr, lists);
  });
}

ErrorCode ManyBlocks::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_word(problem, [&](auto word) {
    using Word = decltype(word);
    if (items == 1) return launch<Word, 1>(*this, problem, buffers, stream);
    if (items == 4) return launch<Word, 4>(*this, problem, buffers, stream);
    return launch<Word, 8>(*this, problem, buffers, stream);
  });
}

}  // namespace gputopk::cuda::bitonic
