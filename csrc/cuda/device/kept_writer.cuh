// A row's set, of which a bit an element says what is in it, written as KeptOutput has it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/mask_problem.h"

namespace gputopk::cuda {

// So many bytes of a mask, of the lowest bits.
template <int kCount>
struct alignas(kCount) MaskBytes {
  using Word = std::conditional_t<kCount == 1, uint8_t, std::conditional_t<kCount == 2, uint16_t, uint32_t>>;
  static constexpr int kWords = kCount < 4 ? 1 : kCount / 4;
  Word words[kWords];

  __device__ static MaskBytes of(uint32_t bits) {
    MaskBytes bytes;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      // Bit i of four goes to bit 8 i, by a product with 1 + 2^7 + 2^14 + 2^21.
      bytes.words[w] = static_cast<Word>((bits >> (4 * w) & 0xF) * 0x00204081u & 0x01010101u);
    }
    return bytes;
  }
};

// So many elements of a row, or `fill` in place of those without a bit.
template <class Bits, int kCount>
struct alignas(kCount * sizeof(Bits) < 16 ? kCount * sizeof(Bits) : 16) KeptElements {
  Bits at[kCount];

  template <class Elements>
  __device__ static KeptElements of(uint32_t bits, const Elements& elements, Bits fill) {
    KeptElements kept;
#pragma unroll
    for (int i = 0; i < kCount; ++i) kept.at[i] = (bits >> i & 1) != 0 ? elements[i] : fill;
    return kept;
  }
  __device__ Bits operator[](int i) const { return at[i]; }
};

template <class Bits>
struct KeptWriter {
  void* rows;
  int64_t row_stride;
  Bits fill;
  bool keeps;
  int count;  // elements that are written at once: 16, of masks alone, 4 or 1

  // Of rows of `cols` elements that lie `stride` apart in the input.
  static KeptWriter of(const KeptOutput& output, const void* input, int64_t stride, int64_t cols) {
    const auto all_begin_with = [&](int count) {
      const auto begins = [](const void* first, int64_t apart, int bytes) {
        return (reinterpret_cast<uintptr_t>(first) | static_cast<uintptr_t>(apart)) % bytes == 0;
      };
      if (cols % count != 0) return false;
      if (!output.keeps) return begins(output.rows, output.row_stride, count);
      constexpr int kBytes = sizeof(Bits);
      const int bytes = count * kBytes < 16 ? count * kBytes : 16;
      return begins(output.rows, output.row_stride * kBytes, bytes) && begins(input, stride * kBytes, bytes);
    };
    const int count = !output.keeps && all_begin_with(16) ? 16 : all_begin_with(4) ? 4 : 1;
    return {output.rows, output.row_stride, static_cast<Bits>(output.fill), output.keeps, count};
  }

  // By so many lanes, of which each asks for bits(first), from that of element `first` on in the lowest bits.
  // `input` is the row's; in its place, no lane reads what another writes.
  template <class OfElements>
  __device__ void write(const Bits* input, int64_t row, int cols, int lane, int lanes,
                        OfElements&& bits) const {
    if (keeps) {
      Bits* const out = static_cast<Bits*>(rows) + row * row_stride;
      if (count == 4) {
        write_elements<4>(out, input, cols, lane, lanes, bits);
      } else {
        write_elements<1>(out, input, cols, lane, lanes, bits);
      }
    } else {
      uint8_t* const out = static_cast<uint8_t*>(rows) + row * row_stride;
      if (count == 16) {
        write_mask<16>(out, cols, lane, lanes, bits);
      } else if (count == 4) {
        write_mask<4>(out, cols, lane, lanes, bits);
      } else {
        write_mask<1>(out, cols, lane, lanes, bits);
      }
    }
  }

 private:
  template <int kCount, class OfElements>
  __device__ void write_elements(Bits* out, const Bits* input, int cols, int lane, int lanes,
                                 OfElements&& bits) const {
    using Elements = KeptElements<Bits, kCount>;
    for (int first = lane * kCount; first < cols; first += lanes * kCount) {
      const uint32_t own = bits(first) & ((1u << kCount) - 1);
      Elements elements{};  // of which none is wanted, none is read
      if (own != 0) elements = *reinterpret_cast<const Elements*>(input + first);
      *reinterpret_cast<Elements*>(out + first) = Elements::of(own, elements, fill);
    }
  }

  template <int kCount, class OfElements>
  __device__ void write_mask(uint8_t* out, int cols, int lane, int lanes, OfElements&& bits) const {
    for (int first = lane * kCount; first < cols; first += lanes * kCount) {
      *reinterpret_cast<MaskBytes<kCount>*>(out + first) = MaskBytes<kCount>::of(bits(first));
    }
  }
};

}  // namespace gputopk::cuda
