// Delegate's plan: which form serves a request, and with what numbers.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cuda/delegate/delegate.h"
#include "cuda/delegate/numbers.h"
#include "cuda/device/block_sort.h"
#include "cuda/device/element_sample.h"
#include "cuda/device/index_width.h"
#include "cuda/device/pass_numbers.h"
#include "cuda/device/row_sample.h"
#include "cuda/device/split.h"

namespace gputopk::cuda::delegate {
namespace {

// The paper's rule 4: alpha = (log2(cols) - log2(k) + const) / 2.
int delegate_alpha(const Problem& problem, int beta) {
  const double ratio = static_cast<double>(problem.cols) / static_cast<double>(problem.k);
  const double alpha =
      (std::log2(ratio) + (beta == 2 ? tuning::kDelegateConst2 : tuning::kDelegateConst1)) / 2;
  const AlphaRange range = alphas(problem, beta);
  return std::clamp(static_cast<int>(std::lround(alpha)), range.least, range.most);
}

}  // namespace

AlphaRange alphas(const Problem& problem, int beta) {
  const int per_vector = bit_width(static_cast<uint64_t>(16 / dtype_bytes(problem.dtype))) - 1;
  AlphaRange range{per_vector + tuning::kDelegateMinVectorsLog2,
                   per_vector + tuning::kDelegateMaxVectorsLog2};
  // Positions of delegates are 32-bit indices.
  while (range.least < 62 && (problem.cols >> range.least) * beta >= int64_t{1} << 30) ++range.least;
  // There must be k delegates; the last subrange may have none.
  while (range.most > 0 && ((problem.cols >> range.most) - 1) * beta < problem.k) --range.most;
  return range;
}

bool FromMaxima::serves(const Problem& problem, const Device&) {
  const AlphaRange range = alphas(problem, /*beta=*/1);
  return range.least <= range.most;
}

const char* unsupported_reason(const Problem& problem, const Device& device) {
  if (problem.k == 0) return nullptr;
  if (FromMaxima::serves(problem, device) || OneCluster::serves(problem, device) ||
      ResidentCluster::serves(problem, device) || ResidentGrid::serves(problem, device) ||
      FromSample::serves(problem, device) || TwoBounds::serves(problem, device)) {
    return nullptr;
  }
  return "it needs rows of more than 64 bytes for each of the k elements, so that there are as many "
         "subranges, or rows of 65536 elements and more, a part of which its bounds leave, or k up to some "
         "thousands and rows that the registers of a cluster hold";
}

FromMaxima FromMaxima::plan(const Problem& problem, const Device& device, const Study& study) {
  FromMaxima config{};
  config.beta = study.beta > 0 ? study.beta : 1;
  config.alpha = study.alpha > 0 ? study.alpha : delegate_alpha(problem, config.beta);
  config.blocks_per_row = blocks_of_passes(problem, device);

  Problem positions = problem;  // the first selection's
  positions.cols = divide_up(problem.cols, int64_t{1} << config.alpha) * config.beta;
  config.first_digit_bits = std::min(tuning::kPassStoredDigitBits, digit_bits_that_fit(positions, device));
  config.first_blocks_per_row = blocks_of_passes(positions, device);
  config.first_buffer = buffer_of_passes(positions.cols);

  // At most k subranges are read again, whole; with two delegates each, half of them whole and of the others
  // what one lane read. And the ragged ends.
  config.second_digit_bits = std::min(tuning::kPassStoredDigitBits, digit_bits_that_fit(problem, device));
  const int64_t most = (problem.k << config.alpha) / config.beta + problem.k * 32 + 64;
  config.second_buffer =
      std::min({most, problem.cols, std::max(problem.cols / tuning::kDelegateMinBufferShare, 2 * problem.k)});
  config.likely_passes = passes_of_stored(problem, 2.0 * static_cast<double>(problem.k),
                                          tuning::kPassOnePassCandidates, problem.last_alone);
  config.launches_ahead = device.compute_capability >= 90;
  return config;
}

FromSample FromSample::plan(const Problem& problem, const Device& device) {
  const RowSample sample = sample_of_lines(problem);
  FromSample config{};
  config.sample = sample;
  config.blocks_per_row = blocks_of_passes(problem, device);
  config.digit_bits = std::min(tuning::kPassStoredDigitBits, digit_bits_that_fit(problem, device));
  config.likely_passes =
      passes_of_stored(problem, sample.candidates, tuning::kPassOnePassBetween, problem.last_alone);
  config.dealt_share = share_dealt(problem, config.blocks_per_row);
  if (!fit_a_list(problem, sample.candidates)) config.sample.upper = upper_rank(problem, sample);
  config.buffer = sample.room;
  config.launches_ahead = device.compute_capability >= 90;
  config.blocks_meet = config.launches_ahead && can_meet(sample.candidates, config.blocks_per_row,
                                                         staged_candidates(entry_bytes(problem)));
  if (config.blocks_meet) config.likely_passes = 0;
  return config;
}

bool FromSample::serves(const Problem& problem, const Device&) { return sample_of_lines_tells(problem); }

namespace {

// Bytes of a row that candidates may take beside its outputs.
double memory_of_candidates(const Problem& problem) {
  const double bytes = dtype_bytes(problem.dtype);
  const double outputs = static_cast<double>(problem.k) * (bytes + (problem.wide_indices ? 8 : 4));
  return tuning::kSampledMemoryOfOutputs * outputs +
         tuning::kSampledMemoryOfInput * static_cast<double>(problem.cols) * bytes;
}

// A sample of as many lines as a row of that length pays for, in groups as large as tell the rank: of no
// delegates where none do.
RowSample sample_of_grid(const Problem& problem, int blocks) {
  const double cols = static_cast<double>(problem.cols);
  const double per_line = double{tuning::kPassThreads} * blocks * (16 / dtype_bytes(problem.dtype));
  int lines = tuning::kSampleLines;
  while (lines > 1 && lines * per_line * tuning::kGridSampleShare > cols) lines /= 2;
  if (lines * per_line * tuning::kGridLeastSampleShare > cols) return {};
  for (int group = 32; group >= tuning::kGridLeastGroup; group /= 2) {
    const RowSample sample = with_lines(problem, blocks, lines, group);
    if (sample.rank <= tuning::kResidentMostRank * sample.delegates) return sample;
  }
  return {};
}

// Into L2, by each of the GPU's blocks.
int prefetched_tiles_of_grid(const Problem& problem, const Device& device) {
  const double tile_bytes =
      static_cast<double>(tile_elements(problem, tuning::kPassThreads)) * dtype_bytes(problem.dtype);
  return static_cast<int>(tuning::kGridPrefetchBytes / (device.sm_count * tile_bytes));
}

}  // namespace

OneGrid OneGrid::plan(const Problem& problem, const Device& device) {
  const int blocks = static_cast<int>(device.sm_count / problem.rows);
  const RowSample sample = sample_of_grid(problem, blocks);
  OneGrid config{};
  config.sample = sample;
  config.counts = sample.candidates > tuning::kGridFew;
  const double bytes = dtype_bytes(problem.dtype);
  config.prefetched_tiles = prefetched_tiles_of_grid(problem, device);
  config.buffer =
      std::min(sample.room, static_cast<int64_t>(memory_of_candidates(problem) / (bytes + sizeof(uint32_t))));
  return config;
}

bool OneGrid::serves(const Problem& problem, const Device& device) {
  return problem.rows <= tuning::kGridMostRows && problem.cols >= tuning::kOneGridMinCols &&
         problem.k <= tuning::kGridListed && has_narrow_indices(problem.cols) &&
         plan(problem, device).sample.delegates > 0;
}

GridParts GridParts::plan(const Problem& problem, const Device& device) {
  const double cols = static_cast<double>(problem.cols), sampled = tuning::kGridSampled;
  const double bytes = dtype_bytes(problem.dtype);
  const double rank = tuning::sample_rank(sampled * static_cast<double>(problem.k) / cols);
  GridParts config{};
  config.blocks = static_cast<int>(device.sm_count / problem.rows);
  if (config.blocks == 0 || rank > tuning::kSampleMostRank * sampled) return config;
  config.prefetched_tiles = prefetched_tiles_of_grid(problem, device);
  config.candidates = std::min(cols, rank * cols / sampled);
  const double most = 1 + 1.0 / tuning::kSampleElementsSlack + tuning::kSampleDeviations / std::sqrt(rank);
  const int64_t room = std::min(problem.cols, static_cast<int64_t>(most * config.candidates));
  const auto places = static_cast<int64_t>((memory_of_candidates(problem) - tuning::kGridPartsStateBytes) /
                                           (bytes + sizeof(uint32_t)));
  if (config.candidates > tuning::kGridPartsMostTimesK * static_cast<double>(problem.k)) return config;
  // What shares the last winner's bin is a small part of the others, or else the bound was no good.
  const int64_t least_dealt = problem.k + problem.k / tuning::kGridPartsSpareShare;
  if (room + least_dealt > places) return config;
  config.rank = static_cast<int>(rank);
  config.buffer = room;
  config.dealt = std::min(room, places - room);
  return config;
}

bool GridParts::serves(const Problem& problem, const Device& device) {
  return problem.rows <= tuning::kGridMostRows && problem.cols >= tuning::kGridPartsMinCols &&
         problem.k >= tuning::kGridPartsMinK && has_narrow_indices(problem.cols) &&
         dtype_bytes(problem.dtype) > 1 && plan(problem, device).rank > 0;
}

namespace {

// All of the plan but how the row is read.
TwoBounds with_bounds(const Problem& problem, const Device& device) {
  const ElementBounds bounds = bounds_of_elements(problem, device);
  TwoBounds config{};
  config.sample = bounds.sample;
  config.ranks = bounds.ranks;
  config.candidates = bounds.candidates;
  config.buffer = bounds.room;
  config.digit_bits = std::min(tuning::kPassStoredDigitBits, digit_bits_that_fit(problem, device));
  config.likely_passes =
      passes_of_stored(problem, config.candidates, tuning::kPassOnePassBetween, problem.last_alone);
  config.launches_ahead = device.compute_capability >= 90;
  return config;
}

}  // namespace

TwoBounds TwoBounds::plan(const Problem& problem, const Device& device) {
  TwoBounds config = with_bounds(problem, device);
  config.blocks_per_row = blocks_of_passes(problem, device);
  config.many_win =
      problem.k > problem.cols / (problem.last_alone ? tuning::kManyColsPerCounted : tuning::kManyColsPerK);
  const bool wide = entry_bytes(problem) > 8;
  const int staged = config.many_win ? wide ? tuning::kFewWideReachingStaged : tuning::kFewReachingStaged
                     : wide          ? tuning::kWideReachingStaged
                                     : tuning::kReachingStaged;
  config.blocks_meet = config.launches_ahead && can_meet(config.candidates, config.blocks_per_row,
                                                         staged / tuning::kReachingKeptShare);
  if (config.blocks_meet) config.likely_passes = 0;
  return config;
}

bool TwoBounds::serves(const Problem& problem, const Device& device) {
  if (problem.cols < tuning::kSampleMinCols || problem.k < problem.cols / tuning::kTwoBoundsMostColsPerK) {
    return false;
  }
  const TwoBounds config = with_bounds(problem, device);
  const double cols = static_cast<double>(problem.cols), room = static_cast<double>(config.buffer);
  if (room > tuning::kTwoBoundsMostBetween * cols) return false;
  // Candidates must not take much more than the outputs: bytes of a row.
  const double element_bytes = dtype_bytes(problem.dtype);
  const double index_bytes = has_narrow_indices(problem.cols) ? 4 : 8;
  const double workspace = room * (1 + 1.0 / tuning::kTwoBoundsSecondBuffer) * (element_bytes + index_bytes) +
                           index_bytes * (1 << config.digit_bits);
  return workspace <= memory_of_candidates(problem);
}

void TwoBounds::describe(const Problem&, char* text, size_t text_bytes) const {
  std::snprintf(
      text, text_bytes,
      "delegate: bounds are numbers %d and %d of %d elements of a sample, in place %d of %d blocks, "
      "%d blocks a row, room for %lld candidates",
      ranks.lower, ranks.upper, elements_of_block(sample), ranks.place, sample.blocks, blocks_per_row,
      static_cast<long long>(buffer));
}

Work TwoBounds::work(const Problem& problem, const Device& device) const {
  Work work = work_of(problem, device, problem.rows * blocks_per_row, tuning::kPassThreads,
                      tuning::kPassBlocksPerSm, /*reads=*/1);
  const double rows_of_sm = std::max(1.0, static_cast<double>(problem.rows) / device.sm_count);
  work.entries = candidates * rows_of_sm;
  if (problem.last_alone) {
    work.winners = 0;
  } else {
    work.bytes += static_cast<double>(problem.rows) * static_cast<double>(problem.k) *
                  (dtype_bytes(problem.dtype) + (problem.wide_indices ? 8 : 4));
  }
  return work;
}

namespace {

// The most candidates that a block of so many threads has room for, and puts in order.
int64_t most_room(const Problem& problem, const Device& device, int threads) {
  const int entry_bytes = dtype_bytes(problem.dtype) + static_cast<int>(sizeof(uint32_t));
  int64_t room = int64_t{threads} * tuning::kClusterItems;
  while (room > 64 &&
         block_bytes(entry_bytes, static_cast<int>(room), threads) + tuning::kClusterStaticBytes >
             device.shared_bytes_per_block) {
    room -= 64;
  }
  return room;
}

// Windows of rows that no sample tells k of: they are listed whole, or their bound is found from them.
void without_sample(const Problem& problem, const Device& device, SampledBound& bound) {
  int threads = tuning::kClusterMinThreads;
  while (threads < tuning::kClusterMaxThreads && threads * tuning::kClusterItems < problem.cols) threads *= 2;
  const int64_t room = std::min(divide_up(problem.cols, 64) * 64, most_room(problem, device, threads));
  if (problem.k > std::min(room, problem.cols)) return;
  bound.threads = threads;
  bound.room = static_cast<int>(room);
}

// The least work, of a thread, that a sample's elements and the candidates are: of a larger sample there are
// fewer of these. Of no threads where there is no room for them.
SampledBound bound_beyond(int neighbours, const Problem& problem, const Device& device, int least_threads) {
  const int per_vector = 16 / dtype_bytes(problem.dtype);
  const double cols = static_cast<double>(problem.cols), k = static_cast<double>(problem.k);
  SampledBound bound{};
  double least = 0;
  for (int threads = least_threads; threads <= tuning::kClusterMaxThreads && bound.threads == 0;
       threads *= 2) {
    const int64_t most = most_room(problem, device, threads);
    for (int vectors = 1; vectors <= tuning::cluster_vectors(dtype_bytes(problem.dtype)); vectors *= 2) {
      const double sample = static_cast<double>(threads) * vectors * per_vector, winners = k * sample / cols;
      const double rank = tuning::sample_rank_of_neighbours(winners, problem.k, neighbours);
      const double candidates = rank * cols / sample;
      const auto room_for = [&](double deviations) {
        const double likely = rank * (1 + 1.0 / tuning::kClusterRankSlack + deviations / std::sqrt(rank));
        // And of neighbours up to a stratum more than the rank tells.
        const double reaching = std::max(likely, rank + neighbours) * cols / sample;
        return divide_up(static_cast<int64_t>(std::min(reaching, cols)), 64) * 64;
      };
      if (rank > threads || room_for(tuning::kClusterLeastRoomDeviations) > most ||
          sample * tuning::kClusterSampleShare > cols) {
        continue;
      }
      if (bound.threads > 0 && sample + candidates >= least) continue;
      least = sample + candidates;
      const int64_t room = std::min(room_for(tuning::kClusterRoomDeviations), most);
      bound = {threads, vectors, static_cast<int>(rank), static_cast<int>(room), neighbours};
    }
  }
  return bound;
}

SampledBound sampled_bound(const Problem& problem, const Device& device, bool windows) {
  const bool few_rows = problem.rows <= tuning::kClusterFewRows * device.sm_count;
  const int threads = few_rows ? tuning::kClusterFewRowsThreads : tuning::kClusterMinThreads;
  const int side_by_side = tuning::kClusterSectorBytes / dtype_bytes(problem.dtype);
  // Of larger blocks the sample may be too large a share of the row, and a bound that rows of neighbours
  // mislead is better than none. So whether a row is served is a matter of its size alone.
  SampledBound bound{};
  for (int least = threads; least >= tuning::kClusterMinThreads; least /= 2) {
    for (const int neighbours : {side_by_side, 0}) {
      if (bound.threads == 0) bound = bound_beyond(neighbours, problem, device, least);
    }
  }
  if (bound.threads == 0 && windows) without_sample(problem, device, bound);
  return bound;
}

// As many to a row as run at once with those of all rows.
int cluster_blocks(const Problem& problem, const Device& device, int threads) {
  const int per_sm = tuning::kClusterThreadsPerSm / threads;
  const double places = tuning::kClusterReach * device.sm_count * per_sm;
  const int most_blocks = std::min(device.cluster_blocks, tuning::kClusterMostBlocks);
  int blocks = 1;
  while (2 * blocks <= most_blocks && static_cast<double>(2 * blocks * problem.rows) <= places &&
         2 * blocks * tile_elements(problem, threads) <= problem.cols) {
    blocks *= 2;
  }
  return blocks;
}

}  // namespace

OneCluster OneCluster::plan(const Problem& problem, const Device& device, bool windows) {
  OneCluster config{};
  static_cast<SampledBound&>(config) = sampled_bound(problem, device, windows);
  if (config.threads == 0) return config;

  const int per_sm = tuning::kClusterThreadsPerSm / config.threads;
  config.blocks = cluster_blocks(problem, device, config.threads);
  const double all_blocks = static_cast<double>(problem.rows) * config.blocks;
  const double at_once = std::min(all_blocks, static_cast<double>(device.sm_count) * per_sm);
  // Clusters of up to a pair find all SMs.
  const double sms = config.blocks > 2 ? tuning::kClusterReach * device.sm_count : device.sm_count;
  config.reads_ahead = config.threads == tuning::kClusterAheadThreads && all_blocks <= sms;
  const double tile_bytes =
      static_cast<double>(tile_elements(problem, config.threads)) * dtype_bytes(problem.dtype);
  const double prefetched =
      config.reads_ahead ? tuning::kClusterAheadPrefetchBytes : tuning::kClusterPrefetchBytes;
  config.prefetched_tiles = static_cast<int>(prefetched / (at_once * tile_bytes));
  return config;
}

namespace {

// The rank that a bound among delegates may have.
double most_rank(double rank) {
  return rank * (1 + 1.0 / tuning::kResidentRankSlack) + tuning::kResidentLeastSlack;
}

// Elements that reach a bound which so many of `all` delegates do: some stand for more than one.
double elements_reaching(double delegates, double all) { return all * -std::log(1 - delegates / all); }

// Elements that reach the least of `blocks` blocks' delegates of a rank, as far as can be expected: a block
// has a Poisson variable of delegates above a threshold, and the least of them is some deviations below their
// mean.
double candidates_of_blocks(double blocks, double rank, double threads) {
  const double ln = std::log(blocks);
  const double delegates = most_rank(rank) + std::sqrt(2 * rank * ln) + ln;
  return delegates < threads ? blocks * elements_reaching(delegates, threads)
                             : blocks * threads * tuning::kResidentElements;
}

}  // namespace

ResidentCluster ResidentCluster::plan(const Problem& problem, const Device& device) {
  const int bytes = dtype_bytes(problem.dtype);
  // The row may begin anywhere in its first vector.
  const int64_t in_vector = 16 / bytes;
  const int64_t places = problem.cols % in_vector == 0 ? problem.cols : problem.cols + in_vector - 1;
  const int most_elements = bytes == 8 ? tuning::kResidentElements : tuning::kResidentMostElements;
  const bool few_rows = problem.rows * tuning::kClusterMostBlocks <= device.sm_count / 2;
  const int most_blocks =
      std::min(device.cluster_blocks, few_rows ? tuning::kClusterMostBlocks : tuning::kResidentBlocks);
  ResidentCluster best{};
  double least = 0;
  // Small blocks, which start sooner, unless they have no room.
  for (int threads = tuning::kResidentMinThreads; threads <= tuning::kClusterMaxThreads && best.threads == 0;
       threads *= 2) {
    const int64_t room =
        std::min(most_room(problem, device, threads), int64_t{tuning::kResidentClusterItems} * threads);
    const int per_sm = tuning::kClusterThreadsPerSm / threads;
    const double at_once = tuning::kClusterReach * device.sm_count * per_sm;
    for (int blocks = 2; blocks <= most_blocks; blocks *= 2) {
      const int64_t rank = divide_up(problem.k, blocks);
      if (static_cast<double>(rank) > tuning::kResidentMostRank * threads) continue;
      const double candidates = candidates_of_blocks(blocks, static_cast<double>(rank), threads);
      if (candidates > static_cast<double>(room)) continue;
      const double all_blocks = static_cast<double>(problem.rows) * blocks;
      const double of_sm = std::min<double>(per_sm, std::ceil(all_blocks / device.sm_count));
      const double row_bytes = static_cast<double>(problem.cols) * bytes;
      const double us =
          std::ceil(all_blocks / at_once) *
              (tuning::kResidentWaveUs + of_sm * row_bytes / blocks / tuning::kResidentSmBytesPerUs) +
          candidates / threads * tuning::kResidentItemUs;
      for (int elements = tuning::kResidentElements; elements <= most_elements; elements *= 2) {
        if (int64_t{blocks} * threads * elements < places) continue;
        if (best.threads > 0 && us >= least) break;
        // Where an SM has more than a block, others work meanwhile.
        const bool in_parts =
            problem.k >= tuning::kResidentPartsMinK && all_blocks <= static_cast<double>(device.sm_count);
        best = {
            threads, elements, blocks, static_cast<int>(rank), static_cast<int>(room), in_parts ? blocks : 1};
        least = us;
        break;
      }
    }
  }
  return best;
}

bool ResidentCluster::serves(const Problem& problem, const Device& device) {
  return problem.cols >= tuning::kResidentMinCols && plan(problem, device).threads > 0;
}

namespace {

// Blocks of so many threads that hold so many elements each: of no threads where they have no room.
ResidentGrid resident_grid_of(const Problem& problem, const Device& device, int threads, int elements) {
  ResidentGrid config{};
  config.elements = elements;
  config.blocks = static_cast<int>(
      std::min(device.sm_count / problem.rows, divide_up(problem.cols, tuning::kGridLeastShare)));
  const int bytes = dtype_bytes(problem.dtype);
  // The row may begin anywhere in its first vector.
  const int64_t places = problem.cols + 16 / bytes - 1;
  if (config.blocks < tuning::kGridLeastBlocks || int64_t{config.blocks} * threads * elements < places) {
    return config;
  }
  config.ordered_by = static_cast<int>(std::min<int64_t>(
      {divide_up(problem.k, tuning::kGridPartK), tuning::kResidentMostParts, config.blocks}));
  const double k = static_cast<double>(problem.k), warps = config.blocks * (threads / 32);
  const int64_t most =
      std::min(most_room(problem, device, threads), int64_t{tuning::kResidentClusterItems} * threads);
  // Of more delegates fewer are candidates.
  for (config.of_warp = 1; config.of_warp <= tuning::kGridMostOfWarp; config.of_warp *= 2) {
    const double delegates = warps * config.of_warp;
    if (k > tuning::kResidentMostRank * delegates) continue;
    const double candidates = elements_reaching(most_rank(k), delegates);
    // The lists' memory has the delegates first.
    const double of_delegates = delegates * std::max(bytes, 4) / (bytes + sizeof(uint32_t));
    const double room = std::max(tuning::kGridRoom * candidates + tuning::kGridSpareRoom, of_delegates);
    config.room = static_cast<int>(divide_up(static_cast<int64_t>(room), 64) * 64);
    if (config.room > most) continue;
    config.threads = threads;
    break;
  }
  return config;
}

// All of the plan but what a context without room takes. Small blocks, whose barriers are short, where they
// have room.
ResidentGrid resident_grid_of(const Problem& problem, const Device& device) {
  ResidentGrid config{};
  for (int threads = tuning::kResidentMinThreads; threads <= tuning::kClusterMaxThreads; threads *= 2) {
    for (const int elements : {tuning::kResidentElements, tuning::kResidentMostElements}) {
      if (elements * dtype_bytes(problem.dtype) > tuning::kGridMostThreadBytes) continue;
      config = resident_grid_of(problem, device, threads, elements);
      if (config.threads > 0) return config;
    }
  }
  return config;
}

}  // namespace

ResidentGrid ResidentGrid::plan(const Problem& problem, const Device& device) {
  ResidentGrid config = resident_grid_of(problem, device);
  if (config.threads > 0) config.without_room = EqualShares::plan(problem, device);
  return config;
}

bool ResidentGrid::serves(const Problem& problem, const Device& device) {
  return problem.cols >= tuning::kGridMinCols && problem.rows <= tuning::kGridMostRows &&
         resident_grid_of(problem, device).threads > 0 && EqualShares::serves(problem, device);
}

EqualShares EqualShares::plan(const Problem& problem, const Device& device, bool windows) {
  EqualShares config{};
  static_cast<SampledBound&>(config) = sampled_bound(problem, device, windows);
  if (config.threads == 0) return config;

  const int per_sm = tuning::kClusterThreadsPerSm / config.threads;
  const double units =
      std::ceil(static_cast<double>(problem.cols) * dtype_bytes(problem.dtype) / tuning::kShareUnitBytes) *
      static_cast<double>(problem.rows);
  config.blocks = static_cast<int>(
      std::clamp<double>(units / tuning::kShareLeastUnits, 1, static_cast<double>(per_sm) * device.sm_count));
  const double tile_bytes =
      static_cast<double>(tile_elements(problem, config.threads)) * dtype_bytes(problem.dtype);
  config.prefetched_tiles = static_cast<int>(tuning::kClusterPrefetchBytes / (config.blocks * tile_bytes));
  config.order_threads = tuning::kClusterMinThreads;
  while (config.order_threads < tuning::kClusterMaxThreads &&
         config.room > tuning::kClusterFewItems * config.order_threads) {
    config.order_threads *= 2;
  }
  config.order_blocks = cluster_blocks(problem, device, config.order_threads);
  config.launches_ahead = device.compute_capability >= 90;
  return config;
}

bool OneCluster::serves(const Problem& problem, const Device& device) {
  return problem.cols >= tuning::kClusterMinCols && problem.cols <= tuning::kClusterMaxCols &&
         sampled_bound(problem, device, /*windows=*/false).threads > 0;
}

bool OneCluster::serves_windows(const Problem& problem, const Device& device) {
  return problem.cols >= tuning::kClusterMinCols &&
         sampled_bound(problem, device, /*windows=*/true).threads > 0;
}

bool EqualShares::serves(const Problem& problem, const Device& device) {
  return problem.rows <= tuning::kShareMostRows && OneCluster::serves(problem, device);
}

bool EqualShares::serves_windows(const Problem& problem, const Device& device) {
  return problem.rows <= tuning::kShareMostRows && OneCluster::serves_windows(problem, device);
}

AcrossRows AcrossRows::plan(const StridedProblem& strided, const Device& device) {
  const Problem& problem = strided.problem;
  const double cols = static_cast<double>(problem.cols), k = static_cast<double>(problem.k);
  const int entry_bytes = dtype_bytes(problem.dtype) + static_cast<int>(sizeof(uint32_t));
  const bool few_rows = problem.rows < int64_t{tuning::kAcrossFewRows} * device.sm_count;
  const int items = few_rows ? tuning::kAcrossFewItems : tuning::kAcrossItems;
  // Few rows are sampled by few blocks, and read by all.
  const double sampled_at_once =
      std::min(1.0, static_cast<double>(problem.rows) / (tuning::kAcrossSampledRows * device.sm_count));
  AcrossRows config{};
  double least = 0;
  for (const int delegates : {tuning::kAcrossFewDelegates, tuning::kAcrossMostDelegates}) {
    const bool few = delegates == tuning::kAcrossFewDelegates;
    for (int group = 1; int64_t{delegates} * group * tuning::kAcrossSampleShare <= problem.cols; group *= 2) {
      const double sample = static_cast<double>(delegates) * group;
      const double rank = tuning::sample_rank(k * sample / cols);
      if (rank > tuning::kAcrossMostRank * delegates) break;
      // A delegate reaches the bound if one of its group does.
      const double candidates = cols * (1 - std::pow(1 - rank / delegates, 1.0 / group));
      const double room =
          candidates * (1 + (tuning::kAcrossRoomDeviations + tuning::kAcrossExtraRoom / std::sqrt(rank)) /
                                std::sqrt(rank));
      const int64_t places = divide_up(static_cast<int64_t>(std::min(std::max(room, k), cols)), 64) * 64;
      int threads = tuning::kAcrossOrderMinThreads;
      while (threads < tuning::kAcrossOrderMaxThreads && threads * items < places) {
        threads *= 2;
      }
      if (candidates * tuning::kAcrossSampleShare > cols ||
          places > int64_t{threads} * tuning::kAcrossItems ||
          block_bytes(entry_bytes, static_cast<int>(places), threads) + tuning::kClusterStaticBytes >
              device.shared_bytes_per_block) {
        continue;
      }
      const double work = sample / sampled_at_once + tuning::kAcrossCandidate * candidates +
                          delegates * (few ? tuning::kAcrossFewDelegate : tuning::kAcrossMostDelegate);
      if (config.delegates > 0 && work >= least) continue;
      least = work;
      config.delegates = delegates;
      config.group = group;
      config.rank = static_cast<int>(rank);
      config.candidates = candidates;
      config.room = static_cast<int>(places);
      config.order_threads = threads;
    }
  }
  const bool short_lists = dtype_bytes(problem.dtype) < 8 && config.candidates <= tuning::kAcrossShortList &&
                           problem.k <= tuning::kAcrossShortListK;
  if (short_lists && !few_rows) config.order_threads = 0;
  config.blocks = device.sm_count * tuning::kAcrossBlocksPerSm;
  config.list_bytes = tuning::kAcrossListBytes;
  config.launches_ahead = device.compute_capability >= 90;
  return config;
}

bool AcrossRows::serves(const StridedProblem& strided, const Device& device) {
  const Problem& problem = strided.problem;
  const RowLayout& input = strided.input;
  const bool lie_together = input.inner * dtype_bytes(problem.dtype) >= tuning::kClusterSectorBytes ||
                            input.col_stride == input.inner;
  return input.inner > 1 && input.inner <= INT32_MAX && input.inner_stride == 1 &&
         input.col_stride >= input.inner && lie_together && !problem.by_index && problem.k > 0 &&
         problem.k <= tuning::kAcrossMaxK && problem.cols >= tuning::kAcrossMinCols &&
         problem.cols <= INT32_MAX && plan(strided, device).delegates > 0;
}

Work AcrossRows::work(const StridedProblem& strided, const Device& device) const {
  const Problem& problem = strided.problem;
  const double sample = static_cast<double>(delegates) * group / static_cast<double>(problem.cols);
  Work work =
      work_of(problem, device, blocks, tuning::kAcrossThreads, tuning::kAcrossBlocksPerSm, 1 + sample);
  work.blocks = std::ceil(static_cast<double>(problem.rows) / device.sm_count);  // of the last kernel
  work.entries = candidates * static_cast<double>(problem.rows) / device.sm_count;
  work.way = alignment_of_rows(strided.input, dtype_bytes(problem.dtype));
  return work;
}

int64_t AcrossRows::rows_at_once(const Problem& problem, int64_t inner) const {
  const int64_t candidate_bytes = dtype_bytes(problem.dtype) == 8 ? 16 : 8;
  const int64_t most = std::max<int64_t>(list_bytes / (room * candidate_bytes), 1);
  if (problem.rows <= most) return problem.rows;
  // Parts of an outer row begin like the whole.
  constexpr int64_t kLeast = 256;
  return most >= inner ? most / inner * inner : std::min(divide_up(most, kLeast) * kLeast, inner);
}

void FromMaxima::describe(const Problem&, char* text, size_t text_bytes) const {
  std::snprintf(text, text_bytes,
                "delegate: subranges of 2^%d, beta %d, %d blocks a row, room for %lld candidates", alpha,
                beta, blocks_per_row, static_cast<long long>(second_buffer));
}

void FromSample::describe(const Problem&, char* text, size_t text_bytes) const {
  std::snprintf(
      text, text_bytes,
      "delegate: bound is number %d of %d delegates of a sample, %d blocks a row, room for %lld candidates",
      sample.rank, sample.delegates, blocks_per_row, static_cast<long long>(buffer));
}

void OneGrid::describe(const Problem&, char* text, size_t text_bytes) const {
  std::snprintf(
      text, text_bytes,
      "delegate: %d blocks a row together, bound is number %d of %d delegates of a sample, %d lines "
      "a lane, room for %lld candidates%s",
      sample.blocks, sample.rank, sample.delegates, sample.lines, static_cast<long long>(buffer),
      counts ? ", counted" : "");
}

void GridParts::describe(const Problem& problem, char* text, size_t text_bytes) const {
  std::snprintf(text, text_bytes,
                "delegate: %d blocks a row together, bound is number %d of a sample of %d, room for %lld "
                "candidates, %s",
                blocks, rank, tuning::kGridSampled, static_cast<long long>(buffer),
                problem.sorted ? "in parts" : "in any order");
}

namespace {

void describe_bound(const SampledBound& bound, const Problem& problem, char* text, size_t text_bytes) {
  if (bound.vectors == 0) {
    std::snprintf(text, text_bytes, "bound from the row, room for %d candidates", bound.room);
    return;
  }
  std::snprintf(text, text_bytes, "bound is number %d of a sample of %d, room for %d candidates", bound.rank,
                bound.threads * bound.vectors * (16 / dtype_bytes(problem.dtype)), bound.room);
}

}  // namespace

void OneCluster::describe(const Problem& problem, char* text, size_t text_bytes) const {
  char bound[120];
  describe_bound(*this, problem, bound, sizeof(bound));
  std::snprintf(text, text_bytes, "delegate: a cluster of %d blocks a row, %d threads%s, %s", blocks, threads,
                reads_ahead ? " that read ahead" : "", bound);
}

void ResidentCluster::describe(const Problem&, char* text, size_t text_bytes) const {
  std::snprintf(
      text, text_bytes,
      "delegate: a row in the registers of a cluster of %d blocks, %d threads, %d elements a thread, "
      "bound is number %d of a block's delegates, room for %d candidates, ordered by %d",
      blocks, threads, elements, rank, room, ordered_by);
}

void ResidentGrid::describe(const Problem&, char* text, size_t text_bytes) const {
  std::snprintf(
      text, text_bytes,
      "delegate: a row in the registers of %d blocks, %d threads, %d elements a thread, bound from %d "
      "delegates, lists of %d, ordered by %d",
      blocks, threads, elements, delegates(), room, ordered_by);
}

void EqualShares::describe(const Problem& problem, char* text, size_t text_bytes) const {
  char bound[120];
  describe_bound(*this, problem, bound, sizeof(bound));
  std::snprintf(
      text, text_bytes,
      "delegate: equal shares of all rows for %d blocks, %d threads a row, a cluster of %d to order it, %s",
      blocks, threads, order_blocks, bound);
}

void AcrossRows::describe(const StridedProblem&, char* text, size_t text_bytes) const {
  std::snprintf(text, text_bytes,
                "delegate: bound is number %d of %d delegates, each of %d elements, room for %d candidates, "
                "%d threads a row to order it",
                rank, delegates, group, room, order_threads > 0 ? order_threads : 32);
}

Work FromMaxima::work(const Problem& problem, const Device& device) const {
  // Every subrange that may hold a winner is read again.
  const double again = static_cast<double>(problem.k << alpha) / static_cast<double>(problem.cols);
  return work_of(problem, device, problem.rows * blocks_per_row, tuning::kPassThreads,
                 tuning::kPassBlocksPerSm, 1 + std::min(1.0, again));
}

Work FromSample::work(const Problem& problem, const Device& device) const {
  return work_of(problem, device, problem.rows * blocks_per_row, tuning::kPassThreads,
                 tuning::kPassBlocksPerSm, /*reads=*/1);
}

Work OneGrid::work(const Problem& problem, const Device& device) const {
  return work_of(problem, device, problem.rows * sample.blocks, tuning::kPassThreads, /*per_sm=*/1,
                 /*reads=*/1);
}

Work GridParts::work(const Problem& problem, const Device& device) const {
  Work work = work_of(problem, device, problem.rows * blocks, tuning::kPassThreads, /*per_sm=*/1,
                      /*reads=*/1);
  const double rows_of_sm = static_cast<double>(problem.rows) / device.sm_count;
  work.entries = candidates * rows_of_sm;
  work.winners = problem.last_alone ? 0 : static_cast<double>(problem.k) * rows_of_sm;
  work.way = problem.sorted ? 0 : 1;
  return work;
}

Work OneCluster::work(const Problem& problem, const Device& device) const {
  const bool is_listed = problem.cols <= room;
  Work work = work_of(problem, device, problem.rows * blocks, threads,
                      reads_ahead ? 1 : tuning::kClusterThreadsPerSm / threads,
                      vectors > 0 || is_listed ? 1 : tuning::kClusterReadsWithoutSample);
  work.way = reads_ahead ? 1 : 0;
  return work;
}

namespace {

// Work whose winners so many blocks put in order, which is a way of its own.
Work in_parts(Work work, int ordered_by) {
  work.way = ordered_by > 1 ? 1 : 0;
  work.winners /= ordered_by;
  work.entries /= ordered_by;
  return work;
}

}  // namespace

Work ResidentCluster::work(const Problem& problem, const Device& device) const {
  return in_parts(work_of(problem, device, problem.rows * blocks, threads,
                          tuning::kClusterThreadsPerSm / threads, /*reads=*/1),
                  ordered_by);
}

Work ResidentGrid::work(const Problem& problem, const Device& device) const {
  return in_parts(work_of(problem, device, problem.rows * blocks, threads, /*per_sm=*/1, /*reads=*/1),
                  ordered_by);
}

Work EqualShares::work(const Problem& problem, const Device& device) const {
  const bool is_listed = problem.cols <= room;
  return work_of(problem, device, blocks, threads, tuning::kClusterThreadsPerSm / threads,
                 vectors > 0 || is_listed ? 1 : tuning::kClusterReadsWithoutSample);
}

}  // namespace gputopk::cuda::delegate
