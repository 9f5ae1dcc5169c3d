// Vectors of a row, or one element, as they are once accumulated; what there is to add may be nothing.
#pragma once

#include <cstdint>

#include "cuda/device/row_reader.cuh"
#include "cuda/device/selection.cuh"
#include "cuda/sparsify/sum.cuh"
#include "cuda/sparsify/winners.cuh"

namespace gputopk::cuda::sparsify {

using Index = uint32_t;

template <class Bits>
using Extended = ExtendedKey<typename KeyWord<Bits>::type, Index>;

// Of bits for elements, a byte for each vector of so many: the element of a word's bit.
template <int kWidth>
__device__ int element_of_bit(int word, int bit) {
  static_assert(kWidth <= 8, "a byte of bits for each vector");
  return (word * 4 + bit / 8) * kWidth + bit % 8;
}

template <class Self, class Add, bool kMomentum>
struct RowSum {
  using Bits = typename Self::Bits;
  static constexpr int kWidth = kPerVector<Bits>;
  static constexpr bool kHasMomentum = kMomentum;

  Sum<Self, Add> sum;
  int64_t row;

  __device__ RowSum(const Sum<Self, Add>& of_all, int64_t row) : sum(of_all), row(row) {
    if (!kMomentum) sum.momentum = nullptr;  // the compiler need not ask
  }

  __device__ Bits* self(int64_t col) const { return sum.self + row * sum.self_stride + col; }
  __device__ const typename Add::Bits* add(int64_t col) const { return sum.add + row * sum.add_stride + col; }
  __device__ Bits* momentum(int64_t col) const { return sum.momentum + row * sum.momentum_stride + col; }

  template <int kCount>
  struct Loaded {
    sparsify::Vector<Bits, kCount> self, momentum;
    sparsify::Vector<typename Add::Bits, kCount> add;

    __device__ cuda::Vector<Bits> vector() const {
      static_assert(kCount == kWidth);
      return {*reinterpret_cast<const uint4*>(self.at)};
    }
  };

  template <int kCount>
  __device__ __forceinline__ void load(int64_t col, Loaded<kCount>& x) const {
    x.self.load(self(col));
    if (sum.add == nullptr) return;
    x.add.load(add(col));
    if (kMomentum) x.momentum.load(momentum(col));
  }
  template <int kCount>
  __device__ __forceinline__ void accumulate(Loaded<kCount>& x) const {
    if (sum.add == nullptr) return;
    if constexpr (kCount > 1 && sizeof(Bits) == 2 && !kMomentum) {
#pragma unroll
      for (int j = 0; j < kCount; j += 2) add_two(sum, x.self.at + j, x.add.at + j);
    } else {
#pragma unroll
      for (int j = 0; j < kCount; ++j) add_one(sum, x.self.at[j], x.add.at[j], x.momentum.at[j]);
    }
  }
  template <int kCount>
  __device__ __forceinline__ void store(int64_t col, const Loaded<kCount>& x) const {
    if (sum.add != nullptr) x.self.store(self(col));
  }
  template <int kCount>
  __device__ __forceinline__ void store_momentum(int64_t col, const Loaded<kCount>& x) const {
    if (kMomentum && sum.add != nullptr) x.momentum.store(momentum(col));
  }
};

}  // namespace gputopk::cuda::sparsify
