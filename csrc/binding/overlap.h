// Whether tensors share memory, from their strides. Exact, by a search that gives up only on layouts made to
// defeat it, and then says that they do.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gputopk::binding {
namespace overlap_detail {

// A part of an address: stride times any of 0 .. count - 1.
struct Term {
  int64_t stride, count;
};

inline int64_t reach(const Term& term) { return term.stride * (term.count - 1); }

// Whether low <= a sum of one multiple of each term from `i` on <= high. With the largest strides first, what
// the terms behind can reach leaves each term few multiples: in layouts that nest, two or three.
inline bool can_lie_in(const std::vector<Term>& terms, size_t i, int64_t low, int64_t high, int64_t& budget) {
  if (high < 0) return false;
  if (low <= 0) return true;  // all zero
  if (i == terms.size()) return false;
  if (--budget < 0) return true;
  int64_t behind = 0;
  for (size_t j = i + 1; j < terms.size(); ++j) behind += reach(terms[j]);
  const int64_t stride = terms[i].stride;
  const int64_t first = low > behind ? (low - behind + stride - 1) / stride : 0;
  const int64_t last = std::min(terms[i].count - 1, high / stride);
  for (int64_t n = first; n <= last; ++n) {
    if (can_lie_in(terms, i + 1, low - n * stride, high - n * stride, budget)) return true;
  }
  return false;
}

inline bool can_lie_in(const std::vector<Term>& terms, int64_t low, int64_t high) {
  int64_t budget = 1 << 20;  // some ten milliseconds
  return can_lie_in(terms, 0, low, high, budget);
}

// The dimensions that move an address, in bytes, largest strides first.
inline std::vector<Term> terms_of(const torch::stable::Tensor& tensor) {
  std::vector<Term> terms;
  const int64_t bytes = static_cast<int64_t>(tensor.element_size());
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1) terms.push_back({tensor.stride(i) * bytes, tensor.size(i)});
  }
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.stride > b.stride; });
  return terms;
}

inline int64_t reach(const std::vector<Term>& terms) {
  int64_t sum = 0;
  for (const Term& term : terms) sum += reach(term);
  return sum;
}

}  // namespace overlap_detail

// Whether two elements of the tensor are one. The difference of two such elements' positions is zero in the
// dimensions before some `i`, positive in `i` (else swap the two) and anything in those behind.
inline bool overlaps_itself(const torch::stable::Tensor& tensor) {
  using namespace overlap_detail;
  if (tensor.is_contiguous()) return false;
  if (tensor.numel() == 0) return false;
  const std::vector<Term> dims = terms_of(tensor);
  int64_t behind = reach(dims);
  for (size_t i = 0; i < dims.size(); ++i) {
    behind -= reach(dims[i]);
    if (dims[i].stride > behind) continue;  // this dimension's step clears all behind it
    if (dims[i].stride == 0) return true;
    std::vector<Term> differences{{dims[i].stride, dims[i].count - 1}};
    for (size_t j = i + 1; j < dims.size(); ++j)
      differences.push_back({dims[j].stride, 2 * dims[j].count - 1});
    // Shifted by `behind`, so that no multiple is negative.
    const int64_t zero = behind - dims[i].stride;
    if (can_lie_in(differences, zero, zero)) return true;
  }
  return false;
}

// Whether an element of `a` and one of `b` share a byte.
inline bool overlap(const torch::stable::Tensor& a, const torch::stable::Tensor& b) {
  using namespace overlap_detail;
  if (a.numel() == 0 || b.numel() == 0) return false;
  const int64_t distance = static_cast<int64_t>(reinterpret_cast<intptr_t>(b.const_data_ptr()) -
                                                reinterpret_cast<intptr_t>(a.const_data_ptr()));
  if (a.is_contiguous() && b.is_contiguous()) {
    return distance < a.numel() * static_cast<int64_t>(a.element_size()) &&
           -distance < b.numel() * static_cast<int64_t>(b.element_size());
  }
  std::vector<Term> terms = terms_of(a);
  const std::vector<Term> terms_b = terms_of(b);
  // Address in a - address in b, with b walked from its last element back, is a sum of multiples less
  // `shift`.
  const int64_t shift = distance + reach(terms_b);
  const int64_t low = shift - static_cast<int64_t>(a.element_size()) + 1;
  const int64_t high = shift + static_cast<int64_t>(b.element_size()) - 1;
  if (high < 0 || low > reach(terms) + reach(terms_b)) return false;
  // Multiples of one stride add up: one term in place of two.
  for (const Term& term : terms_b) {
    const auto same =
        std::find_if(terms.begin(), terms.end(), [&](const Term& t) { return t.stride == term.stride; });
    if (same == terms.end()) {
      terms.push_back(term);
    } else {
      same->count += term.count - 1;
    }
  }
  std::sort(terms.begin(), terms.end(), [](const Term& x, const Term& y) { return x.stride > y.stride; });
  return can_lie_in(terms, low, high);
}

}  // namespace gputopk::binding
