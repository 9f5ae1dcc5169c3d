// Ragged top-k around a selection from windows: what forms take windows, plan/plan.h says.
//
//   1. Where a filter says which elements are candidates, warps find a bit for each, and count them. The
//      selection then looks at the bits, whatever the filter is.
//   2. Where it cannot, a block a row moves the candidates together, in their order, so that ties stay right,
//      and notes where they were.
//   3. (The selection, and where order is wanted a step that orders positions by value or as they are.)
//   4. A thread a place of the outputs turns the position into what the caller wants of it. Places behind the
//      winners get padding.

#include <algorithm>

#include "cuda/device/launch.h"
#include "cuda/device/warp.cuh"
#include "cuda/varlen/numbers.h"
#include "cuda/varlen/varlen.h"

namespace gputopk::cuda::varlen {
namespace {

constexpr int64_t kChunk = 32 * 32;  // elements, a word of bits for each lane of a warp

__device__ inline void write_position(void* positions, bool wide, int64_t at, int64_t position) {
  if (wide) {
    static_cast<int64_t*>(positions)[at] = position;
  } else {
    static_cast<uint32_t*>(positions)[at] = static_cast<uint32_t>(position);
  }
}

__device__ inline int64_t read_position(const void* positions, bool wide, int64_t at) {
  return wide ? static_cast<const int64_t*>(positions)[at]
              : static_cast<int64_t>(static_cast<const uint32_t*>(positions)[at]);
}

// ---- Step 1 ----

struct FindParams {
  int64_t rows;
  int64_t chunks;  // of a row, a warp's each
  Windows windows;
  Filter filter;
  Candidates candidates;
};

// Bits, of this lane's word of a warp's chunk, whose elements pass: those of the word number w that test(x)
// says of, x being what load(position) finds, lane l at position 32 w + l. Nothing is loaded for bits that
// `word` has not. By whole warps.
template <class Load, class Test>
__device__ __forceinline__ uint32_t passing(uint32_t word, Load&& load, Test&& test) {
  constexpr int kInFlight = 8;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t found = 0;
#pragma unroll 1
  for (int first = 0; first < 32; first += kInFlight) {
    decltype(load(0)) loaded[kInFlight] = {};
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const uint32_t wanted = __shfl_sync(~0u, word, first + i);
      if (wanted >> lane & 1) loaded[i] = load(32 * (first + i) + lane);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const uint32_t passes = __ballot_sync(~0u, test(loaded[i]));
      if (lane == first + i) found = passes;
    }
  }
  return found & word;
}

__global__ void __launch_bounds__(tuning::kVarlenFindThreads)
    find_bits(const __grid_constant__ FindParams params) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (tuning::kVarlenFindThreads / 32);
  for (int64_t number =
           static_cast<int64_t>(blockIdx.x) * (tuning::kVarlenFindThreads / 32) + threadIdx.x / 32;
       number < params.rows * params.chunks; number += warps) {
    const int64_t row = number / params.chunks, first = number % params.chunks * kChunk;
    const Window window = params.windows.of(row);
    const int64_t own = window.length - first - 32 * lane;  // of the lane's positions, and what follows
    const bool has_winners = window.k > 0;
    uint32_t word = !has_winners || own <= 0 ? 0 : own >= 32 ? ~0u : (1u << own) - 1;
    const Filter& filter = params.filter;
    const int64_t col = window.start + first;
    if (filter.mask != nullptr) {
      const uint8_t* const mask = filter.mask + row * filter.mask_row_stride + col;
      word = passing(word, [&](int at) { return mask[at]; }, [](uint8_t x) { return x != 0; });
    }
    if (filter.ids.data != nullptr) {
      word = passing(
          word, [&](int at) { return filter.ids.at(row, col + at); }, [](int64_t id) { return id >= 0; });
    }
    for (int i = 0; i < filter.condition_count; ++i) {
      filter.conditions[i].visit_row(row, [&](const auto& order, const auto& accepted, const auto* column) {
        word = passing(
            word, [&](int at) { return column[col + at]; },
            [&](auto element) { return accepted.has(order(element)); });
      });
    }
    if (own > 0) params.candidates.bits[row * params.candidates.words + first / 32 + lane] = word;
    const unsigned count = __reduce_add_sync(~0u, static_cast<unsigned>(__popc(word)));
    if (lane == 0 && count > 0) {
      atomicAdd(reinterpret_cast<unsigned long long*>(params.candidates.counts + row),
                static_cast<unsigned long long>(count));
    }
  }
}

// ---- Step 2 ----

template <class Bits>
struct MoveParams {
  const Bits* input;
  int64_t rows;
  int64_t row_stride;
  Windows windows;
  Candidates candidates;
  Bits* elements;
  void* positions;
  bool wide_positions;
};

template <class Bits>
__global__ void __launch_bounds__(tuning::kVarlenMoveThreads) move_rows(MoveParams<Bits> params) {
  constexpr int kWarps = tuning::kVarlenMoveThreads / 32;
  __shared__ int of_warps[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int64_t row = blockIdx.x; row < params.rows; row += gridDim.x) {
    const Window window = params.windows.of(row);
    const int64_t length = params.candidates.counts[row] > 0 ? window.length : 0;
    const RowCandidates candidates = params.candidates.of(row);
    const Bits* const from = params.input + row * params.row_stride + window.start;
    const int64_t to = row * params.windows.cols;
    int64_t count = 0;  // of the tiles so far
    for (int64_t tile = 0; tile < length; tile += tuning::kVarlenMoveThreads) {
      const int64_t i = tile + threadIdx.x;
      const bool accepted = i < length && candidates.has(i);
      const unsigned accepting = __ballot_sync(~0u, accepted);
      if (lane == 0) of_warps[warp] = __popc(accepting);
      __syncthreads();  // all warps have counted
      int before = __popc(accepting & ((1u << lane) - 1)), all = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        before += w < warp ? of_warps[w] : 0;
        all += of_warps[w];
      }
      if (accepted) {
        params.elements[to + count + before] = from[i];
        write_position(params.positions, params.wide_positions, to + count + before, i);
      }
      count += all;
      __syncthreads();  // the next tile's counts replace these
    }
  }
}

// ---- Step 4 ----

template <class Bits>
struct FinishParams {
  const Bits* input;
  int64_t rows;
  int64_t row_stride;
  int64_t k;
  WindowRows window_rows;
  IndexMap map;
  const void* positions;
  const void* moved_positions;  // null: elements are where they were
  bool wide_positions;
  Bits pad;
  Bits* values;
  int64_t value_stride;
  void* indices;
  int64_t index_stride;
  bool wide_indices;
  int32_t* counts;
};

template <class Bits>
__global__ void __launch_bounds__(tuning::kVarlenFinishThreads) finish_rows(FinishParams<Bits> params) {
  const int64_t places = params.k > 0 ? params.k : 1;  // a thread a row at least: it has a count
  const int64_t step = static_cast<int64_t>(gridDim.x) * tuning::kVarlenFinishThreads;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * tuning::kVarlenFinishThreads + threadIdx.x;
       at < params.rows * places; at += step) {
    const int64_t row = at / places, place = at % places;
    const int64_t winners = params.window_rows.of(row).k;
    if (place == 0) params.counts[row] = static_cast<int32_t>(winners);
    if (place >= params.k) continue;
    int64_t index = params.map.pad_index;
    Bits value = params.pad;
    if (place < winners) {
      const int64_t start = params.window_rows.windows.of(row).start;
      int64_t position = read_position(params.positions, params.wide_positions, at);
      if (params.moved_positions != nullptr) {
        position = read_position(params.moved_positions, params.wide_positions,
                                 row * params.window_rows.windows.cols + position);
      }
      index = params.map.of(row, start, position);
      if (params.values != nullptr) value = params.input[row * params.row_stride + start + position];
    }
    if (params.values != nullptr) params.values[row * params.value_stride + place] = value;
    const int64_t to = row * params.index_stride + place;
    if (params.wide_indices) {
      static_cast<int64_t*>(params.indices)[to] = index;
    } else {
      static_cast<int32_t*>(params.indices)[to] = static_cast<int32_t>(index);
    }
  }
}

template <class Visitor>
ErrorCode visit_bits(DType dtype, Visitor&& visitor) {
  switch (dtype_bytes(dtype)) {
    case 1: return visitor(uint8_t{});
    case 2: return visitor(uint16_t{});
    case 4: return visitor(uint32_t{});
    default: return visitor(uint64_t{});
  }
}

}  // namespace

ErrorCode find_candidates(const VarlenProblem& varlen, const Candidates& candidates, const Device& device,
                          Stream stream) {
  const int64_t rows = varlen.problem.rows;
  const int64_t chunks = (varlen.problem.cols + kChunk - 1) / kChunk;
  const cudaError_t error = cudaMemsetAsync(candidates.counts, 0, rows * sizeof(int64_t), stream);
  if (error != cudaSuccess || chunks == 0) return error;
  constexpr int kWarps = tuning::kVarlenFindThreads / 32;
  const int64_t wanted = (rows * chunks + kWarps - 1) / kWarps;
  const int64_t most = int64_t{tuning::kVarlenFindBlocksPerSm} * device.sm_count;
  return launch_kernel(/*ahead=*/false, find_bits, static_cast<unsigned>(std::min(wanted, most)),
                       tuning::kVarlenFindThreads, 0, stream,
                       FindParams{rows, chunks, varlen.windows, varlen.filter, candidates});
}

ErrorCode move_together(const VarlenProblem& varlen, const VarlenBuffers& buffers,
                        const Candidates& candidates, const Moved& moved, bool wide_positions,
                        Stream stream) {
  const Problem& problem = varlen.problem;
  return visit_bits(problem.dtype, [&](auto bits) -> ErrorCode {
    using Bits = decltype(bits);
    MoveParams<Bits> params{};
    params.input = static_cast<const Bits*>(buffers.input);
    params.rows = problem.rows;
    params.row_stride = problem.row_stride;
    params.windows = varlen.windows;
    params.candidates = candidates;
    params.elements = static_cast<Bits*>(moved.elements);
    params.positions = moved.positions;
    params.wide_positions = wide_positions;
    const unsigned blocks = static_cast<unsigned>(std::min<int64_t>(problem.rows, 0x7FFFFFFF));
    return launch_kernel(/*ahead=*/false, move_rows<Bits>, blocks, tuning::kVarlenMoveThreads, 0, stream,
                         params);
  });
}

ErrorCode finish(const VarlenProblem& varlen, const VarlenBuffers& buffers, const Candidates& candidates,
                 const Moved& moved, const Positions& positions, const Device& device, Stream stream) {
  const Problem& problem = varlen.problem;
  return visit_bits(problem.dtype, [&](auto bits) -> ErrorCode {
    using Bits = decltype(bits);
    FinishParams<Bits> params{};
    params.input = static_cast<const Bits*>(buffers.input);
    params.rows = problem.rows;
    params.row_stride = problem.row_stride;
    params.k = problem.k;
    params.window_rows = {varlen.windows, candidates, problem.row_stride};
    params.map = varlen.map;
    params.positions = positions.data;
    params.moved_positions = moved.positions;
    params.wide_positions = positions.wide;
    params.pad = static_cast<Bits>(pad_bits(problem.dtype, problem.largest, problem.magnitude));
    params.values = static_cast<Bits*>(buffers.values);
    params.value_stride = buffers.value_stride;
    params.indices = buffers.indices;
    params.index_stride = buffers.index_stride;
    params.wide_indices = problem.wide_indices;
    params.counts = buffers.counts;
    const int64_t places = problem.rows * std::max<int64_t>(problem.k, 1);
    const int64_t wanted = (places + tuning::kVarlenFinishThreads - 1) / tuning::kVarlenFinishThreads;
    const int64_t most = int64_t{tuning::kVarlenFinishBlocksPerSm} * device.sm_count;
    return launch_kernel(/*ahead=*/false, finish_rows<Bits>, static_cast<unsigned>(std::min(wanted, most)),
                         tuning::kVarlenFinishThreads, 0, stream, params);
  });
}

}  // namespace gputopk::cuda::varlen
