// Bulk copies and the barriers in shared memory that they complete on: a copy lands when it likes before it
// is waited for, and until then its memory holds poison. Waiting orders what was copied and nothing else.

#include <cstring>

#include "machine.h"
#include "shared.h"

namespace simt {
namespace {

MemoryBarrier& barrier_at(Block& block, const uint64_t* address) {
  for (MemoryBarrier& barrier : block.memory_barriers) {
    if (barrier.address != address) continue;
    if (!barrier.fenced) fail("a memory barrier that no fence has followed since it was initialised");
    return barrier;
  }
  fail("a memory barrier at %p that has not been initialised", static_cast<const void*>(address));
}

void complete_phase(MemoryBarrier& barrier) {
  if (barrier.pending_arrivals > 0 || barrier.pending_bytes != 0) return;
  ++barrier.phase;
  barrier.pending_arrivals = barrier.arrivals;
  made_progress();
}

}  // namespace

void land_copies(Block& block) {
  do {
    const size_t i = random_number() % block.copies.size();
    const BulkCopy copy = block.copies[i];
    block.copies.erase(block.copies.begin() + static_cast<ptrdiff_t>(i));
    std::memcpy(copy.to, copy.from, copy.bytes);
    MemoryBarrier& barrier = barrier_at(block, copy.barrier);
    barrier.pending_bytes -= copy.bytes;
    complete_phase(barrier);
  } while (!block.copies.empty() && one_in(2));
}

void barrier_init(uint64_t* address, unsigned arrivals) {
  Block& block = *current->block;
  access_range(address, sizeof(*address), /*writes=*/true);
  for (MemoryBarrier& barrier : block.memory_barriers) {
    if (barrier.address != address) continue;
    barrier = {address, arrivals, arrivals, 0, false, 0};
    return;
  }
  block.memory_barriers.push_back({address, arrivals, arrivals, 0, false, 0});
}

void barrier_fence() {
  for (MemoryBarrier& barrier : current->block->memory_barriers) barrier.fenced = true;
}

void barrier_arrive(uint64_t* address, unsigned expected_bytes) {
  MemoryBarrier& barrier = barrier_at(*current->block, address);
  if (barrier.pending_arrivals == 0) fail("more arrivals at a memory barrier than its %u", barrier.arrivals);
  barrier.pending_bytes += expected_bytes;
  --barrier.pending_arrivals;
  complete_phase(barrier);
}

bool barrier_try_wait(uint64_t* address, unsigned parity) {
  Block& block = *current->block;
  const auto is_over = [&] { return (barrier_at(block, address).phase & 1) != (parity & 1); };
  if (is_over()) return true;
  if (!block.copies.empty() && one_in(3)) land_copies(block);
  sleep();
  return is_over();
}

void copy_bulk(void* to, const void* from, unsigned bytes, uint64_t* barrier) {
  if (bytes == 0 || bytes % 16 != 0 || reinterpret_cast<uintptr_t>(to) % 16 != 0 ||
      reinterpret_cast<uintptr_t>(from) % 16 != 0) {
    fail("a bulk copy of %u bytes from %p to %p: all must be multiples of 16", bytes, from, to);
  }
  access_range(from, bytes, /*writes=*/false);
  access_range(to, bytes, /*writes=*/true);
  mark_copied(to, bytes);
  poison(to, bytes);
  Block& block = *current->block;
  barrier_at(block, barrier);
  block.copies.push_back(
      {static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from), bytes, barrier});
}

}  // namespace simt
