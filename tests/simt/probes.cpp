// Small kernels with one fault each, or none: what the emulator has to find, and what it must not. As kernels
// of csrc are compiled; test_emulator.py runs them by their names.

#include <cuda_runtime_api.h>

#include <cstring>

#include "cuda/device/cluster.cuh"
#include "cuda/device/last_block.cuh"
#include "cuda/device/launch.h"
#include "cuda/device/mailbox.cuh"
#include "cuda/device/ptx.cuh"
#include "cuda/device/shared_memory.cuh"
#include "probes.h"

namespace {

using gputopk::cuda::Cluster;
using gputopk::cuda::dynamic_shared;
using gputopk::cuda::is_last_block;
using gputopk::cuda::Mailbox;

// `memory`: kProbeWords words of workspace, zero.
using Kernel = void(const uint32_t* input, uint32_t* output, uint32_t* memory);

__device__ uint32_t* shared_words() { return reinterpret_cast<uint32_t*>(dynamic_shared()); }

void nothing(const uint32_t* input, uint32_t* output, uint32_t*) { output[threadIdx.x] = input[threadIdx.x]; }

void reads_behind_the_input(const uint32_t* input, uint32_t* output, uint32_t*) {
  output[threadIdx.x] = input[simt::kProbeWords];
}
void writes_before_the_output(const uint32_t*, uint32_t* output, uint32_t*) { output[-1] = 1; }
void reads_misaligned(const uint32_t* input, uint32_t* output, uint32_t*) {
  const uint4 vector = *reinterpret_cast<const uint4*>(input + 1);
  output[threadIdx.x] = vector.x;
}
void reads_behind_shared_memory(const uint32_t*, uint32_t* output, uint32_t*) {
  output[threadIdx.x] = shared_words()[simt::kProbeWords];
}
void reads_what_nobody_wrote(const uint32_t*, uint32_t* output, uint32_t*) {
  __shared__ uint32_t word;
  if (threadIdx.x == 99) word = 1;
  output[threadIdx.x] = word;
}
void shares_without_a_barrier(const uint32_t*, uint32_t* output, uint32_t*) {
  shared_words()[threadIdx.x] = 0;
  __syncthreads();
  shared_words()[threadIdx.x] = threadIdx.x;
  output[threadIdx.x] = shared_words()[(threadIdx.x + 1) % blockDim.x];
}
void shares_with_a_barrier(const uint32_t*, uint32_t* output, uint32_t*) {
  shared_words()[threadIdx.x] = threadIdx.x;
  __syncthreads();
  output[threadIdx.x] = shared_words()[(threadIdx.x + 1) % blockDim.x];
}
void shares_in_a_warp(const uint32_t*, uint32_t* output, uint32_t*) {
  shared_words()[threadIdx.x] = threadIdx.x;
  __syncwarp();
  output[threadIdx.x] = shared_words()[threadIdx.x ^ 1];
}
void parts_ways_before_a_vote(const uint32_t*, uint32_t* output, uint32_t*) {
  if (threadIdx.x == 5) __syncwarp();
  output[threadIdx.x] = __ballot_sync(~0u, 1);
}
void votes_with_a_wrong_mask(const uint32_t*, uint32_t* output, uint32_t*) {
  output[threadIdx.x] = __ballot_sync(0xFFFFu, 1);
}
void ends_before_a_barrier(const uint32_t*, uint32_t* output, uint32_t*) {
  output[threadIdx.x] = 0;
  if (threadIdx.x == 5) return;
  __syncthreads();
}
void spins(const uint32_t*, uint32_t* output, uint32_t* memory) {
  while (atomicAdd(memory, 0u) == 0) __nanosleep(100);
  output[threadIdx.x] = 0;
}
void traps(const uint32_t*, uint32_t*, uint32_t*) { __trap(); }
void halves_of_warps(const uint32_t*, uint32_t* output, uint32_t*) {
  const bool low = threadIdx.x % 32 < 16;
  const unsigned mask = low ? 0xFFFFu : 0xFFFF0000u;
  // The halves go different numbers of times.
  uint32_t sum = threadIdx.x;
  for (int i = 0; i < (low ? 3 : 5); ++i) sum = __reduce_add_sync(mask, 1u);
  output[threadIdx.x] = sum;
}

// The last of all blocks adds up what the others have stored.
template <bool kFenced>
void adds_up_in_the_last_block(const uint32_t*, uint32_t* output, uint32_t* memory) {
  memory[8 + blockIdx.x * blockDim.x + threadIdx.x] = 1;
  bool last;
  if (kFenced) {
    last = is_last_block(memory, gridDim.x);
  } else {
    __shared__ bool shared_last;
    __syncthreads();
    if (threadIdx.x == 0) shared_last = atomicAdd(memory, 1u) == gridDim.x - 1;
    __syncthreads();
    last = shared_last;
  }
  if (!last) return;
  uint32_t sum = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) sum += memory[8 + block * blockDim.x + threadIdx.x];
  output[threadIdx.x] = sum;
}

template <bool kWaits>
void reads_other_blocks_of_its_cluster(const uint32_t*, uint32_t* output, uint32_t*) {
  __shared__ uint32_t word;
  if (threadIdx.x == 0) word = 100 + Cluster::rank();
  if (kWaits) {
    Cluster::arrive();
    Cluster::wait();
  } else {
    __syncthreads();
  }
  const int other = (Cluster::rank() + 1) % Cluster::blocks();
  if (blockIdx.x == 0) output[threadIdx.x] = *Cluster::of_block(&word, other);
  Cluster::arrive();
  Cluster::wait();
}

// The first of two blocks sends the second a word, which threads of it read.
enum class Mail { kRight, kReadTooEarly, kSentTooEarly, kToUsedMemory, kNeverSent, kLeftUnread };
template <Mail kMail>
void mails_to_its_cluster(const uint32_t*, uint32_t* output, uint32_t*) {
  __shared__ Mailbox mail;
  __shared__ uint32_t word;
  if (threadIdx.x == 0) mail.open();
  if (kMail != Mail::kSentTooEarly || Cluster::rank() == 1) {
    Cluster::begin();
    Cluster::wait();
  }
  if (Cluster::rank() == 0) {
    if (threadIdx.x == 0 && kMail != Mail::kNeverSent) mail.send(&word, 7u, 1);
    return;
  }
  if (kMail == Mail::kToUsedMemory && threadIdx.x == 0) word = 1;
  if (threadIdx.x == 0) mail.expect(sizeof(word));
  if (kMail == Mail::kLeftUnread) return;
  if (kMail != Mail::kReadTooEarly) mail.wait();
  output[threadIdx.x] = word;
}

// Each thread's word in memory, of which the first block reads the second's.
template <bool kWaits>
void reads_memory_of_its_cluster(const uint32_t*, uint32_t* output, uint32_t* memory) {
  memory[blockIdx.x * blockDim.x + threadIdx.x] = 100 + blockIdx.x;
  if (kWaits) {
    Cluster::arrive();
    Cluster::wait();
  } else {
    __syncthreads();
  }
  if (blockIdx.x == 0) output[threadIdx.x] = memory[blockDim.x + threadIdx.x];
}

// Each block's share of the words.
void tells_its_cluster(const uint32_t*, uint32_t* output, uint32_t*) {
  if (threadIdx.x % gridDim.x == blockIdx.x) output[threadIdx.x] = static_cast<uint32_t>(Cluster::number());
}

void never_ends(const uint32_t* input, uint32_t* output, uint32_t*) {
  while (input[threadIdx.x] != 0) output[threadIdx.x] = 1;
}

struct Probe {
  const char* name;
  Kernel* kernel;
  unsigned blocks, cluster_blocks;
};

const Probe kProbes[] = {
    {"nothing", nothing, 1, 1},
    {"reads_behind_the_input", reads_behind_the_input, 1, 1},
    {"writes_before_the_output", writes_before_the_output, 1, 1},
    {"reads_misaligned", reads_misaligned, 1, 1},
    {"reads_behind_shared_memory", reads_behind_shared_memory, 1, 1},
    {"reads_what_nobody_wrote", reads_what_nobody_wrote, 1, 1},
    {"shares_without_a_barrier", shares_without_a_barrier, 1, 1},
    {"shares_with_a_barrier", shares_with_a_barrier, 1, 1},
    {"shares_in_a_warp", shares_in_a_warp, 1, 1},
    {"parts_ways_before_a_vote", parts_ways_before_a_vote, 1, 1},
    {"votes_with_a_wrong_mask", votes_with_a_wrong_mask, 1, 1},
    {"ends_before_a_barrier", ends_before_a_barrier, 1, 1},
    {"spins", spins, 1, 1},
    {"traps", traps, 1, 1},
    {"never_ends", never_ends, 1, 1},
    {"halves_of_warps", halves_of_warps, 1, 1},
    {"adds_up_in_the_last_block", adds_up_in_the_last_block<true>, 5, 1},
    {"adds_up_without_a_fence", adds_up_in_the_last_block<false>, 5, 1},
    {"reads_other_blocks_of_its_cluster", reads_other_blocks_of_its_cluster<true>, 4, 4},
    {"reads_other_blocks_too_early", reads_other_blocks_of_its_cluster<false>, 4, 4},
    {"mails_to_its_cluster", mails_to_its_cluster<Mail::kRight>, 2, 2},
    {"reads_mail_too_early", mails_to_its_cluster<Mail::kReadTooEarly>, 2, 2},
    {"sends_mail_too_early", mails_to_its_cluster<Mail::kSentTooEarly>, 2, 2},
    {"mails_to_used_memory", mails_to_its_cluster<Mail::kToUsedMemory>, 2, 2},
    {"waits_for_mail_that_nobody_sent", mails_to_its_cluster<Mail::kNeverSent>, 2, 2},
    {"leaves_mail_unread", mails_to_its_cluster<Mail::kLeftUnread>, 2, 2},
    {"reads_memory_of_its_cluster", reads_memory_of_its_cluster<true>, 2, 2},
    {"reads_memory_too_early", reads_memory_of_its_cluster<false>, 2, 2},
    {"tells_its_cluster", tells_its_cluster, 6, 2},
    {"tells_its_cluster_without_any", tells_its_cluster, 6, 1},
};

}  // namespace

namespace simt {

bool launch_probe(const char* name, const uint32_t* input, uint32_t* output, uint32_t* memory) {
  for (const Probe& probe : kProbes) {
    if (std::strcmp(probe.name, name) != 0) continue;
    const size_t bytes = sizeof(uint32_t) * kProbeWords;
    if (probe.cluster_blocks == 1) {
      gputopk::cuda::launch_kernel(false, probe.kernel, probe.blocks, kProbeWords, bytes, nullptr, input,
                                   output, memory);
    } else {
      gputopk::cuda::launch_clusters(/*ahead=*/false, probe.cluster_blocks, probe.kernel, probe.blocks,
                                     kProbeWords, bytes, nullptr, input, output, memory);
    }
    return true;
  }
  return false;
}

}  // namespace simt
