// AIR's plan: which form serves a request, and with what numbers.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cuda/air/air.h"
#include "cuda/air/numbers.h"
#include "cuda/device/block_sort.h"
#include "cuda/device/pass_numbers.h"
#include "cuda/device/split.h"

namespace gputopk::cuda::air {
namespace {

// Blocks of a row's cluster, a power of two: as many as can run at once with those of all rows, an SM each.
int air_cluster_blocks(const Problem& problem, const Device& device) {
  const bool long_rows = problem.cols >= tuning::kAirClusterLongCols;
  const int most = std::min(device.cluster_blocks, problem.cols > tuning::kAirClusterLongCols ? 16 : 8);
  const double reach = tuning::kAirClusterReach * device.sm_count;
  // Long rows are worth two blocks an SM.
  const int rows_of_two = long_rows ? device.sm_count : device.sm_count / 2;
  int blocks = problem.rows <= rows_of_two ? std::min(2, most) : 1;
  while (2 * blocks <= most && static_cast<double>(2 * blocks * problem.rows) <= reach) blocks *= 2;
  return blocks;
}

}  // namespace

ManyBlocks plan_many_blocks(const Problem& problem, const Device& device, const Study& study) {
  ManyBlocks config{};
  config.blocks_per_row = study.blocks > 0 ? std::max(study.blocks, least_blocks_of_passes(problem))
                                           : blocks_of_passes(problem, device);
  config.digit_bits = study.digit_bits > 0
                          ? study.digit_bits
                          : std::min(digit_bits_of_passes(problem.cols / config.blocks_per_row),
                                     digit_bits_that_fit(problem, device));
  config.buffer = study.adaptive ? buffer_of_passes(problem.cols) : problem.cols;
  config.adaptive = study.adaptive;
  config.launches_ahead = device.compute_capability >= 90;
  config.early_stop = study.early_stop;
  return config;
}

ResidentRow ResidentRow::plan(const Problem& problem, const Device&) {
  ResidentRow config{};
  const auto warps_of = [&](int elements) {
    // The row may begin anywhere in its first vector.
    const int64_t in_vector = 16 / dtype_bytes(problem.dtype);
    const int64_t places = problem.cols % in_vector == 0 ? problem.cols : problem.cols + in_vector - 1;
    return std::max(divide_up(places, 32 * elements), int64_t{tuning::kAirResidentMinThreads / 32});
  };
  const bool few = problem.cols <= tuning::kAirResidentShortCols || dtype_bytes(problem.dtype) == 8;
  config.elements = few ? tuning::kAirResidentShortElements : tuning::kAirResidentElements;
  const int64_t warps = warps_of(config.elements), rank = divide_up(problem.k, warps);
  config.threads = static_cast<int>(32 * std::min(warps, int64_t{1} << 20));
  const int most_maxima = few ? tuning::kAirResidentShortMaxima : tuning::kAirResidentMaxima;
  const int most_rank = few ? tuning::kAirResidentShortMostRank : tuning::kAirResidentMostRank;
  for (int maxima = most_maxima; maxima > 0 && rank <= most_rank; maxima /= 2) {
    if (maxima < most_maxima && rank > maxima * tuning::kAirResidentRankOfMaxima) break;
    config.maxima = maxima;
    config.rank = static_cast<int>(rank);
  }
  config.counts = !few && config.maxima > 0 && rank > tuning::kAirResidentSortedRank &&
                  config.threads >= tuning::kAirResidentCountingThreads;
  if (config.counts) config.maxima = most_maxima;  // all that there are
  config.digit_bits = tuning::kAirResidentDigitBits;
  const int64_t in_line = 128 / dtype_bytes(problem.dtype);
  const int64_t wanted =
      std::max({int64_t{tuning::kAirResidentMinRoom}, tuning::kAirResidentRoomPerK * problem.k,
                tuning::kAirResidentLinesPerWarp * warps * in_line});
  config.room = static_cast<int>(
      std::min(divide_up(wanted, 64) * 64, int64_t{tuning::kAirResidentItems} * config.threads));
  config.bins = bins_for(std::min(2 * problem.k, int64_t{config.room}));
  return config;
}

bool ResidentRow::serves(const Problem& problem, const Device& device) {
  const ResidentRow config = plan(problem, device);
  return config.threads <= tuning::kAirResidentMaxThreads && problem.k <= config.room;
}

OneBlock plan_one_block(const Problem& problem, const Device& device, const Study& study) {
  const bool few_rows = problem.rows <= device.sm_count;
  int per_thread = few_rows ? tuning::kAirBlockFewRowsElementsPerThread : tuning::kAirBlockElementsPerThread;
  if (few_rows && problem.cols <= tuning::kAirBlockList) per_thread = 1;
  OneBlock config{};
  config.threads = tuning::kAirBlockMinThreads;
  while (config.threads < tuning::kAirBlockMaxThreads && config.threads * per_thread < problem.cols) {
    config.threads *= 2;
  }
  if (study.threads > 0) config.threads = study.threads;
  // A thread scans 32 bins at most.
  const int most_bits = bit_width(static_cast<uint64_t>(config.threads) * 32 - 1);
  const bool short_rows = problem.cols <= tuning::kAirBlockShortCols;
  config.digit_bits =
      std::min(most_bits, short_rows ? tuning::kAirBlockShortDigitBits : tuning::kAirBlockDigitBits);
  if (study.digit_bits > 0) config.digit_bits = study.digit_bits;
  config.lists_row = few_rows && problem.cols <= tuning::kAirBlockList;
  config.lists_winners = problem.sorted && problem.k <= (few_rows ? tuning::kAirBlockRankedWinnersFewRows
                                                                  : tuning::kAirBlockRankedWinners);
  return config;
}

OneCluster plan_one_cluster(const Problem& problem, const Device& device, const Study& study) {
  OneCluster config{};
  config.blocks = study.cluster > 0 ? study.cluster : air_cluster_blocks(problem, device);
  const int64_t blocks = problem.rows * config.blocks;
  const bool long_part = problem.cols / config.blocks >= tuning::kAirClusterLongPart;
  config.threads =
      long_part && blocks <= device.sm_count ? tuning::kAirClusterMaxThreads : tuning::kAirClusterThreads;
  // Where clusters of two leave SMs idle, and rows are long enough, four times as many smaller blocks do not.
  const bool leaves_sms = static_cast<double>(blocks) < device.sm_count * tuning::kAirClusterFewSms;
  if (study.cluster == 0 && config.blocks == 2 && leaves_sms && problem.cols >= tuning::kAirClusterLongCols &&
      device.cluster_blocks >= 8) {
    config.blocks = 8;
    config.threads = tuning::kAirClusterThreads / 2;
  }
  if (study.threads > 0) config.threads = study.threads;
  config.digit_bits = study.digit_bits > 0 ? study.digit_bits : tuning::kAirClusterDigitBits;
  const double comparisons = static_cast<double>(tuning::kAirClusterComparisons) * config.blocks;
  const int64_t most = std::min(tuning::kAirClusterMostRanked, static_cast<int>(std::sqrt(comparisons)));
  config.ranks_winners = problem.k <= (problem.sorted ? most / 2 : tuning::kAirClusterRankedUnsorted);
  config.ranked =
      static_cast<int>(std::min(most, tuning::kAirClusterRanked + (config.ranks_winners ? problem.k : 0)));
  return config;
}

ResidentGrid ResidentGrid::plan(const Problem& problem, const Device& device) {
  const int bytes = dtype_bytes(problem.dtype);
  ResidentGrid config{};
  // The row may begin anywhere in its first vector.
  const int64_t vectors = divide_up(problem.cols + 16 / bytes - 1, 16 / bytes);
  const int64_t most = tuning::held_blocks(device.sm_count, problem.rows);
  const int64_t blocks = std::clamp<int64_t>(vectors / tuning::kHeldLeastVectors, 1, most);
  config.blocks = static_cast<int>(blocks);
  config.part_vectors =
      static_cast<int>(std::min(tuning::held_part_vectors(vectors, blocks), int64_t{INT32_MAX} / 32));
  const auto compared = std::sqrt(static_cast<double>(tuning::kAirHeldComparisons * blocks));
  config.ranked = std::min(static_cast<int>(compared), tuning::held_room(bytes));
  config.by_index = problem.by_index || problem.k > config.ranked;
  return config;
}

bool ResidentGrid::serves(const Problem& problem, const Device& device) {
  return problem.cols >= tuning::kAirHeldMinCols && problem.rows <= device.sm_count &&
         tuning::held_bytes(plan(problem, device).part_vectors, dtype_bytes(problem.dtype)) +
                 tuning::kHeldStaticBytes <=
             device.shared_bytes_per_block;
}

ManyBlocks ManyBlocks::plan(const Problem& problem, const Device& device) {
  return plan_many_blocks(problem, device, {});
}

OneBlock OneBlock::plan(const Problem& problem, const Device& device) {
  return plan_one_block(problem, device, {});
}

OneCluster OneCluster::plan(const Problem& problem, const Device& device) {
  return plan_one_cluster(problem, device, {});
}

bool OneBlock::serves(const Problem& problem, const Device&) {
  return problem.cols <= tuning::kAirBlockMaxCols;
}

bool OneCluster::serves(const Problem& problem, const Device& device) {
  return problem.cols >= tuning::kAirClusterMinCols && problem.cols <= tuning::kAirClusterMaxCols &&
         air_cluster_blocks(problem, device) > 1;
}

void ManyBlocks::describe(const Problem& problem, char* text, size_t text_bytes) const {
  const int bits = 8 * dtype_bytes(problem.dtype) + bit_width(static_cast<uint64_t>(problem.cols - 1));
  std::snprintf(text, text_bytes, "air: %d blocks a row, %d passes of %d-bit digits, buffer of %lld",
                blocks_per_row, static_cast<int>(divide_up(bits, digit_bits)), digit_bits,
                static_cast<long long>(buffer));
}

void ResidentRow::describe(const Problem& problem, char* text, size_t text_bytes) const {
  char bound[80] = "digits of all elements";
  if (counts) {
    std::snprintf(bound, sizeof(bound), "bound is number %lld of %d maxima that are counted",
                  static_cast<long long>(problem.k), threads * maxima);
  } else if (maxima > 0) {
    std::snprintf(bound, sizeof(bound), "bound is number %d of %d maxima a warp", rank, 32 * maxima);
  }
  std::snprintf(text, text_bytes,
                "air: a row in the registers of one block, %d threads, %d elements a thread, %s, lists of %d",
                threads, elements, bound, room);
}

void ResidentGrid::describe(const Problem& problem, char* text, size_t text_bytes) const {
  char written[60] = "winners by index";
  if (problem.last_alone) {
    std::snprintf(written, sizeof(written), "the last winner alone");
  } else if (!by_index) {
    std::snprintf(written, sizeof(written), "lists of %d ranked", ranked);
  }
  std::snprintf(text, text_bytes, "air: a row in the shared memory of %d blocks, %d vectors a block, %s",
                blocks, part_vectors, written);
}

void OneBlock::describe(const Problem&, char* text, size_t text_bytes) const {
  std::snprintf(text, text_bytes, "air: one block a row, %d threads, %d-bit digits%s", threads, digit_bits,
                lists_row       ? ", rows ranked whole"
                : lists_winners ? ", winners ranked"
                                : "");
}

void OneCluster::describe(const Problem&, char* text, size_t text_bytes) const {
  std::snprintf(text, text_bytes, "air: one cluster of %d blocks a row, %d threads, %d-bit digits%s", blocks,
                threads, digit_bits, ranks_winners ? ", winners ranked" : "");
}

Work ManyBlocks::work(const Problem& problem, const Device& device) const {
  // Among the last winners of a good part of a row, elements crowd, and are not stored between passes.
  return work_of(problem, device, problem.rows * blocks_per_row, tuning::kPassThreads,
                 tuning::kPassBlocksPerSm,
                 /*reads=*/problem.last_alone ? tuning::kReadsForLastAlone : 2);
}

Work OneBlock::work(const Problem& problem, const Device& device) const {
  const int per_sm = std::max(1, tuning::kAirBlockResident * tuning::kAirBlockMaxThreads / threads);
  Work work = work_of(problem, device, problem.rows, threads, per_sm, /*reads=*/lists_row ? 1 : 3);
  work.way = lists_row ? 1 : lists_winners ? 2 : 0;
  return work;
}

Work OneCluster::work(const Problem& problem, const Device& device) const {
  const int per_sm = tuning::kAirClusterMaxThreads / threads;
  return work_of(problem, device, problem.rows * blocks, threads, per_sm, /*reads=*/3);
}

Work ResidentRow::work(const Problem& problem, const Device& device) const {
  // Digits count the elements some times over.
  return work_of(problem, device, problem.rows, threads, std::max(1, 1024 / threads), maxima > 0 ? 1 : 4);
}

Work ResidentGrid::work(const Problem& problem, const Device& device) const {
  Work work =
      work_of(problem, device, problem.rows * blocks, tuning::kHeldThreads, /*per_sm=*/1, /*reads=*/1);
  work.winners /= blocks;
  work.way = in_order(problem) ? 0 : 1;
  return work;
}

}  // namespace gputopk::cuda::air
