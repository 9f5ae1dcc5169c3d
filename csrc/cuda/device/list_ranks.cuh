// Ranks of the elements that a team of lanes has listed, or of all of its row: by counting those that are
// better, or, where a lane has several, by a search among their keys, which a bitonic network sorts. Equals,
// as the sum of all ranks shows, meet at their rank, and go by their indices; or, where many are, all are
// ranked anew, by rank and index.
#pragma once

#include <cstdint>

#include "cuda/device/numbers.h"
#include "cuda/device/ptx.cuh"
#include "cuda/device/resident_row.cuh"
#include "cuda/device/team.cuh"
#include "cuda/device/warp_sort.cuh"

namespace gputopk::cuda {

// How many keys of a list are greater than each of a lane's own.
template <int kItems, class Key>
__device__ __forceinline__ void rank_by_counting(const Key* keys, int listed, const Key (&own)[kItems],
                                                 int (&ranks)[kItems]) {
  constexpr int kAtOnce = 16 / static_cast<int>(sizeof(Key));
  struct alignas(16) Keys {
    Key key[kAtOnce];
  };
  const Keys* const all = reinterpret_cast<const Keys*>(keys);
#pragma unroll
  for (int e = 0; e < kItems; ++e) ranks[e] = 0;
  for (int at = 0; at * kAtOnce < listed; ++at) {
    const Keys others = all[at];
#pragma unroll
    for (int o = 0; o < kAtOnce; ++o) {
#pragma unroll
      for (int e = 0; e < kItems; ++e) count_greater(ranks[e], others.key[o], own[e]);
    }
  }
}

// The same by a search, where `keys` descend.
template <int kSize, int kItems, class Key>
__device__ __forceinline__ void rank_by_search(const Key* keys, const Key (&own)[kItems],
                                               int (&ranks)[kItems]) {
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    ranks[e] = 0;
#pragma unroll
    for (int step = kSize / 2; step > 0; step /= 2) {
      if (keys[ranks[e] + step - 1] > own[e]) ranks[e] += step;
    }
  }
}

// The ranks of a lane's keys, as many as are greater, among those that are listed: number i of the list is
// number i / kLanes of a lane, and `keys` has room for them. What is not there is 0.
template <int kLanes, int kItems, class Key>
__device__ __forceinline__ void rank_keys(const Key (&own)[kItems], int listed, Key* keys,
                                          int (&ranks)[kItems]) {
  const int member = Team<kLanes>::member();
  if constexpr (kItems == 1) {
    keys[member] = own[0];
    __syncwarp();  // all keys are there
    rank_by_counting(keys, listed, own, ranks);
  } else {
    Key sorted[kItems];
#pragma unroll
    for (int e = 0; e < kItems; ++e) sorted[e] = own[e];
    sort_lanes<kLanes>(sorted);
#pragma unroll
    for (int e = 0; e < kItems; ++e) keys[member * kItems + e] = sorted[e];
    __syncwarp();  // all keys are there, in order
    rank_by_search<kLanes * kItems>(keys, own, ranks);
  }
}

// How many pairs of a team's elements are equal: ranks of others are 0 to `count` - 1.
template <int kLanes, int kItems>
__device__ __forceinline__ int pairs_of_equals(const int (&ranks)[kItems], int count) {
  int sum = 0;
#pragma unroll
  for (int e = 0; e < kItems; ++e) sum += Team<kLanes>::member() + e * kLanes < count ? ranks[e] : 0;
  return count * (count - 1) / 2 - Team<kLanes>::sum(sum);
}

// Elements of one rank meet at its place in a list: each finds how many of them have lower indices, and adds
// it. False, and ranks are as they were, where too many meet. `counts`: room for one a listed.
template <int kLanes, int kItems, class Index>
__device__ __forceinline__ bool separate_equals(int listed, const uint32_t (&indices)[kItems],
                                                int (&ranks)[kItems], uint32_t* counts, Index* meeting) {
  const int member = Team<kLanes>::member();
  const auto each = [&](auto&& visit) {
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      if (member + e * kLanes < listed) visit(e);
    }
  };
  __syncwarp();  // what was there has been read
  each([&](int e) { counts[member + e * kLanes] = 0; });
  __syncwarp();  // all counts are zero
  each([&](int e) {
    meeting[ranks[e] + static_cast<int>(atomicAdd(counts + ranks[e], 1u))] = static_cast<Index>(indices[e]);
  });
  __syncwarp();  // all have met
  int met[kItems] = {}, most = 0;
  each([&](int e) {
    met[e] = static_cast<int>(counts[ranks[e]]);
    most = max(most, met[e]);
  });
  const bool few = !__any_sync(~0u, most > tuning::kRanksMeeting);
  if (few) {
    each([&](int e) {
      if (met[e] == 1) return;
      const Index* const others = meeting + ranks[e];
      for (int i = 0; i < met[e]; ++i) ranks[e] += others[i] < indices[e];
    });
  }
  __syncwarp();  // counts have been read
  return few;
}

// Ranks elements of a row that are listed by their indices, below 2^16, no more than kItems a lane of any
// team of the warp: write(rank, bits, index) for each. `list` is used for other things, too, and `keys` has
// room for kItems a lane; both are in shared memory, and the team's own.
template <int kLanes, int kItems, class Order, class Index, class Write>
__device__ __forceinline__ void write_ranked(const typename Order::Bits* input, const Order& order,
                                             typename Resident<typename Order::Bits>::Held* keys_of_list,
                                             Index* list, int listed, Write&& write) {
  using Bits = typename Order::Bits;
  using Key = typename Resident<Bits>::Held;
  const int member = Team<kLanes>::member();
  Bits bits[kItems];
  Key keys[kItems];
  uint32_t indices[kItems];
  int ranks[kItems];
  const auto is_listed = [&](int e) { return member + e * kLanes < listed; };
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    indices[e] = is_listed(e) ? list[member + e * kLanes] : 0;
    bits[e] = is_listed(e) ? input[indices[e]] : Bits{0};
    keys[e] = is_listed(e) ? Resident<Bits>::held(order(bits[e]), indices[e]) : 0;
  }
  rank_keys<kLanes>(keys, listed, keys_of_list, ranks);
  if constexpr (!Resident<Bits>::kDistinct) {
    const int pairs = pairs_of_equals<kLanes>(ranks, listed);
    const bool few = !__any_sync(~0u, pairs > listed);
    if (__any_sync(~0u, pairs > 0) &&
        !(few &&
          separate_equals<kLanes>(listed, indices, ranks, reinterpret_cast<uint32_t*>(keys_of_list), list))) {
      uint32_t places[kItems];
#pragma unroll
      for (int e = 0; e < kItems; ++e) {
        places[e] = is_listed(e) ? ~(static_cast<uint32_t>(ranks[e]) << 16 | indices[e]) : 0;
      }
      sort_lanes<kLanes>(places);
      __syncwarp();  // the list has been read
#pragma unroll
      for (int e = 0; e < kItems; ++e) {
        if (member * kItems + e < listed) list[member * kItems + e] = static_cast<Index>(~places[e] & 0xFFFF);
      }
      __syncwarp();  // it is in order
#pragma unroll
      for (int e = 0; e < kItems; ++e) {
        const int rank = member + e * kLanes;
        if (rank < listed) write(rank, input[list[rank]], list[rank]);
      }
      return;
    }
  }
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    if (is_listed(e)) write(ranks[e], bits[e], indices[e]);
  }
}

// The same of all elements of a row, no more than kItems a lane: they are in order of their indices, so
// equals are told apart by how many come before.
template <int kLanes, int kItems, class Order, class Write>
__device__ __forceinline__ void write_row_ranked(const typename Order::Bits* input, const Order& order,
                                                 typename Resident<typename Order::Bits>::Held* keys_of_row,
                                                 int cols, Write&& write) {
  using Bits = typename Order::Bits;
  using Key = typename Resident<Bits>::Held;
  const int member = Team<kLanes>::member();
  const auto index_of = [&](int e) { return member + e * kLanes; };
  Key keys[kItems];
  int ranks[kItems];
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    keys[e] = index_of(e) < cols
                  ? Resident<Bits>::held(order(input[index_of(e)]), static_cast<uint32_t>(index_of(e)))
                  : 0;
  }
  rank_keys<kLanes>(keys, cols, keys_of_row, ranks);
  if (!Resident<Bits>::kDistinct && __any_sync(~0u, pairs_of_equals<kLanes>(ranks, cols) > 0)) {
    // Of each rank, so far.
    auto* const met = reinterpret_cast<uint32_t*>(keys_of_row);
    __syncwarp();  // the keys have been read
#pragma unroll
    for (int e = 0; e < kItems; ++e) met[index_of(e)] = 0;
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      const bool is_there = index_of(e) < cols;
      __syncwarp();  // counts are of all items before
      const unsigned equals =
          __match_any_sync(~0u, is_there ? Team<kLanes>::first_lane() << 16 | ranks[e] : -1);
      const unsigned lower = equals & ((1u << lane) - 1);
      const uint32_t before = is_there ? met[ranks[e]] : 0;
      __syncwarp();  // they have been read
      if (is_there && lower == 0) met[ranks[e]] = before + __popc(equals);
      ranks[e] += static_cast<int>(before) + __popc(lower);
    }
  }
  // By way of shared memory, so that lines of the outputs are written whole.
  auto* const indices = reinterpret_cast<uint32_t*>(keys_of_row);
  __syncwarp();  // keys and counts have been read
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    if (index_of(e) < cols) indices[ranks[e]] = static_cast<uint32_t>(index_of(e));
  }
  __syncwarp();  // the row is in order
#pragma unroll
  for (int e = 0; e < kItems; ++e) {
    const int rank = index_of(e);
    if (rank < cols) write(rank, input[indices[rank]], indices[rank]);
  }
}

}  // namespace gputopk::cuda
