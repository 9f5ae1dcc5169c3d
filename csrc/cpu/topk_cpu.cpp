// The CPU algorithm's plan: which level of vector instructions, rows or parts of rows over threads, and where
// each worker's scratch lies. select_rows.cpp does the work.
//
//  1. With at least as many rows as threads, workers take rows, a few at a time, until none is left.
//  2. With fewer rows, each row is cut into pieces, one a worker. Each worker collects its piece's
//     candidates, then one worker a row moves them together and writes the best.
#include "cpu/topk_cpu.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "core/key_order.h"
#include "cpu/level.h"
#include "cpu/select_rows.h"

namespace gputopk::cpu {
namespace {

// Work below which another thread costs more to wake than it saves, in elements read: about 10 us.
constexpr int64_t kMinWorkPerWorker = 32768;

// Selecting, sorting and copying a winner costs about as much as reading this many elements.
constexpr int64_t kWorkPerWinner = 16;

// Batches of rows that a worker takes: enough to even out threads that are held up.
constexpr int64_t kBatchesPerWorker = 16;

// A piece of a row is this much longer than k at least: otherwise merging costs what splitting saves.
constexpr int64_t kMinPiecePerWinner = 4;

// With no more elements a winner than this, delegates may be too few to use, and there is room for all keys.
constexpr int64_t kKeptKeysPerWinner = 6;

constexpr size_t kAlignment = 64;

template <class Order>
Kernel<Order> kernel_for(Level level, bool wide) {
  switch (level) {
#ifdef __x86_64__
    case Level::kAvx512: return avx512::kernel<Order>(wide);
    case Level::kAvx2: return avx2::kernel<Order>(wide);
#endif
    default: return baseline::kernel<Order>(wide);
  }
}

// The slots of scratch lie one after the other, behind a count of candidates for each.
struct Plan {
  bool wide;        // candidates of kWideCandidateBytes
  bool short_rows;  // for select_short_rows
  int64_t pieces;   // of a row; 1: workers take whole rows
  int64_t workers;  // each with its own slot
  size_t candidate_bytes;
  int64_t keys_capacity;
  size_t delegates_at;  // within a slot; candidates are at its start
  size_t keys_at;
  size_t slot_bytes;
  size_t slots_at;
  size_t total_bytes;
};

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

Plan make_plan(const Problem& problem, int threads) {
  Plan plan{};
  const size_t key_bytes = dtype_bytes(problem.dtype);
  plan.wide = key_bytes == 8 || (key_bytes == 4 && problem.cols > kMaxNarrowCols);
  plan.candidate_bytes = plan.wide ? kWideCandidateBytes : kNarrowCandidateBytes;

  // As a double: with expanded rows the product may pass 2^63.
  const double work = static_cast<double>(problem.rows) * (problem.cols + kWorkPerWinner * problem.k);
  const int64_t workers =
      static_cast<int64_t>(std::clamp<double>(work / kMinWorkPerWorker, 1, std::max(threads, 1)));
  const int64_t most_pieces = problem.cols / (kMinPiecePerWinner * problem.k);
  plan.pieces = std::clamp<int64_t>(workers / problem.rows, 1, std::max<int64_t>(most_pieces, 1));
  plan.workers = plan.pieces > 1 ? problem.rows * plan.pieces : std::min(workers, problem.rows);

  plan.short_rows = problem.cols <= kMaxShortCols && problem.k <= kMaxShortK;

  const int64_t piece_cols = (problem.cols + plan.pieces - 1) / plan.pieces;
  const int64_t k = std::min(problem.k, piece_cols);
  const bool keep_keys = k < piece_cols && piece_cols <= kKeptKeysPerWinner * k;
  plan.keys_capacity = keep_keys ? piece_cols : std::min(kTile, piece_cols);
  plan.delegates_at = aligned((2 * k + kSpareCandidates) * plan.candidate_bytes);
  plan.keys_at = plan.delegates_at + aligned((2 * k + kSpareDelegates) * key_bytes);
  plan.slot_bytes = plan.keys_at + aligned((plan.keys_capacity + kSpareKeys) * key_bytes);
  plan.slots_at = aligned(plan.workers * sizeof(int64_t));
  plan.total_bytes = plan.slots_at + plan.workers * plan.slot_bytes;
  return plan;
}

// One call, as its workers see it.
template <class Order>
struct Call {
  const Problem& problem;
  const Buffers& buffers;
  const Plan& plan;
  Order order;
  Kernel<Order> kernel;
  std::atomic<int64_t> next_row;

  int64_t* counts() const { return static_cast<int64_t*>(buffers.workspace); }

  Scratch scratch(int64_t worker) const {
    char* const slot = static_cast<char*>(buffers.workspace) + plan.slots_at + worker * plan.slot_bytes;
    return {slot, slot + plan.delegates_at, slot + plan.keys_at, plan.keys_capacity};
  }

  Piece piece(int64_t row, int64_t index) const {
    const char* const input = static_cast<const char*>(buffers.input);
    const int64_t length = (problem.cols + plan.pieces - 1) / plan.pieces;
    return {input + row * problem.row_stride * sizeof(typename Order::Bits),
            std::min(index * length, problem.cols), std::min((index + 1) * length, problem.cols), problem.k};
  }

  Output output(int64_t row) const {
    const int64_t first = row * problem.k;
    const int64_t index_bytes = problem.wide_indices ? sizeof(int64_t) : sizeof(int32_t);
    return {static_cast<char*>(buffers.values) + first * sizeof(typename Order::Bits),
            static_cast<char*>(buffers.indices) + first * index_bytes, problem.wide_indices, problem.sorted};
  }
};

template <class Order>
void take_rows(Call<Order>& call, int64_t worker) {
  const Scratch scratch = call.scratch(worker);
  const int64_t rows = call.problem.rows;
  const int64_t workers = call.plan.workers;
  const int64_t batch = workers == 1 ? rows : std::max<int64_t>(1, rows / (workers * kBatchesPerWorker));
  for (;;) {
    const int64_t begin = call.next_row.fetch_add(batch, std::memory_order_relaxed);
    if (begin >= rows) return;
    const int64_t end = std::min(begin + batch, rows);
    if (call.plan.short_rows) {
      const Rows part{call.piece(begin, 0).row, call.problem.row_stride, end - begin, call.problem.cols,
                      call.problem.k};
      call.kernel.select_short_rows(call.order, part, scratch, call.output(begin));
      continue;
    }
    for (int64_t row = begin; row < end; ++row) {
      const Piece piece = call.piece(row, 0);
      const int64_t count = call.kernel.select_piece(call.order, piece, scratch);
      call.kernel.write_best(piece, scratch, count, call.output(row));
    }
  }
}

template <class Order>
void take_piece(Call<Order>& call, int64_t worker) {
  const Piece piece = call.piece(worker / call.plan.pieces, worker % call.plan.pieces);
  call.counts()[worker] = call.kernel.select_piece(call.order, piece, call.scratch(worker));
}

// Slots lie one after the other, so moving each piece's candidates down never reaches one not yet moved, and
// the slots together have room for a sort's second buffer.
template <class Order>
void merge_pieces(Call<Order>& call, int64_t row) {
  const int64_t first = row * call.plan.pieces;
  Scratch merged = call.scratch(first);
  merged.keys_capacity = 0;  // the candidates reach into the keys
  int64_t count = 0;
  for (int64_t worker = first; worker < first + call.plan.pieces; ++worker) {
    std::memmove(merged.candidates + count * call.plan.candidate_bytes, call.scratch(worker).candidates,
                 call.counts()[worker] * call.plan.candidate_bytes);
    count += call.counts()[worker];
  }
  call.kernel.write_best(call.piece(row, 0), merged, count, call.output(row));
}

template <class Order, void (*task)(Call<Order>&, int64_t)>
void run_tasks(Call<Order>& call, int64_t tasks, ParallelFor parallel_for) {
  if (tasks == 1) return task(call, 0);
  const auto body = [](int64_t begin, int64_t end, void* context) {
    for (int64_t i = begin; i < end; ++i) task(*static_cast<Call<Order>*>(context), i);
  };
  parallel_for(0, tasks, 1, body, &call);
}

}  // namespace

size_t workspace_bytes(const Problem& problem, int threads) {
  return make_plan(problem, threads).total_bytes;
}

void topk(const Problem& problem, const Buffers& buffers, int threads, ParallelFor parallel_for) {
  const Plan plan = make_plan(problem, threads);
  visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Order = decltype(order);
    Call<Order> call{problem, buffers, plan, order, kernel_for<Order>(detect_level(), plan.wide), {}};
    if (plan.pieces == 1) {
      run_tasks<Order, take_rows<Order>>(call, plan.workers, parallel_for);
    } else {
      run_tasks<Order, take_piece<Order>>(call, plan.workers, parallel_for);
      run_tasks<Order, merge_pieces<Order>>(call, problem.rows, parallel_for);
    }
  });
}

const char* describe(const Problem& problem, int threads, char* text, size_t text_bytes) {
  const Plan plan = make_plan(problem, threads);
  std::snprintf(text, text_bytes, "cpu: %s over %lld workers, %s vectors",
                plan.pieces == 1 ? "rows" : "parts of rows", static_cast<long long>(plan.workers),
                level_name(detect_level()));
  return text;
}

}  // namespace gputopk::cpu
