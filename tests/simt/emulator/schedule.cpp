// Who runs. A thread is a fiber: it runs until it has to wait, or gives way. Blocks begin in any order, a few
// at a time, and take turns at barriers, atomics and fences; a warp's lanes run in any order between
// collectives. What no GPU would forgive ends the run with a message: lanes of one warp at different
// collectives, a barrier that a thread never reaches, a wait without end.

#include <sys/mman.h>

#include <cstdarg>
#include <cstdio>
#include <numeric>
#include <stdexcept>

#include "machine.h"
#include "shared.h"

simt::Index3 simt_thread_index_value __asm__("simt_thread_index");
simt::Index3 simt_block_index_value __asm__("simt_block_index");
simt::Index3 simt_block_dim_value __asm__("simt_block_dim");
simt::Index3 simt_grid_dim_value __asm__("simt_grid_dim");

extern "C" void simt_switch(void** from, void* to);
asm(R"(
.text
.globl simt_switch
.type simt_switch,@function
simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

namespace simt {

Machine machine;
Thread* current = nullptr;

namespace {

void* scheduler_stack;  // where the scheduler waits for a thread to give way
bool leave_slice;       // the block's turn is over
uint64_t random_state;
int idle;  // turns of threads that wait, since anything else has happened

constexpr size_t kMostResident =
    24;  // blocks, for the host's memory: but for a cluster or a cooperative launch
constexpr size_t kMostThreads = 1024;  // a block's
std::vector<unsigned char*> spare_stacks;

const char* name_of(Collective kind) {
  constexpr const char* kNames[] = {"none",         "__syncwarp",   "__shfl",       "a vote",
                                    "__match",      "__reduce_add", "__reduce_min", "__reduce_max",
                                    "__reduce_min", "__reduce_max", "__reduce_and", "__reduce_or",
                                    "__reduce_xor"};
  return kNames[static_cast<int>(kind)];
}

void to_scheduler() { simt_switch(&current->stack_pointer, scheduler_stack); }

Warp& warp_of(const Thread& thread) { return thread.block->warps[thread.index / 32]; }

void make_ready(Thread& thread) {
  thread.state = State::kReady;
  warp_of(thread).ready |= 1u << thread.index % 32;
  thread.block->ready_warps |= 1u << thread.index / 32;
}

// The thread waits in this state until another makes it ready.
void wait_as(State state) {
  current->state = state;
  to_scheduler();
}

void release_block(Block& block) {
  block.arrived = 0;
  ++block.barriers;
  made_progress();
  for (Thread& thread : block.threads) {
    if (thread.state != State::kBarrier) continue;
    thread.result = static_cast<uint64_t>(block.voted);
    make_ready(thread);
  }
}

void advance_cluster(Cluster& cluster) {
  if (cluster.awaited > 0 || cluster.running == 0) return;
  ++cluster.phase;
  cluster.awaited = cluster.running;
  made_progress();
  for (Block* block : cluster.blocks) {
    if (block == nullptr) continue;
    for (Thread& thread : block->threads) {
      if (thread.state == State::kCluster) make_ready(thread);
    }
  }
}

void end_thread() {
  Thread& thread = *current;
  Block& block = *thread.block;
  Warp& warp = warp_of(thread);
  thread.state = State::kDone;
  warp.ended |= 1u << thread.index % 32;
  --block.running;
  made_progress();
  Cluster& cluster = *block.cluster;
  --cluster.running;
  if (thread.arrived_at != cluster.phase) --cluster.awaited;
  advance_cluster(cluster);
  to_scheduler();
  __builtin_unreachable();
}

void begin_thread() {
  current->block->launch->call->run();
  end_thread();
}

// A stack for each of a block's threads, of which only the pages that are used are there.
unsigned char* take_stacks() {
  if (!spare_stacks.empty()) {
    unsigned char* const stacks = spare_stacks.back();
    spare_stacks.pop_back();
    return stacks;
  }
  void* const stacks = mmap(nullptr, kMostThreads * kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == MAP_FAILED) fail("no memory for stacks");
  return static_cast<unsigned char*>(stacks);
}

void begin_block(Launch& launch, unsigned index, const std::shared_ptr<Cluster>& cluster, unsigned rank) {
  Block* const block = new Block{};
  block->launch = &launch;
  block->index = index;
  block->cluster = cluster;
  block->rank = rank;
  block->running = static_cast<int>(launch.threads);
  block->threads.resize(launch.threads);
  block->warps.resize((launch.threads + 31) / 32);
  block->stacks = take_stacks();
  block->memory = new_block_memory(launch.shared_bytes);
  begin_view(*block);
  for (unsigned t = 0; t < launch.threads; ++t) {
    Thread& thread = block->threads[t];
    thread.block = block;
    thread.index = t;
    thread.arrived_at = -1;
    block->warps[t / 32].lanes |= 1u << t % 32;
    void** stack = reinterpret_cast<void**>(block->stacks + (t + 1) * kStackBytes - 64);
    *--stack = nullptr;
    *--stack = reinterpret_cast<void*>(begin_thread);
    for (int i = 0; i < 6; ++i) *--stack = nullptr;
    thread.stack_pointer = stack;
    make_ready(thread);
  }
  cluster->blocks[rank] = block;
  cluster->running += block->running;
  cluster->awaited += block->running;
  machine.resident.push_back(block);
}

void end_block(Block* block) {
  Launch& launch = *block->launch;
  ++launch.ended;
  if (!block->triggered) ++launch.triggered;
  block->cluster->blocks[block->rank] = nullptr;
  free_block_memory(*block);
  spare_stacks.push_back(block->stacks);
  machine.resident.erase(std::find(machine.resident.begin(), machine.resident.end(), block));
  delete block;
}

// Runs threads of the block until none can, or its turn is over.
void run_slice(Block& block) {
  enter_shared(block);
  enter_view(block);
  block.begun = true;
  simt_block_index_value = {block.index, 0, 0};
  simt_block_dim_value = {block.launch->threads, 1, 1};
  simt_grid_dim_value = {block.launch->blocks, 1, 1};
  leave_slice = false;
  for (int turns = 1 + static_cast<int>(random_number() % 256); turns > 0; --turns) {
    if (block.ready_warps == 0 || leave_slice) break;
    // A random ready warp, its ready lanes from a random one on, up or down.
    const int shift = static_cast<int>(random_number() % 32);
    const uint32_t rotated = block.ready_warps >> shift | block.ready_warps << (31 - shift) << 1;
    const int w = (__builtin_ctz(rotated) + shift) % 32;
    Warp& warp = block.warps[w];
    unsigned lanes = warp.ready;
    warp.ready = 0;
    block.ready_warps &= ~(1u << w);
    const uint32_t order = random_number();
    for (int i = 0; i < 32 && lanes != 0; ++i) {
      const int lane = static_cast<int>((order & 32 ? i : 31 - i) ^ (order & 31));
      if ((lanes >> lane & 1) == 0) continue;
      lanes &= ~(1u << lane);
      Thread& thread = block.threads[w * 32 + lane];
      current = &thread;
      simt_thread_index_value.x = thread.index;
      ++machine.switches;
      simt_switch(&scheduler_stack, thread.stack_pointer);
      current = nullptr;
      if (machine.failed) return;
    }
  }
  if (block.running == 0) {
    const char* wrong = too_much_shared(*block.launch, static_bytes_of(block));
    if (wrong == nullptr) wrong = unread_mail(block);
    if (wrong != nullptr) {
      machine.failed = true;
      machine.message = wrong;
    }
    end_view(block);
  } else {
    leave_view(block);
  }
  leave_shared(block);
}

bool may_begin(const Launch& launch) {
  if (launch.begun == launch.order.size()) return false;
  if (launch.before == nullptr || launch.before->complete) return true;
  return launch.ahead && launch.before->triggered == launch.before->blocks;
}

// Begins blocks of launches that may; a cluster's together, a cooperative launch's all.
void begin_blocks() {
  const size_t most = static_cast<size_t>(std::max(1, machine.settings.sm_count)) * 2;
  for (auto& launch : machine.stream) {
    if (!launch->call) continue;
    while (may_begin(*launch)) {
      const size_t together = launch->cooperative ? launch->blocks : launch->cluster_blocks;
      const bool begins_all = launch->cooperative && launch->begun > 0;  // the rest of them
      if (!machine.resident.empty() && !begins_all) {
        if (machine.resident.size() + together > std::min<size_t>(most, kMostResident) || one_in(4)) return;
      }
      const unsigned first = launch->order[launch->begun++] * launch->cluster_blocks;
      auto cluster = std::make_shared<Cluster>();
      cluster->blocks.resize(launch->cluster_blocks);
      for (unsigned rank = 0; rank < launch->cluster_blocks; ++rank) {
        begin_block(*launch, first + rank, cluster, rank);
      }
      idle = 0;
    }
  }
}

// Launches that have ended, from the stream's beginning; work of the host at its turn.
void complete_launches() {
  for (auto& launch : machine.stream) {
    if (launch->complete) continue;
    if (launch->before != nullptr && !launch->before->complete) return;
    if (launch->host_work) {
      launch->host_work();
    } else if (launch->ended < launch->blocks) {
      return;
    }
    if (!launch->on_the_way.empty()) let_arrive(*launch, /*all=*/true);
    launch->complete = true;
    made_progress();
  }
}

std::string describe_waiting() {
  std::string text;
  for (const Block* block : machine.resident) {
    int counts[8] = {};
    const Thread* some = nullptr;
    for (const Thread& thread : block->threads) {
      ++counts[static_cast<int>(thread.state)];
      if (thread.state == State::kCollective) some = &thread;
    }
    char line[256];
    std::snprintf(
        line, sizeof(line),
        "; block %u: %d threads ended, %d at the block's barrier, %d at the cluster's, %d at a named "
        "one, %d at warp collectives%s%s",
        block->index, counts[static_cast<int>(State::kDone)], counts[static_cast<int>(State::kBarrier)],
        counts[static_cast<int>(State::kCluster)], counts[static_cast<int>(State::kNamedBarrier)],
        counts[static_cast<int>(State::kCollective)], some ? ", such as " : "",
        some ? name_of(some->kind) : "");
    text += line;
    if (text.size() > 600) break;
  }
  return text;
}

}  // namespace

uint32_t random_number() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return static_cast<uint32_t>(random_state >> 16);
}

std::string where(const Thread& thread) {
  char text[96];
  std::snprintf(text, sizeof(text), "block %u, thread %u", thread.block->index, thread.index);
  return text;
}

void made_progress() { idle = 0; }

void fail(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  if (!machine.failed) {
    machine.failed = true;
    machine.message = current != nullptr ? where(*current) + ": " + text : std::string(text);
  }
  if (current != nullptr) to_scheduler();  // which never comes back
  throw std::runtime_error(machine.message);
}

void give_way() {
  leave_slice = true;
  make_ready(*current);
  to_scheduler();
}

void may_give_way() {
  if (machine.resident.size() > 1 ? one_in(3) : one_in(32)) give_way();
}

void wait_for(const char* what, const std::function<bool()>& done) {
  constexpr int kMostIdle = 200000;
  while (!done()) {
    if (++idle > kMostIdle) fail("waits without end for %s%s", what, describe_waiting().c_str());
    give_way();
  }
  made_progress();
}

void sleep() {
  constexpr int kMostIdle = 200000;
  if (++idle > kMostIdle) fail("spins without end%s", describe_waiting().c_str());
  give_way();
}

uint64_t collective(Collective kind, unsigned mask, uint64_t value, int from) {
  Thread& thread = *current;
  Warp& warp = warp_of(thread);
  Block& block = *thread.block;
  const int lane = static_cast<int>(thread.index % 32);
  if ((mask >> lane & 1) == 0) fail("%s with mask %08x, which lacks lane %d", name_of(kind), mask, lane);
  if ((mask & (warp.ended | ~warp.lanes)) != 0) {
    fail("%s with mask %08x, of which lanes %08x have ended", name_of(kind), mask,
         mask & (warp.ended | ~warp.lanes));
  }
  const unsigned others = warp.waiting & mask;
  const Thread* const lanes = &block.threads[thread.index / 32 * 32];
  if (others != 0) {
    const unsigned looked_at = mask == ~0u ? others & -others : others;
    for (unsigned left = looked_at; left != 0; left &= left - 1) {
      const Thread& other = lanes[__builtin_ctz(left)];
      if (other.kind != kind || other.mask != mask) {
        fail("at %s with mask %08x, lane %d of its warp at %s with mask %08x", name_of(kind), mask,
             __builtin_ctz(left), name_of(other.kind), other.mask);
      }
    }
  }
  thread.kind = kind;
  thread.mask = mask;
  thread.value = value;
  thread.from = from;
  warp.waiting |= 1u << lane;
  if ((warp.waiting & mask) != mask) {
    wait_as(State::kCollective);
    return thread.result;
  }
  // The last to arrive does the work for all.
  Thread* const all = &block.threads[thread.index / 32 * 32];
  uint64_t common = 0;
  bool first = true;
  for (unsigned left = mask; left != 0; left &= left - 1) {
    const int l = __builtin_ctz(left);
    const uint64_t own = all[l].value;
    switch (kind) {
      case Collective::kBallot: common |= own << l; break;
      case Collective::kReduceAdd: common = static_cast<uint32_t>(common + own); break;
      case Collective::kReduceMin: common = first ? own : std::min(common, own); break;
      case Collective::kReduceMax: common = std::max(common, own); break;
      case Collective::kReduceMinSigned:
        common =
            first ? own : static_cast<uint32_t>(std::min(static_cast<int>(common), static_cast<int>(own)));
        break;
      case Collective::kReduceMaxSigned:
        common =
            first ? own : static_cast<uint32_t>(std::max(static_cast<int>(common), static_cast<int>(own)));
        break;
      case Collective::kReduceAnd: common = first ? own : common & own; break;
      case Collective::kReduceOr: common |= own; break;
      case Collective::kReduceXor: common ^= own; break;
      default: break;
    }
    first = false;
  }
  for (unsigned left = mask; left != 0; left &= left - 1) {
    Thread& other = all[__builtin_ctz(left)];
    other.result = common;
    if (kind == Collective::kSyncWarp) ++other.warp_syncs;
    if (kind == Collective::kShuffle) {
      if ((mask >> (other.from & 31) & 1) == 0) {
        fail("__shfl with mask %08x from lane %d, which is not in it", mask, other.from);
      }
      other.result = all[other.from & 31].value;
    }
    if (kind == Collective::kMatchAny) {
      for (unsigned l = mask; l != 0; l &= l - 1) {
        if (all[__builtin_ctz(l)].value == other.value) other.result |= 1u << __builtin_ctz(l);
      }
    }
    if (&other != &thread) make_ready(other);
  }
  warp.waiting &= ~mask;
  idle = 0;
  return thread.result;
}

int block_barrier(Vote vote, int value) {
  Thread& thread = *current;
  Block& block = *thread.block;
  if (block.arrived == 0) {
    block.vote = vote;
    block.voted = vote == Vote::kAnd;
  }
  if (block.vote != vote) fail("at a block's barrier of one kind, other threads at one of another");
  switch (vote) {
    case Vote::kOr: block.voted |= value; break;
    case Vote::kAnd: block.voted &= value; break;
    case Vote::kCount: block.voted += value; break;
    default: break;
  }
  if (++block.arrived < static_cast<int>(block.threads.size())) {
    wait_as(State::kBarrier);
    return static_cast<int>(thread.result);
  }
  release_block(block);
  return block.voted;
}

void named_barrier(int barrier, int threads, bool waits) {
  Block& block = *current->block;
  NamedBarrier& named = block.named[barrier];
  if (++named.arrived < threads) {
    if (!waits) return;
    current->named_barrier = barrier;
    return wait_as(State::kNamedBarrier);
  }
  named.arrived = 0;
  ++block.barriers;  // for all threads, to be on the safe side
  made_progress();
  for (Thread& other : block.threads) {
    if (other.state == State::kNamedBarrier && other.named_barrier == barrier) make_ready(other);
  }
}

unsigned cluster_blocks() { return current->block->launch->cluster_blocks; }
unsigned cluster_rank() { return current->block->rank; }

void cluster_arrive() {
  Cluster& cluster = *current->block->cluster;
  if (current->arrived_at == cluster.phase) fail("arrives twice at a cluster's barrier");
  release_stores();
  current->arrived_at = cluster.phase;
  --cluster.awaited;
  advance_cluster(cluster);
}

void cluster_wait() {
  const Cluster& cluster = *current->block->cluster;
  if (current->arrived_at < 0) fail("waits at a cluster's barrier at which it has not arrived");
  const int phase = current->arrived_at;
  if (phase == cluster.phase) wait_as(State::kCluster);
  current->cluster_phases = phase + 1;
  acquire_stores();
}

void grid_barrier() {
  Launch& launch = *current->block->launch;
  if (!launch.cooperative) fail("a barrier of the grid in a launch that is not cooperative");
  release_stores();
  if (++launch.at_grid_barrier < launch.blocks * launch.threads) {
    wait_as(State::kGrid);
    return acquire_stores();
  }
  launch.at_grid_barrier = 0;
  acquire_stores();
  made_progress();
  for (Block* block : machine.resident) {
    if (block->launch != &launch) continue;
    ++block->barriers;
    for (Thread& thread : block->threads) {
      if (thread.state == State::kGrid) make_ready(thread);
    }
  }
}

uint64_t grid_arrive() {
  Launch& launch = *current->block->launch;
  if (!launch.cooperative) fail("a barrier of the grid in a launch that is not cooperative");
  block_barrier(Vote::kNone, 0);
  release_stores();
  const uint64_t turn = launch.grid_turns;
  if (++launch.grid_arrived == launch.blocks * launch.threads) {
    launch.grid_arrived = 0;
    ++launch.grid_turns;
    made_progress();
  }
  return turn;
}

void grid_wait(uint64_t turn) {
  const Launch& launch = *current->block->launch;
  wait_for("the grid's barrier", [&] { return launch.grid_turns > turn; });
  acquire_stores();
  block_barrier(Vote::kNone, 0);
}

void let_next_kernel_start() {
  Block& block = *current->block;
  if (block.triggered) return;
  block.triggered = true;  // by any thread of the block: the others only come later
  ++block.launch->triggered;
  may_give_way();
}

void wait_for_kernel_before() {
  const Launch& launch = *current->block->launch;
  if (!launch.ahead || launch.before == nullptr) return;
  wait_for("the kernel before", [&] { return launch.before->complete; });
  acquire_stores();
}

bool copies_early() { return machine.settings.seed % 2 == 0; }

void start_copy(const Copy& copy) {
  if (current->copies.empty()) current->copies.emplace_back();
  current->copies.back().push_back(copy);
}

void end_copies() {
  if (current->copies.empty()) current->copies.emplace_back();
  current->copies.emplace_back();
}

bool next_copy(unsigned groups, Copy& copy) {
  auto& copies = current->copies;
  while (copies.size() > groups + 1) {
    if (!copies.front().empty()) {
      copy = copies.front().back();
      copies.front().pop_back();
      return true;
    }
    copies.erase(copies.begin());
  }
  return false;
}

bool synchronize() {
  random_state = (machine.settings.seed + 1) * 0x9E3779B97F4A7C15ull;
  for (int i = 0; i < 4; ++i) random_number();
  idle = 0;
  for (auto& launch : machine.stream) {
    launch->order.resize(launch->call ? launch->blocks / launch->cluster_blocks : 0);
    std::iota(launch->order.begin(), launch->order.end(), 0u);
    for (size_t i = launch->order.size(); i > 1; --i) {
      std::swap(launch->order[i - 1], launch->order[random_number() % i]);
    }
  }
  while (!machine.failed) {
    complete_launches();
    if (machine.stream.empty() || machine.stream.back()->complete) break;
    begin_blocks();
    // A random block that can run.
    const size_t count = machine.resident.size(), start = count > 0 ? random_number() % count : 0;
    Block* chosen = nullptr;
    for (size_t i = 0; i < count && chosen == nullptr; ++i) {
      Block* const block = machine.resident[(start + i) % count];
      if (block->ready_warps != 0) chosen = block;
    }
    if (chosen == nullptr) {
      machine.failed = true;
      machine.message = "no thread can go on" + describe_waiting();
      break;
    }
    for (auto& launch : machine.stream) {
      if (!launch->on_the_way.empty() && one_in(8)) let_arrive(*launch, /*all=*/false);
    }
    ++machine.steps;
    run_slice(*chosen);
    if (!machine.failed && chosen->running == 0) end_block(chosen);
  }
  abandon();
  return !machine.failed;
}

void abandon() {
  current = nullptr;
  while (!machine.resident.empty()) end_block(machine.resident.back());
  machine.stream.clear();
}

}  // namespace simt
