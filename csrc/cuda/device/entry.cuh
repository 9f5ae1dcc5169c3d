// An entry is one unsigned number whose order is the whole contract: the key above the inverted index, so
// that of equal keys the lower index is the greater entry, and no two elements of a row share one. Rows are
// shorter than an Index can count, so an inverted index is never 0: entry 0 stands for "nothing", and is less
// than every element.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/selection.cuh"

namespace gputopk::cuda {

// How elements are packed into entries, and back. `Index` is uint32_t in rows of fewer than 2^32 elements.
template <class Bits, class Index>
struct EntryOf {
  using Word = typename KeyWord<Bits>::type;
  using type = std::conditional_t<sizeof(Word) + sizeof(Index) <= 8, uint64_t, unsigned __int128>;
  static constexpr int kIndexBits = 8 * sizeof(Index);

  __device__ static type pack(Word key, Index index) {
    return static_cast<type>(key) << kIndexBits | static_cast<Index>(~index);
  }
  // Greater than no element of this key, and than all elements of lesser keys.
  __device__ static type below(Word key) { return static_cast<type>(key) << kIndexBits; }
  __device__ static Word key(type entry) { return static_cast<Word>(entry >> kIndexBits); }
  __device__ static Index index(type entry) { return static_cast<Index>(~static_cast<Index>(entry)); }
};

}  // namespace gputopk::cuda
