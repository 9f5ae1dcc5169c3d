// Rows of which nothing is left but winners that a list has: a mask of them, or their elements and a number
// in place of the others.
//
// A block fills a tile of a row. Of a short list it then marks those that lie in its tile, so that one launch
// does it all; of a long one a launch behind marks all winners, one a thread.

#include <algorithm>

#include "core/visit_bits.h"
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

template <class Place, bool kMarks>
__global__ void __launch_bounds__(kMaskThreads)
    fill_rows(const __grid_constant__ Listed<Place> listed, int64_t tiles_per_row) {
  constexpr int kPlaces = tuning::kFilledPlaces, kOwn = tuning::kListedPerThread;
  follow_kernel_before();
  for (int64_t tile = blockIdx.x; tile < listed.row_count * tiles_per_row; tile += gridDim.x) {
    const int64_t row = row_of(tile, tiles_per_row), first = (tile - row * tiles_per_row) * kPlaces;
    const int count = static_cast<int>(min(listed.cols - first, int64_t{kPlaces}));
    Place* const places = listed.rows + row * listed.row_stride + first;
    int64_t own[kOwn];  // under way while the tile is filled
    if constexpr (kMarks) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const int winner = i * kMaskThreads + static_cast<int>(threadIdx.x);
        own[i] = winner < listed.k ? listed.index(row * listed.k + winner) - first : -1;
      }
    }
    fill_places(places, count, listed.fill);
    if constexpr (kMarks) {
      __syncthreads();  // the tile is filled
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        if (own[i] < 0 || own[i] >= count) continue;
        places[own[i]] = listed.value(row * listed.k + i * kMaskThreads + threadIdx.x);
      }
    }
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

template <class Place>
ErrorCode launch(const Listed<Place>& listed, Stream stream) {
  const auto blocks_of = [](int64_t blocks) {
    return static_cast<unsigned>(std::min<int64_t>(blocks, 0x7FFFFFFF));
  };
  const int64_t tiles_per_row = (listed.cols + tuning::kFilledPlaces - 1) / tuning::kFilledPlaces;
  const bool marks = listed.k <= tuning::kMarkedByAllK;
  const auto fill = marks ? fill_rows<Place, /*kMarks=*/true> : fill_rows<Place, /*kMarks=*/false>;
  const ErrorCode error = launch_kernel(/*ahead=*/true, fill, blocks_of(listed.row_count * tiles_per_row),
                                        kMaskThreads, 0, stream, listed, tiles_per_row);
  if (error != 0 || marks) return error;
  const int64_t winners = listed.row_count * listed.k;
  return launch_kernel(/*ahead=*/true, mark_winners<Place>,
                       blocks_of((winners + kMaskThreads - 1) / kMaskThreads), kMaskThreads, 0, stream,
                       listed);
}

}  // namespace

ErrorCode run_listed(const Problem& problem, const ListedWinners& winners, const KeptOutput& output,
                     Stream stream) {
  return visit_bits(output.keeps ? dtype_bytes(problem.dtype) : 1, [&](auto like) -> ErrorCode {
    using Place = decltype(like);
    return launch(Listed<Place>{static_cast<Place*>(output.rows), output.row_stride, problem.rows,
                                problem.cols, problem.k, static_cast<Place>(output.keeps ? output.fill : 0),
                                output.keeps ? static_cast<const Place*>(winners.values) : nullptr,
                                winners.indices, problem.wide_indices},
                  stream);
  });
}

}  // namespace gputopk::cuda::mask
