// What a plan says of two bounds from a sample of a row's elements: device/element_sample.h sets it.
#pragma once

namespace gputopk::cuda {

// In blocks of so many threads: a power of two of them, 128 at most.
struct ElementSample {
  int blocks, threads;
};

// Of a block's part of the sample: beyond its elements, the lowest of all; 0: the highest. Of the blocks'
// lower bounds the one that so many are worse than is taken, of the upper ones that so many are better than.
struct BoundRanks {
  int lower, upper;
  int place;
};

}  // namespace gputopk::cuda
