// Where the rows of a tensor lie, whichever its selected dimension and its strides: the CPU reads and writes
// them in place.
#pragma once

#include <cstdint>

namespace gputopk::cpu {

// The outputs are dense [rows / inner, k, inner].
struct Layout {
  static constexpr int kMaxDims = 63;  // of two elements and more, in a tensor of fewer than 2^63 elements

  int64_t col_stride = 1;  // elements from one element of a row to the next
  int64_t inner = 1;       // rows whose outputs lie side by side: those of the dimensions behind the selected
  int dims = 0;            // rows are numbered over these, the last one fastest
  int64_t sizes[kMaxDims];
  int64_t strides[kMaxDims];  // in elements

  // A dimension within those added before; it becomes one with the last of them where one stride walks both.
  void add_dim(int64_t size, int64_t stride) {
    if (size == 1) return;
    const bool merges = dims > 0 && strides[dims - 1] == size * stride;
    if (!merges) sizes[dims++] = 1;
    sizes[dims - 1] *= size;
    strides[dims - 1] = stride;
  }
};

// Of a tensor whose dimension `dim` is selected along.
inline Layout layout_of(const int64_t* sizes, const int64_t* strides, int64_t dims, int64_t dim) {
  Layout layout;
  for (int64_t i = 0; i < dims; ++i) {
    if (i == dim) continue;
    layout.add_dim(sizes[i], strides[i]);
    if (i > dim) layout.inner *= sizes[i];
  }
  if (dims > 0 && sizes[dim] > 1) layout.col_stride = strides[dim];
  return layout;
}

// Goes from row to row.
class RowWalker {
 public:
  RowWalker(const Layout& layout, int64_t k, int64_t row) : layout_(layout), k_(k) {
    inner_at_ = row % layout.inner;
    place_ = (row - inner_at_) * k + inner_at_;
    for (int dim = layout.dims; dim-- > 0; row /= layout.sizes[dim]) {
      at_[dim] = row % layout.sizes[dim];
      offset_ += at_[dim] * layout.strides[dim];
    }
  }

  int64_t offset() const { return offset_; }  // of the row's first element, in elements of the input
  int64_t place() const { return place_; }    // of its best winner, in elements of the outputs

  void advance() {
    ++place_;
    if (++inner_at_ == layout_.inner) {
      inner_at_ = 0;
      place_ += (k_ - 1) * layout_.inner;
    }
    for (int dim = layout_.dims; dim-- > 0;) {
      offset_ += layout_.strides[dim];
      if (++at_[dim] < layout_.sizes[dim]) return;
      offset_ -= layout_.sizes[dim] * layout_.strides[dim];
      at_[dim] = 0;
    }
  }

 private:
  const Layout& layout_;
  const int64_t k_;
  int64_t offset_ = 0;
  int64_t place_;
  int64_t inner_at_;
  int64_t at_[Layout::kMaxDims];
};

}  // namespace gputopk::cpu
