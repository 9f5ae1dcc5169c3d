// What a block sees of global memory. Its own stores may stay with it for a while, in any order, until a
// fence lets them go: other blocks do not see them. What others have stored it may see late, until a fence of
// its own. Both by the same means: at the beginning of a block's turn its view is put into memory, at the end
// what all agree on.
//
// Atomics, and stores and loads of cuda::atomic_ref, reach what all agree on at once. So a counter that is
// raised without a fence before it is seen ahead of the data that it speaks of.

#include "views.h"
#include "machine.h"

namespace simt {
namespace {

constexpr size_t kMostPending = 96, kMostStale = 64;

bool overlap(uintptr_t a, size_t a_bytes, uintptr_t b, size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}
template <class Piece>
bool overlaps(const Piece& piece, uintptr_t address, size_t bytes) {
  return overlap(piece.address, piece.bytes, address, bytes);
}

void copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
void* at(uintptr_t address) { return reinterpret_cast<void*>(address); }

// The store is seen by all; other blocks may, for a while, still see what was there.
void publish(Block& owner, uintptr_t address, const unsigned char* before, size_t bytes) {
  for (Block* block : machine.resident) {
    if (block == &owner || !block->begun || !one_in(2)) continue;
    View& view = *block->view;
    if (view.stale.size() >= kMostStale) continue;
    bool free = true;
    for (const auto& stale : view.stale) free &= !overlaps(stale, address, bytes);
    for (const auto& pending : view.pending) free &= !overlaps(pending, address, bytes);
    if (!free) continue;
    Stale stale{address, static_cast<uint8_t>(bytes), {}, {}};
    copy(stale.old, before, bytes);
    view.stale.push_back(stale);
  }
}

// Lets go those of the pending stores that `wanted` says, and older ones of the same address. In the block's
// turn: memory has the values.
template <class Wanted>
void commit(Block& block, Wanted&& wanted) {
  auto& pending = block.view->pending;
  static std::vector<uint8_t> goes;
  goes.assign(pending.size(), 0);
  bool any = false;
  for (size_t i = pending.size(); i > 0; --i) {
    const Pending& store = pending[i - 1];
    bool go = goes[i - 1] != 0 || wanted(store);
    goes[i - 1] = go;
    any |= go;
    if (!go) continue;
    for (size_t older = 0; older + 1 < i; ++older) {
      if (overlaps(pending[older], store.address, store.bytes)) goes[older] = 1;
    }
  }
  if (!any) return;
  size_t left = 0;
  for (size_t i = 0; i < pending.size(); ++i) {
    if (goes[i] != 0) {
      publish(block, pending[i].address, pending[i].old, pending[i].bytes);
    } else {
      pending[left++] = pending[i];
    }
  }
  pending.resize(left);
}

// What the block has not seen it sees now. In its turn.
template <class Wanted>
void refresh(Block& block, Wanted&& wanted) {
  auto& all = block.view->stale;
  size_t left = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (wanted(all[i])) {
      copy(at(all[i].address), all[i].now, all[i].bytes);
    } else {
      all[left++] = all[i];
    }
  }
  all.resize(left);
}

}  // namespace

void begin_view(Block& block) { block.view = std::make_unique<View>(); }

void enter_view(Block& block) {
  View& view = *block.view;
  for (Stale& stale : view.stale) {
    copy(stale.now, at(stale.address), stale.bytes);
    copy(at(stale.address), stale.old, stale.bytes);
  }
  for (Pending& store : view.pending) {
    copy(store.old, at(store.address), store.bytes);
    copy(at(store.address), store.now, store.bytes);
  }
  if (!view.stale.empty() && one_in(8)) refresh(block, [](const Stale&) { return one_in(2); });
}

void leave_view(Block& block) {
  View& view = *block.view;
  if (!view.pending.empty() && one_in(3)) {
    commit(block, [most = random_number()](const Pending&) { return (most & 1) != 0 || one_in(2); });
  }
  for (size_t i = view.pending.size(); i > 0; --i) {
    Pending& store = view.pending[i - 1];
    copy(store.now, at(store.address), store.bytes);
    copy(at(store.address), store.old, store.bytes);
  }
  for (size_t i = view.stale.size(); i > 0; --i) {
    const Stale& stale = view.stale[i - 1];
    copy(at(stale.address), stale.now, stale.bytes);
  }
}

void end_view(Block& block) {
  refresh(block, [](const Stale&) { return true; });
  if (one_in(2)) commit(block, [](const Pending&) { return true; });
  View& view = *block.view;
  for (size_t i = view.pending.size(); i > 0; --i) {
    Pending& store = view.pending[i - 1];
    copy(store.now, at(store.address), store.bytes);
    copy(at(store.address), store.old, store.bytes);
  }
  auto& on_the_way = block.launch->on_the_way;
  on_the_way.insert(on_the_way.end(), view.pending.begin(), view.pending.end());
}

void let_arrive(Launch& launch, bool all) {
  auto& stores = launch.on_the_way;
  const size_t count = all ? stores.size() : random_number() % (stores.size() + 1);
  for (size_t i = 0; i < count; ++i) copy(at(stores[i].address), stores[i].now, stores[i].bytes);
  stores.erase(stores.begin(), stores.begin() + static_cast<ptrdiff_t>(count));
}

void before_store(uintptr_t address, size_t bytes) {
  Block& block = *current->block;
  View& view = *block.view;
  if (!view.stale.empty())
    refresh(block, [&](const Stale& stale) { return overlaps(stale, address, bytes); });
  if (view.pending.size() >= kMostPending) {
    size_t oldest = kMostPending / 2;
    commit(block, [&, first = &view.pending[0]](const Pending& store) {
      return static_cast<size_t>(&store - first) < oldest;
    });
  }
  for (size_t done = 0; done < bytes;) {
    const size_t piece = std::min<size_t>(16, bytes - done);
    Pending store{address + done, static_cast<uint8_t>(piece), {}, {}, current->index,
                  block.barriers, current->warp_syncs};
    copy(store.old, at(address + done), piece);
    view.pending.push_back(store);
    done += piece;
  }
}

void before_strong_load(uintptr_t address, size_t bytes) {
  Block& block = *current->block;
  if (block.view->stale.empty()) return;
  refresh(block, [&](const Stale& stale) { return overlaps(stale, address, bytes); });
}

void before_atomic(uintptr_t address, size_t bytes) {
  Block& block = *current->block;
  before_strong_load(address, bytes);
  if (!block.view->pending.empty()) {
    commit(block, [&](const Pending& store) { return overlaps(store, address, bytes); });
  }
}

void after_atomic(uintptr_t address, const void* before, size_t bytes) {
  publish(*current->block, address, static_cast<const unsigned char*>(before), bytes);
}

void release_stores() {
  Block& block = *current->block;
  const Thread& own = *current;
  commit(block, [&](const Pending& store) {
    if (store.thread == own.index || store.barriers < block.barriers) return true;
    // A store before the last __syncwarp that both threads have passed.
    return store.thread / 32 == own.index / 32 && store.warp_syncs < block.threads[store.thread].warp_syncs;
  });
}

void acquire_stores() {
  refresh(*current->block, [](const Stale&) { return true; });
}

}  // namespace simt
