// The scores of one query's candidates where vectors are int8 or uint8: see rerank.cuh.
//
// A query's elements are made whole numbers of one scale, a power of two, of 46 bits at most: six digits of
// eight bits, -128 to 127. So the products of a vector's bytes with each digit are what tensor cores add up,
// and sums of whole numbers are exact, in whatever order. They are weighed and added up in float64; a squared
// distance is q^2 - 2 q v + v^2 of such sums.
//
// What that leaves too little of is added up element by element instead (sums_directly): distances that are
// far less than what they are the difference of, as of a vector that is nearly the query, unless all is
// exact; and all of a query that is not finite, or whose least elements have too few bits of that scale.
#pragma once

#include <cstdint>

#include "cuda/device/ptx.cuh"
#include "cuda/rerank/numbers.h"
#include "cuda/rerank/params.cuh"
#include "cuda/rerank/row_layout.cuh"
#include "cuda/rerank/rows_ahead.cuh"

namespace gputopk::cuda::rerank {

// A query's digits, of up to kRerankDigitDims dimensions at a time, in a warp's shared memory: for each piece
// of 64, of each digit, 16 bytes for each of four lanes. kShifted: a lane's bytes are four of each 16.
template <bool kShifted>
class QueryDigits {
 public:
  static constexpr int kDigits = tuning::kRerankDigits;
  static constexpr int kPieceDims = 64, kPieces = tuning::kRerankDigitDims / kPieceDims;
  static constexpr int kBits = 46;  // of the greatest element
  // With so many bits an element is off by half a unit of float32's eighth last bit at most.
  static constexpr double kLeastExact = 1 << 20;
  static_assert(kBits < 8 * kDigits - 1, "the first digit is in range");
  static_assert(kPieces * kPieceDims == tuning::kRerankDigitDims);

  // `shared` is kDigitBytes, 16-byte aligned. By whole warps.
  __device__ QueryDigits(const float* query, int64_t dims, void* shared)
      : query_(query), dims_(dims), words_(static_cast<uint32_t*>(shared)) {
    float greatest = 0;
    bool is_finite = true;
    for (int64_t i = lane(); i < dims; i += 32) {
      greatest = fmaxf(greatest, fabsf(query[i]));
      is_finite &= fabsf(query[i]) <= __uint_as_float(0x7F7FFFFF);
    }
    greatest = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(greatest)));
    is_finite = __all_sync(~0u, is_finite);
    int exponent = 0;
    if (is_finite && greatest > 0) frexpf(greatest, &exponent);
    scale_ = ldexp(1.0, kBits - exponent);
    // Digit number d counts units of 256^(kDigits - 1 - d); the lane has the sums of number 2 t and behind
    // it.
    const int t = lane() % 4;
    weight_ = 2 * t < kDigits ? ldexp(1.0, 8 * (kDigits - 2 - 2 * t) - (kBits - exponent)) : 0;
    bool is_told = is_finite, is_whole = is_finite;
    double squares = 0;
    for (int64_t i = lane(); i < dims; i += 32) {
      const double own = query[i], units = own * scale_, whole = rint(units);
      squares += own * own;
      is_told &= whole == units || fabs(whole) >= kLeastExact;
      is_whole &= own == rint(own);
    }
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(~0u, squares, step);
    squares_ = squares;
    is_told_ = __all_sync(~0u, is_told);
    // Products of whole numbers, and sums of them, are exact as long as no bit of float64 is beyond them.
    is_whole_ = __all_sync(~0u, is_whole) && squares <= static_cast<double>(1ll << 40);
    if (is_told_) make(0);
  }

  __device__ double squares() const { return squares_; }
  __device__ bool is_told() const { return is_told_; }
  __device__ bool is_whole() const { return is_whole_; }
  // Of the lane's two sums of products, the first of which counts 256 times as much.
  __device__ double weighed(int first, int second) const {
    return weight_ * (256.0 * first + static_cast<double>(second));
  }

  // Those of kPieces pieces from `first` on. By whole warps.
  __device__ void make(int64_t first) {
    __syncwarp();  // no lane reads what is written over
    for (int word = lane(); word < kPieces * kPieceDims / 4; word += 32) {
      const int64_t at = first * kPieceDims + 4 * word;
      if (at / kPieceDims * kPieceDims >= dims_) break;
      uint32_t digits[kDigits] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const double own = at + i < dims_ ? query_[at + i] : 0.0;
        // Each byte is 128 more than its digit.
        const uint64_t units = static_cast<uint64_t>(llrint(own * scale_)) + 0x808080808080ull;
#pragma unroll
        for (int d = 0; d < kDigits; ++d) {
          const auto byte = static_cast<uint32_t>(units >> 8 * (kDigits - 1 - d)) & 0xFF;
          digits[d] |= (byte ^ 0x80) << 8 * i;
        }
      }
      const int in_piece = word % kPieceWords;
      const int place = kShifted ? in_piece % 4 * 4 + in_piece / 4 : in_piece;
#pragma unroll
      for (int d = 0; d < kDigits; ++d) {
        words_[(word / kPieceWords * kDigits + d) * kPieceWords + place] = digits[d];
      }
    }
    __syncwarp();  // all are there
  }

  // The lane's 16 bytes of a piece, of those that are made: of the digit whose number is its quarter's; zeros
  // where there is none.
  __device__ void get(int piece, uint32_t (&words)[4]) const {
    const int digit = lane() / 4;
    load_word<16>(words_ + (piece * kDigits + digit) * kPieceWords + lane() % 4 * 4, digit < kDigits, words);
  }

 private:
  static constexpr int kPieceWords = kPieceDims / 4;

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  const float* const query_;
  const int64_t dims_;
  uint32_t* const words_;
  double scale_, weight_, squares_;
  bool is_told_, is_whole_;
};

// Of numbers of kRows rows that each of four lanes has a part of, the sums: of four rows each lane's own, of
// one row the same in all.
template <int kRows, class Number>
__device__ Number sum_over_four(Number (&parts)[kRows]) {
#pragma unroll
  for (int step = 2; step > 0; step /= 2) {
    constexpr bool kShares = kRows == 4;
    const bool upper = kShares && (threadIdx.x & step) != 0;
#pragma unroll
    for (int i = 0; i < (kShares ? step : 1); ++i) {
      const Number kept = upper ? parts[i + (kShares ? step : 0)] : parts[i];
      const Number given = upper ? parts[i] : parts[i + (kShares ? step : 0)];
      parts[i] = kept + __shfl_xor_sync(~0u, given, step);
    }
  }
  return parts[0];
}

// Of a candidate: its products with the query, or, of l2 where it is so said, the distance; and its squares.
struct ByteSums {
  double product, squares;
  bool is_distance;
};

// Element by element. By whole warps; the same in all lanes.
__device__ __noinline__ inline ByteSums sums_directly(const float* query, const uint8_t* row, float scale,
                                                      int64_t dims, DType dtype, Metric metric) {
  ByteSums sums{0, 0, metric == Metric::kL2};
  for (int64_t i = threadIdx.x % 32; i < dims; i += 32) {
    const float number =
        dtype == DType::kInt8 ? static_cast<float>(static_cast<int8_t>(row[i])) : static_cast<float>(row[i]);
    const double difference = fmaf(-scale, number, query[i]);
    sums.product += sums.is_distance ? difference * difference : static_cast<double>(query[i]) * number;
    sums.squares += static_cast<double>(number) * number;
  }
  for (int step = 16; step > 0; step /= 2) {
    sums.product += __shfl_xor_sync(~0u, sums.product, step);
    sums.squares += __shfl_xor_sync(~0u, sums.squares, step);
  }
  return sums;
}

// As CandidateScores.
template <class Layout>
class ByteScores {
  using Rows = RowsAhead<Bytes, Layout>;
  using RowPiece = Piece<Bytes, Layout>;
  static constexpr int kRows = Layout::kRows;
  static constexpr bool kShifted = Layout::kShifted;
  using Digits = QueryDigits<kShifted>;
  static_assert(RowPiece::kRowElements == Digits::kPieceDims);
  // Rows are multiplied in pairs, of which the second may be none.
  static constexpr int kPairs = (kRows + 1) / 2;
  // Below this share of what it is the difference of, a distance has lost too many of float64's 53 bits.
  static constexpr double kLeastShare = 1.0 / (1 << 27);

 public:
  static constexpr int kBatchRows = Rows::kBatchRows;
  static constexpr size_t kSharedBytes = Rows::kSharedBytes + kDigitBytes;

  // `shared` is kSharedBytes of this warp's own, 16-byte aligned.
  __device__ ByteScores(const Params& params, int64_t query, int64_t first, int64_t step, int64_t end,
                        void* shared)
      : params_(params),
        query_(static_cast<const float*>(params.buffers.queries) + query * params.problem.query_stride),
        row_(candidate_row_before(params.problem, params.buffers, query, end)),
        rows_(params, row_, tile_of(params), first, step, static_cast<char*>(shared) + kDigitBytes),
        digits_(query_, params.problem.dims, shared) {}

  __device__ static int tile_of(const Params& params) {
    return kBatchRows == 32 ? 32 : max(params.tile, kBatchRows);
  }
  __device__ int64_t count() const { return row_.count; }
  __device__ int64_t position(int64_t tile) const { return rows_.position(tile); }

  // By whole warps, tile after tile from `first` on; see score_selection.cuh.
  __device__ uint32_t operator()() {
    const uint32_t present = rows_.next_tile();
    if (present == 0) {
      rows_.pass_tile();
      return kMissingKey;
    }
    Sums own = sums_of(present);
    const float scale = rows_.scale();
    const bool is_there = (present >> lane() & 1) != 0;
    add_directly(is_there, scale, own);
    return is_there ? distance_key(params_.problem.metric, __float_as_uint(distance(own, scale)))
                    : kMissingKey;
  }

 private:
  using Sums = ByteSums;

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  // Of the candidate of each lane; of no meaning where it is missing.
  __device__ Sums sums_of(uint32_t present) {
    Sums own{};
    const int batches = tile_of(params_) / kBatchRows;
#pragma unroll 1
    for (int batch = 0; batch < batches; ++batch) {
      if ((present & lanes_of_batch<Layout>(batch)) == 0) continue;
      double products[kRows] = {}, squares[kRows] = {};
      if (params_.problem.dtype == DType::kInt8) {
        read_batch<true>(batch, products, squares);
      } else {
        read_batch<false>(batch, products, squares);
      }
      const double product = sum_over_four<kRows>(products), square = sum_over_four<kRows>(squares);
      if (kBatchRows == 32 || (lanes_of_batch<Layout>(batch) >> lane() & 1) != 0) {
        own.product = product;
        own.squares = square;
      }
    }
    return own;
  }

  // Adds this lane's part of each row's sums.
  template <bool kSigned>
  __device__ __forceinline__ void read_batch(int batch, double (&products)[kRows], double (&squares)[kRows]) {
    const int base = lane() / 4 * 4 + batch * Layout::kBatchLane;
    const int64_t pieces = RowPiece::count(params_.problem.dims);
    typename Rows::Batch rows = rows_.batch(base);
#pragma unroll 1
    for (int64_t begin = 0; begin < pieces; begin += Digits::kPieces) {
      if (pieces > Digits::kPieces && digits_.is_told()) digits_.make(begin);
      const int end = static_cast<int>(min(pieces - begin, int64_t{Digits::kPieces}));
      int sums[kPairs][4] = {}, own_squares[kRows] = {};
#pragma unroll 1
      for (int piece = 0; piece < end; ++piece) {
        const typename Rows::Step step = rows.next(begin + piece);
        if (digits_.is_told()) add_piece<kSigned>(step, piece, sums, own_squares);
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        products[i] += digits_.weighed(sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1]);
        squares[i] += own_squares[i];
      }
    }
  }

  template <bool kSigned>
  __device__ __forceinline__ void add_piece(const typename Rows::Step& step, int piece,
                                            int (&sums)[kPairs][4], int (&squares)[kRows]) {
    uint32_t digits[4];
    digits_.get(piece, digits);
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      uint32_t rows[2][4] = {};
#pragma unroll
      for (int i = 0; i < 2 && 2 * pair + i < kRows; ++i) {
        const int row = 2 * pair + i;
        step.get(row, 0, rows[i]);
        if (params_.problem.metric == Metric::kInnerProduct) continue;
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          if constexpr (kSigned) {
            squares[row] = __dp4a(static_cast<int>(rows[i][w]), static_cast<int>(rows[i][w]), squares[row]);
          } else {
            squares[row] =
                static_cast<int>(__dp4a(rows[i][w], rows[i][w], static_cast<unsigned>(squares[row])));
          }
        }
      }
#pragma unroll
      for (int half = 0; half < 4; half += 2) {
        multiply_bytes<kSigned>(sums[pair],
                                {rows[0][half], rows[1][half], rows[0][half + 1], rows[1][half + 1]},
                                {digits[half], digits[half + 1]});
      }
    }
  }

  // What the sums are the difference of.
  __device__ double whole(const Sums& sums, float scale) const {
    return digits_.squares() + static_cast<double>(scale) * scale * sums.squares;
  }
  __device__ double l2(const Sums& sums, float scale) const {
    return whole(sums, scale) - 2.0 * scale * sums.product;
  }

  // Whether the lane's sums tell its distance.
  __device__ bool is_told(const Sums& sums, float scale) const {
    if (!digits_.is_told()) return false;
    if (params_.problem.metric != Metric::kL2) return true;
    if (digits_.is_whole() && params_.buffers.scales == nullptr) return true;
    // Nor where a scale is not finite: the distance is not, or is no number.
    return l2(sums, scale) >= kLeastShare * whole(sums, scale) && fabsf(scale) <= __uint_as_float(0x7F7FFFFF);
  }

  // The sums of those candidates whose own do not tell, one after the other. By whole warps.
  __device__ __forceinline__ void add_directly(bool is_there, float scale, Sums& own) const {
    uint32_t left = __ballot_sync(~0u, is_there && !is_told(own, scale));
    for (; left != 0; left &= left - 1) {
      const int owner = __ffs(static_cast<int>(left)) - 1;
      const auto* const row = reinterpret_cast<const uint8_t*>(
          __shfl_sync(~0u, reinterpret_cast<unsigned long long>(rows_.from()), owner));
      const Sums sums = sums_directly(query_, row, __shfl_sync(~0u, scale, owner), params_.problem.dims,
                                      params_.problem.dtype, params_.problem.metric);
      if (lane() == owner) own = sums;
    }
  }

  __device__ float distance(const Sums& sums, float scale) const {
    const Metric metric = params_.problem.metric;
    if (metric == Metric::kInnerProduct) return static_cast<float>(sums.product * scale);
    if (metric == Metric::kL2) {
      return static_cast<float>(sums.is_distance ? sums.product : fmax(l2(sums, scale), 0.0));
    }
    const double lengths = sqrt(digits_.squares() * sums.squares);
    const double cosine = sums.product / (lengths == 0 ? 1.0 : lengths);
    return clamped_cosine(static_cast<float>(cosine)) * sign_of(scale);
  }

  const Params& params_;
  const float* const query_;
  const CandidateRow row_;
  Rows rows_;
  Digits digits_;
};

}  // namespace gputopk::cuda::rerank
