// What a block sees of global memory: see views.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simt {

struct Block;
struct Launch;

// A store that other blocks do not see. In the block's turn memory has `now`, else `old`.
struct Pending {
  uintptr_t address;
  uint8_t bytes;
  unsigned char old[16], now[16];
  unsigned thread;
  uint32_t barriers, warp_syncs;  // of the thread, when it stored
};

// What others have stored and this block does not see. In its turn memory has `old`, else `now`.
struct Stale {
  uintptr_t address;
  uint8_t bytes;
  unsigned char old[16], now[16];
};

struct View {
  std::vector<Pending> pending;
  std::vector<Stale> stale;
};

void begin_view(Block& block);
void enter_view(Block& block);
void leave_view(Block& block);
// The block ends, in its turn. What no fence has let go may still be on its way...
void end_view(Block& block);
// ...until later, between turns, some of it arrives; all of it before the launch is complete.
void let_arrive(Launch& launch, bool all);

// By the thread that runs, of global memory that blocks write.
void before_store(uintptr_t address, size_t bytes);
void before_strong_load(uintptr_t address, size_t bytes);  // volatile, or an atomic's
void before_atomic(uintptr_t address, size_t bytes);
void after_atomic(uintptr_t address, const void* before, size_t bytes);
void release_stores();  // its own, and those that it knows of
void acquire_stores();

}  // namespace simt
