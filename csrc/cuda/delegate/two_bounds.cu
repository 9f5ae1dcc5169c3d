// Delegate top-k between two bounds from a sample: one read of a long row of which many win.
//
// from_sample.cu stores all that reaches its bound, the winners among it. Where those are many, a second
// bound, that all but surely fewer than k elements reach, decides most of them as they are read:
//   1. A sample of the row's elements gives two bounds (device/element_bounds.cuh).
//   2. The row is read. What is above the upper bound goes straight to the output, or, where the last winner
//      alone is wanted, is counted; what lies between the two is stored, and counted by a first digit.
//   3. Of few candidates the row's last block selects the rest; of more its blocks do together, from what is
//      on chip; of many radix passes do.
// Bounds are extended keys, as in from_sample.cu, and so are guesses as good on crowded rows as on others. A
// bound on the wrong side of the k-th best, and more candidates than there is room for, are found out by
// counting: what was written is then written over, by AIR's digits from the row. So the result is exact for
// every row.
//
// It loses to from_sample.cu where k is small, of which the best of lines tell more than elements do.

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "core/key_order.h"
#include "cuda/delegate/delegate.h"
#include "cuda/delegate/numbers.h"
#include "cuda/device/element_bounds.cuh"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/numbers.h"
#include "cuda/device/pattern_filter.cuh"
#include "cuda/device/radix_passes.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/device/staged_candidates.cuh"
#include "cuda/device/stored_candidates.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda::delegate {
namespace {

using tuning::kPassThreads;
constexpr int kWarps = kPassThreads / 32;

// The output from the first place on, or from the last one down, so that blocks do not all wait for one
// counter. There may be more than k, if the bound was wrong: then they are only counted.
template <class Bits>
struct EitherEnd {
  WinnerWriter<Bits> output;
  int64_t k;
  bool from_end;

  __device__ void write(int64_t at, Bits value, int64_t index) const {
    if (at < k) output.write(from_end ? k - 1 - at : at, value, index);
  }
};

// Of what a lane has in a vector, so many are handed over at once: of large entries, fewer.
template <class Bits, class Index>
inline constexpr int kHandedOver = std::min(kPerVector<Bits>, sizeof(Bits) + sizeof(Index) <= 8 ? 8 : 4);

// What a warp has found in its tiles, by where it goes.
struct Found {
  unsigned long long winners, candidates;  // how many, or the first one's place
};

// One warp's elements that reach the lower bound. They come from any lanes, a few at a time; once there are
// enough, the warp sorts them out, a lane each: so what is long is done by full warps. Candidates stay,
// before what comes next, up to a number of them.
template <class Order, class Index>
class ReachingStage {
 public:
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;

  const Order& order;
  const CandidateRange<Word, Index>& range;
  uint32_t* const histogram;
  const Extended low, high;
  const Index last_index;
  const bool writes_winners;
  const EitherEnd<Bits> output;
  unsigned long long* const winner_cursor;
  const int most_kept;
  StagedWriter<Bits, Index, BoundedBuffer<Bits, Index>, kHandedOver<Bits, Index>> candidates;
  int kept = 0;  // entries that were sorted out

  __device__ auto& entries() { return candidates.staged(); }
  __device__ const auto& entries() const { return candidates.staged(); }

  __device__ __forceinline__ void sort_out() {
    Found found = tally();
    found.candidates += static_cast<unsigned>(kept);
    const bool writes_candidates = found.candidates > static_cast<unsigned>(most_kept);
    // Both counters at once.
    unsigned long long first = 0;
    if (lane() == 0 && found.winners > 0) first = atomicAdd(winner_cursor, found.winners);
    if (lane() == 1 && writes_candidates) first = atomicAdd(candidates.cursor(), found.candidates);
    const unsigned long long first_candidate = __shfl_sync(~0u, first, 1);
    write_winners(__shfl_sync(~0u, first, 0));
    if (!writes_candidates) return;
    candidates.write_out(first_candidate);
    kept = 0;
  }

  // How many of those that are not sorted out go where; the same in all lanes.
  __device__ __forceinline__ Found tally() const {
    __syncwarp();  // the lanes' entries are in shared memory
    Found found{};
    const int count = entries().count();
    for (int i = kept + lane(); i - lane() < count; i += 32) {
      const Extended x = entry(i);
      found.winners += __popc(__ballot_sync(~0u, i < count && high < x));
      found.candidates += __popc(__ballot_sync(~0u, i < count && is_between(x)));
    }
    return found;
  }

  // Sorts them out: writes winners from that place on, and counts candidates, which stay.
  __device__ __forceinline__ void write_winners(unsigned long long first) {
    const int count = entries().count();
    for (int i = kept + lane(); i - lane() < count; i += 32) {
      const Extended x = entry(i);
      const Bits value = entries().value(min(i, count - 1));
      const Index index = entries().index(min(i, count - 1));
      const bool wins = i < count && high < x, stays = i < count && is_between(x);
      const unsigned winners = __ballot_sync(~0u, wins), staying = __ballot_sync(~0u, stays);
      __syncwarp();  // all have read their entries, in whose places others come
      if (wins && writes_winners) {
        output.write(static_cast<int64_t>(first + __popc(winners & entries().lanes_below())), value,
                     static_cast<int64_t>(index));
      }
      if (stays) {
        atomicAdd(histogram + range.bin(x), 1u);
        entries().put(kept + __popc(staying & entries().lanes_below()), value, index);
      }
      first += __popc(winners);
      kept += __popc(staying);
    }
    entries().keep(kept);
  }

 private:
  __device__ int lane() const { return entries().lane(); }
  __device__ Extended entry(int i) const {
    const int at = min(i, entries().count() - 1);
    return {order(entries().value(at)), static_cast<Index>(last_index - entries().index(at))};
  }
  __device__ bool is_between(const Extended& x) const { return !(x < low) && !(high < x); }
};

// Winners that are told as they are read.
template <class Bits, class Index>
using SureWinners = StagedWriter<Bits, Index, EitherEnd<Bits>, kHandedOver<Bits, Index>>;

// A warp's stages. Two blocks of an SM have room for theirs.
template <class Order, class Index>
struct Stages {
  using Bits = typename Order::Bits;
  using Reaching = WarpStage<Bits, Index, kHandedOver<Bits, Index>>;
  static constexpr int kEntry = static_cast<int>(sizeof(Bits) + sizeof(Index));
  static constexpr int kAlone = kEntry <= 8 ? tuning::kReachingStaged : tuning::kWideReachingStaged;
  static constexpr int kBeside =  // winners
      kEntry <= 8 ? tuning::kFewReachingStaged : tuning::kFewWideReachingStaged;
  static constexpr int kWinners = kAlone - kBeside - 32 * kHandedOver<Bits, Index>;
  static constexpr size_t kBytes = Reaching::bytes(kAlone);
  static_assert(Reaching::bytes(kBeside) + SureWinners<Bits, Index>::bytes(kWinners) <= kBytes &&
                kWinners >= 32);
};

// Dynamic shared memory of step 2: counts, and the stages of each warp; in their place, what the row's last
// block selects from.
template <class Order, class Index>
inline constexpr size_t kDivideBytes =
    kCountBytes<Index> + std::max(kStageBytes, kWarps* Stages<Order, Index>::kBytes);

// Writes the winners that are left in the stages at the end, with one reservation a block. By all threads.
template <class Stage, class SureWinners>
__device__ __forceinline__ void write_winners_left(Stage& stage, SureWinners& sure_winners) {
  __shared__ unsigned long long of_stages[kWarps + 1];
  __shared__ unsigned long long winner_counts[kWarps + 1];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const Found left = stage.tally();
  if (threadIdx.x % 32 == 0) of_stages[warp] = left.winners;
  sure_winners.publish(winner_counts);
  __syncthreads();  // all warps have told
  if (threadIdx.x == 0) reserve_places(of_stages, stage.winner_cursor);
  if (threadIdx.x == 32) sure_winners.reserve(winner_counts);
  __syncthreads();  // the places are known
  stage.write_winners(of_stages[kWarps] + of_stages[warp]);
  sure_winners.finish(winner_counts);
}

// And the blocks' part of step 3, which they do together if they are to `meet`. `many`: so large a part of
// the row wins that winners are best told from others as they are read.
template <class Order, class Index>
__global__ void __launch_bounds__(kPassThreads, tuning::kPassBlocksPerSm)
    divide_row(RadixPasses<typename Order::Bits, Index> params, Order order, bool many, bool meet) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  using Stage = ReachingStage<Order, Index>;
  unsigned char* const dynamic = dynamic_shared();
  __shared__ CandidateRange<Word, Index> range;

  const int64_t row = blockIdx.x / params.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x % params.blocks_per_row);
  auto& state = params.states[row];
  uint32_t* const histogram = reinterpret_cast<uint32_t*>(dynamic);
  clear_histogram(histogram, (1 << tuning::kStoredCountBits) + 1);
  const Bits* const input = params.input + row * params.row_stride;
  // The memory is idle while the bounds are found.
  prefetch_tiles(input, params.cols, part, params.blocks_per_row, tuning::kSamplePrefetchTiles);
  follow_kernel_before();
  if (threadIdx.x == 0) {
    if (meet) state.meeting.begin();
    range = range.between_bounds(params, state);
  }
  __syncthreads();  // the range is known, and no bin is yet to be cleared

  const Extended low = state.bound, high = state.upper;
  const Index last_index = static_cast<Index>(params.cols - 1);
  const bool writes_winners = params.wanted == Wanted::kWinners;
  const bool from_end = writes_winners && part % 2 != 0;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  using WarpStages = Stages<Order, Index>;
  unsigned char* const own_stages = dynamic + kCountBytes<Index> + warp * WarpStages::kBytes;
  const int staged = many ? WarpStages::kBeside : WarpStages::kAlone;
  Stage stage{order,
              range,
              histogram,
              low,
              high,
              last_index,
              writes_winners,
              {params.output.row(row, params.k), params.k, from_end},
              from_end ? &state.written_from_end : &state.written,
              meet ? staged / tuning::kReachingKeptShare : 0,
              {own_stages, staged, {params.buffer(0, row), params.buffer_capacity[0]}, &state.buffered}};
  SureWinners<Bits, Index> sure_winners(own_stages + WarpStages::Reaching::bytes(WarpStages::kBeside),
                                        WarpStages::kWinners, stage.output, stage.winner_cursor);
  uint32_t counted = 0;                // winners, where they are not written
  BoundFilter<Order> reaching(order);  // possibly at or above the lower bound
  BoundFilter<Order> above(order);     // surely above the upper one
  const auto index_of_bound = [&](const Extended& bound) {
    return static_cast<int64_t>(static_cast<Index>(last_index - bound.reversed));
  };
  constexpr int kLaneSpan = (kUnroll<Bits> - 1) * kPassThreads * kPerVector<Bits> + kPerVector<Bits>;
  scan_tiles<Reading::kOnce, BlockTeam, /*kEnds=*/true>(
      input, params.cols, part, params.blocks_per_row, AllTiles{},
      [&](const auto& elements, int64_t, bool valid) { return valid ? reaching.probe(elements) : 0; },
      [&](const auto& loaded, int64_t begin, int distance, uint32_t chosen) {
        constexpr int kVectors = static_cast<int>(std::extent_v<std::remove_reference_t<decltype(loaded)>>);
        constexpr int kElements = std::remove_reference_t<decltype(loaded[0])>::kElements;
        constexpr int kAtOnce = kHandedOver<Bits, Index>;
        const auto index = [&](int i) { return static_cast<Index>(index_of<Bits>(begin, distance, i)); };
        if constexpr (kElements > 1) {
          if (many && __any_sync(~0u, chosen != 0)) {
            uint32_t sure = 0;
#pragma unroll
            for (int v = 0; v < kVectors; ++v) sure |= above.probe(loaded[v]) << (v * kElements);
            sure &= chosen;
            chosen &= ~sure;
            if (writes_winners) {
#pragma unroll
              for (int first = 0; first < kVectors * kElements; first += kAtOnce) {
                const uint32_t taken = sure >> first & ((1u << kAtOnce) - 1);
                if (!__any_sync(~0u, taken != 0)) continue;
                sure_winners.push_each(
                    taken, [&](int i) { return loaded[(first + i) / kElements][(first + i) % kElements]; },
                    [&](int i) { return index(first + i); });
              }
            } else {
              counted += __popc(sure);
            }
          }
        }
        const int most_of_lane = __reduce_max_sync(~0u, __popc(chosen));
        if (most_of_lane == 0) return;
        if (most_of_lane <= tuning::kReachingFewOfLane && most_of_lane <= kAtOnce) {
          for (int left = most_of_lane; left > 0; --left) {
            const int at = chosen != 0 ? __ffs(static_cast<int>(chosen)) - 1 : 0;
            stage.entries().push(chosen != 0, element_of(loaded, at), index(at));
            chosen &= chosen - 1;
          }
          if (stage.entries().is_full()) stage.sort_out();
        } else if constexpr (kElements > 1) {
#pragma unroll
          for (int first = 0; first < kVectors * kElements; first += kAtOnce) {
            stage.entries().push_each(
                chosen >> first & ((1u << kAtOnce) - 1),
                [&](int i) { return loaded[(first + i) / kElements][(first + i) % kElements]; },
                [&](int i) { return index(first + i); });
            if (stage.entries().is_full()) stage.sort_out();
          }
        }
      },
      [&](int64_t first) {
        // What lies behind a bound's index does not reach it, or is not above it, by its key alone. The
        // highest of all bounds has an index beyond the row's.
        reaching.raise(low.key, first > index_of_bound(low));
        if (many) {
          above.raise(high.key, high.reversed > last_index || first + kLaneSpan > index_of_bound(high));
        }
      });

  counted = __reduce_add_sync(~0u, counted);
  if (threadIdx.x % 32 == 0 && counted > 0) {
    atomicAdd(&state.written, static_cast<unsigned long long>(counted));
  }
  write_winners_left(stage, sure_winners);
  finish_and_select(params, order, row, range, stage.candidates, meet, dynamic);
}

template <class Bits, class Index>
struct Memory {
  size_t zeroed_bytes;
  size_t bytes;

  Memory(const TwoBounds& config, const Problem& problem, void* base, RadixPasses<Bits, Index>& params,
         BoundSample<Bits, Index>& sample) {
    params.digit_bits = config.digit_bits;
    params.buffer_capacity[0] = config.buffer;
    params.buffer_capacity[1] = config.buffer / tuning::kTwoBoundsSecondBuffer;
    sample.set(config.sample, config.ranks, problem.cols);
    Workspace workspace(base);
    params.carve_zeroed(workspace, problem.rows);
    zeroed_bytes = workspace.bytes();
    params.carve_rest(workspace, problem.rows);
    sample.carve_found(workspace, problem.rows);
    bytes = workspace.bytes();
  }
};

template <class Order, class Index>
cudaError_t launch(const TwoBounds& config, const Problem& problem, const Buffers& buffers, Order order,
                   cudaStream_t stream) {
  using Bits = typename Order::Bits;
  RadixPasses<Bits, Index> params{};
  BoundSample<Bits, Index> sample{};
  const Memory<Bits, Index> memory(config, problem, buffers.workspace, params, sample);
  params.select(problem, buffers);
  params.blocks_per_row = config.blocks_per_row;
  params.likely_passes = config.likely_passes;

  if (problem.rows > 0x7FFFFFFF / config.blocks_per_row) return cudaErrorInvalidConfiguration;
  const bool ahead = config.launches_ahead;
  cudaError_t error = zero_workspace(buffers.workspace, memory.zeroed_bytes, ahead, stream);
  if (error != cudaSuccess) return error;
  error = find_bounds(params, sample, order, problem.rows, ahead, stream);
  if (error != cudaSuccess) return error;

  static std::atomic<uint64_t> allowed;
  constexpr size_t kDivide = kDivideBytes<Order, Index>;
  error = allow_shared_memory(divide_row<Order, Index>, kDivide, allowed);
  if (error != cudaSuccess) return error;
  error = launch_kernel(ahead, divide_row<Order, Index>,
                        static_cast<unsigned>(problem.rows * config.blocks_per_row), kPassThreads, kDivide,
                        stream, params, order, config.many_win, config.blocks_meet);
  if (error != cudaSuccess) return error;
  return launch_passes(params, order, problem.rows, /*first=*/1, ahead, stream);
}

}  // namespace

size_t TwoBounds::workspace_bytes(const Problem& problem) const {
  return visit_key_order(problem.dtype, true, false, [&](auto order) {
    using Bits = typename decltype(order)::Bits;
    return visit_index(problem.cols, [&](auto index) {
      RadixPasses<Bits, decltype(index)> params{};
      BoundSample<Bits, decltype(index)> sample{};
      return Memory<Bits, decltype(index)>(*this, problem, nullptr, params, sample).bytes;
    });
  });
}

ErrorCode TwoBounds::run(const Problem& problem, const Buffers& buffers, Stream stream) const {
  return visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    return visit_index(problem.cols, [&](auto index) {
      return launch<decltype(order), decltype(index)>(*this, problem, buffers, order, stream);
    });
  });
}

}  // namespace gputopk::cuda::delegate
