// Candidates of a row that its blocks still have on chip once all of it is read, and how they tell the
// winners among them together.
#pragma once

#include <cstdint>

#include "cuda/device/last_block.cuh"
#include "cuda/device/stored_candidates.cuh"

namespace gputopk::cuda {

// Writes those of a block's staged candidates that the selection has told to be winners, from the row's
// winner number `written` on, behind those of other blocks, and lists its candidates. By all threads; `stage`
// is the warp's.
template <class Order, class Index, class Stage>
__device__ void write_told(const RadixPasses<typename Order::Bits, Index>& params, const Order& order,
                           int64_t row,
                           const Selection<typename KeyWord<typename Order::Bits>::type, Index>& selection,
                           int64_t written, const Stage& stage,
                           const CandidateBuffer<typename Order::Bits, Index>& list) {
  using Bits = typename Order::Bits;
  using Extended = ExtendedKey<typename KeyWord<Bits>::type, Index>;
  constexpr int kWarps = tuning::kPassThreads / 32;
  __shared__ unsigned long long winner_counts[kWarps + 1], listed_counts[kWarps + 1];
  auto& state = params.states[row];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const Index last_index = static_cast<Index>(params.cols - 1);
  // The lanes whose entries, from number i - lane on, are winners, or the selection's candidates.
  const auto sort_out = [&](int i, unsigned& winners, unsigned& listed) {
    const int at = min(i, stage.count() - 1);
    const Extended x{order(stage.value(at)), static_cast<Index>(last_index - stage.index(at))};
    const bool there = i < stage.count(), wins = selection.split < x;
    winners = __ballot_sync(~0u, there && wins);
    listed = __ballot_sync(~0u, there && !wins && !(x < selection.low));
  };
  unsigned long long winners_before = 0, listed_before = 0;
  unsigned winners, listed;
  for (int i = lane; i - lane < stage.count(); i += 32) {
    sort_out(i, winners, listed);
    winners_before += __popc(winners);
    listed_before += __popc(listed);
  }
  if (lane == 0) {
    winner_counts[warp] = winners_before;
    listed_counts[warp] = listed_before;
  }
  __syncthreads();  // all warps have told
  if (threadIdx.x == 0) reserve_places(winner_counts, &state.told);
  if (threadIdx.x == 32) reserve_places(listed_counts, &state.listed);
  __syncthreads();  // the places are known
  winners_before = winner_counts[kWarps] + winner_counts[warp];
  listed_before = listed_counts[kWarps] + listed_counts[warp];
  const WinnerWriter<Bits> output = params.output.row(row, params.k);
  const unsigned below = (1u << lane) - 1;
  for (int i = lane; i - lane < stage.count(); i += 32) {
    sort_out(i, winners, listed);
    if (winners >> lane & 1) {
      const unsigned long long at = winners_before + static_cast<unsigned>(__popc(winners & below));
      output.write(written + static_cast<int64_t>(at), stage.value(i), static_cast<int64_t>(stage.index(i)));
    } else if (listed >> lane & 1) {
      const unsigned long long at = listed_before + static_cast<unsigned>(__popc(listed & below));
      list.write(static_cast<int64_t>(at), stage.value(i), stage.index(i));
    }
    winners_before += __popc(winners);
    listed_before += __popc(listed);
  }
}

// Tells a row's winners among what its blocks have staged and counted by the range's digit, if they can: all
// of them wait for each other, none had to write candidates out, and the k-th best is in a bin of the digit
// for which a list has room. Then each block writes the winners above that bin itself, behind those of
// before, and the last finds those in the bin: no other candidate has gone to memory, and no pass is left. If
// they can not, nothing is changed, and the same is said in all blocks. By all threads, once the row's counts
// have been added to; `stage` is the warp's, `staged_counts` has how many are in those of the block, and
// `shared` is its own.
template <class Order, class Index, class Stage>
__device__ bool select_staged(
    const RadixPasses<typename Order::Bits, Index>& params, const Order& order, int64_t row,
    const CandidateRange<typename KeyWord<typename Order::Bits>::type, Index>& range, const Stage& stage,
    const unsigned long long* staged_counts, unsigned char* shared) {
  using Bits = typename Order::Bits;
  using Word = typename KeyWord<Bits>::type;
  using Extended = ExtendedKey<Word, Index>;
  __shared__ TargetDigitScratch<Index> scratch;
  auto& state = params.states[row];
  const int bins = range.bins();

  bool all_staged = true;  // thread 0's answer counts
  if (threadIdx.x == 0) {
    unsigned long long staged_here = 0;
    for (int w = 0; w < tuning::kPassThreads / 32; ++w) staged_here += staged_counts[w];
    atomicAdd(&state.staged, staged_here);
    all_staged = __ldcg(&state.buffered) == 0;
    // Not told by `buffered` behind the barrier: blocks that go on may have begun to write out.
    if (!all_staged) atomicExch(&state.written_out, 1u);
  }
  if (!state.meeting.wait(params.blocks_per_row, all_staged)) return false;
  const bool written_out = __ldcg(&state.written_out) != 0;
  const uint64_t staged = __ldcg(&state.staged);
  const uint64_t written = __ldcg(&state.written), above = written + __ldcg(&state.written_from_end);
  const uint64_t beyond = __ldcg(&state.beyond), k = params.k;
  if (written_out || k > above + staged || above + beyond >= k) return false;
  Index* const local = reinterpret_cast<Index*>(shared);
  const Index* const counts = params.histogram + (row << params.digit_bits);
  for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += tuning::kPassThreads) {
    local[bin] = __ldcg(counts + bin);
  }
  __syncthreads();  // the counts are there
  auto selection = Selection<Word, Index>::whole_row(k - above - beyond, staged);
  selection.low = range.low;
  selection.split = range.high;
  const TargetDigit<Index> target = find_target_digit(local, bins, selection.owed, scratch);
  if (target.count > static_cast<uint64_t>(params.buffer_capacity[0]) ||
      target.count > tuning::kStoredListBytes / sizeof(Extended)) {
    return false;
  }
  selection.narrow(range.digit, target.digit, target.above, target.count);

  const CandidateBuffer<Bits, Index> list = params.buffer(0, row);
  if (params.wanted == Wanted::kWinners) {
    write_told(params, order, row, selection, static_cast<int64_t>(written), stage, list);
  } else {
    for (int i = static_cast<int>(threadIdx.x) % 32; i < stage.count(); i += 32) {
      const Extended x{order(stage.value(i)), static_cast<Index>(params.cols - 1 - stage.index(i))};
      if (x < selection.low || selection.split < x) continue;
      list.write(static_cast<int64_t>(atomicAdd(&state.listed, 1ull)), stage.value(i), stage.index(i));
    }
  }
  if (!is_last_block(&state.arrived, params.blocks_per_row)) return true;
  take_best_of_stored(params, order, row, 0, static_cast<int>(target.count), selection.owed,
                      static_cast<int64_t>(written + beyond + target.above), shared + kCountBytes<Index>,
                      tuning::kStoredListBytes);
  if (threadIdx.x == 0) state.begin(1, kNoPass);
  return true;
}

// The end of a block that stores candidates and counts them by the range's digit: they are written out, and
// the row's last block selects from them, unless, where the blocks are to `meet`, they tell the winners among
// them together. By all threads; `shared` is of a storing block.
template <class Order, class Index, class Store>
__device__ void finish_and_select(
    const RadixPasses<typename Order::Bits, Index>& params, const Order& order, int64_t row,
    const CandidateRange<typename KeyWord<typename Order::Bits>::type, Index>& range, Store& store, bool meet,
    unsigned char* shared) {
  __shared__ unsigned long long counts[tuning::kPassThreads / 32 + 1];
  store.publish(counts);
  add_counts(params, row, reinterpret_cast<uint32_t*>(shared), range.bins());  // begins with a barrier
  if (meet && select_staged(params, order, row, range, store.staged(), counts, shared)) return;
  write_staged(store, counts);
  if (is_last_block(&params.states[row].arrived, params.blocks_per_row)) {
    select_stored(params, order, row, range, shared);
  }
}

}  // namespace gputopk::cuda
