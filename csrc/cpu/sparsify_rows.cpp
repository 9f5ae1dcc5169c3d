// Sparsification of one row in one reading of it: what is added comes in while the selection reads.
//
//  1. A sample of the row is accumulated beside it, and gives a floor: a key that the k best will hardly ever
//     fail to reach (select_rows.cpp, guess_rank's reasoning).
//  2. The row is taken in tiles that stay in the first-level cache: a tile is accumulated, then looked at
//  again
//     strip by strip, and what reaches the floor becomes a candidate, in the order of the indices.
//  3. When twice k candidates are held, all but little more than the best k are dropped and the floor rises.
//     So memory is O(k), whatever the input.
//  4. Of all candidates the best k are kept, still by index. Their values are copied, their places cleared.
//     Where fewer than k came, the guess was too high: the row, which is accumulated by now, is read again
//     without it.
// A row that fits the cache has no sample: delegates of all its keys give the floor, which then is no guess.
#include "cpu/sparsify_rows.h"

#include <type_traits>

#include "core/key_order.h"
#include "cpu/candidates.h"
#include "cpu/delegates.h"
#include "cpu/float_bits.h"
#include "cpu/lanes.h"

namespace gputopk::cpu::GPUTOPK_CPU_LEVEL {

// Elements of a tile: 8 KB of float32, and as much of what is added, in a first-level cache of 32.
constexpr int64_t kSparsifyTile = 2048;

// Winners lie anywhere in a long row: so many places are asked for ahead.
constexpr int64_t kWinnersAhead = 32;

// A sample has so many elements at least, and in between one in kSampledOf.
constexpr int64_t kMinSample = 2048;
constexpr int64_t kSampledOf = 64;

// With fewer elements behind a delegate its floor rejects too little.
constexpr int64_t kMinDepth = 4;

// ---- Step 2: accumulating ----

inline float fused_multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused_multiply_add(double a, double b, double c) { return __builtin_fma(a, b, c); }

template <class Self, class Add, Update kUpdate>
void add_to(void* self, const void* add, void* momentum, int64_t count, double wide_alpha, double wide_mu) {
  using Number = typename Self::Number;
  using Bits = typename Self::Bits;
  Bits* __restrict const to = static_cast<Bits*>(self);
  const auto* __restrict const from = static_cast<const typename Add::Bits*>(add);
  Bits* __restrict const kept = static_cast<Bits*>(momentum);
  const Number alpha = static_cast<Number>(wide_alpha), mu = static_cast<Number>(wide_mu);
  for (int64_t i = 0; i < count; ++i) {
    const Number added = static_cast<Number>(Add::widen(from[i]));
    if constexpr (kUpdate == Update::kAdd) {
      to[i] = Self::narrow(Self::widen(to[i]) + added);
    } else if constexpr (kUpdate == Update::kScaled) {
      to[i] = Self::narrow(fused_multiply_add(alpha, added, Self::widen(to[i])));
    } else {
      kept[i] = Self::narrow(fused_multiply_add(mu, Self::widen(kept[i]), added));
      to[i] = Self::narrow(Self::widen(to[i]) + Self::widen(kept[i]));
    }
  }
}

// Accumulates into [begin, end) of the row.
template <class Bits>
void accumulate(const SparsifyRow& row, int64_t begin, int64_t end) {
  if (row.add_to == nullptr) return;
  row.add_to(static_cast<Bits*>(row.self) + begin, static_cast<const char*>(row.add) + begin * row.add_bytes,
             row.momentum == nullptr ? nullptr : static_cast<Bits*>(row.momentum) + begin, end - begin,
             row.alpha, row.mu);
}

// The same, of kLanes elements from `begin` on, beside the row.
template <class Bits>
void accumulate_copy(const SparsifyRow& row, int64_t begin, Bits (&elements)[kLanes<Bits>]) {
  Bits momentum[kLanes<Bits>] = {};
  SparsifyRow copy = row;
  copy.self = elements;
  copy.add = static_cast<const char*>(row.add) + begin * row.add_bytes;
  copy.momentum = momentum;
  __builtin_memcpy(elements, static_cast<const Bits*>(row.self) + begin, sizeof(elements));
  if (row.momentum != nullptr) {
    __builtin_memcpy(momentum, static_cast<const Bits*>(row.momentum) + begin, sizeof(momentum));
  }
  accumulate<Bits>(copy, 0, kLanes<Bits>);
}

// ---- Steps 1, 3 and 4 ----

template <class Bits>
using ByMagnitude = KeyOrder<Bits, true>;

template <class Bits>
ByMagnitude<Bits> order_of(const SparsifyRow& row) {
  return make_key_order<Bits, true>(row.dtype, /*largest=*/true, /*magnitude=*/true);
}

inline int64_t rank_in_sample(int64_t k, int64_t spacing, int64_t sample) {
  int64_t deviation = 0;
  while ((deviation + 1) * (deviation + 1) * spacing <= 9 * k) ++deviation;
  return smaller(sample, k / spacing + deviation + 2);
}

template <class Bits>
uint64_t guess_floor(const SparsifyRow& row, const SparsifyScratch& scratch) {
  constexpr int64_t kBlock = kLanes<Bits>;
  const auto order = order_of<Bits>(row);
  Bits* const keys = reinterpret_cast<Bits*>(scratch.keys);
  const int64_t wanted = smaller(larger(row.cols / kSampledOf, kMinSample), kMaxSparsifySample);
  const int64_t blocks = wanted / kBlock;
  for (int64_t block = 0; block < blocks; ++block) {
    // row.cols / blocks * block, without a product that passes 2^63
    const int64_t begin = row.cols / blocks * block + row.cols % blocks * block / blocks;
    Bits elements[kBlock];
    accumulate_copy(row, smaller(begin, row.cols - kBlock), elements);
    for (int64_t i = 0; i < kBlock; ++i) keys[block * kBlock + i] = order(elements[i]);
  }
  const int64_t sample = blocks * kBlock;
  const int64_t rank = rank_in_sample(row.k, row.cols / sample, sample);
  return rank < sample ? find_cut(keys, sample, rank, rank / 8) : 0;
}

// Step 3. Returns the floor.
template <class Bits, class Candidate>
Bits drop_losers(Candidate* candidates, int64_t& count, int64_t k) {
  const int64_t slack = smaller(k / 8, int64_t{1024});
  const auto cut = find_cut(candidates, count, k, slack);
  count = keep_best(candidates, count, k, slack, cut);
  // Later elements equal to the cut lose by their index. Above the key of NaN there is room for one more.
  return static_cast<Bits>(Candidate::key_of(cut) + 1);
}

template <class Bits, class Candidate>
int64_t collect(const SparsifyRow& row, int64_t begin, int64_t end, uint64_t guess, bool accumulates,
                char* memory) {
  const auto order = order_of<Bits>(row);
  Candidate* const candidates = reinterpret_cast<Candidate*>(memory);
  const int64_t limit = 2 * row.k + kStrip;
  Bits floor = static_cast<Bits>(guess);
  int64_t count = 0;
  const auto take_strip = [&](const Bits* keys, uint64_t hits, int64_t at) {
    if (count >= limit) {
      floor = larger(floor, drop_losers<Bits>(candidates, count, row.k));
      hits &= mask_at_least(keys, floor);
    }
    count += append_masked(keys, at, hits, candidates + count);
  };
  const Bits* const self = static_cast<const Bits*>(row.self);
  for (int64_t tile = begin; tile < end; tile += kSparsifyTile) {
    const int64_t tile_end = smaller(tile + kSparsifyTile, end);
    if (accumulates) accumulate<Bits>(row, tile, tile_end);
    Bits keys[kStrip];
    int64_t at = tile;
    for (; tile_end - at >= kStrip; at += kStrip) {
      Bits best[kLanes<Bits>] = {};
      raise_lanes(order, self + at, kStrip / kLanes<Bits>, kLanes<Bits>, best);
      if (!any_at_least(best, floor)) continue;
      find_keys(order, self + at, kStrip, keys);
      take_strip(keys, mask_at_least(keys, floor), at);
    }
    if (at == tile_end) continue;
    const int64_t rest = tile_end - at;
    find_keys(order, self + at, rest, keys);
    take_strip(keys, mask_at_least(keys, floor) & (~uint64_t{0} >> (kStrip - rest)), at);
  }
  return count;
}

template <class Bits>
void drop_what_is_not_finite(const SparsifyRow& row, const ByMagnitude<Bits>& order) {
  Bits* const self = static_cast<Bits*>(row.self);
  Bits* const momentum = static_cast<Bits*>(row.momentum);
  const Bits infinity = order(order.max_magnitude);
  for (int64_t i = 0; i < row.cols; ++i) {
    if (order(self[i]) < infinity) continue;
    self[i] = 0;
    if (momentum != nullptr) momentum[i] = 0;
  }
}

// Step 4, of the k winners. `least`: the least of their keys.
template <class Bits, class Candidate>
void hand_out(const SparsifyRow& row, const Candidate* winners, Bits least) {
  Bits* const self = static_cast<Bits*>(row.self);
  Bits* const momentum = static_cast<Bits*>(row.momentum);
  Bits* const values = static_cast<Bits*>(row.values);
  const auto write = [&](auto* indices) {
    for (int64_t i = 0; i < row.k; ++i) {
      const int64_t index = winners[i].index();
      __builtin_prefetch(self + winners[smaller(i + kWinnersAhead, row.k - 1)].index(), /*to write*/ 1);
      values[i] = self[index];
      self[index] = 0;
      indices[i] = static_cast<std::decay_t<decltype(*indices)>>(index);
    }
  };
  if (row.wide_indices) {
    write(static_cast<int64_t*>(row.indices));
  } else {
    write(static_cast<int32_t*>(row.indices));
  }
  for (int64_t i = 0; i < row.k && momentum != nullptr; ++i) momentum[winners[i].index()] = 0;
  const auto order = order_of<Bits>(row);
  if (least >= order(order.max_magnitude)) drop_what_is_not_finite(row, order);
}

template <class Bits, class Candidate>
void finish(const SparsifyRow& row, char* memory, int64_t count) {
  Candidate* const candidates = reinterpret_cast<Candidate*>(memory);
  const auto cut = find_cut(candidates, count, row.k, 0);
  keep_best(candidates, count, row.k, 0, cut);
  hand_out(row, candidates, Candidate::key_of(cut));
}

template <class Bits, class Candidate>
void whole_row(const SparsifyRow& row, const SparsifyScratch& scratch) {
  const int64_t cols = row.cols, k = row.k;
  accumulate<Bits>(row, 0, cols);
  Bits* const keys = reinterpret_cast<Bits*>(scratch.keys);
  find_keys(order_of<Bits>(row), static_cast<const Bits*>(row.self), cols, keys);
  // Two delegates a winner.
  const int64_t delegates = (2 * k + kLanes<Bits> - 1) / kLanes<Bits> * kLanes<Bits>;
  Bits floor = 0;
  if (delegates * kMinDepth <= cols) {
    Bits* const best = keys + (cols + kStrip - 1) / kStrip * kStrip;
    find_delegates(Identity<Bits>{}, keys, delegates, cols / delegates, best);
    floor = kth_delegate(best, delegates, k, k / 8);
  } else {
    floor = find_cut(keys, cols, k, k / 8);
  }
  Candidate* const candidates = reinterpret_cast<Candidate*>(scratch.candidates);
  int64_t count = 0;
  for (int64_t at = 0; at < cols; at += kStrip) {
    uint64_t hits = mask_at_least(keys + at, floor);
    if (cols - at < kStrip) hits &= ~uint64_t{0} >> (kStrip - (cols - at));
    count += append_masked(keys + at, at, hits, candidates + count);
  }
  finish<Bits, Candidate>(row, scratch.candidates, count);
}

// ---- The instances ----

SparsifyKernel sparsify_kernel(DType dtype, bool wide) {
  const auto with = [](auto bits, auto candidate) {
    using Bits = decltype(bits);
    using Candidate = decltype(candidate);
    return SparsifyKernel{accumulate<Bits>, whole_row<Bits, Candidate>, guess_floor<Bits>,
                          collect<Bits, Candidate>, finish<Bits, Candidate>};
  };
  switch (dtype_bytes(dtype)) {
    case 2: return with(uint16_t{}, NarrowCandidate<uint16_t>{});
    case 8: return with(uint64_t{}, WideCandidate<uint64_t>{});
    default: break;
  }
  return wide ? with(uint32_t{}, WideCandidate<uint32_t>{}) : with(uint32_t{}, NarrowCandidate<uint32_t>{});
}

template <class Self, class Add>
AddTo function_of(Update update) {
  switch (update) {
    case Update::kAdd: return add_to<Self, Add, Update::kAdd>;
    case Update::kScaled: return add_to<Self, Add, Update::kScaled>;
    case Update::kMomentum: return add_to<Self, Add, Update::kMomentum>;
    default: return nullptr;
  }
}

AddTo update_function(DType dtype, DType add_dtype, Update update) {
  switch (dtype) {
    case DType::kFloat16: return function_of<Float16Bits, Float16Bits>(update);
    case DType::kBFloat16: return function_of<BFloat16Bits, BFloat16Bits>(update);
    case DType::kFloat64: return function_of<Float64Bits, Float64Bits>(update);
    default: break;
  }
  switch (add_dtype) {
    case DType::kFloat16: return function_of<Float32Bits, Float16Bits>(update);
    case DType::kBFloat16: return function_of<Float32Bits, BFloat16Bits>(update);
    default: return function_of<Float32Bits, Float32Bits>(update);
  }
}

}  // namespace gputopk::cpu::GPUTOPK_CPU_LEVEL
