// Two bounds from a sample of each row, between which its k-th best lies, all but surely.
//
// Elements of the row are the delegates of some blocks. Each block finds the one of its own that as large a
// share of them reaches as of the row wins. On either side of the row's k-th best lie about half of the
// blocks' finds, as coins fall: so two of them, some places from the middle, bound it all but surely. That
// holds whatever is alike in a block's part of the sample, so elements come in sectors of memory, one at
// random in each of as many strata. Few blocks, of rows that are many, have single elements, and look further
// up and down. element_sample.h says how large the sample is, element_bounds.cu takes it.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "cuda/device/element_sample.h"
#include "cuda/device/radix_passes.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/device/sample.cuh"
#include "cuda/workspace.h"

namespace gputopk::cuda {

// Where a sample's elements lie: one in each stratum, or, for pairs of lanes, a sector of a few. Strata go to
// the blocks in turn, so that each has some of all the row.
template <class Bits>
struct SampledPlaces {
  static constexpr int kPerLane = std::min(kPerVector<Bits>, tuning::kTwoBoundsElements);
  static constexpr int kStep = kPerVector<Bits> / kPerLane;  // from one to the next, of a lane's vector

  ElementSample sample;
  Strata strata;  // of sectors, those that a row has wherever it begins

  void set(const ElementSample& of_row, int64_t cols) {
    sample = of_row;
    strata = in_sectors(sample)
                 ? Strata::of((cols / kPerVector<Bits> - 1) / 2, elements_of(sample) / (2 * kPerLane))
                 : Strata::of(cols, elements_of(sample));
  }

  // Element number `i` of a thread in block number `number` of the row; the row's first vector begins at
  // `head`.
  __device__ int64_t at(int head, int number, int i) const {
    const int taken = in_sectors(sample) ? kPerLane : 1;  // by a lane of what lies side by side
    const int load = i / taken * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
    const auto stratum = [&](int of_block) {
      return static_cast<uint32_t>(of_block * sample.blocks + number);
    };
    if (!in_sectors(sample)) return strata.entry_of(stratum(load));
    const int64_t vector = 2 * strata.entry_of(stratum(load / 2)) + load % 2;
    return head + vector * kPerVector<Bits> + i % taken * kStep;
  }
};

// The bounds that one block finds in its part of the sample.
template <class Word, class Index>
struct FoundBounds {
  ExtendedKey<Word, Index> lower, upper;
};

template <class Bits, class Index>
struct BoundSample {
  SampledPlaces<Bits> places;
  BoundRanks ranks;
  // Of each row's blocks, as many as each has threads times kTwoBoundsElements: what an earlier kernel has
  // read, element by element of all its threads. Null: they are read from the row.
  const Bits* elements;
  FoundBounds<typename KeyWord<Bits>::type, Index>* found;  // rows x blocks

  // `elements` are the caller's to set.
  void set(const ElementSample& sample, const BoundRanks& of_blocks, int64_t cols) {
    places.set(sample, cols);
    ranks = of_blocks;
  }
  void carve_found(Workspace& workspace, int64_t rows) {
    found = workspace.take<FoundBounds<typename KeyWord<Bits>::type, Index>>(rows * places.sample.blocks);
  }
};

// Launches what writes the bounds, and a key near the row's greatest, to each row's state, which is zero:
// `bound` and `upper`, extended keys, so that guesses are as good on crowded rows as on others. The highest
// of all has an index beyond the row's; the lowest, all zero, is reached by every element.
template <class Order, class Index>
cudaError_t find_bounds(const RadixPasses<typename Order::Bits, Index>& params,
                        const BoundSample<typename Order::Bits, Index>& sample, Order order, int64_t rows,
                        bool ahead, cudaStream_t stream);

}  // namespace gputopk::cuda
