// What device code may use of CUDA, for the host: every name that nvcc would know without an #include. What
// they do is in emulator/. Included before each unit, which is compiled as plain C++.
//
// A `__shared__` variable is thread_local: all of them lie in one segment, which the emulator gives each
// block its own copy of. Every load and store of a kernel is announced to emulator/memory.cpp by
// -fsanitize=thread.
#pragma once

// The host's headers come first: some use CUDA's word __noinline__ for an attribute.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#define __CUDACC__ 1
#define __CUDA_ARCH__ 900
#define __device__
#define __host__
#define __global__
#ifdef SIMT_INLINES_FREELY  // as the compiler likes
#define __forceinline__ inline
#else
#define __forceinline__ inline __attribute__((always_inline))
#endif
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static thread_local

struct __align__(8) uint2 {
  unsigned x, y;
};
struct __align__(16) uint4 {
  unsigned x, y, z, w;
};
struct __align__(8) int2 {
  int x, y;
};
struct __align__(16) int4 {
  int x, y, z, w;
};
struct __align__(16) float4 {
  float x, y, z, w;
};
struct __align__(16) ulonglong2 {
  unsigned long long x, y;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

namespace simt {

struct Index3 {
  unsigned x, y, z;
};

enum class Collective : int {
  kNone,
  kSyncWarp,
  kShuffle,
  kBallot,
  kMatchAny,
  kReduceAdd,
  kReduceMin,
  kReduceMax,
  kReduceMinSigned,
  kReduceMaxSigned,
  kReduceAnd,
  kReduceOr,
  kReduceXor,
};
// By the lanes of `mask` together, each of which names itself. `from`: the lane that a shuffle reads.
uint64_t collective(Collective kind, unsigned mask, uint64_t value, int from);

enum class Vote : int { kNone, kOr, kAnd, kCount };
int block_barrier(Vote vote, int value);
// bar.sync of so many threads at a barrier of this number, 1 to 15.
void named_barrier(int barrier, int threads, bool waits);

enum class Atomic : int {
  kAdd,
  kMin,
  kMax,
  kMinSigned,
  kMaxSigned,
  kAnd,
  kOr,
  kXor,
  kExchange,
  kCompareAndSwap
};
uint64_t atomic(Atomic operation, void* address, int bytes, uint64_t value, uint64_t compared);
uint64_t load(const void* address, int bytes, bool acquires);
void store(void* address, int bytes, uint64_t value, bool releases);
void fence();
void sleep();

unsigned char* dynamic_shared();
void let_next_kernel_start();
void wait_for_kernel_before();
void grid_barrier();
uint64_t grid_arrive();  // is the barrier's turn
void grid_wait(uint64_t turn);

// A word of 32 bits of which one byte at least may be read; the others may be anything.
uint32_t word_around(const void* from);

// A thread's copies to shared memory, in groups. `from` null: zeros.
struct Copy {
  void* to;
  const void* from;
  unsigned bytes;
};
bool copies_early();  // in this run, or as late as may be
void start_copy(const Copy& copy);
void end_copies();
// The next copy of all groups but the last so many. False: there is none left.
bool next_copy(unsigned groups, Copy& copy);

// Words that blocks of a cluster send each other, by the address of the mailbox.
void open_mailbox(const void* state);
void expect_mail(const void* state, uint32_t bytes);
void send_mail(void* to, uint64_t word, uint32_t bytes, const void* state);
void wait_for_mail(const void* state);

unsigned cluster_blocks();
unsigned cluster_rank();
void cluster_arrive();
void cluster_wait();
void* map_shared(const void* address, unsigned rank);

[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Which fault is planted, in sources that have some: see mutants.py. 0: none.
extern int planted;
bool is_planted(int mutant);

// The number that a test may lower, so that short rows have indices of 64 bits.
extern int64_t most_cols_of_32_bits;

template <class To, class From>
inline __attribute__((always_inline)) To bits_as(From from) {
  To to{};
  __builtin_memcpy(&to, &from, sizeof(from) < sizeof(to) ? sizeof(from) : sizeof(to));
  return to;
}

}  // namespace simt

// A thread's own numbers are the same as long as it runs, so that the compiler may keep them.
extern const simt::Index3 threadIdx __asm__("simt_thread_index");
extern const simt::Index3 blockIdx __asm__("simt_block_index");
extern const simt::Index3 blockDim __asm__("simt_block_dim");
extern const simt::Index3 gridDim __asm__("simt_grid_dim");
inline constexpr int warpSize = 32;

// ---- Warps ----

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  static_assert(sizeof(T) <= 8 && std::is_arithmetic_v<T>, "a type that CUDA shuffles");
  const int base = static_cast<int>(threadIdx.x) % 32 / width * width;
  return simt::bits_as<T>(simt::collective(simt::Collective::kShuffle, mask, simt::bits_as<uint64_t>(value),
                                           base + (lane & (width - 1))));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int step, int width = 32) {
  const int lane = static_cast<int>(threadIdx.x) % 32, from = lane ^ step;
  return __shfl_sync(mask, value, from / width > lane / width ? lane : from);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned step, int width = 32) {
  const int lane = static_cast<int>(threadIdx.x) % 32, from = lane - static_cast<int>(step);
  return __shfl_sync(mask, value, from < lane / width * width ? lane : from);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned step, int width = 32) {
  const int lane = static_cast<int>(threadIdx.x) % 32, from = lane + static_cast<int>(step);
  return __shfl_sync(mask, value, from >= lane / width * width + width ? lane : from);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return static_cast<unsigned>(simt::collective(simt::Collective::kBallot, mask, predicate != 0, 0));
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  return static_cast<unsigned>(
      simt::collective(simt::Collective::kMatchAny, mask, simt::bits_as<uint64_t>(value), 0));
}
inline void __syncwarp(unsigned mask = ~0u) { simt::collective(simt::Collective::kSyncWarp, mask, 0, 0); }

#define SIMT_REDUCE(name, T, kind)                                                                          \
  inline T name(unsigned mask, T value) {                                                                   \
    return static_cast<T>(simt::collective(simt::Collective::kind, mask, static_cast<unsigned>(value), 0)); \
  }
SIMT_REDUCE(__reduce_add_sync, unsigned, kReduceAdd)
SIMT_REDUCE(__reduce_add_sync, int, kReduceAdd)
SIMT_REDUCE(__reduce_min_sync, unsigned, kReduceMin)
SIMT_REDUCE(__reduce_max_sync, unsigned, kReduceMax)
SIMT_REDUCE(__reduce_min_sync, int, kReduceMinSigned)
SIMT_REDUCE(__reduce_max_sync, int, kReduceMaxSigned)
SIMT_REDUCE(__reduce_and_sync, unsigned, kReduceAnd)
SIMT_REDUCE(__reduce_or_sync, unsigned, kReduceOr)
SIMT_REDUCE(__reduce_xor_sync, unsigned, kReduceXor)
#undef SIMT_REDUCE

// ---- Blocks, fences, clusters ----

inline void __syncthreads() { simt::block_barrier(simt::Vote::kNone, 0); }
inline int __syncthreads_or(int value) { return simt::block_barrier(simt::Vote::kOr, value != 0); }
inline int __syncthreads_and(int value) { return simt::block_barrier(simt::Vote::kAnd, value != 0); }
inline int __syncthreads_count(int value) { return simt::block_barrier(simt::Vote::kCount, value != 0); }
inline void __threadfence() { simt::fence(); }
inline void __threadfence_block() {}
inline void __nanosleep(unsigned) { simt::sleep(); }
[[noreturn]] inline void __trap() { simt::fail("__trap"); }
inline void cudaTriggerProgrammaticLaunchCompletion() { simt::let_next_kernel_start(); }
inline void cudaGridDependencySynchronize() { simt::wait_for_kernel_before(); }
inline unsigned __clusterSizeInBlocks() { return simt::cluster_blocks(); }
inline unsigned __clusterRelativeBlockRank() { return simt::cluster_rank(); }
inline simt::Index3 __clusterIdx() { return {blockIdx.x / simt::cluster_blocks(), 0, 0}; }
inline void __cluster_barrier_arrive() { simt::cluster_arrive(); }
inline void __cluster_barrier_arrive_relaxed() { simt::cluster_arrive(); }
inline void __cluster_barrier_wait() { simt::cluster_wait(); }
inline void* __cluster_map_shared_rank(const void* address, unsigned rank) {
  return simt::map_shared(address, rank);
}

// ---- Atomics ----

#define SIMT_ATOMIC(name, T, operation)                                                              \
  inline T name(T* address, T value) {                                                               \
    return static_cast<T>(                                                                           \
        simt::atomic(simt::Atomic::operation, address, sizeof(T), static_cast<uint64_t>(value), 0)); \
  }
#define SIMT_ATOMICS(T, minimum, maximum)                                                               \
  SIMT_ATOMIC(atomicAdd, T, kAdd)                                                                       \
  SIMT_ATOMIC(atomicMin, T, minimum)                                                                    \
  SIMT_ATOMIC(atomicMax, T, maximum)                                                                    \
  SIMT_ATOMIC(atomicAnd, T, kAnd)                                                                       \
  SIMT_ATOMIC(atomicOr, T, kOr)                                                                         \
  SIMT_ATOMIC(atomicXor, T, kXor)                                                                       \
  SIMT_ATOMIC(atomicExch, T, kExchange)                                                                 \
  inline T atomicCAS(T* address, T compared, T value) {                                                 \
    return static_cast<T>(simt::atomic(simt::Atomic::kCompareAndSwap, address, sizeof(T),               \
                                       static_cast<uint64_t>(value), static_cast<uint64_t>(compared))); \
  }
SIMT_ATOMICS(int, kMinSigned, kMaxSigned)
SIMT_ATOMICS(unsigned, kMin, kMax)
SIMT_ATOMICS(unsigned long long, kMin, kMax)
#undef SIMT_ATOMICS
#undef SIMT_ATOMIC

// ---- Arithmetic and loads ----

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  shift &= 31;
  return shift == 0 ? high : high << shift | low >> (32 - shift);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  shift &= 31;
  return shift == 0 ? low : low >> shift | high << (32 - shift);
}
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1u) << (31 - i);
  return reversed;
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = uint64_t{y} << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
  return result;
}
template <class T>
unsigned simt_by_halves(unsigned a, unsigned b) {
  const T low = std::max(static_cast<T>(a), static_cast<T>(b));
  const T high = std::max(static_cast<T>(a >> 16), static_cast<T>(b >> 16));
  return static_cast<uint16_t>(low) | static_cast<unsigned>(static_cast<uint16_t>(high)) << 16;
}
inline unsigned __vmaxs2(unsigned a, unsigned b) { return simt_by_halves<int16_t>(a, b); }
inline unsigned __vmaxu2(unsigned a, unsigned b) { return simt_by_halves<uint16_t>(a, b); }
template <class Part, class Do>
unsigned simt_by_parts(unsigned a, unsigned b, Do&& with) {
  constexpr int kBits = 8 * sizeof(Part);
  unsigned all = 0;
  for (int at = 0; at < 32; at += kBits) {
    all |= static_cast<unsigned>(with(static_cast<Part>(a >> at), static_cast<Part>(b >> at)) &
                                 ((1u << kBits) - 1))
           << at;
  }
  return all;
}
template <class Part>
unsigned simt_mask_of_no_less(unsigned a, unsigned b) {
  return simt_by_parts<Part>(a, b, [](Part x, Part y) { return x >= y ? ~0u : 0u; });
}
template <class Part>
unsigned simt_magnitudes(unsigned a) {
  return simt_by_parts<Part>(a, 0, [](Part x, Part) { return static_cast<unsigned>(x < 0 ? -x : x); });
}
inline unsigned __vcmpgeu2(unsigned a, unsigned b) { return simt_mask_of_no_less<uint16_t>(a, b); }
inline unsigned __vcmpgeu4(unsigned a, unsigned b) { return simt_mask_of_no_less<uint8_t>(a, b); }
inline unsigned __vabs2(unsigned a) { return simt_magnitudes<int16_t>(a); }
inline unsigned __vabs4(unsigned a) { return simt_magnitudes<int8_t>(a); }
inline float __uint_as_float(unsigned x) { return simt::bits_as<float>(x); }
inline unsigned __float_as_uint(float x) { return simt::bits_as<unsigned>(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline double __longlong_as_double(long long x) { return simt::bits_as<double>(x); }
inline long long __double_as_longlong(double x) { return simt::bits_as<long long>(x); }

template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}
template <class T>
void __stcs(T* address, T value) {
  *address = value;
}
template <class T>
void __stcg(T* address, T value) {
  *address = value;
}
inline const void* __cvta_generic_to_global(const void* address) { return address; }

// CUDA's min and max take numbers of two types. Of a number and a NaN they are the number.
template <class A, class B>
constexpr auto min(A a, B b) {
  using Common = std::common_type_t<A, B>;
  const Common x = static_cast<Common>(a), y = static_cast<Common>(b);
  return y < x || x != x ? y : x;
}
template <class A, class B>
constexpr auto max(A a, B b) {
  using Common = std::common_type_t<A, B>;
  const Common x = static_cast<Common>(a), y = static_cast<Common>(b);
  return x < y || x != x ? y : x;
}
