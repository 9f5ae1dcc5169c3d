// Rows of which nothing is left but winners that a list has: a mask of them, or their elements and a number
// in place of the others.
//
// A block has a tile of a row. Of a short list it fills the tile and then writes those of its winners; bytes
// of a mask it marks on chip first, a bit each, and writes once: single bytes all over memory take several
// times as long. Of a long list a launch behind writes to the winners' places, one a thread.

#include <algorithm>
#include <type_traits>

#include "core/visit_bits.h"
#include "cuda/device/kept_writer.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/resident_row.cuh"
#include "cuda/device/row_reader.cuh"
#include "cuda/mask/mask.h"
#include "cuda/mask/numbers.h"
#include "cuda/mask/tiles.cuh"

namespace gputopk::cuda::mask {
namespace {

using tuning::kMaskThreads;

// Of rows whose places are of type Place: elements, or bytes of a mask.
template <class Place>
struct Listed {
  Place* rows;
  int64_t row_stride, row_count, cols, k;
  Place fill;
  const Place* values;  // of winners; of a mask none
  Numbers indices;      // of all winners, one behind the other

  __device__ Place value(int64_t at) const { return values == nullptr ? Place{1} : values[at]; }
};

// By all threads.
template <class Place>
__device__ void fill_places(Place* places, int count, Place fill) {
  const RowShape<Place> shape(places, count);
  const int thread = static_cast<int>(threadIdx.x);
  const Vector<Place> filled = vector_of(fill);
  for (int i = thread; i < shape.vectors; i += kMaskThreads) {
    reinterpret_cast<uint4*>(places + shape.head)[i] = filled.words;
  }
  // Less than a vector at either end.
  if (thread < shape.head) places[thread] = fill;
  if (thread < shape.tail) places[count - 1 - thread] = fill;
}

// What tile of which row a block has, as places.
template <class Place>
struct Tile {
  int64_t row, first;
  int count;
  Place* places;

  __device__ Tile(const Listed<Place>& listed, int64_t number, int64_t tiles_per_row)
      : row(row_of(number, tiles_per_row)),
        first((number - row * tiles_per_row) * tuning::kFilledPlaces),
        count(static_cast<int>(min(listed.cols - first, int64_t{tuning::kFilledPlaces}))),
        places(listed.rows + row * listed.row_stride + first) {}
};

// Calls visit(tile) for each tile of a block.
template <class Place, class Visit>
__device__ __forceinline__ void each_tile(const Listed<Place>& listed, int64_t tiles_per_row, Visit&& visit) {
  for (int64_t number = blockIdx.x; number < listed.row_count * tiles_per_row; number += gridDim.x) {
    visit(Tile<Place>(listed, number, tiles_per_row));
  }
}

template <class Place>
__global__ void __launch_bounds__(kMaskThreads)
    fill_rows(const __grid_constant__ Listed<Place> listed, int64_t tiles_per_row) {
  follow_kernel_before();
  each_tile(listed, tiles_per_row,
            [&](const Tile<Place>& tile) { fill_places(tile.places, tile.count, listed.fill); });
}

// The winners of a tile's row that this thread looks at, as places of the tile.
template <class Place>
struct OwnWinners {
  static constexpr int kOwn = tuning::kListedPerThread;
  int64_t places[kOwn];

  __device__ OwnWinners(const Listed<Place>& listed, const Tile<Place>& tile) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int64_t at = winner(i);
      places[i] = at < listed.k ? listed.indices.at(tile.row * listed.k + at) - tile.first : -1;
    }
  }
  // Calls visit(place, number of the winner) for those that lie in the tile.
  template <class Visit>
  __device__ void visit(const Tile<Place>& tile, Visit&& visit) const {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if (places[i] < 0 || places[i] >= tile.count) continue;
      visit(static_cast<int>(places[i]), winner(i));
    }
  }

 private:
  __device__ static int64_t winner(int i) { return i * kMaskThreads + static_cast<int>(threadIdx.x); }
};

// Of a short list, elements: a tile is filled, and then its winners are written.
template <class Place>
__global__ void __launch_bounds__(kMaskThreads)
    keep_listed(const __grid_constant__ Listed<Place> listed, int64_t tiles_per_row) {
  follow_kernel_before();
  each_tile(listed, tiles_per_row, [&](const Tile<Place>& tile) {
    const OwnWinners<Place> own(listed, tile);  // under way while the tile is filled
    fill_places(tile.places, tile.count, listed.fill);
    __syncthreads();  // the tile is filled
    own.visit(tile, [&](int place, int64_t winner) {
      tile.places[place] = listed.value(tile.row * listed.k + winner);
    });
  });
}

// The same, a mask: winners are marked on chip, and all bytes of a tile written once.
__global__ void __launch_bounds__(kMaskThreads)
    mark_listed(const __grid_constant__ Listed<uint8_t> listed, int64_t tiles_per_row) {
  constexpr int kWords = tuning::kFilledPlaces / 32, kInVector = kPerVector<uint8_t>;
  __shared__ uint32_t marks[kWords + 1];  // and a word that the last bits are read across
  follow_kernel_before();
  const int thread = static_cast<int>(threadIdx.x);
  each_tile(listed, tiles_per_row, [&](const Tile<uint8_t>& tile) {
    const OwnWinners<uint8_t> own(listed, tile);  // under way while bits are cleared
    for (int word = thread; word <= kWords; word += kMaskThreads) marks[word] = 0;
    __syncthreads();  // no bit is set
    own.visit(tile, [&](int place, int64_t) { atomicOr(marks + place / 32, 1u << place % 32); });
    __syncthreads();  // all are marked
    const auto write = [&](int at, auto count) {
      using Bytes = MaskBytes<decltype(count)::value>;
      const uint32_t bits = __funnelshift_r(marks[at / 32], marks[at / 32 + 1], at % 32);
      *reinterpret_cast<Bytes*>(tile.places + at) = Bytes::of(bits);
    };
    using One = std::integral_constant<int, 1>;
    const RowShape<uint8_t> shape(tile.places, tile.count);
    for (int i = thread; i < shape.vectors; i += kMaskThreads) {
      write(shape.head + i * kInVector, std::integral_constant<int, kInVector>{});
    }
    // Less than a vector at either end.
    if (thread < shape.head) write(thread, One{});
    if (thread < shape.tail) write(tile.count - 1 - thread, One{});
    __syncthreads();  // bits have been read
  });
}

template <class Place>
__global__ void __launch_bounds__(kMaskThreads) mark_winners(const __grid_constant__ Listed<Place> listed) {
  follow_kernel_before();
  const int64_t winners = listed.row_count * listed.k, step = int64_t{gridDim.x} * kMaskThreads;
  for (int64_t at = int64_t{blockIdx.x} * kMaskThreads + threadIdx.x; at < winners; at += step) {
    const int64_t row = row_of(at, listed.k);
    listed.rows[row * listed.row_stride + listed.indices.at(at)] = listed.value(at);
  }
}

template <class Place>
ErrorCode launch(const Listed<Place>& listed, void (*of_short_list)(Listed<Place>, int64_t), Stream stream) {
  const auto blocks_of = [](int64_t blocks) {
    return static_cast<unsigned>(std::min<int64_t>(blocks, 0x7FFFFFFF));
  };
  const int64_t tiles_per_row = (listed.cols + tuning::kFilledPlaces - 1) / tuning::kFilledPlaces;
  const bool is_short = listed.k <= tuning::kMarkedByAllK;
  const ErrorCode error = launch_kernel(/*ahead=*/true, is_short ? of_short_list : fill_rows<Place>,
                                        blocks_of(listed.row_count * tiles_per_row), kMaskThreads, 0, stream,
                                        listed, tiles_per_row);
  if (error != 0 || is_short) return error;
  const int64_t winners = listed.row_count * listed.k;
  return launch_kernel(/*ahead=*/true, mark_winners<Place>,
                       blocks_of((winners + kMaskThreads - 1) / kMaskThreads), kMaskThreads, 0, stream,
                       listed);
}

}  // namespace

ErrorCode run_listed(const Problem& problem, const ListedWinners& winners, const KeptOutput& output,
                     Stream stream) {
  const auto listed_as = [&](auto like, const void* values, uint64_t fill) {
    using Place = decltype(like);
    return Listed<Place>{static_cast<Place*>(output.rows),
                         output.row_stride,
                         problem.rows,
                         problem.cols,
                         problem.k,
                         static_cast<Place>(fill),
                         static_cast<const Place*>(values),
                         {winners.indices, problem.wide_indices, 1, 0}};
  };
  if (!output.keeps) return launch(listed_as(uint8_t{}, nullptr, 0), mark_listed, stream);
  return visit_bits(dtype_bytes(problem.dtype), [&](auto like) -> ErrorCode {
    using Place = decltype(like);
    return launch(listed_as(like, winners.values, output.fill), keep_listed<Place>, stream);
  });
}

}  // namespace gputopk::cuda::mask
