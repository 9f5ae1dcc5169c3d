// GridSelect's plan: which form serves a request, and with what numbers.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cuda/device/index_width.h"
#include "cuda/device/split.h"
#include "cuda/grid_select/grid_select.h"
#include "cuda/grid_select/numbers.h"

namespace gputopk::cuda::grid_select {
namespace {

int grid_list_blocks_per_row(const Problem& problem, const Device& device) {
  const int64_t tile = tile_elements(problem, tuning::kGridListMaxThreads);
  // A block with less than a tile might have nothing to publish, and no bound would be shared. Up to a vector
  // at either end of a row is in no tile.
  const int64_t whole_tiles = (problem.cols - 2 * 16) / tile;
  return best_split(problem, tile, whole_tiles, int64_t{device.sm_count} * tuning::kGridListBlocksPerSm,
                    [](int64_t blocks) {
                      return blocks == 1 ? tuning::kGridListBlockOverheadTiles
                                         : tuning::kGridListSharedRowOverheadTiles;
                    })
      .blocks_per_row;
}

bool suits_a_warp_a_row(const Problem& problem, const Device& device) {
  const bool many_rows = problem.rows >= device.sm_count * tuning::kGridWarpManyRowsPerSm;
  return problem.cols <= (many_rows ? tuning::kGridWarpMaxColsManyRows : tuning::kGridWarpMaxCols);
}

// Blocks of so many threads that an SM has registers for.
int grid_blocks_per_sm(const Problem& problem, int threads) {
  const int list_items = static_cast<int>(divide_up(problem.k, 32));
  return tuning::grid_blocks_per_sm(list_items) * tuning::kGridThreads / threads;
}

Split grid_split(const Problem& problem, const Device& device, int threads) {
  const int64_t resident = int64_t{device.sm_count} * grid_blocks_per_sm(problem, threads);
  const int64_t tile = tile_elements(problem, threads);
  const double merging = static_cast<double>(problem.k) / tuning::kGridEntriesPerTile;  // a block's list
  return best_split(problem, tile, divide_up(problem.cols, tile), resident, [&](int64_t blocks) {
    return blocks == 1 ? tuning::kGridBlockOverheadTiles
                       : tuning::kGridSharedRowOverheadTiles + merging * static_cast<double>(blocks);
  });
}

}  // namespace

const char* unsupported_reason(const Problem& problem) {
  static_assert(kMaxK == 4096, "the text says so");
  return problem.k <= kMaxK ? nullptr : "k is larger than 4096, the most that its lists hold";
}

bool Registers::serves(const Problem& problem, const Device&) { return problem.k <= kRegistersMaxK; }

Registers Registers::plan(const Problem& problem, const Device& device, const Study& study) {
  Registers config{};
  config.thread_queues = study.thread_queues;
  config.launches_ahead = device.compute_capability >= 90;
  config.threads = study.threads > 0 ? study.threads : tuning::kGridThreads;
  config.samplers = 1;
  const bool warp_a_row =
      has_narrow_indices(problem.cols) &&
      (study.blocks == Study::kWarpARow || (study.blocks == 0 && suits_a_warp_a_row(problem, device)));
  if (warp_a_row) {
    config.blocks_per_row = 0;
    // Few rows are spread over the GPU.
    const int64_t rows_per_sm = divide_up(problem.rows, device.sm_count);
    if (study.threads == 0) {
      config.threads = static_cast<int>(std::min<int64_t>(32 * rows_per_sm, tuning::kGridThreads));
    }
    return config;
  }
  // Where a row has few blocks, smaller ones may divide rows more evenly. With as many warps an SM, a tile
  // takes as long.
  Split split = grid_split(problem, device, config.threads);
  const int per_sm = grid_blocks_per_sm(problem, tuning::kGridThreads) * tuning::kGridThreads;
  const bool few_blocks = problem.rows >= device.sm_count / tuning::kGridEvenSmsPerRow;
  for (int threads : tuning::kGridSmallerThreads) {
    if (study.threads > 0 || !few_blocks || per_sm % threads != 0) continue;
    const Split other = grid_split(problem, device, threads);
    if (other.cost >= split.cost) continue;
    config.threads = threads;
    split = other;
  }
  config.blocks_per_row = study.blocks > 0 ? study.blocks : split.blocks_per_row;
  // A warp's tile is its sample.
  const int64_t samples = problem.cols / tile_elements(problem, 32) / tuning::kGridSampleOneIn;
  config.samplers =
      static_cast<int>(std::clamp<int64_t>(samples / config.blocks_per_row, 1, config.threads / 32));
  return config;
}

SharedList SharedList::plan(const Problem& problem, const Device& device, const Study& study) {
  SharedList config{};
  config.blocks_per_row = study.blocks > 0 ? study.blocks : grid_list_blocks_per_row(problem, device);
  const bool few_rows = problem.rows <= device.sm_count;
  const int per_thread =
      few_rows ? tuning::kGridListFewRowsElementsPerThread : tuning::kGridListElementsPerThread;
  config.threads = config.blocks_per_row > 1 ? tuning::kGridListMaxThreads : tuning::kGridListMinThreads;
  while (config.threads < tuning::kGridListMaxThreads && config.threads * per_thread < problem.cols) {
    config.threads *= 2;
  }
  if (study.threads > 0) config.threads = study.threads;
  // Of a few groups none need wait for another.
  const int group = tuning::kGridListGroup;
  config.blocks_per_group = config.blocks_per_row <= 2 * group ? config.blocks_per_row : group;
  const bool short_rows = problem.cols <= tuning::kGridListShortCols;
  config.digit_bits = short_rows ? tuning::kGridListShortDigitBits : tuning::kGridListDigitBits;
  // The threads' maxima of a tile give a first bound for a k of theirs at most; else the whole tile is
  // listed.
  const bool starts_bounded = problem.k <= config.threads;
  const int bytes = dtype_bytes(problem.dtype);
  const int64_t tile = tile_elements(problem, config.threads);
  const int64_t room = std::max(problem.k, starts_bounded ? tuning::kGridListMinRoom : tile);
  const int64_t wanted = std::min(problem.cols, problem.k + room);  // a list as long as the row is never full
  constexpr int kStatic = 4 * 1024;                                 // the kernel's own variables
  const int shared_bytes = std::min(tuning::kGridListSharedBytes, device.shared_bytes_per_block) -
                           (4 << config.digit_bits) - kStatic;
  const int entry_bytes = std::max(4, bytes) + (has_narrow_indices(problem.cols) ? 4 : 8);
  // Even, as 8-byte indices lie behind `capacity` 4-byte keys: capacity * 4 is a multiple of 8.
  config.capacity = static_cast<int>(std::min<int64_t>(wanted + 1, shared_bytes / entry_bytes)) & ~1;
  config.first_review = starts_bounded ? tuning::kGridListFirstReview : tuning::kGridListFirstReviewUnbounded;
  config.review_growth = tuning::kGridListReviewGrowth;
  config.ranks_winners =
      problem.k <= (problem.sorted ? tuning::kGridListRankedWinners : tuning::kGridListRankedUnsorted);
  return config;
}

void Registers::describe(const Problem&, char* text, size_t text_bytes) const {
  const char* const queues = thread_queues ? ", a queue a thread" : "";
  if (blocks_per_row == 0) {
    std::snprintf(text, text_bytes, "grid_select: one warp a row, %d threads%s", threads, queues);
  } else {
    std::snprintf(text, text_bytes, "grid_select: %d blocks a row, %d threads, %d samples each%s",
                  blocks_per_row, threads, samplers, queues);
  }
}

void SharedList::describe(const Problem&, char* text, size_t text_bytes) const {
  std::snprintf(text, text_bytes, "grid_select: %d blocks a row, %d threads, lists of %d entries%s",
                blocks_per_row, threads, capacity, ranks_winners ? ", winners ranked" : "");
}

Work Registers::work(const Problem& problem, const Device& device) const {
  const int64_t warps = threads / 32;
  const int64_t blocks = blocks_per_row > 0 ? problem.rows * blocks_per_row : divide_up(problem.rows, warps);
  Work work = work_of(problem, device, blocks, threads, grid_blocks_per_sm(problem, threads), /*reads=*/1);
  if (blocks_per_row == 0)
    work.depth *= static_cast<double>(std::min(warps, problem.rows));  // a row has a warp
  work.entries *= static_cast<double>(divide_up(problem.k, 32));       // a merge goes through the whole list
  return work;
}

Work SharedList::work(const Problem& problem, const Device& device) const {
  const int per_sm = tuning::kGridListBlocksPerSm * tuning::kGridListMaxThreads / threads;
  Work work = work_of(problem, device, problem.rows * blocks_per_row, threads, per_sm, /*reads=*/1);
  work.winners *= static_cast<double>(blocks_per_group);  // one block merges those of its group
  return work;
}

}  // namespace gputopk::cuda::grid_select
