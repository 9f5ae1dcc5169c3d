// The iterations of a radix selection over many blocks a row: what they keep of each row, and the step of a
// row's last block between two passes. Shared by air/many_blocks.cu, which selects from rows,
// delegate/from_maxima.cu, which selects from delegates and from candidates that it has stored, and
// delegate/from_sample.cu, delegate/two_bounds.cu and sparsify/one_read.cu, which do the latter.
// radix_passes.cu has the passes themselves.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cuda/atomic>

#include "core/key_order.h"
#include "core/problem.h"
#include "cuda/device/meeting.cuh"
#include "cuda/device/numbers.h"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/study.h"
#include "cuda/device/winner_writer.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda {

// A digit tells this many chunks of a row apart at most.
inline constexpr int64_t kMostChunks = int64_t{1} << tuning::kPassMaxDigitBits;

// What is asked of a selection.
enum class Wanted : uint8_t {
  kWinners,
  kBound,  // winners are not written, and what was stored before the first pass is there after the last
  kLast,   // the last winner is written, at its place; digits are resolved until it alone is left
};

// What a pass over one row is told.
template <class Word, class Index>
struct Step {
  Selection<Word, Index> selection;
  // No winner is beyond. What is was written by an earlier pass.
  ExtendedKey<Word, Index> top;
  // Where in the row winners and candidates can be: in [first, last); and, if chunk_shift is not 0, which is
  // for whole rows, in those chunks of 2^chunk_shift elements, from the row's end, whose bit is set in the
  // row's chunks.
  int64_t first, last;
  int chunk_shift;
  uint64_t stored;  // entries in the buffer that this pass reads; 0: it reads the row
  int source;       // that buffer, of two
  bool stores;      // this pass stores its candidates, in the other buffer
  bool takes_all;   // this pass takes all candidates and is the last
};

// How a pass over one row is dealt out to blocks. Any block may take any part, and takes another when it is
// done with one; so a pass waits for parts that running blocks have taken, and never for a block to start.
struct Parts {
  uint32_t count;  // once the pass may begin; 0: not yet; kNoPass: there is no such pass, and none after it
  uint32_t taken;  // blocks ask for more than there are
};
inline constexpr uint32_t kNoPass = 0xFFFFFFFF;

// Passes of the narrowest digits over the widest keys, and the one that is not.
inline constexpr int kMostPasses = 32;

// One a row, all zero before the first pass, but for what candidates stored before it have set.
template <class Word, class Index>
struct RowState {
  // Pass p reads [p % 2], which the last block of pass p - 1 wrote, when p - 2 was done.
  Step<Word, Index> steps[2];
  // Winners that were written before the first pass, from the output's last place down: far from `written`,
  // as atomics on one line of memory wait for each other.
  unsigned long long written_from_end;
  Parts parts[kMostPasses];        // of each pass
  ExtendedKey<Word, Index> bound;  // what the winners reach and no others, once it is known
  // Of candidates that were stored before the first pass: the greatest that one can be, where there is such a
  // bound; leading bits, of the key and of the index, that the passes need not look at; a key near the row's
  // best or the last winner; how many candidates are beyond the digit that was counted as they were stored.
  ExtendedKey<Word, Index> upper;
  int key_bits_less, index_bits_less;
  unsigned long long greatest, beyond;
  unsigned long long written;   // winners written so far, from the first place on
  unsigned long long buffered;  // candidates stored by this pass; its last block resets it
  uint32_t arrived;             // parts of this pass that are done; its last block resets it
  uint32_t tiles_taken;         // of those that are dealt (dealt_tiles.cuh)
  // Where blocks tell winners among what they have staged (staged_candidates.cuh): whether some were written
  // out before, how many that are, how many of them have been told, and how many are in the list that the
  // last block selects from.
  Meeting meeting;
  uint32_t written_out;
  unsigned long long staged, told, listed;

  // Lets a pass of so many parts begin. By one thread: what its block wrote before the last barrier is there
  // for all who see the number.
  __device__ void begin(int pass, uint32_t count) {
    using Count = ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_device>;
    Count(parts[pass].count).store(count, ::cuda::memory_order_release);
  }
  __device__ uint32_t count(int pass) {
    using Count = ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_device>;
    return Count(parts[pass].count).load(::cuda::memory_order_acquire);
  }
};

// A selection of the k best of each row: what is selected from, and its memory.
template <class Bits, class Index>
struct RadixPasses {
  using Word = typename KeyWord<Bits>::type;

  const Bits* input;
  int64_t row_stride;
  int64_t cols;
  int64_t k;
  int64_t buffer_capacity[2];  // a row
  int blocks_per_row;
  int likely_passes;  // that have work for most rows, behind a first pass over the row
  int digit_bits;
  int index_bits;
  // Off only in the study build: storing candidates only where that saves reading, and stopping when all
  // candidates are winners.
  bool adaptive;
  bool early_stop;
  Wanted wanted;
  WinnerWriter<Bits> output;

  // Workspace. `histogram` is zero before each pass: first by the launch, then by the last block that
  // reads it.
  RowState<Word, Index>* states;
  Index* histogram;
  uint32_t* chunks;  // kMostChunks bits a row
  CandidateBuffer<Bits, Index> buffers[2];

  __device__ CandidateBuffer<Bits, Index> buffer(int which, int64_t row) const {
    const CandidateBuffer<Bits, Index>& all = buffers[which];
    return {all.values + row * buffer_capacity[which], all.indices + row * buffer_capacity[which]};
  }

  __device__ bool stores_adaptively() const { return !kStudy || adaptive; }
  __device__ bool finishes_early() const { return !kStudy || early_stop; }
  // Winners that are known to be some are not yet told apart.
  __device__ bool stops_early() const { return finishes_early() && wanted != Wanted::kLast; }

  // The row's last winner.
  __device__ void write_last(int64_t row, const ExtendedKey<Word, Index>& last) const {
    const int64_t index = cols - 1 - static_cast<int64_t>(last.reversed);
    output.row(row, k).write(k - 1, input[row * row_stride + index], index);
  }

  // The number of digits. Pass digits() + 1 is the last: it takes what the last digit decided.
  __host__ __device__ int digits() const {
    return (8 * static_cast<int>(sizeof(Bits)) + index_bits + digit_bits - 1) / digit_bits;
  }

  // Of the launch that serves all but the likely passes: one an SM, for the registers.
  __host__ __device__ int other_blocks_per_row() const {
    static_assert(tuning::kPassBlocksPerSm == 2, "half as many are one an SM");
    return (blocks_per_row + 1) / 2;
  }

  // Lets pass number `pass` of a row begin, whose step is written.
  __device__ void begin(RowState<Word, Index>& state, int pass) const {
    const Step<Word, Index>& step = state.steps[pass % 2];
    if (step.takes_all) state.begin(pass + 1, kNoPass);
    // What is short is not spread over blocks that only come and go, nor over more than there are.
    constexpr uint64_t kStoredPerPart = tuning::kPassThreads * 2;
    constexpr uint64_t kReadPerPart = tuning::kPassThreads * kUnroll<Bits> * kPerVector<Bits>;
    const uint64_t read = step.stored > 0 ? step.stored : static_cast<uint64_t>(step.last - step.first);
    const uint64_t per_part = step.stored > 0 ? kStoredPerPart : kReadPerPart;
    const int blocks = step.stored == 0 || likely_passes > 0 ? blocks_per_row : other_blocks_per_row();
    const uint64_t count = min((read + per_part - 1) / per_part, static_cast<uint64_t>(blocks));
    state.begin(pass, static_cast<uint32_t>(count));
  }

  __device__ Digit digit(int pass, const RowState<Word, Index>& state) const {
    return digit_of_pass(pass, digit_bits, 8 * static_cast<int>(sizeof(Bits)) - state.key_bits_less,
                         index_bits - state.index_bits_less);
  }

  // What is selected: winners of the problem's rows, or its last ones alone.
  void select(const Problem& problem, const Buffers& buffers) {
    input = static_cast<const Bits*>(buffers.input);
    row_stride = problem.row_stride;
    cols = problem.cols;
    k = problem.k;
    index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
    adaptive = early_stop = true;
    wanted = problem.last_alone ? Wanted::kLast : Wanted::kWinners;
    output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  }

  // Carves the part of the workspace that must be zero before the first pass, then the rest.
  void carve_zeroed(Workspace& workspace, int64_t rows) {
    states = workspace.take<RowState<Word, Index>>(rows);
    histogram = workspace.take<Index>(rows << digit_bits);
  }
  void carve_rest(Workspace& workspace, int64_t rows) {
    chunks = workspace.take<uint32_t>(rows * kMostChunks / 32);
    for (int which = 0; which < 2; ++which) {
      buffers[which].values = workspace.take<Bits>(rows * buffer_capacity[which]);
      buffers[which].indices = workspace.take<Index>(rows * buffer_capacity[which]);
    }
  }
};

// Adds this block's histogram to the row's.
template <class Index>
__device__ void add_up(const uint32_t* block, Index* row, int bins) {
  __syncthreads();  // all warps have counted
  for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += tuning::kPassThreads) {
    const uint32_t count = block[bin];
    if (count == 0) continue;
    if constexpr (sizeof(Index) == 8) {
      atomicAdd(reinterpret_cast<unsigned long long*>(row + bin), static_cast<unsigned long long>(count));
    } else {
      atomicAdd(row + bin, count);
    }
  }
}

// Moves the row's histogram to shared memory and leaves zeros for the next pass.
template <class Index>
__device__ void take_histogram(Index* row, Index* local, int bins) {
  constexpr int kPerLoad = kVectorBytes / static_cast<int>(sizeof(Index));
  if (bins < kPerLoad) {
    if (static_cast<int>(threadIdx.x) < bins) {
      local[threadIdx.x] = __ldcg(row + threadIdx.x);
      row[threadIdx.x] = 0;
    }
    return;
  }
  uint4* const from = reinterpret_cast<uint4*>(row);
  uint4* const to = reinterpret_cast<uint4*>(local);
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x); i < bins / kPerLoad; i += tuning::kPassThreads)
    to[i] = __ldcg(from + i);
  for (int i = static_cast<int>(threadIdx.x); i < bins / kPerLoad; i += tuning::kPassThreads)
    from[i] = uint4{};
}

// Sets the bits of the chunks that hold an element with the target digit or a greater one.
template <class Index>
__device__ void mark_chunks(const Index* histogram, const Digit& digit, uint32_t target, uint32_t* chunks) {
  const int count = 1 << digit.index_width;
  for (int base = static_cast<int>(threadIdx.x) / 32 * 32; base < count; base += tuning::kPassThreads) {
    const uint32_t chunk = base + threadIdx.x % 32;
    bool wanted = false;
    for (uint32_t key_part = target >> digit.index_width; key_part < 1u << digit.key_width; ++key_part) {
      const uint32_t bin = key_part << digit.index_width | chunk;
      wanted |= chunk < count && bin >= target && histogram[bin] > 0;
    }
    const unsigned bits = __ballot_sync(~0u, wanted);
    if (threadIdx.x % 32 == 0) chunks[base / 32] = bits;
  }
}

// The row's last block: tells the next pass what to do, the target digit of this pass among the `selection`'s
// elements being known. Pass 0 is a step that has stored candidates and counted their first digit, but not of
// those beyond it.
template <class Bits, class Index>
__device__ void settle(const RadixPasses<Bits, Index>& params, int pass, int64_t row,
                       Selection<typename KeyWord<Bits>::type, Index> selection, const Digit& digit,
                       const TargetDigit<Index>& target, const Index* local,
                       RowState<typename KeyWord<Bits>::type, Index>& state) {
  using Word = typename KeyWord<Bits>::type;
  // The first digit with bits of the index tells in which chunks of the row what is wanted lies. Not worth
  // the search where it has many bits of the key.
  constexpr int kMostKeyBits = 5;
  const bool by_chunk = pass > 0 && digit.index_shift > 0 &&
                        digit.index_shift + digit.index_width == params.index_bits &&
                        digit.key_width <= kMostKeyBits;
  if (by_chunk) {
    mark_chunks(local, digit, target.digit, params.chunks + row * kMostChunks / 32);
    __syncthreads();  // all are marked before the next pass begins
  }
  if (threadIdx.x != 0) return;

  const Step<Word, Index>& now = state.steps[pass % 2];
  Step<Word, Index>& next = state.steps[(pass + 1) % 2];
  // What this pass stored is read next, instead of what it read.
  next.stored = now.stores ? selection.candidates : now.stored;
  next.source = now.stores ? 1 - now.source : now.source;
  const ExtendedKey<Word, Index> greatest = selection.greatest_of(digit, target.highest);
  const ExtendedKey<Word, Index> top = pass > 0 && greatest < selection.split ? greatest : selection.split;
  selection.narrow(digit, target.digit, target.above, target.count);
  // Passes before the index is reached do not look at it.
  const bool dense = params.finishes_early() && digit.reaches_index() &&
                     selection.settle_dense(static_cast<Index>(params.cols - 1));
  // Of a row that is read because not all was stored, elements that tie with the bound and do not reach it
  // are among the candidates too, uncounted.
  const bool counted = pass > 0 || now.stores;
  next.selection = selection;
  next.top = top;
  next.takes_all =
      dense || (counted && selection.takes_all() && (params.stops_early() || pass == params.digits()));
  if (next.takes_all) state.bound = selection.low;
  state.buffered = 0;
  // What the next pass need read: the key being settled, a range of indices; else, or if that is long, by
  // chunks.
  next.chunk_shift = 0;
  next.first = 0;
  next.last = params.cols;
  if (digit.reaches_index() && selection.low.key == top.key) {
    const uint64_t last_index = static_cast<uint64_t>(params.cols - 1);
    next.first = static_cast<int64_t>(last_index - min(static_cast<uint64_t>(top.reversed), last_index));
    next.last = static_cast<int64_t>(last_index - selection.low.reversed) + 1;
  }
  // To store what is most of a short read saves nothing.
  const uint64_t read = next.stored > 0 ? next.stored : static_cast<uint64_t>(next.last - next.first);
  if (by_chunk && next.last - next.first > int64_t{1} << digit.index_shift) {
    next.chunk_shift = digit.index_shift;
    next.first = 0;
    next.last = params.cols;
  }
  next.stores = counted && !next.takes_all && !(params.wanted == Wanted::kBound && next.source == 1) &&
                selection.candidates <= static_cast<uint64_t>(params.buffer_capacity[1 - next.source]) &&
                (!params.stores_adaptively() || selection.candidates <= read / 2);
  // What is left of a last winner's digits is itself.
  if (params.wanted == Wanted::kLast && next.takes_all) params.write_last(row, selection.low);
  if (params.wanted != Wanted::kWinners && next.takes_all) return state.begin(pass + 1, kNoPass);
  params.begin(state, pass + 1);
}

// The row's last block: finds the target digit of this pass, and tells the next one.
template <class Bits, class Index>
__device__ void choose(const RadixPasses<Bits, Index>& params, int pass, int64_t row,
                       const Selection<typename KeyWord<Bits>::type, Index>& selection, Index* row_histogram,
                       Index* local, TargetDigitScratch<Index>& scratch,
                       RowState<typename KeyWord<Bits>::type, Index>& state) {
  const Digit digit = params.digit(pass, state);
  const int bins = 1 << digit.width();
  take_histogram(row_histogram, local, bins);
  __syncthreads();
  const TargetDigit<Index> target = find_target_digit(local, bins, selection.owed, scratch);
  settle(params, pass, row, selection, digit, target, local, state);
}

// Launches the passes from `first` on: from 2 where a first pass has counted the first digits, from 1 where
// each row's steps[1] says what was stored. The likely ones one by one, the others together. `ahead`: they
// may start while the kernel before ends.
template <class Order, class Index>
cudaError_t launch_passes(const RadixPasses<typename Order::Bits, Index>& params, Order order, int64_t rows,
                          int first, bool ahead, cudaStream_t stream);

}  // namespace gputopk::cuda
