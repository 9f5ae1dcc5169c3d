// Ragged top-k around a selection from windows: what forms take windows, plan/plan.h says.
//
//   1. Where a filter says which elements are candidates, warps find a bit for each, and count them. The
//      selection then looks at the bits, whatever the filter is.
//   2. Where it cannot, a block a row moves the candidates together, in their order, so that ties stay right,
//      and notes where they were.
//   3. (The selection, and where order is wanted a step that orders positions by value or as they are.)
//   4. Where the selection has not done that: a thread a place of the outputs turns the position into what
//      the caller wants of it. Places behind the winners get padding.

#include <algorithm>

#include "core/visit_bits.h"
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
  int64_t shares;  // of a row as long as rows are expected to be, a warp's each
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

// The lane's word of a chunk of the row, whose window has `left` positions from the chunk's first on, which
// is column `col`. By whole warps.
__device__ uint32_t word_of_chunk(const Filter& filter, int64_t row, int64_t col, int64_t left) {
  const int64_t own = left - 32 * (threadIdx.x % 32);
  uint32_t word = own >= 32 ? ~0u : own > 0 ? (1u << own) - 1 : 0;
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
  return word;
}

// A row that is longer than expected is walked in turns.
__global__ void __launch_bounds__(tuning::kVarlenFindThreads, tuning::kVarlenFindBlocksPerSm)
    find_bits(const __grid_constant__ FindParams params) {
  constexpr int kWarps = tuning::kVarlenFindThreads / 32;
  constexpr int64_t kShare = tuning::kVarlenFindChunks * kChunk;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t number = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
       number < params.rows * params.shares; number += warps) {
    const int64_t row = number / params.shares, share = number % params.shares;
    const Window window = params.windows.of(row);
    uint32_t* const bits = params.candidates.bits + row * params.candidates.words;
    unsigned count = 0;  // of this lane
    for (int64_t begin = share * kShare; begin < window.length; begin += params.shares * kShare) {
      const int64_t end = min(begin + kShare, window.length);
      for (int64_t first = begin; first < end; first += kChunk) {
        const int64_t left = window.length - first;
        const uint32_t word =
            window.k > 0 ? word_of_chunk(params.filter, row, window.start + first, left) : 0;
        if (left > 32 * lane) bits[first / 32 + lane] = word;
        count += static_cast<unsigned>(__popc(word));
      }
    }
    count = __reduce_add_sync(~0u, count);
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
  WindowOutputs outputs;
  const void* positions;
  const void* moved_positions;  // null: elements are where they were
  bool wide_positions;
};

template <class Bits>
__global__ void __launch_bounds__(tuning::kVarlenFinishThreads)
    finish_rows(const __grid_constant__ FinishParams<Bits> params) {
  const WindowOutputs& outputs = params.outputs;
  const int64_t places = params.k > 0 ? params.k : 1;  // a thread a row at least: it has a count
  const int64_t step = static_cast<int64_t>(gridDim.x) * tuning::kVarlenFinishThreads;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * tuning::kVarlenFinishThreads + threadIdx.x;
       at < params.rows * places; at += step) {
    const int64_t row = at / places, place = at % places;
    const int64_t winners = params.window_rows.of(row).k;
    if (place == 0) outputs.counts[row] = static_cast<int32_t>(winners);
    if (place >= params.k) continue;
    int64_t index = outputs.map.pad_index;
    Bits value = static_cast<Bits>(outputs.pad);
    if (place < winners) {
      const int64_t start = params.window_rows.windows.of(row).start;
      int64_t position = read_position(params.positions, params.wide_positions, at);
      if (params.moved_positions != nullptr) {
        position = read_position(params.moved_positions, params.wide_positions,
                                 row * params.window_rows.windows.cols + position);
      }
      index = outputs.map.of(row, start, position);
      if (outputs.values != nullptr) value = params.input[row * params.row_stride + start + position];
    }
    outputs.write(row, place, value, index);
  }
}

}  // namespace

ErrorCode find_candidates(const VarlenProblem& varlen, const Candidates& candidates, const Device& device,
                          Stream stream) {
  const int64_t rows = varlen.problem.rows;
  const cudaError_t error = cudaMemsetAsync(candidates.counts, 0, rows * sizeof(int64_t), stream);
  if (error != cudaSuccess || varlen.problem.cols == 0) return error;
  constexpr int64_t kShare = tuning::kVarlenFindChunks * kChunk;
  constexpr int kWarps = tuning::kVarlenFindThreads / 32;
  const int64_t shares = (std::max<int64_t>(varlen.max_length, 1) + kShare - 1) / kShare;
  const int64_t wanted = (rows * shares + kWarps - 1) / kWarps;
  const int64_t most = int64_t{tuning::kVarlenFindBlocksPerSm} * device.sm_count;
  return launch_kernel(/*ahead=*/false, find_bits, static_cast<unsigned>(std::min(wanted, most)),
                       tuning::kVarlenFindThreads, 0, stream,
                       FindParams{rows, shares, varlen.windows, varlen.filter, candidates});
}

ErrorCode move_together(const VarlenProblem& varlen, const VarlenBuffers& buffers,
                        const Candidates& candidates, const Moved& moved, bool wide_positions,
                        Stream stream) {
  const Problem& problem = varlen.problem;
  return visit_bits(dtype_bytes(problem.dtype), [&](auto bits) -> ErrorCode {
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

ErrorCode finish(const VarlenProblem& varlen, const void* input, const WindowOutputs& outputs,
                 const Candidates& candidates, const Moved& moved, const Positions& positions,
                 const Device& device, Stream stream) {
  const Problem& problem = varlen.problem;
  return visit_bits(dtype_bytes(problem.dtype), [&](auto bits) -> ErrorCode {
    using Bits = decltype(bits);
    FinishParams<Bits> params{};
    params.input = static_cast<const Bits*>(input);
    params.rows = problem.rows;
    params.row_stride = problem.row_stride;
    params.k = problem.k;
    params.window_rows = {varlen.windows, candidates, problem.row_stride};
    params.outputs = outputs;
    params.positions = positions.data;
    params.moved_positions = moved.positions;
    params.wide_positions = positions.wide;
    const int64_t places = problem.rows * std::max<int64_t>(problem.k, 1);
    const int64_t wanted = (places + tuning::kVarlenFinishThreads - 1) / tuning::kVarlenFinishThreads;
    const int64_t most = int64_t{tuning::kVarlenFinishBlocksPerSm} * device.sm_count;
    return launch_kernel(/*ahead=*/false, finish_rows<Bits>, static_cast<unsigned>(std::min(wanted, most)),
                         tuning::kVarlenFinishThreads, 0, stream, params);
  });
}

}  // namespace gputopk::cuda::varlen
