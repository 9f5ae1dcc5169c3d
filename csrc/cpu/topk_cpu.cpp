// The CPU algorithm's plan: which way to take, which level of vector instructions, rows or parts of rows over
// threads, and where each worker's scratch lies. select_rows.cpp does the work.
//
//  1. Rows are done in batches: a long row alone, others 64 together, so that those that lie side by side
//     share cache lines.
//  2. With at least as many batches as threads, workers take batches, a few at a time, until none is left.
//  3. With fewer, each batch is cut into pieces, one a worker. Each worker collects its piece's candidates,
//     then one worker a row moves them together and writes the best.
//  4. Where the last winner alone is wanted in its place, it is brought there once a row's are written.
#include "cpu/topk_cpu.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/key_order.h"
#include "cpu/level.h"
#include "cpu/select_rows.h"
#include "cpu/workers.h"
#include "cpu/workspace.h"

namespace gputopk::cpu {
namespace {

// What a row costs beside reading it, in bytes as workers.h counts them.
constexpr int64_t kWorkPerRow = 512;
constexpr int64_t kWorkPerWinner = 256;  // found, sorted and copied
constexpr int64_t kWorkPerGathered = 8;  // an element that is copied into a panel

// Grabs of batches that a worker takes: enough to even out threads that are held up.
constexpr int64_t kGrabsPerWorker = 16;

// A piece of a row is this much longer than k at least: otherwise merging costs what splitting saves.
constexpr int64_t kMinPiecePerWinner = 4;

// With no more elements a winner than this, delegates may be too few to use, and there is room for all keys.
constexpr int64_t kKeptKeysPerWinner = 6;

// Rows are gathered whole where at least so many fit a panel: with fewer, each reading of a cache line would
// serve too few of them.
constexpr int64_t kMinPanelRows = 16;

// Positions that are copied at a time: they stay in the first-level cache.
constexpr int64_t kCopiedPositions = 2048;

// What the candidates of columns may take; with a large k fewer columns are read together.
constexpr int64_t kMaxColumnsBytes = int64_t{32} << 20;

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

enum class Way {
  kCopy,     // nothing to select
  kTiny,     // a few elements, many rows at a time
  kShort,    // and few winners
  kLong,     // dense, or short enough to be gathered
  kColumns,  // read a panel at a time
};

// The workspace holds counts of candidates, lists of them, and a slot of scratch for each worker.
struct Plan {
  Way way;
  bool gathers;        // whole rows into panels
  bool wide;           // candidates of kWideCandidateBytes
  int64_t batch_rows;  // the most in a batch
  int64_t pieces;      // of a batch; 1: workers take whole batches
  int64_t workers;
  int64_t lists;  // of candidates, for a batch: a row's pieces lie side by side
  size_t list_bytes;
  int64_t keys_capacity;
  size_t lists_at;
  size_t slots_at;
  size_t keys_at;  // within a slot; delegates are at its start
  size_t panel_at;
  size_t slot_bytes;
  size_t total_bytes;
};

bool is_wide(int64_t key_bytes, int64_t cols) {
  return key_bytes == 8 || (key_bytes == 4 && cols > kMaxNarrowCols);
}

Way choose_way(const Problem& problem, bool dense, int64_t key_bytes) {
  const int64_t cols = problem.cols;
  if (problem.k == cols && (!problem.sorted || cols == 1)) return Way::kCopy;
  if (are_tiny(problem.rows, cols, problem.k, key_bytes)) return Way::kTiny;
  if (cols <= kMaxShortCols && problem.k <= kMaxShortK) return Way::kShort;
  return dense || cols * key_bytes * kMinPanelRows <= kPanelBytes ? Way::kLong : Way::kColumns;
}

// As a double: with expanded rows the product may pass 2^63.
double work_of(const Problem& problem, bool dense, int64_t key_bytes) {
  const double per_row = kWorkPerRow + static_cast<double>(kWorkPerWinner) * problem.k +
                         static_cast<double>(key_bytes + (dense ? 0 : kWorkPerGathered)) * problem.cols;
  return per_row * problem.rows;
}

Plan make_plan(const Problem& problem, const Layout& layout, int threads) {
  Plan plan{};
  const int64_t key_bytes = dtype_bytes(problem.dtype);
  const bool dense = layout.col_stride == 1;
  plan.way = choose_way(problem, dense, key_bytes);
  plan.wide = is_wide(key_bytes, problem.cols);
  const size_t candidate_bytes = plan.wide ? kWideCandidateBytes : kNarrowCandidateBytes;
  const auto list_bytes = [&](int64_t k) { return aligned((2 * k + kSpareCandidates) * candidate_bytes); };
  plan.gathers = !dense && (plan.way == Way::kShort || plan.way == Way::kLong);

  const int64_t workers = workers_for(work_of(problem, dense, key_bytes), threads);
  plan.batch_rows = kBatchRows;
  if (plan.gathers) {
    const int64_t fit = kPanelBytes / (problem.cols * key_bytes);
    plan.batch_rows = std::min({kBatchRows, fit, divide_up(problem.rows, workers)});
  } else if (plan.way == Way::kColumns) {
    const int64_t fit = kMaxColumnsBytes / static_cast<int64_t>(list_bytes(problem.k));
    plan.batch_rows = std::clamp<int64_t>(fit, 1, std::min(kBatchRows, problem.rows));
  } else if (plan.way == Way::kLong) {
    plan.batch_rows = 1;
  }
  const int64_t batches = divide_up(problem.rows, plan.batch_rows);
  const bool splits = plan.way == Way::kColumns || (plan.way == Way::kLong && dense);
  const int64_t most_pieces = splits ? problem.cols / (kMinPiecePerWinner * problem.k) : 1;
  plan.pieces = std::clamp<int64_t>(workers / batches, 1, std::max<int64_t>(most_pieces, 1));
  plan.workers = plan.pieces > 1 ? batches * plan.pieces : std::min(workers, batches);
  if (plan.way == Way::kCopy || plan.way == Way::kTiny) return plan;  // without scratch

  const int64_t piece_cols = divide_up(problem.cols, plan.pieces);
  const int64_t k = std::min(problem.k, piece_cols);
  const bool keep_keys = plan.way == Way::kLong && k < piece_cols && piece_cols <= kKeptKeysPerWinner * k;
  plan.keys_capacity = keep_keys ? piece_cols : std::min(kTile, piece_cols);
  plan.lists = plan.pieces * (plan.way == Way::kColumns ? plan.batch_rows : 1);
  plan.list_bytes = list_bytes(k);
  const int64_t all_lists = plan.workers / plan.pieces * plan.lists;
  plan.lists_at = aligned(all_lists * sizeof(int64_t));
  plan.slots_at = plan.lists_at + all_lists * plan.list_bytes;
  plan.keys_at =
      aligned((std::min(2 * k, piece_cols / kMinElementsPerDelegate) + kSpareDelegates) * key_bytes);
  plan.panel_at = plan.keys_at + aligned((plan.keys_capacity + kSpareKeys) * key_bytes);
  size_t panel_bytes = 0;
  if (plan.gathers) panel_bytes = plan.batch_rows * panel_pitch(problem.cols, key_bytes) * key_bytes;
  if (plan.way == Way::kColumns) panel_bytes = kPanelBytes + plan.batch_rows * kPanelRowSlack;
  plan.slot_bytes = plan.panel_at + aligned(panel_bytes);
  plan.total_bytes = plan.slots_at + plan.workers * plan.slot_bytes;
  return plan;
}

// One call, as its workers see it.
template <class Order>
struct Call {
  const Problem& problem;
  const Layout& layout;
  const Buffers& buffers;
  const Plan& plan;
  Order order;
  Kernel<Order> kernel;
  Output output;
  std::atomic<int64_t> next_row;

  // Where lists begin that belong to a batch, or to a worker that takes one batch after the other.
  int64_t* counts(int64_t owner) const {
    return static_cast<int64_t*>(buffers.workspace) + owner * plan.lists;
  }

  char* lists(int64_t owner) const {
    return static_cast<char*>(buffers.workspace) + plan.lists_at + owner * plan.lists * plan.list_bytes;
  }

  // The rows of a batch of columns have a list each, others one after the other the same.
  Scratch scratch(int64_t worker, char* candidates) const {
    char* const slot = static_cast<char*>(buffers.workspace) + plan.slots_at + worker * plan.slot_bytes;
    return {candidates,
            plan.way == Way::kColumns ? plan.pieces * plan.list_bytes : 0,
            slot,
            slot + plan.keys_at,
            plan.keys_capacity,
            slot + plan.panel_at};
  }

  // Fills the batch with the next rows.
  void fill(Batch& batch, RowWalker& walker, int64_t count) const {
    const auto* const input = static_cast<const typename Order::Bits*>(buffers.input);
    batch.count = count;
    batch.cols = problem.cols;
    batch.col_stride = layout.col_stride;
    batch.k = problem.k;
    for (int64_t i = 0; i < count; ++i, walker.advance()) {
      batch.rows[i] = input + walker.offset();
      batch.places[i] = walker.place();
    }
  }
};

// Swaps the worst of a row's winners, of equal ones that of the highest index, with the last.
template <class Index, class Order>
void put_last_in_place(const Call<Order>& call, int64_t place) {
  using Bits = typename Order::Bits;
  Bits* const values = static_cast<Bits*>(call.output.values) + place;
  Index* const indices = static_cast<Index*>(call.output.indices) + place;
  const int64_t stride = call.output.stride, last = (call.problem.k - 1) * stride;
  int64_t worst = 0;
  Bits worst_key = call.order(values[0]);
  for (int64_t at = stride; at <= last; at += stride) {
    const Bits key = call.order(values[at]);
    if (key > worst_key || (key == worst_key && indices[at] < indices[worst])) continue;
    worst = at;
    worst_key = key;
  }
  std::swap(values[worst], values[last]);
  std::swap(indices[worst], indices[last]);
}

// Of the rows of a batch, where that is asked for.
template <class Order>
void finish_batch(const Call<Order>& call, const Batch& batch) {
  if (!call.problem.last_alone) return;
  for (int64_t i = 0; i < batch.count; ++i) {
    if (call.output.wide_indices) {
      put_last_in_place<int64_t>(call, batch.places[i]);
    } else {
      put_last_in_place<int32_t>(call, batch.places[i]);
    }
  }
}

template <class Order>
void do_batch(const Call<Order>& call, Batch& batch, const Scratch& scratch, int64_t* counts) {
  const Kernel<Order>& kernel = call.kernel;
  if (call.plan.gathers) kernel.gather_rows(batch, scratch);
  switch (call.plan.way) {
    case Way::kCopy: return kernel.copy_rows(batch, call.output);
    case Way::kTiny: return kernel.select_tiny_rows(call.order, batch, call.output);
    case Way::kShort: return kernel.select_short_rows(call.order, batch, scratch, call.output);
    case Way::kLong:
      for (int64_t i = 0; i < batch.count; ++i) {
        const int64_t count = kernel.select_piece(call.order, batch, i, 0, batch.cols, scratch);
        kernel.write_best(batch, i, scratch, count, call.output);
      }
      return;
    case Way::kColumns:
      kernel.select_columns(call.order, batch, 0, batch.cols, scratch, counts, 1);
      for (int64_t i = 0; i < batch.count; ++i) {
        kernel.write_best(batch, i, scratch, counts[i], call.output);
      }
  }
}

// Whether rows lie side by side, as those of the outputs do.
bool lie_together(const Layout& layout, int64_t cols) {
  return layout.col_stride == 1 && layout.inner == 1 &&
         (layout.dims == 0 || (layout.dims == 1 && layout.strides[0] == cols));
}

template <class Index>
void write_positions(Index* indices, int64_t rows, int64_t cols) {
  for (int64_t j = 0; j < cols; ++j) indices[j] = static_cast<Index>(j);
  const int64_t total = rows * cols, most = cols * std::max<int64_t>(kCopiedPositions / cols, 1);
  for (int64_t done = cols; done < total;) {
    const int64_t more = std::min({done, most, total - done});
    std::memcpy(indices + done, indices, more * sizeof(Index));
    done += more;
  }
}

// All of rows that lie together, in the order of their elements.
template <class Order>
void copy_together(const Call<Order>& call, int64_t first_row, int64_t rows) {
  using Bits = typename Order::Bits;
  const int64_t cols = call.problem.cols, first = first_row * cols;
  std::memcpy(static_cast<Bits*>(call.output.values) + first,
              static_cast<const Bits*>(call.buffers.input) + first, rows * cols * sizeof(Bits));
  if (call.output.wide_indices) {
    write_positions(static_cast<int64_t*>(call.output.indices) + first, rows, cols);
  } else {
    write_positions(static_cast<int32_t*>(call.output.indices) + first, rows, cols);
  }
}

template <class Order>
void take_batches(Call<Order>& call, int64_t worker) {
  const Scratch scratch = call.scratch(worker, call.lists(worker));
  const int64_t rows = call.problem.rows;
  const int64_t workers = call.plan.workers;
  const int64_t batch_rows = call.plan.batch_rows;
  const int64_t batches = divide_up(rows, batch_rows);
  const int64_t grab = batch_rows * (workers == 1 ? batches : divide_up(batches, workers * kGrabsPerWorker));
  const bool copies =
      call.plan.way == Way::kCopy && !call.problem.last_alone && lie_together(call.layout, call.problem.cols);
  Batch batch;
  for (;;) {
    const int64_t begin = call.next_row.fetch_add(grab, std::memory_order_relaxed);
    if (begin >= rows) return;
    const int64_t end = std::min(begin + grab, rows);
    if (copies) {
      copy_together(call, begin, end - begin);
      continue;
    }
    RowWalker walker(call.layout, call.problem.k, begin);
    for (int64_t row = begin; row < end; row += batch_rows) {
      call.fill(batch, walker, std::min(batch_rows, end - row));
      do_batch(call, batch, scratch, call.counts(worker));
      finish_batch(call, batch);
    }
  }
}

template <class Order>
void take_piece(Call<Order>& call, int64_t worker) {
  const Plan& plan = call.plan;
  const int64_t number = worker / plan.pieces;
  const int64_t piece = worker % plan.pieces;
  const int64_t first_row = number * plan.batch_rows;
  Batch batch;
  RowWalker walker(call.layout, call.problem.k, first_row);
  call.fill(batch, walker, std::min(plan.batch_rows, call.problem.rows - first_row));
  const int64_t cols = call.problem.cols;
  const int64_t length = divide_up(cols, plan.pieces);
  const int64_t begin = std::min(piece * length, cols);
  const int64_t end = std::min(begin + length, cols);
  const Scratch scratch = call.scratch(worker, call.lists(number) + piece * plan.list_bytes);
  int64_t* const counts = call.counts(number) + piece;
  if (plan.way == Way::kColumns) {
    call.kernel.select_columns(call.order, batch, begin, end, scratch, counts, plan.pieces);
  } else {
    *counts = call.kernel.select_piece(call.order, batch, 0, begin, end, scratch);
  }
}

// A row's lists lie one after the other, so moving each piece's candidates down never reaches one not yet
// moved, and the lists together have room for a sort's second buffer.
template <class Order>
void merge_pieces(Call<Order>& call, int64_t row) {
  const Plan& plan = call.plan;
  const int64_t number = row / plan.batch_rows;
  const int64_t first = row % plan.batch_rows * plan.pieces;
  const size_t candidate_bytes = plan.wide ? kWideCandidateBytes : kNarrowCandidateBytes;
  char* const merged = call.lists(number) + first * plan.list_bytes;
  int64_t count = 0;
  for (int64_t piece = 0; piece < plan.pieces; ++piece) {
    const int64_t found = call.counts(number)[first + piece];
    std::memmove(merged + count * candidate_bytes, merged + piece * plan.list_bytes, found * candidate_bytes);
    count += found;
  }
  Scratch scratch = call.scratch(0, merged);
  scratch.keys_capacity = 0;  // a worker has keys, a row has none
  Batch batch;
  RowWalker walker(call.layout, call.problem.k, row);
  call.fill(batch, walker, 1);
  call.kernel.write_best(batch, 0, scratch, count, call.output);
  finish_batch(call, batch);
}

}  // namespace

size_t workspace_bytes(const Problem& problem, const Layout& layout, int threads) {
  return make_plan(problem, layout, threads).total_bytes;
}

// By make_plan's lines, each at its most: all keys of a shorter row may be kept where a tile's would do for
// the longest.
size_t row_workspace_bytes(DType dtype, int64_t cols, int64_t k) {
  const int64_t key_bytes = dtype_bytes(dtype);
  const bool wide = is_wide(key_bytes, cols);
  const size_t candidate_bytes = wide ? kWideCandidateBytes : kNarrowCandidateBytes;
  const int64_t keys = std::min(cols, std::max(kTile, kKeptKeysPerWinner * k));
  return aligned(sizeof(int64_t)) + aligned((2 * k + kSpareCandidates) * candidate_bytes) +
         aligned((2 * k + kSpareDelegates) * key_bytes) + aligned((keys + kSpareKeys) * key_bytes);
}

void topk(const Problem& problem, const Layout& layout, const Buffers& buffers, int threads,
          ParallelFor parallel_for) {
  const Plan plan = make_plan(problem, layout, threads);
  const Output output{buffers.values, buffers.indices, layout.inner, problem.wide_indices, problem.sorted};
  visit_key_order(problem.dtype, problem.largest, problem.magnitude, [&](auto order) {
    using Order = decltype(order);
    const Kernel<Order> kernel = kernel_for<Order>(detect_level(), plan.wide);
    Call<Order> call{problem, layout, buffers, plan, order, kernel, output, {}};
    if (plan.pieces == 1) {
      run_tasks<take_batches<Order>>(call, plan.workers, parallel_for);
    } else {
      run_tasks<take_piece<Order>>(call, plan.workers, parallel_for);
      run_tasks<merge_pieces<Order>>(call, problem.rows, parallel_for);
    }
  });
}

const char* describe(const Problem& problem, const Layout& layout, int threads, char* text,
                     size_t text_bytes) {
  const Plan plan = make_plan(problem, layout, threads);
  std::snprintf(text, text_bytes, "cpu: %s over %lld workers, %s vectors",
                plan.pieces == 1 ? "rows" : "parts of rows", static_cast<long long>(plan.workers),
                level_name(detect_level()));
  return text;
}

}  // namespace gputopk::cpu
