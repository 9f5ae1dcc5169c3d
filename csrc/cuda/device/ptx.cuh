// Instructions that CUDA C++ has no name for: all inline PTX is here, each behind a function.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gputopk::cuda {

// Asks for `bytes` of memory to be fetched into L2; both are multiples of 16. By one thread.
__device__ inline void prefetch_bulk(const void* first, uint32_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(first)), "r"(bytes)
               : "memory");
#else
  (void)first, (void)bytes;
#endif
}

// Starts to copy a word of so many bytes from global to shared memory, or as many zeros where nothing is
// `there`, and then reads nothing. 16 bytes are kept out of L1. GPUs before compute capability 8.0 wait for
// it.
template <int kBytes>
__device__ __forceinline__ void copy_ahead(void* to, const void* from, bool there) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  const auto global = __cvta_generic_to_global(from);
  const int bytes = there ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(global), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(global), "n"(kBytes),
                 "r"(bytes)
                 : "memory");
  }
#else
  using Word = std::conditional_t<kBytes == 16, uint4, std::conditional_t<kBytes == 8, uint2, uint32_t>>;
  *static_cast<Word*>(to) = there ? *static_cast<const Word*>(from) : Word{};
#endif
}

// Asks for an aligned word of 32 bits, or for a zero where nothing is `there`. Words are asked for in the
// order of the calls: a compiler that is short of registers would wait for each before the next. One byte of
// it at least is the caller's to read, and with it lies in memory that is there; others mean nothing.
__device__ __forceinline__ uint32_t ask_for(const void* from, bool there) {
  uint32_t word = 0;
  asm volatile(
      "{ .reg .pred there;\n\t"
      "setp.ne.u32 there, %2, 0;\n\t"
      "@there ld.global.nc.u32 %0, [%1]; }"
      : "+r"(word)
      : "l"(__cvta_generic_to_global(from)), "r"(static_cast<unsigned>(there)));
  return word;
}

// Ends a group of copies, which may be of none.
__device__ __forceinline__ void end_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for all of this thread's groups but the last kGroups. The thread then may read what they have copied.
template <int kGroups>
__device__ __forceinline__ void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
#endif
}

// What mailbox.cuh is made of: an mbarrier whose one arrival is the block's that says how many bytes are to
// come.
using MailboxState = uint64_t;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}
__device__ __forceinline__ void open_mailbox(MailboxState* state) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(
                   shared_address(state))
               : "memory");
}
__device__ __forceinline__ void expect_mail(MailboxState* state, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.relaxed.cluster.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(state)),
      "r"(bytes)
      : "memory");
}
// `to` and `state` are in a block of the cluster, mapped.
template <class Word>
__device__ __forceinline__ void send_mail(Word* to, Word word, MailboxState* state) {
  static_assert(sizeof(Word) == 4 || sizeof(Word) == 8);
  if constexpr (sizeof(Word) == 4) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(shared_address(to)),
        "r"(word), "r"(shared_address(state))
        : "memory");
  } else {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u64 [%0], %1, [%2];" ::"r"(shared_address(to)),
        "l"(word), "r"(shared_address(state))
        : "memory");
  }
}
__device__ __forceinline__ void wait_for_mail(MailboxState* state) {
  asm volatile(
      "{ .reg .pred there;\n\t"
      "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 there, [%0], 0;\n\t"
      "@!there bra again; }" ::"r"(shared_address(state))
      : "memory");
}
#else
// No kernel that mails is launched there.
__device__ __forceinline__ void open_mailbox(MailboxState*) {}
__device__ __forceinline__ void expect_mail(MailboxState*, uint32_t) {}
template <class Word>
__device__ __forceinline__ void send_mail(Word*, Word, MailboxState*) {
  __trap();
}
__device__ __forceinline__ void wait_for_mail(MailboxState*) { __trap(); }
#endif

// The same number, which the compiler takes for another one: what is computed of it is computed anew at each
// use, not kept in registers from one to the next.
__device__ inline uint32_t anew(uint32_t x) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(x));
#endif
  return x;
}
__device__ inline uint64_t anew(uint64_t x) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+l"(x));
#endif
  return x;
}

// Adds to `sum` that of the lane `step` before, where one of the same kLanes is.
template <int kLanes, class Word>
__device__ inline void add_from_before(Word& sum, int step) {
  static_assert(sizeof(Word) == 4);
#ifdef __CUDA_ARCH__
  asm volatile(
      "{ .reg .s32 other; .reg .pred is_there;\n\t"
      "shfl.sync.up.b32 other|is_there, %0, %1, %2, 0xFFFFFFFF;\n\t"
      "@is_there add.s32 %0, %0, other; }"
      : "+r"(sum)
      : "r"(step), "n"((32 - kLanes) << 8));
#else
  const Word other = __shfl_up_sync(~0u, sum, step);
  if (static_cast<int>(threadIdx.x % kLanes) >= step) sum += other;
#endif
}

// Counts where x > y.
template <class T>
__device__ inline void count_greater(int& count, T x, T y) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, uint32_t>) {
    asm("{ .reg .pred greater;\n\t"
        "setp.gt.u32 greater, %1, %2;\n\t"
        "@greater add.s32 %0, %0, 1; }"
        : "+r"(count)
        : "r"(x), "r"(y));
    return;
  }
#endif
  count += x > y;
}

}  // namespace gputopk::cuda
