// Bitonic networks over the items of one thread's array, unrolled, so that they stay in registers.
#pragma once

#include "core/key_order.h"  // GPUTOPK_HOST_DEVICE

namespace gputopk::cuda {

template <class T>
GPUTOPK_HOST_DEVICE void order_pair(T& first, T& second, bool descends) {
  const T greater = first > second ? first : second, lesser = first > second ? second : first;
  first = descends ? greater : lesser;
  second = descends ? lesser : greater;
}

// A bitonic sequence.
template <bool kDescending, class T, int kItems>
GPUTOPK_HOST_DEVICE void merge_items(T (&items)[kItems]) {
#pragma unroll
  for (int stride = kItems / 2; stride > 0; stride /= 2) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if ((i & stride) == 0) order_pair(items[i], items[i + stride], kDescending);
    }
  }
}

template <bool kDescending, class T, int kItems>
GPUTOPK_HOST_DEVICE void sort_items(T (&items)[kItems]) {
#pragma unroll
  for (int size = 2; size < kItems; size *= 2) {
#pragma unroll
    for (int stride = size / 2; stride > 0; stride /= 2) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        if ((i & stride) == 0) order_pair(items[i], items[i + stride], kDescending == ((i & size) == 0));
      }
    }
  }
  merge_items<kDescending>(items);
}

}  // namespace gputopk::cuda
