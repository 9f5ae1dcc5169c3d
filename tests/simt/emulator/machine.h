// The emulated GPU: launches of a stream, their blocks, and a fiber for each thread. One operating-system
// thread runs all of them in turn; who is next is drawn from a seed.
//
//   schedule.cpp   who runs; barriers, warp collectives, clusters, launches ahead of time
//   memory.cpp     what may be read and written
//   shared.cpp     shared memory, and races in it
//   mail.cpp       words that blocks of a cluster send each other
//   views.cpp      what a block sees of global memory, and when
//   runtime.cpp    the CUDA runtime's functions
//   undefined.cpp  what -fsanitize=undefined calls
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda_runtime_api.h"
#include "shared.h"
#include "views.h"

namespace simt {

// What a test says of the device and of the run.
struct Settings {
  int sm_count = 4;
  int compute_capability = 90;
  int shared_bytes = 227 * 1024;  // a block's, at most
  int cluster_blocks = 8;
  int cluster_room = 8;  // blocks of a cluster that a launch finds room for, as in a part of a GPU
  uint64_t seed = 1;
};

struct Block;
struct Launch;

enum class State : uint8_t { kReady, kCollective, kBarrier, kNamedBarrier, kCluster, kGrid, kDone };

struct Thread {
  void* stack_pointer;
  Block* block;
  unsigned index;  // in the block
  State state;
  // A collective: what it brings, and what it takes away. A barrier: the result.
  Collective kind;
  unsigned mask;
  uint64_t value, result;
  int from;
  int named_barrier;
  int arrived_at;                         // the cluster barrier's phase, or -1
  uint32_t warp_syncs;                    // __syncwarps that it has passed
  int cluster_phases;                     // of the cluster's barrier that it has waited for
  std::vector<std::vector<Copy>> copies;  // groups that it has not waited for; the last is not ended
};

struct Warp {
  unsigned lanes;    // that there are
  unsigned ready;    // that can run
  unsigned waiting;  // at a collective
  unsigned ended;
};

struct Cluster {
  std::vector<Block*> blocks;
  int phase = 0;
  int awaited = 0;  // threads that have not arrived in this phase
  int running = 0;
};

struct NamedBarrier {
  int arrived = 0;
};

struct BlockMemory;  // shared.cpp's

// mail.cpp's
struct Letter {
  Place to;
  uint64_t word;
  uint32_t bytes;
  int sent_in_phase;  // of the cluster's barrier
};
struct Mailbox {
  bool is_static;
  size_t at;
  int opened_in_phase;
  int64_t expected, sent;  // bytes; -1: not told yet
  bool was_read;
  std::vector<Letter> letters;  // on their way
};

struct Block {
  Launch* launch;
  unsigned index;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  uint32_t ready_warps;
  int running;  // threads that have not ended
  int arrived;  // at the block's barrier
  Vote vote;    // of that barrier
  int voted;
  uint32_t barriers;  // passed
  bool begun, triggered;
  std::shared_ptr<Cluster> cluster;
  unsigned rank;  // in the cluster
  NamedBarrier named[16];
  BlockMemory* memory;
  std::vector<Mailbox> mailboxes;
  std::unique_ptr<View> view;
  unsigned char* stacks;
};

struct Launch {
  std::unique_ptr<Call> call;  // none: work of the host
  std::function<void()> host_work;
  unsigned blocks, threads;
  size_t shared_bytes;
  unsigned cluster_blocks = 1;
  bool ahead = false, cooperative = false;
  const void* kernel = nullptr;
  std::vector<unsigned> order;  // in which clusters, or blocks, begin
  size_t begun = 0;             // of that order
  unsigned ended = 0, triggered = 0;
  unsigned at_grid_barrier = 0;  // threads
  unsigned grid_arrived = 0;     // threads that need not wait yet
  uint64_t grid_turns = 0;       // of those
  Launch* before = nullptr;      // in the stream
  bool complete = false;
  std::vector<Pending> on_the_way;  // stores of blocks that have ended
};

struct Machine {
  Settings settings;
  std::deque<std::unique_ptr<Launch>> stream;
  std::vector<Block*> resident;
  bool failed = false;
  std::string message;
  uint64_t launches = 0, steps = 0, switches = 0;
};

// ---- runtime.cpp ----
// Whether a kernel may have so much: a message, or null.
const char* too_much_shared(const Launch& launch, size_t static_bytes);

extern Machine machine;
extern Thread* current;  // that runs, or null: the host does

inline constexpr size_t kStackBytes = 64 * 1024;

// ---- schedule.cpp ----
uint32_t random_number();
inline bool one_in(uint32_t n) { return n <= 1 || random_number() % n == 0; }
// Runs all that has been launched. False: machine.message says why not.
bool synchronize();
// Forgets what is left of a stream.
void abandon();
// The thread that runs lets others run, of this block or others.
void give_way();
// The same at a point where the order of blocks matters, if the dice say so.
void may_give_way();
// Waits for what others do.
void wait_for(const char* what, const std::function<bool()>& done);
void made_progress();
std::string where(const Thread& thread);

// ---- mail.cpp ----
// Whether the block, which ends, has mail that it has not waited for: a message, or null.
const char* unread_mail(const Block& block);

// ---- memory.cpp ----
// kInOut: written already, and to be written again.
enum class Region : uint8_t { kInput, kOutput, kWorkspace, kInOut };
// Memory that kernels may use. `row_bytes` of each `stride_bytes`, 0: all of it.
void add_region(const char* name, void* begin, size_t bytes, Region kind, size_t row_bytes = 0,
                size_t stride_bytes = 0);
// Of a part of an output: whether all has been written; else the first byte that has not.
bool is_written(const void* begin, size_t bytes, size_t& first);
void clear_regions();
void poison(void* memory, size_t bytes);

}  // namespace simt
