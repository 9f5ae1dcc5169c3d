// Winners in order of index by a block a row whose shared memory has a bit for every column: no two winners
// have one index, so that the place of each is how many are marked below it.
//   1. A row's winners are read, and each marks its column.
//   2. Each warp counts, in its share of the marks' words, what is marked before each word.
//   3. Each winner goes to its place: marks of the warps before, of the words before, of the bits below. It
//      does so on chip, from where rows are written in whole lines.

#include <atomic>

#include "core/visit_bits.h"
#include "cuda/device/block_loop.cuh"
#include "cuda/device/entries.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/warp.cuh"
#include "cuda/sort/rows.h"

namespace gputopk::cuda::sort {
namespace {

// `words`: of the marks, 32 for each warp or a multiple of that.
template <class Bits>
__global__ void __launch_bounds__(tuning::kSortMaxThreads)
    order_by_marks(Rows rows, int64_t first_row, int words) {
  constexpr int kItems = tuning::kMarkedItems;
  __shared__ uint32_t of_warps[tuning::kSortMaxThreads / 32];
  uint32_t* const marks = reinterpret_cast<uint32_t*>(dynamic_shared());
  uint16_t* const before = reinterpret_cast<uint16_t*>(marks + words);  // in the warp's share
  Bits* const placed_bits = reinterpret_cast<Bits*>(before + words);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32, warp = thread / 32, warps = threads / 32, count = static_cast<int>(rows.kept);
  uint32_t* const placed_indices = reinterpret_cast<uint32_t*>(placed_bits + (count + 7) / 8 * 8);
  const Entries entries = entries_from<Bits>(rows.to, (first_row + blockIdx.x) * rows.kept);
  each_in_block(words / 4, [&](int i) { reinterpret_cast<uint4*>(marks)[i] = uint4{}; });
  follow_kernel_before();
  Bits bits[kItems];
  uint32_t indices[kItems] = {};
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    if (thread + e * threads < count) read_entry(entries, thread + e * threads, bits[e], indices[e]);
  }
  __syncthreads();  // no word is marked that is yet to be cleared
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    if (thread + e * threads < count) atomicOr(marks + indices[e] / 32, 1u << indices[e] % 32);
  }
  __syncthreads();  // all have marked theirs, and have read what others write over
  const int share = words / warps;
  uint32_t counted = 0;
  for (int word = warp * share + lane; word < (warp + 1) * share; word += 32) {
    const uint32_t own = __popc(marks[word]), through = sum_so_far(own);
    before[word] = static_cast<uint16_t>(counted + through - own);
    counted += __shfl_sync(~0u, through, 31);
  }
  if (lane == 0) of_warps[warp] = counted;
  __syncthreads();  // all are counted
  const uint32_t of_warp = lane < warps ? of_warps[lane] : 0, before_warp = sum_so_far(of_warp) - of_warp;
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    if (thread - lane + e * threads >= count) break;
    const int word = static_cast<int>(indices[e] / 32);
    const uint32_t below = marks[word] & ((1u << indices[e] % 32) - 1);
    const uint32_t place = __shfl_sync(~0u, before_warp, word / share) + before[word] + __popc(below);
    if (thread + e * threads >= count) continue;
    placed_bits[place] = bits[e];
    placed_indices[place] = indices[e];
  }
  __syncthreads();  // all are in their places
  each_in_block(count, [&](int i) { write_entry(entries, i, placed_bits[i], placed_indices[i]); });
}

}  // namespace

ErrorCode order_by_marks(const Problem& problem, const Rows& rows, const Marks& marks, Stream stream) {
  return visit_bits(dtype_bytes(problem.dtype), [&](auto bits) -> ErrorCode {
    const auto kernel = order_by_marks<decltype(bits)>;
    const size_t bytes = static_cast<size_t>(bytes_of_marks(problem, marks.words));
    static std::atomic<uint64_t> allowed;
    const cudaError_t error = allow_shared_memory(kernel, bytes, allowed);
    if (error != cudaSuccess) return error;
    return launch_block_a_row(rows.rows, [&](int64_t first, unsigned blocks) {
      return launch_kernel(/*ahead=*/true, kernel, blocks, static_cast<unsigned>(marks.threads), bytes,
                           stream, rows, first, marks.words);
    });
  });
}

}  // namespace gputopk::cuda::sort
