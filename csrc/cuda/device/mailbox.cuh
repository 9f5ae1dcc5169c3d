// Mail between the blocks of a cluster: words that one writes to another's shared memory while it goes on.
// Who waits for the mailbox sees all that it was told to expect, and nothing more. A barrier of the cluster
// holds a block up until all that it has written, to memory too, has arrived.
#pragma once

#include <cstdint>

#include "cuda/device/cluster.cuh"
#include "cuda/device/ptx.cuh"

namespace gputopk::cuda {

// In shared memory, for one delivery.
class Mailbox {
 public:
  // By one thread of each block, before the barrier of the cluster behind which blocks may send.
  __device__ void open() { open_mailbox(&state_); }

  // By one thread of the block: so many bytes come, or have come, in all.
  __device__ void expect(uint32_t bytes) { expect_mail(&state_, bytes); }

  // `word`, of four or eight bytes, to where the block of that rank has what is at `mine` in this one.
  template <class Word>
  __device__ void send(Word* mine, Word word, int rank) {
    send_mail(Cluster::of_block(mine, rank), word, Cluster::of_block(&state_, rank));
  }

  // By each thread that is to see the mail, unless a barrier of the block is between it and one that has
  // waited; and by one at least before the block ends.
  __device__ void wait() { wait_for_mail(&state_); }

 private:
  MailboxState state_;
};

}  // namespace gputopk::cuda
