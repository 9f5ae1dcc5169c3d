// What a plan says of a row's bound, or of two, from a sample of the row: device/row_sample.h and
// device/element_sample.h set it.
#pragma once

namespace gputopk::cuda {

// Of groups of lanes, powers of two, that have the best of some elements for a delegate each: the bound is
// the delegate of that rank.
struct DelegateSample {
  int blocks;  // a row, of kPassThreads
  int lines;   // of memory that a lane looks at, a vector of each; 0: elements
  int delegates, rank;
  int upper;  // rank of a delegate that fewer than k elements reach, as a guess; 0: none is wanted
};

// Of elements, in blocks of so many threads: a power of two of them, 128 at most.
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
