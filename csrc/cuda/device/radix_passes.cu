// The fused passes of a radix selection: steps 3 to 5 of air/many_blocks.cu, from a row or from stored
// candidates.

#include <algorithm>
#include <atomic>

#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/radix_passes.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/stored_candidates.cuh"

namespace gputopk::cuda {
namespace {

using tuning::kPassThreads;
constexpr int kWarps = kPassThreads / 32;

template <class Bits, class Index>
using WinnerStage = StagedWriter<Bits, Index, WinnerWriter<Bits>>;
template <class Bits, class Index>
using CandidateStage = StagedWriter<Bits, Index, CandidateBuffer<Bits, Index>>;

// Dynamic shared memory of a fused pass: the stages of its warps, then the histogram.
template <class Bits, class Index>
constexpr size_t kWarpStageBytes = WinnerStage<Bits, Index>::bytes(tuning::kPassStagedWinners) +
                                   CandidateStage<Bits, Index>::bytes(tuning::kPassStagedCandidates);

// What a pass's last block selects from at once, in the memory of stages and histogram.
constexpr size_t kFinishBytes = 16 * 1024;

// Behind the histogram of a fused pass: where elements go that are not counted. A vector, for it is cleared.
constexpr size_t kUncountedBytes = kVectorBytes;

// Static shared memory of a pass.
template <class Index, bool kIndexed>
struct PassScratch {
  TargetDigitScratch<Index> target;
  unsigned long long winner_counts[kWarps + 1], candidate_counts[kWarps + 1];
  uint32_t chunks[kIndexed ? kMostChunks / 32 : 1];  // a copy of the row's
};

// One part of a pass, by all threads of a block: reads its elements, from the row or the stored candidates;
// writes winners; counts the next digit of candidates, or stores them, or both. Then the row's last block
// looks ahead. With kIndexed the selection's bounds reach into the index.
template <bool kIndexed, class Order, class Index>
struct PartOfPass {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  using Scratch = PassScratch<Index, kIndexed>;

  const RadixPasses<Bits, Index>& params;
  const Order& order;
  const int64_t row;
  const int pass, part, parts;
  unsigned char* const dynamic;
  Scratch& scratch;
  RowState<Word, Index>& state = params.states[row];
  const Step<Word, Index>& step = state.steps[pass % 2];

  const bool takes_all = step.takes_all, stores = step.stores;
  const bool writes_winners = params.wanted == Wanted::kWinners;
  // So few candidates are left that this pass's last block selects from them.
  const bool finishes =
      stores && params.finishes_early() && step.selection.candidates <= kFinishBytes / sizeof(Extended);
  const bool counts = !takes_all && !finishes;
  const Digit digit = params.digit(pass, state);
  const int bins = 1 << digit.width();
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic + kWarps * kWarpStageBytes<Bits, Index>);

  // low <= candidates <= split < winners <= top.
  const Extended low = step.selection.low, split = step.selection.split, top = step.top;
  const Word key_span = top.key - low.key, candidate_span = split.key - low.key;
  const Index last_index = static_cast<Index>(params.cols - 1);
  // Where no digit has yet told where, the whole row is read.
  const int64_t first_read = kIndexed ? step.first : 0;
  const int64_t last_read = kIndexed ? step.last : params.cols;
  const int chunk_shift = step.chunk_shift;

  unsigned char* const stage = dynamic + threadIdx.x / 32 * kWarpStageBytes<Bits, Index>;
  WinnerStage<Bits, Index> winners{stage, tuning::kPassStagedWinners, params.output.row(row, params.k),
                                   &state.written};
  CandidateStage<Bits, Index> candidates{stage + winners.bytes(tuning::kPassStagedWinners),
                                         tuning::kPassStagedCandidates, params.buffer(1 - step.source, row),
                                         &state.buffered};

  __device__ __forceinline__ PartOfPass(const RadixPasses<Bits, Index>& params, const Order& order,
                                        int64_t row, int pass, int part, int parts, unsigned char* dynamic,
                                        Scratch& scratch)
      : params(params),
        order(order),
        row(row),
        pass(pass),
        part(part),
        parts(parts),
        dynamic(dynamic),
        scratch(scratch) {}

  __device__ __forceinline__ void run() {
    if (counts) clear_histogram(histogram, bins + 1);
    if (kIndexed && chunk_shift != 0) copy_chunks();
    __syncthreads();  // no thread counts into bins that another has yet to clear, nor asks for chunks not
                      // copied
    read();
    write_staged();
    if (takes_all) return;
    if (finishes) {
      finish();
    } else {
      look_ahead();
    }
  }

 private:
  __device__ __forceinline__ void copy_chunks() {
    const int words = ((1 << (params.index_bits - chunk_shift)) + 31) / 32;
    for (int i = static_cast<int>(threadIdx.x); i < words; i += kPassThreads) {
      scratch.chunks[i] = params.chunks[row * kMostChunks / 32 + i];
    }
  }

  __device__ __forceinline__ Word distance_by_key(Bits bits) const {
    return static_cast<Word>(order(bits) - low.key);
  }

  // Whether an element of that distance from `low` is a candidate or a winner.
  __device__ __forceinline__ bool in_range(Word distance, Index index) const {
    if (distance > key_span) return false;
    if constexpr (kIndexed) {
      const Extended x{static_cast<Word>(low.key + distance), static_cast<Index>(last_index - index)};
      return !(x < low) && !(top < x);
    }
    return true;
  }

  // One element: takes, counts or stores it. Called by whole warps.
  __device__ __forceinline__ void sort_out(Bits bits, Index index, bool valid) {
    const Word distance = distance_by_key(bits);
    const Extended x{static_cast<Word>(low.key + distance), static_cast<Index>(last_index - index)};
    const bool inside = valid && in_range(distance, index);
    const bool wins = inside && (takes_all || (kIndexed ? split < x : distance > candidate_span));
    winners.push(wins && writes_winners, bits, index);
    if (takes_all) return;
    const bool stays = inside && !wins;
    if (stays && counts) {
      atomicAdd(histogram + digit.of(distance, static_cast<Index>(x.reversed - low.reversed)), 1u);
    }
    candidates.push(stays && stores, bits, index);
  }

  __device__ __forceinline__ void read() {
    KeyDistance<Word> distance_by_pattern;
    const int64_t stored = static_cast<int64_t>(step.stored);
    if (stored > 0) {
      const CandidateBuffer<Bits, Index> source = params.buffer(step.source, row);
      visit_candidates(
          source.values, source.indices, stored, part, parts,
          [&](Bits bits, Index, bool valid) { return valid && distance_by_key(bits) <= key_span; },
          [&](Bits bits, Index index, bool valid) { sort_out(bits, index, valid); });
    } else if (!kIndexed && order.distance_from(low.key, top.key, distance_by_pattern)) {
      read_row(distance_by_pattern);
    } else {
      read_row([&](Bits bits) { return distance_by_key(bits); });
    }
  }

  // Reads the row. `distance(bits)` is of the key from the selection's least, and beyond `key_span` outside
  // it.
  template <class Distance>
  __device__ __forceinline__ void read_row(const Distance& distance) {
    if (takes_all || stores) {
      probe_row(distance);
    } else if (!kIndexed && !digit.reaches_index()) {
      count_row_by_key(distance);
    } else {
      count_row(distance);
    }
  }

  template <class Choose, class Visit>
  __device__ __forceinline__ void visit(const Choose& choose, const Visit& visitor) {
    const Bits* const input = params.input + row * params.row_stride + first_read;
    visit_row<Reading::kOnce>(input, last_read - first_read, part, parts, wanted_tiles(), choose, visitor);
  }

  // Whether winners or candidates can be among the elements [first, last) of what is read.
  __device__ __forceinline__ auto wanted_tiles() const {
    if constexpr (!kIndexed) {
      return AllTiles{};
    } else {
      return [last_index = last_index, chunk_shift = chunk_shift, chunks = &scratch.chunks[0]](int64_t first,
                                                                                               int64_t last) {
        if (chunk_shift == 0) return true;
        const uint64_t lowest =
            static_cast<uint64_t>(last_index - static_cast<Index>(last - 1)) >> chunk_shift;
        const uint64_t highest = static_cast<uint64_t>(last_index - static_cast<Index>(first)) >> chunk_shift;
        for (uint64_t chunk = lowest; chunk <= highest; ++chunk) {
          if (chunks[chunk / 32] >> (chunk % 32) & 1) return true;
        }
        return false;
      };
    }
  }

  // Few elements are in the selection: looks for them.
  template <class Distance>
  __device__ __forceinline__ void probe_row(const Distance& distance) {
    visit(
        [&](const auto& elements, int64_t index, bool valid) {
          uint32_t chosen = 0;
#pragma unroll
          for (int i = 0; i < elements.kElements; ++i) {
            if (in_range(distance(elements[i]), static_cast<Index>(first_read + index + i))) {
              chosen |= 1u << i;
            }
          }
          return valid ? chosen : 0;
        },
        [&](Bits bits, int64_t index, bool chosen) {
          sort_out(bits, static_cast<Index>(first_read + index), chosen);
        });
  }

  // A bin of its own for what is not counted costs less than a branch around the atomic.
  __device__ __forceinline__ void count(bool counted, uint32_t bin) {
    atomicAdd(histogram + (counted ? bin : static_cast<uint32_t>(bins)), 1u);
  }
  __device__ __forceinline__ bool wins_by_key(Word distance) const {
    return static_cast<Word>(distance - candidate_span - 1) < static_cast<Word>(key_span - candidate_span);
  }
  __device__ __forceinline__ void push_winner(Bits bits, int64_t index, bool chosen) {
    winners.push(chosen && writes_winners, bits, static_cast<Index>(first_read + index));
  }

  // Most elements may be candidates: counts them as they are read, and chooses the winners alone. The usual
  // digit, in the fewest instructions: what is no candidate has a bin beyond the last.
  template <class Distance>
  __device__ __forceinline__ void count_row_by_key(const Distance& distance) {
    visit(
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
        [&](Bits bits, int64_t index, bool chosen) { push_winner(bits, index, chosen); });
  }

  // The same where the digit has bits of the index, or the selection's bounds have.
  template <class Distance>
  __device__ __forceinline__ void count_row(const Distance& distance) {
    [[maybe_unused]] const int index_padding = 32 - params.index_bits;
    visit(
        [&](const auto& elements, int64_t index, bool valid) {
          uint32_t chosen = 0;
#pragma unroll
          for (int i = 0; i < elements.kElements; ++i) {
            const Word of_element = distance(elements[i]);
            const Index reversed = static_cast<Index>(last_index - first_read - index - i);
            bool stays = valid && of_element <= candidate_span;
            bool wins = valid && wins_by_key(of_element);
            if constexpr (kIndexed) {
              const Extended x{static_cast<Word>(low.key + of_element), reversed};
              const bool inside = (stays || wins) && !(x < low) && !(top < x);
              wins = inside && split < x;
              stays = inside && !wins;
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
        [&](Bits bits, int64_t index, bool chosen) { push_winner(bits, index, chosen); });
  }

  __device__ __forceinline__ void write_staged() {
    winners.publish(scratch.winner_counts);
    candidates.publish(scratch.candidate_counts);
    __syncthreads();  // all warps have published
    if (threadIdx.x == 0) winners.reserve(scratch.winner_counts);
    if (threadIdx.x == 32) candidates.reserve(scratch.candidate_counts);
    __syncthreads();  // places are reserved, and the histogram is whole
    winners.finish(scratch.winner_counts);
    candidates.finish(scratch.candidate_counts);
  }

  // The row's last block selects from the stored candidates.
  __device__ __forceinline__ void finish() {
    if (!is_last_block(&state.arrived, parts)) return;
    // What earlier passes have written from the end lies behind.
    const int64_t before = params.k - static_cast<int64_t>(step.selection.owed + state.written_from_end);
    take_best_of_stored(params, order, row, 1 - step.source, static_cast<int>(step.selection.candidates),
                        step.selection.owed, before, dynamic, kFinishBytes);
    if (threadIdx.x == 0) state.begin(pass + 1, kNoPass);
  }

  // Counts are added up, and the row's last block decides on the next pass.
  __device__ __forceinline__ void look_ahead() {
    Index* const row_histogram = params.histogram + (row << params.digit_bits);
    add_up(histogram, row_histogram, bins);
    if (!is_last_block(&state.arrived, parts)) return;
    choose(params, pass, row, step.selection, row_histogram, reinterpret_cast<Index*>(histogram),
           scratch.target, state);
  }
};

// One pass, its parts dealt to the blocks in turn.
template <class Order, class Index, bool kIndexed>
__global__ void __launch_bounds__(kPassThreads, tuning::kPassBlocksPerSm)
    run_pass(RadixPasses<typename Order::Bits, Index> params, Order order, int pass) {
  const int64_t row = blockIdx.x / params.blocks_per_row;
  const uint32_t part = static_cast<uint32_t>(blockIdx.x % params.blocks_per_row);
  follow_kernel_before();
  const uint32_t count = params.states[row].parts[pass].count;
  if (count == kNoPass || part >= count) return;
  __shared__ PassScratch<Index, kIndexed> scratch;
  PartOfPass<kIndexed, Order, Index>(params, order, row, pass, static_cast<int>(part),
                                     static_cast<int>(count), dynamic_shared(), scratch)
      .run();
}

// The passes from `pass` on. A block asks for a part, waits for its pass to begin, and goes on to the next
// pass when there are no more parts. All as if indexed, which is right for any. One block an SM, for the
// registers.
template <class Order, class Index>
__global__ void __launch_bounds__(kPassThreads)
    run_other_passes(RadixPasses<typename Order::Bits, Index> params, Order order, int blocks_per_row,
                     int pass) {
  __shared__ uint32_t count, part;
  __shared__ PassScratch<Index, true> scratch;
  const int64_t row = blockIdx.x / blocks_per_row;
  auto& state = params.states[row];
  follow_kernel_before();
  // By one thread: reads of one word by a whole GPU would take longer than all else where nothing is left to
  // do.
  if (threadIdx.x == 0) count = state.count(pass);
  __syncthreads();                             // the count is there
  if (count == 0 || count == kNoPass) return;  // what the launches before have not begun, none will

  // Only parts that running blocks have taken are waited for, so each wait ends. Were that ever wrong, after
  // some seconds an error is better than a GPU that hangs.
  constexpr int kMostNaps = 1 << 26;
  const int last = params.digits() + 1;
  while (pass <= last) {
    __syncthreads();  // the part before is done with, and so are its number and shared memory
    if (threadIdx.x == 0) {
      part = atomicAdd(&state.parts[pass].taken, 1u);
      for (int naps = 0; (count = state.count(pass)) == 0; ++naps) {
        if (naps == kMostNaps) __trap();
        __nanosleep(100);
      }
    }
    __syncthreads();  // the part is known
    if (count == kNoPass) return;
    if (part >= count) {
      ++pass;
    } else {
      PartOfPass</*kIndexed=*/true, Order, Index>(params, order, row, pass, static_cast<int>(part),
                                                  static_cast<int>(count), dynamic_shared(), scratch)
          .run();
    }
  }
}

}  // namespace

template <class Order, class Index>
cudaError_t launch_passes(const RadixPasses<typename Order::Bits, Index>& params, Order order, int64_t rows,
                          int first, bool ahead, cudaStream_t stream) {
  using Bits = typename Order::Bits;
  const unsigned blocks = static_cast<unsigned>(rows * params.blocks_per_row);
  // The last block needs the bins in the width of the row's counts.
  const size_t shared_bytes =
      std::max(kWarps * kWarpStageBytes<Bits, Index> + (sizeof(Index) << params.digit_bits) + kUncountedBytes,
               list_selection_bytes(kFinishBytes));
  static std::atomic<uint64_t> allowed_key, allowed_indexed, allowed_others;
  const int last = params.digits() + 1;
  int pass = first;
  for (; pass < first + params.likely_passes && pass <= last; ++pass) {
    // The digits of a row are known, those of stored candidates may reach the index at once.
    const bool indexed =
        first == 1 ||
        digit_of_pass(pass - 1, params.digit_bits, Order::kBits, params.index_bits).reaches_index();
    const auto kernel = indexed ? run_pass<Order, Index, true> : run_pass<Order, Index, false>;
    cudaError_t error = allow_shared_memory(kernel, shared_bytes, indexed ? allowed_indexed : allowed_key);
    if (error != cudaSuccess) return error;
    error = launch_kernel(ahead, kernel, blocks, kPassThreads, shared_bytes, stream, params, order, pass);
    if (error != cudaSuccess) return error;
  }
  if (pass > last) return cudaSuccess;
  const auto others = run_other_passes<Order, Index>;
  const cudaError_t error = allow_shared_memory(others, shared_bytes, allowed_others);
  if (error != cudaSuccess) return error;
  const int blocks_per_row = params.other_blocks_per_row();
  return launch_kernel(ahead, others, static_cast<unsigned>(rows * blocks_per_row), kPassThreads,
                       shared_bytes, stream, params, order, blocks_per_row, pass);
}

#define GPUTOPK_LAUNCH_PASSES(Bits, kFloating)                                                               \
  template cudaError_t launch_passes(const RadixPasses<Bits, uint32_t>&, KeyOrder<Bits, kFloating>, int64_t, \
                                     int, bool, cudaStream_t);                                               \
  template cudaError_t launch_passes(const RadixPasses<Bits, uint64_t>&, KeyOrder<Bits, kFloating>, int64_t, \
                                     int, bool, cudaStream_t);
GPUTOPK_LAUNCH_PASSES(uint8_t, false)
GPUTOPK_LAUNCH_PASSES(uint8_t, true)
GPUTOPK_LAUNCH_PASSES(uint16_t, false)
GPUTOPK_LAUNCH_PASSES(uint16_t, true)
GPUTOPK_LAUNCH_PASSES(uint32_t, false)
GPUTOPK_LAUNCH_PASSES(uint32_t, true)
GPUTOPK_LAUNCH_PASSES(uint64_t, false)
GPUTOPK_LAUNCH_PASSES(uint64_t, true)
#undef GPUTOPK_LAUNCH_PASSES

}  // namespace gputopk::cuda
