// One ragged top-k request in plain numbers: what the binding hands to the CPU and CUDA algorithms.
//
// The contract, which both keep, besides problem.h's:
//   - A row's window is [start, start + length) of its columns; starts and lengths are clamped into
//     [0, cols], and the window's end to cols. Nothing outside it is read.
//   - Its candidates are the elements of the window whose mask is set, whose id is not negative, and of which
//     all conditions hold. It has min(row_k, k, candidates) winners, and row_k is clamped into [0, k].
//   - Winners stand first, then padding: pad_index and pad_bits. A NaN or infinite candidate is no padding.
//   - An index is the position in the window, counted from its start, or what IndexMap makes of it.
//   - Ties go to the lower position. Where all candidates win, `any` order is by position.
#pragma once

#include <cstdint>

#include "core/condition.h"
#include "core/key_order.h"
#include "core/problem.h"

namespace gputopk {

// The numbers are the operator's `order` argument and never change meaning.
enum class WinnerOrder : uint8_t {
  kAny = 0,
  kByValue = 1,
  kByIndex = 2,  // by position
};

constexpr int kWinnerOrders = 3;

// A table of int64 where `wide`, else of int32; a stride of 0 makes rows or columns share numbers.
struct Numbers {
  const void* data = nullptr;  // null: there are none
  bool wide = false;
  int64_t row_stride = 0;
  int64_t col_stride = 0;

  GPUTOPK_HOST_DEVICE int64_t at(int64_t row, int64_t col = 0) const {
    const int64_t place = row * row_stride + col * col_stride;
    return wide ? static_cast<const int64_t*>(data)[place] : static_cast<const int32_t*>(data)[place];
  }
};

GPUTOPK_HOST_DEVICE int64_t clamp_number(int64_t x, int64_t least, int64_t most) {
  return x < least ? least : x > most ? most : x;
}

// Of a row: the part that is selected from, and how many winners may come of it.
struct Window {
  int64_t start;
  int64_t length;
  int64_t k;
};

struct Windows {
  Numbers starts, lengths, row_k;  // a number a row, each or none
  int64_t cols = 0;
  int64_t k = 0;

  GPUTOPK_HOST_DEVICE Window of(int64_t row) const {
    // All are on their way before one is looked at.
    const int64_t start = starts.data ? starts.at(row) : 0, length = lengths.data ? lengths.at(row) : cols;
    const int64_t wanted = row_k.data ? row_k.at(row) : k;
    Window window{clamp_number(start, 0, cols), 0, clamp_number(wanted, 0, k)};
    window.length = clamp_number(length, 0, cols - window.start);
    return window;
  }

  // Which element of the window is the one wanted, counted from 1, best first; 0: there is no such element.
  GPUTOPK_HOST_DEVICE int64_t kth_of(int64_t row) const {
    const int64_t wanted = row_k.at(row);
    return wanted >= 1 && wanted <= of(row).length ? wanted : 0;
  }
};

// Four of a query's, and three keys that are to equal another element's.
constexpr int kMostConditions = 7;

// Which elements of a window are candidates.
struct Filter {
  const uint8_t* mask = nullptr;  // 0: none
  int64_t mask_row_stride = 0;    // its elements of a row are adjacent
  Numbers ids;                    // negative: none
  Condition conditions[kMostConditions];
  int condition_count = 0;

  GPUTOPK_HOST_DEVICE bool filters() const {
    return mask != nullptr || ids.data != nullptr || condition_count > 0;
  }
};

// What becomes of a winner's position; at most one of offsets, ids and page_table.
struct IndexMap {
  Numbers offsets;     // a number a row
  Numbers ids;         // of columns
  Numbers page_table;  // tables x pages
  Numbers page_row;    // a number a row; none: the row's own table
  Numbers page_start;  // a number a row; none: 0
  int64_t tables = 0;
  int64_t pages = 0;
  int page_shift = 0;  // a page has 2^page_shift positions
  int64_t pad_index = -1;

  // Where the table has no such page, pad_index.
  GPUTOPK_HOST_DEVICE int64_t of(int64_t row, int64_t start, int64_t position) const {
    if (ids.data) return ids.at(row, start + position);
    if (offsets.data) return position + offsets.at(row);
    if (!page_table.data) return position;
    const int64_t table = page_row.data ? page_row.at(row) : row;
    const int64_t page = (page_start.data ? page_start.at(row) : 0) + (position >> page_shift);
    if (table < 0 || table >= tables || page < 0 || page >= pages) return pad_index;
    const int64_t physical = page_table.at(table, page);
    if (physical < 0) return pad_index;
    return (physical << page_shift) | (position & ((int64_t{1} << page_shift) - 1));
  }
};

struct VarlenProblem {
  Problem problem;  // its k may exceed cols: places of a row in the outputs; `sorted` says nothing
  WinnerOrder order = WinnerOrder::kAny;
  Windows windows;
  Filter filter;
  IndexMap map;
  // One place a row: the element number row_k of the window, or padding where there is none. Outputs are
  // dense, without counts; there is no filter and no map, and `order` says nothing.
  bool kth_alone = false;
  int64_t max_length = 0;  // what the plan may take rows to be no longer than; they may be
};

struct VarlenBuffers {
  const void* input = nullptr;
  void* values = nullptr;  // rows x k of the input's dtype, value_stride apart; null: not wanted
  void* indices = nullptr;
  int64_t value_stride = 0;
  int64_t index_stride = 0;
  int32_t* counts = nullptr;  // rows
  void* workspace = nullptr;  // 256-byte aligned, content arbitrary
};

// The value of padding, the worst number of the order: -inf, +inf, the least or the greatest integer, 0.
constexpr uint64_t pad_bits(DType dtype, bool largest, bool magnitude) {
  const uint64_t all = ~uint64_t{0} >> (64 - 8 * dtype_bytes(dtype));
  const uint64_t sign = all ^ (all >> 1);
  if (magnitude && largest) return 0;
  if (is_floating(dtype)) return largest ? sign | max_magnitude_bits(dtype) : max_magnitude_bits(dtype);
  if (dtype == DType::kBool) return largest ? 0 : 1;
  if (!is_signed_integer(dtype)) return largest ? 0 : all;
  return largest || magnitude ? sign : all >> 1;
}

}  // namespace gputopk
