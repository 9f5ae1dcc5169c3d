// One top-k request in plain numbers: what the binding hands to the CPU and CUDA algorithms.
//
// The contract, which every algorithm keeps on every device:
//   - Each row of `cols` elements yields its k largest (or smallest) elements: `values`, bit copies of the
//     input, and `indices`, their unique positions in the row, both as dense [rows, k].
//   - Values are ordered as key_order.h says: NaN above +inf, -0 equal to +0, integers by value;
//     with `magnitude` by absolute value.
//   - Among equal values the lower index wins, so the chosen set is a pure function of the row.
//   - `sorted`: best first, equal values by index. Otherwise the same set in any order, or, `by_index`, by
//     ascending index. Or, `last_alone`, the last of the sorted ones alone, at place k - 1: the worst, of
//     equal ones that of the highest index. What is at the other places is not said.
#pragma once

#include <cstdint>

namespace gputopk {

enum class DType : uint8_t {
  kBool,
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kUInt64,
  kInt64,
  kFloat8E4M3,
  kFloat8E5M2,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
};

// What to run. The numbers are the operator's `algorithm` argument and never change meaning.
enum class Algorithm : uint8_t {
  kAuto = 0,         // the plan's choice
  kAir = 1,          // radix selection: any dtype, rows, cols and k
  kGridSelect = 2,   // queues of candidates on the fly: small k
  kDelegate = 3,     // maxima of subranges first: long rows
  kBitonic = 4,      // sorting networks: short rows
  kSplitBucket = 5,  // split-bucket partition
  kSort = 6,         // sort the whole row: k near cols
};

struct Problem {
  DType dtype = DType::kFloat32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;  // elements from one row to the next; elements of a row are adjacent
  int64_t k = 0;           // 1 <= k <= cols wherever an algorithm is called
  bool largest = true;
  bool sorted = true;
  bool by_index = false;    // and not sorted; CUDA alone
  bool last_alone = false;  // and neither of these
  bool magnitude = false;
  bool wide_indices = true;  // int64 indices; otherwise int32
};

struct Buffers {
  const void* input = nullptr;  // rows x cols elements, row_stride apart
  void* values = nullptr;       // rows x k elements of the input's dtype, dense
  void* indices = nullptr;      // rows x k of int64 or int32, dense
  void* workspace = nullptr;    // as many bytes as the plan asks for, 256-byte aligned, content arbitrary
};

constexpr int dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2: return 1;
    case DType::kUInt16:
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBFloat16: return 2;
    case DType::kUInt32:
    case DType::kInt32:
    case DType::kFloat32: return 4;
    default: return 8;
  }
}

// Bits that hold every number up to `value`.
constexpr int bit_width(uint64_t value) {
  int bits = 0;
  for (; value > 0; value >>= 1) ++bits;
  return bits;
}

constexpr bool is_floating(DType dtype) { return dtype >= DType::kFloat8E4M3; }

constexpr const char* dtype_name(DType dtype) {
  constexpr const char* kNames[] = {"bool",        "uint8",   "int8",     "uint16",  "int16",
                                    "uint32",      "int32",   "uint64",   "int64",   "float8_e4m3fn",
                                    "float8_e5m2", "float16", "bfloat16", "float32", "float64"};
  return kNames[static_cast<int>(dtype)];
}

constexpr int kAlgorithms = 7;

constexpr const char* algorithm_name(Algorithm algorithm) {
  constexpr const char* kNames[kAlgorithms] = {"auto",    "air",          "grid_select", "delegate",
                                               "bitonic", "split_bucket", "sort"};
  return kNames[static_cast<int>(algorithm)];
}

}  // namespace gputopk
