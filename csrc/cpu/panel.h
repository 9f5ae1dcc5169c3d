// Rows whose elements are not adjacent, as columns are: a batch of them is copied into a panel of dense rows,
// a tile at a time, so that the memory is read by whole cache lines and the panel stays in the cache.
#pragma once

#include <cstdint>

#include "cpu/lanes.h"
#include "cpu/select_rows.h"

namespace gputopk::cpu::GPUTOPK_CPU_LEVEL {

// So many elements of each row are copied in turn: as many cache lines stay in the first level, even if they
// lie a power of two apart.
constexpr int64_t kGatherBlock = 8;

// How far ahead cache lines are asked for, in elements of a row. No processor foresees such strides.
constexpr int64_t kGatherPrefetch = 32;

inline void prefetch_far(const void* from, int64_t bytes) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(from) + bytes));
}

// Elements [begin, end) of each row.
template <class Bits>
void gather_panel(const Batch& batch, int64_t begin, int64_t end, Bits* panel, int64_t pitch) {
  const int64_t stride = batch.col_stride;
  for (int64_t block = begin; block < end; block += kGatherBlock) {
    const int64_t block_end = smaller(block + kGatherBlock, end);
    for (int64_t j = block; j < block_end; ++j) {  // most often all rows are in these two lines
      prefetch_far(batch.rows[0], (j + kGatherPrefetch) * stride * static_cast<int64_t>(sizeof(Bits)));
      prefetch_far(batch.rows[batch.count - 1],
                   (j + kGatherPrefetch) * stride * static_cast<int64_t>(sizeof(Bits)));
    }
    for (int64_t i = 0; i < batch.count; ++i) {
      const Bits* const row = static_cast<const Bits*>(batch.rows[i]);
      Bits* const to = panel + i * pitch - begin;
      for (int64_t j = block; j < block_end; ++j) to[j] = row[j * stride];
    }
  }
}

// So many elements of each of `rows` rows fit a panel: whole strips.
template <class Bits>
int64_t panel_cols(int64_t rows) {
  return kPanelBytes / (rows * static_cast<int64_t>(sizeof(Bits))) / kStrip * kStrip;
}

// Makes the batch's rows dense: of whole rows, that fit the panel.
template <class Bits>
void gather_rows(Batch& batch, const Scratch& scratch) {
  Bits* const panel = reinterpret_cast<Bits*>(scratch.panel);
  const int64_t pitch = panel_pitch(batch.cols, sizeof(Bits));
  gather_panel(batch, 0, batch.cols, panel, pitch);
  for (int64_t i = 0; i < batch.count; ++i) batch.rows[i] = panel + i * pitch;
  batch.col_stride = 1;
}

}  // namespace gputopk::cpu::GPUTOPK_CPU_LEVEL
