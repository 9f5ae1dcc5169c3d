// How many workers a call is worth, and how they are run.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gputopk::cpu {

// Runs body(begin, end, context) over [begin, end) in chunks of at least `grain`, on the caller's thread
// pool.
using ParallelFor = void (*)(int64_t begin, int64_t end, int64_t grain,
                             void (*body)(int64_t begin, int64_t end, void* context), void* context);

// Work is counted in bytes, each the time to read one that is in the cache: some 30 of them take a
// nanosecond. Below this much, about 30 us, another thread costs more to wake than it saves; and where
// another process has the core, the call waits for a time slice, milliseconds.
constexpr int64_t kMinWorkPerWorker = int64_t{1} << 20;

inline int64_t workers_for(double work, int threads) {
  return static_cast<int64_t>(std::clamp<double>(work / kMinWorkPerWorker, 1, std::max(threads, 1)));
}

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Runs task(call, i) for each i below `tasks`, one task without the pool.
template <auto task, class Call>
void run_tasks(Call& call, int64_t tasks, ParallelFor parallel_for) {
  if (tasks == 1) return task(call, 0);
  const auto body = [](int64_t begin, int64_t end, void* context) {
    for (int64_t i = begin; i < end; ++i) task(*static_cast<Call*>(context), i);
  };
  parallel_for(0, tasks, 1, body, &call);
}

}  // namespace gputopk::cpu
