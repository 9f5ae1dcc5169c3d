// AIR top-k: Adaptive and Iteration-fused Radix top-k over many blocks a row.
// Zhang, Naruse, Li, Wang: Parallel Top-K Algorithms on GPU (SC '23), section 3.
//
// A row's elements are ordered by an extended key, (key, reversed index): see device/selection.cuh. Its
// digits are resolved from the most significant down, one launch a digit:
//   1. The first pass counts every element's first digit: a histogram a block in shared memory, then added
//      up in global memory.
//   2. The row's last block to arrive finds the target digit, the one that holds the k-th best element, and
//      narrows the selection: elements above the target are winners, those with it are candidates.
//   3. Each further pass is fused: it reads the elements once, writes the winners that the digit before
//      decided, and counts the next digit of the candidates.
//   4. Adaptive: a pass that finds few enough candidates (known exactly, from the histogram) also stores
//      them, and the next pass reads those instead of the row. Crowded rows are never stored.
//   5. Early stop: once as many winners are owed as there are candidates, the next pass takes them all and
//      the launches after it return at once. This always holds after the last digit, for no two elements
//      share an extended key.
// Nothing is read by the host; the launches depend on sizes alone.
//
// Beyond the paper: ties are digits of the index, so crowded thresholds need no case of their own, and once
// the key is resolved a pass reads only the range of indices that can still win. Winners and candidates are
// staged a warp and written in runs, so that no counter takes an atomic an element.
//
// It loses to one-read algorithms on long rows (it reads them twice at least), and on rows that one block
// can hold (air_block.cu).

#include "cuda/air.h"

#include <atomic>

#include "core/key_order.h"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/radix_histogram.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/winner_writer.cuh"
#include "cuda/tuning.h"
#include "cuda/workspace.h"

namespace gputopk::cuda::air {
namespace {

using tuning::kAirThreads;
constexpr int kWarps = kAirThreads / 32;

// A digit tells this many chunks of a row apart at most.
constexpr int64_t kMostChunks = int64_t{1} << tuning::kAirMaxDigitBits;

// What a pass over one row is told.
template <class Word, class Index>
struct Step {
  Selection<Word, Index> selection;
  // Where in the row winners and candidates can be: in [first, last), or, if chunk_shift is not 0, in those
  // chunks of 2^chunk_shift elements, from the row's end, whose bit is set in the row's chunks.
  int64_t first, last;
  int chunk_shift;
  uint64_t stored;  // entries in the buffer that this pass reads; 0: it reads the row
  int source;       // that buffer, of two
  bool stores;      // this pass stores its candidates, in the other buffer
};

// One a row, all zero before the first pass.
template <class Word, class Index>
struct RowState {
  // Pass p reads [p % 2], which the last block of pass p - 1 wrote. Two, because a block with nothing to do
  // may start when the last block of its own pass is done.
  Step<Word, Index> steps[2];
  uint32_t final_pass;          // the pass that takes all candidates, written by the one before; 0: not known
  unsigned long long written;   // winners written by all passes so far
  unsigned long long buffered;  // candidates stored by this pass; its last block resets it
  uint32_t arrived;             // blocks of this pass that are done; its last block resets it
};

template <class Bits, class Index>
struct Params {
  using Word = typename KeyWord<Bits>::type;

  const Bits* input;
  int64_t row_stride;
  int64_t cols;
  int64_t k;
  int64_t buffer_capacity;  // a row
  int blocks_per_row;
  int digit_bits;
  int index_bits;
  int passes;  // digits; launch passes + 1 is the last
  bool adaptive;
  bool early_stop;
  WinnerWriter<Bits> output;

  // Workspace. `histogram` is zero before each pass: first by the launch, then by the last block that
  // reads it.
  RowState<Word, Index>* states;
  Index* histogram;
  uint32_t* chunks;  // kMostChunks bits a row
  CandidateBuffer<Bits, Index> buffers[2];

  __device__ CandidateBuffer<Bits, Index> buffer(int which, int64_t row) const {
    const CandidateBuffer<Bits, Index>& all = buffers[which];
    return {all.values + row * buffer_capacity, all.indices + row * buffer_capacity};
  }
};

template <class Bits, class Index>
using WinnerStage = StagedWriter<Bits, Index, WinnerWriter<Bits>>;
template <class Bits, class Index>
using CandidateStage = StagedWriter<Bits, Index, CandidateBuffer<Bits, Index>>;

// Dynamic shared memory of a fused pass: the stages of its warps, then the histogram.
template <class Bits, class Index>
constexpr size_t kWarpStageBytes = WinnerStage<Bits, Index>::bytes(tuning::kAirStagedWinners) +
                                   CandidateStage<Bits, Index>::bytes(tuning::kAirStagedCandidates);

// Behind the histogram of a fused pass: where elements go that are not counted.
constexpr size_t kUncountedBytes = sizeof(uint32_t);

// Candidates a block at least, so that a short buffer is not spread over blocks that only come and go.
constexpr int64_t kBufferedPerBlock = int64_t{kAirThreads} * 8;

// Adds this block's histogram to the row's.
template <class Index>
__device__ void add_up(const uint32_t* block, Index* row, int bins) {
  __syncthreads();  // all warps have counted
  for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += kAirThreads) {
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
  for (int i = static_cast<int>(threadIdx.x); i < bins / kPerLoad; i += kAirThreads) to[i] = __ldcg(from + i);
  for (int i = static_cast<int>(threadIdx.x); i < bins / kPerLoad; i += kAirThreads) from[i] = uint4{};
}

// Sets the bits of the chunks that hold an element with the target digit or a greater one.
template <class Index>
__device__ void mark_chunks(const Index* histogram, const Digit& digit, uint32_t target, uint32_t* chunks) {
  const int count = 1 << digit.index_width;
  for (int base = static_cast<int>(threadIdx.x) / 32 * 32; base < count; base += kAirThreads) {
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

// The row's last block: finds the target digit of this pass and tells the next pass what to do.
template <class Bits, class Index>
__device__ void choose(const Params<Bits, Index>& params, int pass, int64_t row, Index* row_histogram,
                       Index* local, TargetDigitScratch<Index>& scratch,
                       RowState<typename KeyWord<Bits>::type, Index>& state) {
  using Word = typename KeyWord<Bits>::type;
  const Digit digit = digit_of_pass(pass, params.digit_bits, 8 * sizeof(Bits), params.index_bits);
  const int bins = 1 << digit.width();
  take_histogram(row_histogram, local, bins);
  __syncthreads();
  const Step<Word, Index>& now = state.steps[pass % 2];
  Selection<Word, Index> selection =
      pass == 1 ? Selection<Word, Index>::whole_row(params.k, params.cols) : now.selection;
  const TargetDigit<Index> target = find_target_digit(local, bins, selection.owed, scratch);
  // The first digit with bits of the index tells in which chunks of the row what is wanted lies. Not worth
  // the search where it has many bits of the key.
  constexpr int kMostKeyBits = 5;
  const bool by_chunk = digit.index_shift > 0 && digit.index_shift + digit.index_width == params.index_bits &&
                        digit.key_width <= kMostKeyBits;
  if (by_chunk) mark_chunks(local, digit, target.digit, params.chunks + row * kMostChunks / 32);
  if (threadIdx.x != 0) return;

  Step<Word, Index>& next = state.steps[(pass + 1) % 2];
  const bool stored_now = pass > 1 && now.stores;
  next.stored = stored_now ? selection.candidates : pass > 1 ? now.stored : 0;
  next.source = pass == 1 ? 0 : stored_now ? 1 - now.source : now.source;
  selection.narrow(digit, target.digit, target.highest, target.above, target.count);
  next.selection = selection;
  const bool takes_all = selection.takes_all() && (params.early_stop || pass == params.passes);
  if (takes_all) state.final_pass = pass + 1;
  state.buffered = 0;
  // What the next pass need read: by chunks; then, the key being settled, a range of indices.
  next.chunk_shift = by_chunk ? digit.index_shift : 0;
  next.first = 0;
  next.last = params.cols;
  if (digit.reaches_index() && selection.low.key == selection.top.key) {
    const uint64_t last_index = static_cast<uint64_t>(params.cols - 1);
    next.first =
        static_cast<int64_t>(last_index - min(static_cast<uint64_t>(selection.top.reversed), last_index));
    next.last = static_cast<int64_t>(last_index - selection.low.reversed) + 1;
  }
  // To store what is most of a short read saves nothing.
  const uint64_t read = next.stored > 0 ? next.stored : static_cast<uint64_t>(next.last - next.first);
  next.stores = !takes_all && selection.candidates <= static_cast<uint64_t>(params.buffer_capacity) &&
                (!params.adaptive || selection.candidates <= read / 2);
}

// Step 1. The digits of the first pass reach the index only in 1-byte dtypes.
template <class Order, class Index>
__global__ void __launch_bounds__(kAirThreads, tuning::kAirBlocksPerSm)
    first_pass(Params<typename Order::Bits, Index> params, Order order) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  extern __shared__ __align__(16) unsigned char dynamic[];
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic);
  __shared__ TargetDigitScratch<Index> scratch;

  const Digit digit = digit_of_pass(1, params.digit_bits, Order::kBits, params.index_bits);
  const int bins = 1 << digit.width();
  const Index last_index = static_cast<Index>(params.cols - 1);
  const int64_t row = blockIdx.x / params.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x % params.blocks_per_row);
  follow_kernel_before();
  clear_histogram(histogram, bins);
  __syncthreads();
  visit_row<Reading::kOnceAhead>(
      params.input + row * params.row_stride, params.cols, part, params.blocks_per_row, AllTiles{},
      [&](const auto& elements, int64_t index, bool valid) -> uint32_t {
        if (!valid) return 0;
#pragma unroll
        for (int i = 0; i < elements.kElements; ++i) {
          const Word key = order(elements[i]);
          if constexpr (sizeof(Bits) == 1) {
            atomicAdd(histogram + digit.of(key, static_cast<Index>(last_index - index - i)), 1u);
          } else {
            atomicAdd(histogram + (key >> digit.key_shift), 1u);
          }
        }
        return 0;
      },
      [](Bits, int64_t, bool) {});

  Index* const row_histogram = params.histogram + (row << params.digit_bits);
  add_up(histogram, row_histogram, bins);
  auto& state = params.states[row];
  if (is_last_block(&state.arrived, params.blocks_per_row)) {
    choose(params, 1, row, row_histogram, reinterpret_cast<Index*>(dynamic), scratch, state);
  }
}

// Steps 3 to 5. With kIndexed the selection's bounds reach into the index.
template <class Order, class Index, bool kIndexed>
__global__ void __launch_bounds__(kAirThreads, tuning::kAirBlocksPerSm)
    fused_pass(Params<typename Order::Bits, Index> params, Order order, int pass) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  extern __shared__ __align__(16) unsigned char dynamic[];
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic + kWarps * kWarpStageBytes<Bits, Index>);
  __shared__ TargetDigitScratch<Index> scratch;
  __shared__ unsigned long long winner_counts[kWarps + 1], candidate_counts[kWarps + 1];

  const int64_t row = blockIdx.x / params.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x % params.blocks_per_row);
  follow_kernel_before();
  auto& state = params.states[row];
  const Step<Word, Index>& step = state.steps[pass % 2];
  if (state.final_pass != 0 && pass > static_cast<int>(state.final_pass)) return;
  const bool takes_all = pass == static_cast<int>(state.final_pass);
  const bool stores = step.stores;
  const int64_t stored = static_cast<int64_t>(step.stored);
  const int64_t useful = (stored + kBufferedPerBlock - 1) / kBufferedPerBlock;
  const int parts =
      stored == 0 || useful > params.blocks_per_row ? params.blocks_per_row : static_cast<int>(useful);
  if (part >= parts) return;

  const Digit digit = digit_of_pass(pass, params.digit_bits, Order::kBits, params.index_bits);
  const int bins = 1 << digit.width();
  if (!takes_all) clear_histogram(histogram, bins);
  __shared__ uint32_t chunks[kIndexed ? kMostChunks / 32 : 1];
  if (kIndexed && step.chunk_shift != 0) {
    const int words = ((1 << (params.index_bits - step.chunk_shift)) + 31) / 32;
    for (int i = static_cast<int>(threadIdx.x); i < words; i += kAirThreads) {
      chunks[i] = params.chunks[row * kMostChunks / 32 + i];
    }
  }
  __syncthreads();

  const Extended low = step.selection.low, split = step.selection.split, top = step.selection.top;
  const Word key_span = top.key - low.key, candidate_span = split.key - low.key;
  const Index last_index = static_cast<Index>(params.cols - 1);
  unsigned char* const stage = dynamic + threadIdx.x / 32 * kWarpStageBytes<Bits, Index>;
  WinnerStage<Bits, Index> winners(stage, tuning::kAirStagedWinners, params.output.row(row, params.k),
                                   &state.written);
  CandidateStage<Bits, Index> candidates(stage + winners.bytes(tuning::kAirStagedWinners),
                                         tuning::kAirStagedCandidates, params.buffer(1 - step.source, row),
                                         &state.buffered);

  const auto in_range = [&](Word distance, Index index) {
    if (distance > key_span) return false;
    if constexpr (kIndexed) {
      const Extended x{static_cast<Word>(low.key + distance), static_cast<Index>(last_index - index)};
      return !(x < low) && !(top < x);
    }
    return true;
  };
  // One element: takes or counts it. Called by whole warps.
  const auto sort_out = [&](Bits bits, Index index, bool valid) {
    const Word distance = static_cast<Word>(order(bits) - low.key);
    const Extended x{static_cast<Word>(low.key + distance), static_cast<Index>(last_index - index)};
    const bool inside = valid && in_range(distance, index);
    const bool wins = inside && (takes_all || (kIndexed ? split < x : distance > candidate_span));
    winners.push(wins, bits, index);
    if (takes_all) return;
    const bool stays = inside && !wins;
    if (stays) atomicAdd(histogram + digit.of(distance, static_cast<Index>(x.reversed - low.reversed)), 1u);
    candidates.push(stays && stores, bits, index);
  };
  // Whether winners or candidates can be among the row's elements [first, last).
  [[maybe_unused]] const int chunk_shift = step.chunk_shift;
  [[maybe_unused]] const int64_t first_wanted = step.first, last_wanted = step.last;
  const auto wanted = [&] {
    if constexpr (!kIndexed) {
      return AllTiles{};  // no digit has yet told where
    } else {
      return [=, chunks = &chunks[0]](int64_t first, int64_t last) {
        if (chunk_shift == 0) return first < last_wanted && last > first_wanted;
        const uint64_t lowest =
            static_cast<uint64_t>(last_index - static_cast<Index>(last - 1)) >> chunk_shift;
        const uint64_t highest = static_cast<uint64_t>(last_index - static_cast<Index>(first)) >> chunk_shift;
        for (uint64_t chunk = lowest; chunk <= highest; ++chunk) {
          if (chunks[chunk / 32] >> (chunk % 32) & 1) return true;
        }
        return false;
      };
    }
  }();

  const Bits* const input = params.input + row * params.row_stride;
  [[maybe_unused]] const int index_padding = 32 - params.index_bits;
  // Reads the row. `distance(bits)` is of the key from the selection's least, and beyond `key_span` outside
  // it.
  const auto read_row = [&](const auto& distance) {
    if (takes_all || stores) {
      // Few elements are in the selection: probe for them.
      visit_row<Reading::kOnce>(
          input, params.cols, part, parts, wanted,
          [&](const auto& elements, int64_t index, bool valid) {
            uint32_t chosen = 0;
#pragma unroll
            for (int i = 0; i < elements.kElements; ++i) {
              if (in_range(distance(elements[i]), static_cast<Index>(index + i))) chosen |= 1u << i;
            }
            return valid ? chosen : 0;
          },
          [&](Bits bits, int64_t index, bool chosen) { sort_out(bits, static_cast<Index>(index), chosen); });
      return;
    }
    // Most elements may be candidates: count them as they are read, and choose the winners alone. A bin of
    // its own for what is not counted costs less than a branch around the atomic.
    const auto count = [&](bool counted, uint32_t bin) {
      atomicAdd(histogram + (counted ? bin : static_cast<uint32_t>(bins)), 1u);
    };
    const auto wins_by_key = [&](Word of_element) {
      return static_cast<Word>(of_element - candidate_span - 1) <
             static_cast<Word>(key_span - candidate_span);
    };
    const auto push_winner = [&](Bits bits, int64_t index, bool chosen) {
      winners.push(chosen, bits, static_cast<Index>(index));
    };
    if (!kIndexed && !digit.reaches_index()) {
      // The usual digit, in the fewest instructions: what is no candidate has a bin beyond the last.
      visit_row<Reading::kOnce>(
          input, params.cols, part, parts, wanted,
          [&](const auto& elements, int64_t, bool valid) {
            uint32_t chosen = 0;
#pragma unroll
            for (int i = 0; i < elements.kElements; ++i) {
              const Word of_element = distance(elements[i]);
              const Word bin = of_element >> digit.key_shift;
              count(valid && bin < bins, static_cast<uint32_t>(bin));
              if (valid && wins_by_key(of_element)) chosen |= 1u << i;
            }
            return chosen;
          },
          push_winner);
      return;
    }
    visit_row<Reading::kOnce>(
        input, params.cols, part, parts, wanted,
        [&](const auto& elements, int64_t index, bool valid) {
          uint32_t chosen = 0;
#pragma unroll
          for (int i = 0; i < elements.kElements; ++i) {
            const Word of_element = distance(elements[i]);
            const Index reversed = static_cast<Index>(last_index - index - i);
            bool stays = valid && of_element <= candidate_span;
            bool wins = valid && wins_by_key(of_element);
            if constexpr (kIndexed) {
              const Extended x{static_cast<Word>(low.key + of_element), reversed};
              const bool in_range = (stays || wins) && !(x < low) && !(top < x);
              wins = in_range && split < x;
              stays = in_range && !wins;
            }
            if (wins) chosen |= 1u << i;
            uint32_t bin;
            if constexpr (!kIndexed && sizeof(Word) == 4 && sizeof(Index) == 4) {
              // The digit ends within the index, whose highest bits follow the key's lowest.
              bin = __funnelshift_l(reversed << index_padding, of_element, digit.index_width);
            } else {
              bin = digit.of(of_element, static_cast<Index>(reversed - low.reversed));
            }
            count(stays, bin);
          }
          return chosen;
        },
        push_winner);
  };

  const auto distance_by_key = [&](Bits bits) { return static_cast<Word>(order(bits) - low.key); };
  KeyDistance<Word> distance_by_pattern;
  if (stored > 0) {
    const CandidateBuffer<Bits, Index> source = params.buffer(step.source, row);
    visit_candidates(
        source.values, source.indices, stored, part, parts,
        [&](Bits bits, Index, bool valid) { return valid && distance_by_key(bits) <= key_span; }, sort_out);
  } else if (!kIndexed && order.distance_from(low.key, top.key, distance_by_pattern)) {
    read_row(distance_by_pattern);
  } else {
    read_row(distance_by_key);
  }

  // What is still staged goes out, and the counts are added up.
  winners.publish(winner_counts);
  candidates.publish(candidate_counts);
  __syncthreads();
  if (threadIdx.x == 0) winners.reserve(winner_counts);
  if (threadIdx.x == 32) candidates.reserve(candidate_counts);
  __syncthreads();
  winners.finish(winner_counts);
  candidates.finish(candidate_counts);
  if (takes_all) return;
  Index* const row_histogram = params.histogram + (row << params.digit_bits);
  add_up(histogram, row_histogram, bins);
  if (is_last_block(&state.arrived, parts)) {
    choose(params, pass, row, row_histogram, reinterpret_cast<Index*>(histogram), scratch, state);
  }
}

// One blob: what must be zero first, then the buffers.
template <class Bits, class Index>
size_t carve(const Config& config, const Problem& problem, void* base, Params<Bits, Index>& params,
             size_t& zeroed_bytes) {
  Workspace workspace(base);
  params.states = workspace.take<RowState<typename KeyWord<Bits>::type, Index>>(problem.rows);
  params.histogram = workspace.take<Index>(problem.rows << config.digit_bits);
  zeroed_bytes = workspace.bytes();
  params.chunks = workspace.take<uint32_t>(problem.rows * kMostChunks / 32);
  for (CandidateBuffer<Bits, Index>& buffer : params.buffers) {
    buffer.values = workspace.take<Bits>(problem.rows * config.buffer);
    buffer.indices = workspace.take<Index>(problem.rows * config.buffer);
  }
  return workspace.bytes();
}

// Counts and indices of 32 bits serve rows of fewer than 2^32 elements.
template <class Visitor>
auto visit_index(int64_t cols, Visitor&& visitor) {
  return cols <= int64_t{0xFFFFFFFF} ? visitor(uint32_t{}) : visitor(uint64_t{});
}

template <class Order, class Index>
cudaError_t launch(const Config& config, const Problem& problem, const Buffers& buffers, Order order,
                   cudaStream_t stream) {
  using Bits = typename Order::Bits;
  Params<Bits, Index> params{};
  params.input = static_cast<const Bits*>(buffers.input);
  params.row_stride = problem.row_stride;
  params.cols = problem.cols;
  params.k = problem.k;
  params.buffer_capacity = config.buffer;
  params.blocks_per_row = config.blocks_per_row;
  params.digit_bits = config.digit_bits;
  params.index_bits = bit_width(static_cast<uint64_t>(problem.cols - 1));
  params.passes = (Order::kBits + params.index_bits + config.digit_bits - 1) / config.digit_bits;
  params.adaptive = config.adaptive;
  params.early_stop = config.early_stop;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  size_t zeroed_bytes = 0;
  carve(config, problem, buffers.workspace, params, zeroed_bytes);

  cudaError_t error = cudaMemsetAsync(buffers.workspace, 0, zeroed_bytes, stream);
  if (error != cudaSuccess) return error;

  constexpr int64_t kMostBlocks = 0x7FFFFFFF;
  if (problem.rows > kMostBlocks / config.blocks_per_row) return cudaErrorInvalidConfiguration;
  const unsigned blocks = static_cast<unsigned>(problem.rows * config.blocks_per_row);
  // The last block needs the bins in the width of the row's counts.
  const size_t histogram_bytes = (sizeof(Index) << config.digit_bits) + kUncountedBytes;
  const size_t fused_bytes = kWarps * kWarpStageBytes<Bits, Index> + histogram_bytes;
  static std::atomic<uint64_t> allowed_first, allowed_key, allowed_indexed;
  if ((error = allow_shared_memory(first_pass<Order, Index>, histogram_bytes, allowed_first)) != cudaSuccess)
    return error;
  error = launch_kernel(/*ahead=*/false, first_pass<Order, Index>, blocks, kAirThreads, histogram_bytes,
                        stream, params,
                        order);  // the workspace must be zero first
  if (error != cudaSuccess) return error;

  for (int pass = 2; pass <= params.passes + 1; ++pass) {
    const Digit before = digit_of_pass(pass - 1, config.digit_bits, Order::kBits, params.index_bits);
    const bool indexed = before.reaches_index();
    const auto kernel = indexed ? fused_pass<Order, Index, true> : fused_pass<Order, Index, false>;
    auto& allowed = indexed ? allowed_indexed : allowed_key;
    if ((error = allow_shared_memory(kernel, fused_bytes, allowed)) != cudaSuccess) return error;
    error = launch_kernel(config.launches_ahead, kernel, blocks, kAirThreads, fused_bytes, stream, params,
                          order, pass);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

size_t workspace_bytes(const Config& config, const Problem& problem) {
  return visit_key_order(problem.dtype, true, false, [&](auto order) {
    using Bits = typename decltype(order)::Bits;
    return visit_index(problem.cols, [&](auto index) {
      Params<Bits, decltype(index)> params{};
      size_t zeroed_bytes = 0;
      return carve(config, problem, nullptr, params, zeroed_bytes);
    });
  });
}

ErrorCode run(const Config& config, const Problem& problem, const Buffers& buffers, Stream stream) {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Bits = typename decltype(order)::Bits;
    return visit_index(problem.cols, [&](auto index) {
      return launch<decltype(order), decltype(index)>(config, problem, buffers, order, stream);
    });
  });
}

}  // namespace gputopk::cuda::air
