// How the lanes of a warp share rows of vectors: what each reads, and how their sums become one.
//
// The order of a row's sum is the contract of all layouts: its words of 16 bytes, of which the last may end
// early, go to 32 lanes in turn, each adds up the elements of its words, one after another, and their sums
// are added up over the lanes that differ by 4, 2, 1, 16, 8, in this order. How many rows, words or lanes are
// at work changes nothing, nor does where in memory a row begins.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "core/rerank_problem.h"
#include "cuda/rerank/numbers.h"

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
// int8 and uint8, one kernel for both: see Widened.
struct Bytes {
  using Storage = uint8_t;
};
template <class Type>
constexpr bool kIsBytes = std::is_same_v<Type, Bytes>;

// An element of either byte type is first put into the last byte of a float of 2^23, in one step, where a
// conversion takes as long as eight: int8 with the sign flipped, so that it counts up from -128.
template <class Type>
class Widened {
 public:
  __device__ explicit Widened(DType dtype)
      : flip_(dtype == DType::kInt8 ? 0x80808080u : 0),
        zero_(dtype == DType::kInt8 ? 8388736.0f : 8388608.0f) {}

  __device__ float operator()(uint32_t word, int part) const {
    if constexpr (!kIsBytes<Type>) {
      return Type::widen(word, part);
    } else {
      return __uint_as_float(__byte_perm(word ^ flip_, 0x4B000000u, 0x7440u | static_cast<uint32_t>(part))) -
             zero_;
    }
  }

 private:
  uint32_t flip_;
  float zero_;  // what a zero is so far
};

// What all rows are made of, if the first begins with one: words of 16 bytes, of four, or no more than
// elements. It says how a lane reads 16 bytes of a row.
enum class Alignment { kSixteen, kFour, kAny };

// A layout: groups of kLanes lanes read a row each, kPerLoad elements a lane and load. Of kRows rows, one
// after the other, kLoads loads each are in flight: with kAhead on their way to shared memory, otherwise in
// registers. A lane has kSums sums a row, of as many lanes of the contract's.
//
// The row number `row` of batch number `batch` belongs to the candidate of lane
// row_lane(row) + batch * kBatchLane of the group's lanes, which is where add_up leaves its sum.
// place(lane): the lanes' order by batch, then group, then row.

// A step is eight rows a group, 4 KB a warp: of four lanes 2 KB, of two 1 KB. What lanes beyond a row's end
// would add to its sum is zero, so that fewer give the same.
template <class Type, int kLanes_, Alignment kAlignment_ = Alignment::kSixteen, int kSums_ = 1>
struct RowsTogether {
  static constexpr Alignment kAlignment = kAlignment_;
  static constexpr bool kAhead = kAlignment == Alignment::kSixteen;
  static constexpr int kLanes = kLanes_;
  static constexpr int kSums = kSums_;
  static constexpr int kPerLoad = 16 / static_cast<int>(sizeof(typename Type::Storage));
  static constexpr int kLoads = 1;
  static constexpr int kRows = kLanes < 8 ? kLanes : 8;
  static constexpr int kBatchLane = 8;
  // Where add_up goes on over batches; 0: nowhere, and lanes keep the sums of their own candidates.
  static constexpr int kBatchStep = kLanes > 8 ? kLanes / 2 : 0;
  static_assert(kLanes == 2 || kLanes == 4 || kLanes == 8 || kLanes == 16 || kLanes == 32);
  __device__ static constexpr int row_lane(int row) { return row; }
  __device__ static int place(int lane) {
    return kLanes == 16 ? (lane & 7) | (lane & 8) << 1 | (lane & 16) >> 1 : lane;
  }
};

// The same one row at a time, 32 numbers of it a lane: for candidates so few that warps have one each.
template <class Type>
struct RowAtATime {
  static constexpr Alignment kAlignment = Alignment::kSixteen;
  static constexpr bool kAhead = true;
  static constexpr int kSums = 1;
  static constexpr int kLanes = 32;
  static constexpr int kPerLoad = 16 / static_cast<int>(sizeof(typename Type::Storage));
  static constexpr int kLoads = 32 / kPerLoad;
  static constexpr int kRows = 1;
  static constexpr int kBatchLane = 1;
  static constexpr int kBatchStep = 0;
  __device__ static constexpr int row_lane(int) { return 0; }
  __device__ static int place(int lane) { return lane; }
};

// Lanes whose candidates are of a batch.
template <class Layout>
__device__ constexpr unsigned lanes_of_batch(int batch) {
  unsigned lanes = 0;
  for (int group = 0; group < 32; group += Layout::kLanes) {
    for (int row = 0; row < Layout::kRows; ++row) lanes |= 1u << (group + Layout::row_lane(row));
  }
  return lanes << batch * Layout::kBatchLane;
}

// The steps of add_up: 4, 2, 1, 16, 8, as far as there are so many of the contract's lanes.
template <class Layout>
__device__ constexpr int first_step() {
  return Layout::kLanes < 8 ? Layout::kLanes / 2 : 4;
}
template <class Layout>
__device__ constexpr int next_step(int step) {
  const int half = Layout::kLanes * Layout::kSums / 2;
  return step == 1 ? (half < 8 ? 0 : half) : step == 8 ? 0 : step / 2;
}

// Adds kEach numbers of each of kRows rows, one row's behind another's, up over the contract's lanes that
// differ by kStep and by the steps behind it, before kEnd. Those that differ by kLanes or more are one lane's
// own. Where there are rows to share out, a lane gives half of them to the lane across and takes the other
// half's from there: so 32 rows take some 31 shuffles, and leave each lane with the sum of one.
template <class Layout, int kStep, int kEnd, int kRows, int kEach, int kAll>
__device__ float add_up(float (&values)[kAll]) {
  constexpr int kNext = next_step<Layout>(kStep);
  if constexpr (kStep == kEnd) {
    static_assert(kRows == 1 && kEach == 1, "one number is left");
    return values[0];
  } else if constexpr (kStep >= Layout::kLanes) {
    static_assert(kRows == 1 && kEach == 2 * kStep / Layout::kLanes);
#pragma unroll
    for (int i = 0; i < kEach / 2; ++i) values[i] += values[i + kEach / 2];
    return add_up<Layout, kNext, kEnd, 1, kEach / 2>(values);
  } else if constexpr (kRows == 1) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) values[i] += __shfl_xor_sync(~0u, values[i], kStep);
    return add_up<Layout, kNext, kEnd, 1, kEach>(values);
  } else {
    constexpr int kHalf = kRows / 2 * kEach;
    const bool upper = (threadIdx.x & kStep) != 0;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float kept = upper ? values[i + kHalf] : values[i];
      const float given = upper ? values[i] : values[i + kHalf];
      values[i] = kept + __shfl_xor_sync(~0u, given, kStep);
    }
    return add_up<Layout, kNext, kEnd, kRows / 2, kEach>(values);
  }
}

// A load of so many bytes, as words of 32 bits; zeros where nothing is there.
template <int kBytes>
__device__ __forceinline__ void load_word(const void* from, bool there, uint32_t* words) {
  const auto load = [&](auto like) {
    decltype(like) loaded{};
    const auto* const at = static_cast<const decltype(like)*>(from);
    if (there) loaded = *at;
    return loaded;
  };
  if constexpr (kBytes == 16) {
    const uint4 loaded = load(uint4{});
    words[0] = loaded.x;
    words[1] = loaded.y;
    words[2] = loaded.z;
    words[3] = loaded.w;
  } else if constexpr (kBytes == 4) {
    words[0] = load(uint32_t{});
  } else if constexpr (kBytes == 2) {
    words[0] = load(uint16_t{});
  } else {
    static_assert(kBytes == 1);
    words[0] = load(uint8_t{});
  }
}

// What a lane reads of a row at a time, its piece.
template <class Type, class Layout>
struct Piece {
  static constexpr int kPerLoad = Layout::kPerLoad;
  static constexpr int kElements = Layout::kLoads * kPerLoad;  // of a lane
  static constexpr int kLoadStep = Layout::kLanes * kPerLoad;  // from one load to the next
  static constexpr int kRowElements = Layout::kLoads * kLoadStep;
  static constexpr int kPerWord = kPerLoad / 4;  // elements of 32 bits

  // Where the lane's first element of the piece lies in its row.
  __device__ static int64_t first(int64_t piece, int group_lane) {
    return piece * kRowElements + group_lane * kPerLoad;
  }
  // Of a row; one where it has no element. Fewer lanes than the contract's take rows no longer than they are.
  __device__ static int64_t count(int64_t dims) {
    if constexpr (Layout::kLanes * Layout::kSums < 32) return 1;
    return max(int64_t{1}, (dims + kRowElements - 1) / kRowElements);
  }
  // Elements of a row from there on; more than a piece are as good as a piece.
  __device__ static int left(int64_t dims, int64_t piece, int group_lane) {
    return static_cast<int>(clamped(dims - first(piece, group_lane), 0, kRowElements));
  }
};

}  // namespace gputopk::cuda::rerank
