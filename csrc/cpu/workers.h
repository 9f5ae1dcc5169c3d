// How many workers a call is worth.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gputopk::cpu {

// Work is counted in bytes, each the time to read one that is in the cache: some 30 of them take a
// nanosecond. Below this much, about 30 us, another thread costs more to wake than it saves; and where
// another process has the core, the call waits for a time slice, milliseconds.
constexpr int64_t kMinWorkPerWorker = int64_t{1} << 20;

inline int64_t workers_for(double work, int threads) {
  return static_cast<int64_t>(std::clamp<double>(work / kMinWorkPerWorker, 1, std::max(threads, 1)));
}

}  // namespace gputopk::cpu
