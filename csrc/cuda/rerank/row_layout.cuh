// How the lanes of a warp share rows of vectors: what each reads, and how their sums become one.
//
// The order of a row's sum is the contract of all layouts that may read it. Of rows of whole 16-byte words it
// is a sum a lane, of every lane's words; of others 32 sums, element e in number e % 32. Those are added up
// over the numbers that differ by 4, 2, 1, 16, 8, in this order. How many rows, words or lanes are at work
// changes nothing.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace gputopk::cuda::rerank {

// An element as it lies in memory, and as a number: `part` is its place in a word of 32 bits.
struct Float32 {
  using Storage = uint32_t;
  __device__ static float widen(uint32_t word, int) { return __uint_as_float(word); }
};
struct Float16 {
  using Storage = uint16_t;
  __device__ static float widen(uint32_t word, int part) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(part == 0 ? word : word >> 16)));
  }
};
struct BFloat16 {
  using Storage = uint16_t;
  __device__ static float widen(uint32_t word, int part) {
    return __uint_as_float(part == 0 ? word << 16 : word & 0xFFFF0000u);
  }
};
// int8 and uint8: of the former with the sign flipped, so that it counts up from -128. One kernel for both.
struct Bytes {
  using Storage = uint8_t;
  __device__ static float widen(uint32_t word, int part) {
    return static_cast<float>(word >> 8 * part & 0xFF);
  }
};
template <class Type>
constexpr bool kIsBytes = std::is_same_v<Type, Bytes>;

// A layout: groups of kLanes lanes read a row each, kPerLoad elements a lane and load. Of kRows rows, one
// after the other, kLoads loads each are in flight. A lane has kSums sums a row. kWhole: vectors and queries
// are made of whole 16-byte words.
//
// The row number `row` of batch number `batch` belongs to the candidate of lane
// row_lane(row) + batch * kBatchLane of the group's lanes, which is where add_up leaves its sum.
// place(lane): the lanes' order by batch, then group, then row.

// Rows of whole 16-byte words, eight of them in flight: 4 KB a warp.
template <class Type, int kLanes_>
struct WholeWords {
  static constexpr bool kWhole = true;
  static constexpr int kLanes = kLanes_;
  static constexpr int kPerLoad = 16 / static_cast<int>(sizeof(typename Type::Storage));
  static constexpr int kLoads = 1;
  static constexpr int kRows = 8;
  static constexpr int kSums = 1;
  static constexpr int kBatchLane = 8;
  static constexpr int kBatchStep = kLanes / 2;  // where the steps of add_up go on over batches
  static_assert(kLanes == 16 || kLanes == 32, "a lane's words, and the order of the steps");
  __device__ static constexpr int row_lane(int row) { return row; }
  __device__ static int place(int lane) {
    return kLanes == 32 ? lane : (lane & 7) | (lane & 8) << 1 | (lane & 16) >> 1;
  }
};

// The same one row at a time, 32 numbers of it a lane: for candidates so few that warps have one each.
template <class Type>
struct RowAtATime {
  static constexpr bool kWhole = true;
  static constexpr int kLanes = 32;
  static constexpr int kPerLoad = 16 / static_cast<int>(sizeof(typename Type::Storage));
  static constexpr int kLoads = 32 / kPerLoad;
  static constexpr int kRows = 1;
  static constexpr int kSums = 1;
  static constexpr int kBatchLane = 1;
  static constexpr int kBatchStep = 0;
  __device__ static constexpr int row_lane(int) { return 0; }
  __device__ static int place(int lane) { return lane; }
};

// Rows that begin or end anywhere, in the widest words of kSums elements that they are made of.
template <class Type, int kSums_>
struct NarrowWords {
  static constexpr bool kWhole = false;
  static constexpr int kSums = kSums_;
  static constexpr int kLanes = 32 / kSums;
  static constexpr int kPerLoad = kSums;
  static constexpr int kLoads = 4;
  static constexpr int kRows = kSums == 4 ? 4 : 8;
  static constexpr int kBatchLane = 8 / kSums;
  static constexpr int kBatchStep = kSums == 1 ? 16 : 8;
  static_assert(kSums == 1 || kSums == 2 || kSums == 4, "steps of 4 and more are between lanes");
  __device__ static constexpr int row_lane(int row) {
    return kSums == 1 ? row : kSums == 2 ? (row & 6) >> 1 | (row & 1) << 3 : (row & 2) >> 1 | (row & 1) << 2;
  }
  __device__ static int place(int lane) {
    if constexpr (kSums == 1) return lane;
    if constexpr (kSums == 2) return (lane & 4) << 2 | (lane & 16) >> 1 | (lane & 3) << 1 | (lane & 8) >> 3;
    return (lane & 2) << 3 | (lane & 24) >> 1 | (lane & 1) << 1 | (lane & 4) >> 2;
  }
};

// Lanes whose candidates are of batch 0.
template <class Layout>
__device__ constexpr unsigned first_batch_lanes() {
  unsigned lanes = 0;
  for (int group = 0; group < 32; group += Layout::kLanes) {
    for (int row = 0; row < Layout::kRows; ++row) lanes |= 1u << (group + Layout::row_lane(row));
  }
  return lanes;
}

// The step of add_up behind another: 4, 2, 1, then from half of all numbers to 8.
template <class Layout>
__device__ constexpr int next_step(int step) {
  return step == 1 ? Layout::kLanes * Layout::kSums / 2 : step == 8 ? 0 : step / 2;
}

// Adds kEach numbers of each of kRows rows, one row's behind another's, up over those that differ by kStep
// and by the steps behind it, before kEnd. Of the steps below Layout::kSums both numbers are the lane's own.
// Where there are rows to share out, a lane gives half of them to the lane across and takes the other half's
// from there: so 32 rows take some 31 shuffles, and leave each lane with the sum of one.
template <class Layout, int kStep, int kEnd, int kRows, int kEach, int kAll>
__device__ float add_up(float (&values)[kAll]) {
  constexpr int kNext = next_step<Layout>(kStep), kMask = kStep / Layout::kSums;
  if constexpr (kStep == kEnd) {
    static_assert(kRows == 1 && kEach == 1, "one number is left");
    return values[0];
  } else if constexpr (kStep < Layout::kSums) {
    constexpr int kLeft = kEach / 2;
#pragma unroll
    for (int i = 0; i < kRows * kLeft; ++i) {
      const int first = i / kLeft * kEach + i % kLeft;
      values[i] = values[first] + values[first + kLeft];
    }
    return add_up<Layout, kNext, kEnd, kRows, kLeft>(values);
  } else if constexpr (kRows == 1) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) values[i] += __shfl_xor_sync(~0u, values[i], kMask);
    return add_up<Layout, kNext, kEnd, 1, kEach>(values);
  } else {
    constexpr int kHalf = kRows / 2 * kEach;
    const bool upper = (threadIdx.x & kMask) != 0;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float kept = upper ? values[i + kHalf] : values[i];
      const float given = upper ? values[i] : values[i + kHalf];
      values[i] = kept + __shfl_xor_sync(~0u, given, kMask);
    }
    return add_up<Layout, kNext, kEnd, kRows / 2, kEach>(values);
  }
}

// What a lane reads of a row at a time, its piece. Zeros stand for what is behind the row.
template <class Type, class Layout>
struct Piece {
  using Storage = typename Type::Storage;
  static constexpr int kPerLoad = Layout::kPerLoad;
  static constexpr int kElements = Layout::kLoads * kPerLoad;  // of a lane
  static constexpr int kLoadStep = Layout::kLanes * kPerLoad;  // from one load to the next
  static constexpr int kRowElements = Layout::kLoads * kLoadStep;
  static constexpr int kLoadBytes = kPerLoad * static_cast<int>(sizeof(Storage));
  static constexpr int kWords = kLoadBytes < 4 ? 1 : kLoadBytes / 4;
  static constexpr int kPerWord = kPerLoad / kWords;

  uint32_t words[Layout::kLoads * kWords];

  // Where the lane's first element of the piece lies in its row.
  __device__ static int64_t first(int64_t piece, int group_lane) {
    return piece * kRowElements + group_lane * kPerLoad;
  }

  // `row`, from the lane's first element on, has `left` elements, which may be negative. Its vectors are kept
  // out of L1, where the query stays.
  template <bool kGathered>
  __device__ void load(const Storage* row, int left, bool present) {
#pragma unroll
    for (int load = 0; load < Layout::kLoads; ++load) {
      const bool there = present && load * kLoadStep < left;
      load_words<kGathered>(row + load * kLoadStep, there, words + load * kWords);
    }
  }

 private:
  template <bool kGathered>
  __device__ static void load_words(const Storage* from, bool there, uint32_t* to) {
    if constexpr (kLoadBytes == 16) {
      uint4 loaded{};
      if (there) loaded = get<kGathered>(reinterpret_cast<const uint4*>(from));
      to[0] = loaded.x;
      to[1] = loaded.y;
      to[2] = loaded.z;
      to[3] = loaded.w;
    } else if constexpr (kLoadBytes == 8) {
      uint2 loaded{};
      if (there) loaded = get<kGathered>(reinterpret_cast<const uint2*>(from));
      to[0] = loaded.x;
      to[1] = loaded.y;
    } else {
      using Word = std::conditional_t<kLoadBytes == 4, uint32_t, Storage>;
      static_assert(sizeof(Word) == kLoadBytes, "an element, or a word of 32 bits");
      to[0] = 0;
      if (there) to[0] = get<kGathered>(reinterpret_cast<const Word*>(from));
    }
  }

  template <bool kGathered, class Word>
  __device__ static Word get(const Word* from) {
    return kGathered ? __ldcg(from) : *from;
  }
};

}  // namespace gputopk::cuda::rerank
