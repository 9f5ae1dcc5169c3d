// Bucket top-k, a baseline: buckets of equal width between the least key and the greatest.
// Alabi, Blanchard, Gordon, Steinbach: Fast k-Selection Algorithms for Graphics Processing Units (JEA 17,
// 2012), as the bitonic paper has it (Shanbhag, Pirk, Madden, SIGMOD '18, sections 2.3 and 4.2): 16 buckets
// at a time, counted in counters of each thread.
//
//   1. A pass over the row finds the range of its keys; for k = 1 it has found the winner.
//   2. A pass counts the candidates, which are all elements at first, by 16 buckets of their range. The row's
//      last block finds the bucket with the k-th element, whose elements are the next candidates.
//   3. The next pass writes the elements of the buckets above, which win; counts the next candidates by 16
//      buckets of the one; and stores them if they are few, for the passes behind. Until all win.
//
// The paper's buckets are of values, these of ordered keys, where NaN and infinities have a place too. In a
// range of one key they are of the reversed index: so ties need no case of their own.

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "core/key_order.h"
#include "cuda/baselines.h"
#include "cuda/device/key_range.cuh"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/winner_writer.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda {
namespace {

constexpr int kBuckets = 16;
constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
static_assert(kWarps == kBuckets, "a warp adds up a bucket");
constexpr int kBlocksPerSm = 2;
constexpr int64_t kLeastPerBlock = 4 * kThreads;
constexpr int kStaged = 32;  // entries that a warp writes out together
// A bucket is stored if it has at most this share of the row: storing an element costs about three reads.
constexpr int kStoredShare = 4;

// Cuts [0, span] into buckets of equal width, but for rounding.
template <class Word>
class Cut {
 public:
  __device__ explicit Cut(Word span)
      : span_(span), slope_((Wide{kBuckets} << kFraction) / (Wide{span} + 1)) {}

  __device__ int bucket(Word distance) const { return static_cast<int>(distance * slope_ >> kFraction); }
  // The least distance of a bucket.
  __device__ Word first(int bucket) const {
    return static_cast<Word>(((Wide{static_cast<Word>(bucket)} << kFraction) + slope_ - 1) / slope_);
  }
  __device__ Word last(int bucket) const { return bucket == kBuckets - 1 ? span_ : first(bucket + 1) - 1; }

 private:
  using Wide = std::conditional_t<sizeof(Word) == 4, uint64_t, unsigned __int128>;
  // distance * slope < kBuckets << kFraction, which fits.
  static constexpr int kFraction = 8 * sizeof(Wide) - 5;

  Word span_;
  Wide slope_;
};

// What a pass over one row is told.
template <class Word>
struct Step {
  using Extended = ExtendedKey<Word, uint32_t>;

  // low <= candidates <= high < winners <= top. What is beyond the top has been written.
  Extended low, high, top;
  uint32_t owed;    // winners among the candidates
  uint32_t stored;  // entries in the buffer that this pass reads; 0: it reads the row
  int source;       // that buffer, of two
  bool stores;      // this pass stores its candidates in the other
  bool takes_all;   // all candidates win, and this is the last pass that has anything to do
  bool done;

  __device__ bool by_index() const { return low.key == high.key; }
  __device__ Cut<Word> cut() const {
    return Cut<Word>(by_index() ? Word{high.reversed - low.reversed} : high.key - low.key);
  }
};

// One a row, all zero at first.
template <class Word>
struct RowState {
  Step<Word> step;
  uint32_t counts[kBuckets];
  unsigned long long written, buffered;
  uint32_t arrived;
};

// What one thread has seen of a row, or one block.
template <class Word>
struct Seen {
  Word least;
  ExtendedKey<Word, uint32_t> best;
};

template <class Order>
struct Params {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;

  const Bits* input;
  int64_t row_stride, cols;
  uint32_t k;
  int blocks_per_row;
  Order order;
  WinnerWriter<Bits> output;
  int64_t capacity;  // of a buffer

  RowState<Word>* states;
  Seen<Word>* seen;  // by each block
  CandidateBuffer<Bits, uint32_t> buffers[2];

  void carve(Workspace& workspace, int64_t rows) {
    states = workspace.take<RowState<Word>>(rows);
    seen = workspace.take<Seen<Word>>(rows * blocks_per_row);
    for (auto& buffer : buffers) {
      buffer.values = workspace.take<Bits>(rows * capacity);
      buffer.indices = workspace.take<uint32_t>(rows * capacity);
    }
  }

  __device__ int64_t row() const { return blockIdx.x / blocks_per_row; }
  __device__ int part() const { return static_cast<int>(blockIdx.x % blocks_per_row); }
  __device__ const Bits* row_input() const { return input + row() * row_stride; }
  __device__ CandidateBuffer<Bits, uint32_t> buffer(int which) const {
    const auto& all = which == 0 ? buffers[0] : buffers[1];
    return {all.values + row() * capacity, all.indices + row() * capacity};
  }
  __device__ uint32_t last_index() const { return static_cast<uint32_t>(cols - 1); }
  __device__ ExtendedKey<Word, uint32_t> extended(Bits bits, int64_t index) const {
    return {static_cast<Word>(order(bits)), last_index() - static_cast<uint32_t>(index)};
  }
};

// The same of all threads of a block.
template <class Word>
__device__ Seen<Word> seen_by_block(const Seen<Word>& mine) {
  __shared__ KeyRange<Word> range;
  __shared__ uint32_t reversed;
  __syncthreads();  // the last call's results have been read
  if (threadIdx.x == 0) {
    range.reset();
    reversed = 0;
  }
  __syncthreads();
  range.add({mine.least, mine.best.key});
  __syncthreads();  // the best key is known
  const Word greatest = static_cast<Word>(range.greatest);
  if (mine.best.key == greatest) atomicMax(&reversed, mine.best.reversed);
  __syncthreads();
  return {static_cast<Word>(range.least), {greatest, reversed}};
}

// Step 1.
template <class Order>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) find_range(Params<Order> params) {
  using Word = typename KeyWord<typename Order::Bits>::type;
  constexpr Seen<Word> kNothing{static_cast<Word>(~Word{0}), {0, 0}};
  follow_kernel_before();
  Seen<Word> seen = kNothing;
  const auto see = [&](Word least, const ExtendedKey<Word, uint32_t>& best) {
    seen.least = min(seen.least, least);
    if (seen.best < best) seen.best = best;
  };
  const auto* const input = params.row_input();
  visit_row<Reading::kOnce>(
      input, params.cols, params.part(), params.blocks_per_row, AllTiles{},
      [&](const auto& elements, int64_t index, bool valid) {
#pragma unroll
        for (int i = 0; i < elements.kElements; ++i) {
          const auto x = params.extended(elements[i], index + i);
          if (valid) see(x.key, x);
        }
        return 0u;
      },
      [](auto, int64_t, bool) {});
  seen = seen_by_block(seen);
  Seen<Word>* const of_row = params.seen + params.row() * params.blocks_per_row;
  if (threadIdx.x == 0) of_row[params.part()] = seen;
  RowState<Word>& state = params.states[params.row()];
  if (!is_last_block(&state.arrived, params.blocks_per_row)) return;

  seen = kNothing;
  for (int i = static_cast<int>(threadIdx.x); i < params.blocks_per_row; i += kThreads) {
    see(of_row[i].least, of_row[i].best);
  }
  seen = seen_by_block(seen);
  if (threadIdx.x != 0) return;
  Step<Word>& step = state.step;
  step.low = {seen.least, 0};
  step.high = step.top = {seen.best.key, params.last_index()};
  step.owed = params.k;
  if (params.k == 1) {
    const uint32_t index = params.last_index() - seen.best.reversed;
    params.output.row(params.row(), 1).write(0, input[index], index);
    step.done = true;
  }
}

// What the last block of a pass tells the next one: the candidates' counts by bucket are known.
template <class Order, class Word>
__device__ void narrow(const Params<Order>& params, RowState<Word>& state) {
  Step<Word>& step = state.step;
  uint32_t above = 0;
  int bucket = kBuckets - 1;
  while (above + state.counts[bucket] < step.owed) above += state.counts[bucket--];
  const uint32_t candidates = state.counts[bucket];
  for (int i = 0; i < kBuckets; ++i) state.counts[i] = 0;

  step.top = step.high;
  const Cut<Word> cut = step.cut();
  if (step.by_index()) {
    const uint32_t least = step.low.reversed;
    step.low.reversed = least + static_cast<uint32_t>(cut.first(bucket));
    step.high.reversed = least + static_cast<uint32_t>(cut.last(bucket));
  } else {
    const Word least = step.low.key;
    step.low.key = least + cut.first(bucket);
    step.high.key = least + cut.last(bucket);
  }
  if (step.stores) {
    step.stored = static_cast<uint32_t>(state.buffered);
    step.source = 1 - step.source;
  }
  state.buffered = 0;
  step.owed -= above;
  step.takes_all = candidates == step.owed;
  step.stores = !step.takes_all && candidates <= params.capacity;
}

// Steps 2 and 3.
template <class Bits>
using Winners = StagedWriter<Bits, uint32_t, WinnerWriter<Bits>>;
template <class Bits>
using Candidates = StagedWriter<Bits, uint32_t, CandidateBuffer<Bits, uint32_t>>;
template <class Bits>
constexpr size_t kStageBytes = Winners<Bits>::bytes(kStaged) + Candidates<Bits>::bytes(kStaged);
constexpr size_t kCounterBytes = sizeof(uint32_t) * kBuckets * kThreads;

template <class Order>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) run_pass(Params<Order> params) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  __shared__ unsigned long long winner_counts[kWarps + 1], candidate_counts[kWarps + 1];
  follow_kernel_before();
  RowState<Word>& state = params.states[params.row()];
  const Step<Word> step = state.step;  // a copy, as the last block writes the next one over it
  if (step.done) return;

  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t* const counters = reinterpret_cast<uint32_t*>(dynamic_shared());  // [kBuckets][kThreads]
  for (int i = 0; i < kBuckets; ++i) counters[i * kThreads + threadIdx.x] = 0;
  unsigned char* const stage = dynamic_shared() + kCounterBytes + warp * kStageBytes<Bits>;
  Winners<Bits> winners(stage, kStaged, params.output.row(params.row(), params.k), &state.written);
  Candidates<Bits> candidates(stage + winners.bytes(kStaged), kStaged, params.buffer(1 - step.source),
                              &state.buffered);

  const Cut<Word> cut = step.cut();
  const Word key_span = step.top.key - step.low.key;
  // Counts a candidate; says whether to write the element anywhere.
  const auto look = [&](Bits bits, int64_t index) {
    const auto x = params.extended(bits, index);
    const Word distance = x.key - step.low.key;  // of a key below it: more than the span
    if (distance > key_span || x < step.low || step.top < x) return false;
    if (step.takes_all || step.high < x) return true;
    const int bucket = cut.bucket(step.by_index() ? Word{x.reversed - step.low.reversed} : distance);
    ++counters[bucket * kThreads + threadIdx.x];
    return step.stores;
  };
  const auto write = [&](Bits bits, int64_t index, bool chosen) {
    const bool wins = step.takes_all || step.high < params.extended(bits, index);
    winners.push(chosen && wins, bits, static_cast<uint32_t>(index));
    candidates.push(chosen && !wins, bits, static_cast<uint32_t>(index));
  };
  if (step.stored > 0) {
    const CandidateBuffer<Bits, uint32_t> source = params.buffer(step.source);
    visit_candidates(
        source.values, source.indices, step.stored, params.part(), params.blocks_per_row,
        [&](Bits bits, uint32_t index, bool valid) { return valid && look(bits, index); }, write);
  } else {
    visit_row<Reading::kOnce>(
        params.row_input(), params.cols, params.part(), params.blocks_per_row, AllTiles{},
        [&](const auto& elements, int64_t index, bool valid) {
          uint32_t chosen = 0;
#pragma unroll
          for (int i = 0; i < elements.kElements; ++i) {
            if (valid && look(elements[i], index + i)) chosen |= 1u << i;
          }
          return chosen;
        },
        write);
  }
  winners.publish(winner_counts);
  candidates.publish(candidate_counts);
  __syncthreads();  // all warps have published, and have counted
  if (threadIdx.x == 0) winners.reserve(winner_counts);
  if (threadIdx.x == 32) candidates.reserve(candidate_counts);
  uint32_t count = 0;
  for (int i = lane; i < kThreads; i += 32) count += counters[warp * kThreads + i];
  count = __reduce_add_sync(~0u, count);
  if (lane == 0 && count > 0) atomicAdd(&state.counts[warp], count);
  __syncthreads();  // places are reserved
  winners.finish(winner_counts);
  candidates.finish(candidate_counts);

  if (!is_last_block(&state.arrived, params.blocks_per_row) || threadIdx.x != 0) return;
  if (step.takes_all) {
    state.step.done = true;
  } else {
    narrow(params, state);
  }
}

template <class Order>
Params<Order> params_of(const Problem& problem, const Buffers& buffers, int blocks_per_row, Order order,
                        Workspace& workspace) {
  using Bits = typename Order::Bits;
  Params<Order> params{};
  params.input = static_cast<const Bits*>(buffers.input);
  params.row_stride = problem.row_stride;
  params.cols = problem.cols;
  params.k = static_cast<uint32_t>(problem.k);
  params.blocks_per_row = blocks_per_row;
  params.order = order;
  params.output = {static_cast<Bits*>(buffers.values), buffers.indices, problem.wide_indices};
  params.capacity = problem.cols / kStoredShare;
  params.carve(workspace, problem.rows);
  return params;
}

// Passes that any row needs at most. A range of w numbers leaves ceil(w / 16) of them at most, or one more by
// rounding: so a range of 2^(4 n) leaves one number after n + 1; and another pass takes all.
int most_passes(const Problem& problem) {
  const int key_bits = 8 * dtype_bytes(problem.dtype);
  const int index_bits = bit_width(static_cast<uint64_t>(problem.cols));
  return (key_bits + 3) / 4 + 1 + (index_bits + 3) / 4 + 1 + 1;
}

}  // namespace

Bucket Bucket::plan(const Problem& problem, const Device& device) {
  const int64_t resident = int64_t{kBlocksPerSm} * device.sm_count / problem.rows;
  return {static_cast<int>(
      std::clamp<int64_t>(problem.cols / kLeastPerBlock, 1, std::max<int64_t>(resident, 1)))};
}

size_t Bucket::workspace_bytes(const Problem& problem) const {
  return visit_key_order(problem.dtype, true, false, [&](auto order) {
    Workspace workspace;
    params_of(problem, {}, blocks_per_row, order, workspace);
    return workspace.bytes();
  });
}

ErrorCode Bucket::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) -> ErrorCode {
    using Order = decltype(order);
    using Bits = typename Order::Bits;
    if constexpr (sizeof(Bits) < 4) {
      return cudaErrorInvalidValue;
    } else {
      Workspace workspace(buffers.workspace);
      const Params<Order> params = params_of(problem, buffers, blocks_per_row, order, workspace);
      const size_t state_bytes =
          reinterpret_cast<char*>(params.seen) - reinterpret_cast<char*>(params.states);
      cudaError_t error = zero_workspace(buffers.workspace, state_bytes, /*ahead=*/true, stream);
      if (error != cudaSuccess) return error;
      const unsigned blocks = static_cast<unsigned>(problem.rows * blocks_per_row);
      error = launch_kernel(/*ahead=*/true, find_range<Order>, blocks, kThreads, 0, stream, params);
      if (error != cudaSuccess) return error;
      constexpr size_t kSharedBytes = kCounterBytes + kWarps * kStageBytes<Bits>;
      static std::atomic<uint64_t> allowed;
      error = allow_shared_memory(run_pass<Order>, kSharedBytes, allowed);
      // A row that is done leaves the rest of them nothing to do.
      for (int pass = problem.k == 1 ? most_passes(problem) : 0;
           error == cudaSuccess && pass < most_passes(problem); ++pass) {
        error =
            launch_kernel(/*ahead=*/true, run_pass<Order>, blocks, kThreads, kSharedBytes, stream, params);
      }
      return error;
    }
  });
}

}  // namespace gputopk::cuda
