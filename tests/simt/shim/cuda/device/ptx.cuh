// The functions of csrc's header of this name, without PTX.
#pragma once

#include <cstdint>

#include "simt.h"

namespace gputopk::cuda {

inline void prefetch_bulk(const void* first, uint32_t bytes) {
  if (reinterpret_cast<uintptr_t>(first) % 16 != 0 || bytes % 16 != 0) {
    ::simt::fail("prefetch_bulk of %u bytes from %p, not both multiples of 16", bytes, first);
  }
}

inline void make_copy(const ::simt::Copy& copy) {
  const auto make = [&](auto like) {
    using Word = decltype(like);
    *static_cast<Word*>(copy.to) = copy.from == nullptr ? Word{} : *static_cast<const Word*>(copy.from);
  };
  if (copy.bytes == 16) {
    make(uint4{});
  } else if (copy.bytes == 8) {
    make(uint2{});
  } else {
    make(uint32_t{});
  }
}

// A copy is made as late as may be, when it is waited for, so that what is read before shows; or, by the
// seed, at once, so that what is overwritten too early does.
template <int kBytes>
inline void copy_ahead(void* to, const void* from, bool there) {
  const ::simt::Copy copy{to, there ? from : nullptr, kBytes};
  if (::simt::copies_early()) {
    make_copy(copy);
  } else {
    ::simt::start_copy(copy);
  }
}
inline uint32_t ask_for(const void* from, bool there) { return there ? ::simt::word_around(from) : 0; }
inline void end_copies() { ::simt::end_copies(); }
template <int kGroups>
inline void wait_for_copies() {
  ::simt::Copy copy;
  while (::simt::next_copy(kGroups, copy)) make_copy(copy);
}

using MailboxState = uint64_t;
inline void open_mailbox(MailboxState* state) { ::simt::open_mailbox(state); }
inline void expect_mail(MailboxState* state, uint32_t bytes) { ::simt::expect_mail(state, bytes); }
template <class Word>
inline void send_mail(Word* to, Word word, MailboxState* state) {
  static_assert(sizeof(Word) == 4 || sizeof(Word) == 8);
  ::simt::send_mail(to, ::simt::bits_as<uint64_t>(word), sizeof(Word), state);
}
inline void wait_for_mail(MailboxState* state) { ::simt::wait_for_mail(state); }

inline uint32_t anew(uint32_t x) { return x; }
inline uint64_t anew(uint64_t x) { return x; }

template <int kLanes, class Word>
inline void add_from_before(Word& sum, int step) {
  const Word other = __shfl_up_sync(~0u, sum, step);
  if (static_cast<int>(threadIdx.x % kLanes) >= step) sum += other;
}

template <class T>
inline void count_greater(int& count, T x, T y) {
  count += x > y;
}

}  // namespace gputopk::cuda
