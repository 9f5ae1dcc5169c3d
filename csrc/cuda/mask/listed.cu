// Rows of which nothing is left but winners that a list has: a mask of them, or their elements and a number
// in place of the others.
//
// A block has a tile of a row. Of a short list it marks those of its tile, a bit each in shared memory, and
// then writes all places of the tile once: single bytes all over memory take several times as long. Of a long
// list blocks fill tiles, and a launch behind writes to the winners' places, one a thread.

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
  const void* indices;
  bool wide_indices;

  __device__ int64_t index(int64_t at) const {
    return wide_indices ? static_cast<const int64_t*>(indices)[at] : static_cast<const int32_t*>(indices)[at];
  }
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

template <class Place>
__global__ void __launch_bounds__(kMaskThreads)
    fill_rows(const __grid_constant__ Listed<Place> listed, int64_t tiles_per_row) {
  follow_kernel_before();
  for (int64_t number = blockIdx.x; number < listed.row_count * tiles_per_row; number += gridDim.x) {
    const Tile<Place> tile(listed, number, tiles_per_row);
    fill_places(tile.places, tile.count, listed.fill);
  }
}

// Elements from one on, of which only those that are asked for are read.
template <class Place>
struct ElementsFrom {
  const Place* first;
  __device__ Place operator[](int i) const { return first[i]; }
};

// In place, a thread reads what it then writes over, and nothing else.
template <class Place, bool kKeeps>
__global__ void __launch_bounds__(kMaskThreads)
    write_listed(const __grid_constant__ Listed<Place> listed, const Place* input, int64_t input_stride,
                 int64_t tiles_per_row) {
  constexpr int kOwn = tuning::kListedPerThread, kWords = tuning::kFilledPlaces / 32;
  constexpr int kInVector = kPerVector<Place>;
  __shared__ uint32_t marks[kWords + 1];  // and a word that the last bits are read across
  follow_kernel_before();
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t number = blockIdx.x; number < listed.row_count * tiles_per_row; number += gridDim.x) {
    const Tile<Place> tile(listed, number, tiles_per_row);
    int64_t own[kOwn];  // under way while bits are cleared
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int winner = i * kMaskThreads + thread;
      own[i] = winner < listed.k ? listed.index(tile.row * listed.k + winner) - tile.first : -1;
    }
    for (int word = thread; word <= kWords; word += kMaskThreads) marks[word] = 0;
    __syncthreads();  // no bit is set
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if (own[i] < 0 || own[i] >= tile.count) continue;
      atomicOr(marks + own[i] / 32, 1u << own[i] % 32);
    }
    __syncthreads();  // all are marked
    const auto write = [&](int at, auto count) {
      constexpr int kCount = decltype(count)::value;
      const uint32_t bits = __funnelshift_r(marks[at / 32], marks[at / 32 + 1], at % 32);
      if constexpr (kKeeps) {
        using Kept = KeptElements<Place, kCount>;
        const ElementsFrom<Place> from{input + tile.row * input_stride + tile.first + at};
        *reinterpret_cast<Kept*>(tile.places + at) = Kept::of(bits, from, listed.fill);
      } else {
        *reinterpret_cast<MaskBytes<kCount>*>(tile.places + at) = MaskBytes<kCount>::of(bits);
      }
    };
    using One = std::integral_constant<int, 1>;
    const RowShape<Place> shape(tile.places, tile.count);
    for (int i = thread; i < shape.vectors; i += kMaskThreads) {
      write(shape.head + i * kInVector, std::integral_constant<int, kInVector>{});
    }
    // Less than a vector at either end.
    if (thread < shape.head) write(thread, One{});
    if (thread < shape.tail) write(tile.count - 1 - thread, One{});
    __syncthreads();  // bits have been read
  }
}

template <class Place>
__global__ void __launch_bounds__(kMaskThreads) mark_winners(const __grid_constant__ Listed<Place> listed) {
  follow_kernel_before();
  const int64_t winners = listed.row_count * listed.k, step = int64_t{gridDim.x} * kMaskThreads;
  for (int64_t at = int64_t{blockIdx.x} * kMaskThreads + threadIdx.x; at < winners; at += step) {
    const int64_t row = row_of(at, listed.k);
    listed.rows[row * listed.row_stride + listed.index(at)] = listed.value(at);
  }
}

template <class Place, bool kKeeps>
ErrorCode launch(const Listed<Place>& listed, const void* input, int64_t input_stride, Stream stream) {
  const auto blocks_of = [](int64_t blocks) {
    return static_cast<unsigned>(std::min<int64_t>(blocks, 0x7FFFFFFF));
  };
  const int64_t tiles_per_row = (listed.cols + tuning::kFilledPlaces - 1) / tuning::kFilledPlaces;
  const unsigned tiles = blocks_of(listed.row_count * tiles_per_row);
  if (listed.k <= tuning::kMarkedByAllK) {
    return launch_kernel(/*ahead=*/true, write_listed<Place, kKeeps>, tiles, kMaskThreads, 0, stream, listed,
                         static_cast<const Place*>(input), input_stride, tiles_per_row);
  }
  const ErrorCode error =
      launch_kernel(/*ahead=*/true, fill_rows<Place>, tiles, kMaskThreads, 0, stream, listed, tiles_per_row);
  if (error != 0) return error;
  const int64_t winners = listed.row_count * listed.k;
  return launch_kernel(/*ahead=*/true, mark_winners<Place>,
                       blocks_of((winners + kMaskThreads - 1) / kMaskThreads), kMaskThreads, 0, stream,
                       listed);
}

}  // namespace

ErrorCode run_listed(const Problem& problem, const ListedWinners& winners, const void* input,
                     const KeptOutput& output, Stream stream) {
  const auto listed_as = [&](auto like, const void* values, uint64_t fill) {
    using Place = decltype(like);
    return Listed<Place>{static_cast<Place*>(output.rows),
                         output.row_stride,
                         problem.rows,
                         problem.cols,
                         problem.k,
                         static_cast<Place>(fill),
                         static_cast<const Place*>(values),
                         winners.indices,
                         problem.wide_indices};
  };
  if (!output.keeps) {
    return launch<uint8_t, /*kKeeps=*/false>(listed_as(uint8_t{}, nullptr, 0), input, 0, stream);
  }
  return visit_bits(dtype_bytes(problem.dtype), [&](auto like) -> ErrorCode {
    return launch<decltype(like), /*kKeeps=*/true>(listed_as(like, winners.values, output.fill), input,
                                                   problem.row_stride, stream);
  });
}

}  // namespace gputopk::cuda::mask
