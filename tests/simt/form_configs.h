// What a form's numbers may be besides the plan's: "threads=64,blocks=2", refused where the form could not be
// asked.
#pragma once

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>

#include "cuda/air/numbers.h"
#include "cuda/delegate/numbers.h"
#include "cuda/device/element_sample.h"
#include "cuda/device/row_sample.h"
#include "cuda/plan/plan.h"
#include "cuda/sort/rows.h"
#include "simt.h"

namespace {

namespace cuda = gputopk::cuda;
using gputopk::Problem;

using Overrides = std::map<std::string, int64_t>;

Overrides parse(const char* text) {
  Overrides overrides;
  const std::string all(text);
  for (size_t begin = 0; begin < all.size();) {
    size_t end = all.find(',', begin);
    if (end == std::string::npos) end = all.size();
    const std::string item = all.substr(begin, end - begin);
    const size_t equals = item.find('=');
    if (equals == std::string::npos) throw std::runtime_error("no number in the override " + item);
    overrides[item.substr(0, equals)] = std::stoll(item.substr(equals + 1));
    begin = end + 1;
  }
  return overrides;
}

class Taken {
 public:
  explicit Taken(Overrides overrides) : left_(std::move(overrides)) {}
  int64_t operator()(const char* name, int64_t otherwise) {
    const auto found = left_.find(name);
    if (found == left_.end()) return otherwise;
    const int64_t value = found->second;
    left_.erase(found);
    return value;
  }
  void done() const {
    if (!left_.empty()) throw std::runtime_error("this form has no override " + left_.begin()->first);
  }

 private:
  Overrides left_;
};

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// A form's config with overrides: its study, where it has one. Within what csrc/binding/topk_cuda.cpp lets
// through.
template <class Form>
Form config_of(const Problem& problem, const cuda::Device& device, Taken&) {
  require(Form::serves(problem, device), "the form does not serve this");
  return Form::plan(problem, device);
}

cuda::air::Study air_study(Taken& take, int most_bits) {
  cuda::air::Study study;
  study.threads = static_cast<int>(take("threads", 0));
  study.cluster = static_cast<int>(take("cluster", 0));
  study.digit_bits = static_cast<int>(take("digit_bits", 0));
  study.blocks = static_cast<int>(take("blocks", 0));
  study.adaptive = take("adaptive", 1) != 0;
  study.early_stop = take("early_stop", 1) != 0;
  if (study.threads > 0) most_bits = std::min(most_bits, gputopk::bit_width(study.threads * 32 - 1));
  require(study.digit_bits <= most_bits, "digits of so many bits");
  return study;
}
template <>
cuda::air::ManyBlocks config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  auto config = cuda::air::plan_many_blocks(problem, device, air_study(take, 14));
  const int64_t buffer = take("buffer", -1);
  if (buffer >= 0 && config.adaptive) config.buffer = std::min(problem.cols, buffer);
  return config;
}
template <>
cuda::air::OneBlock config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  return cuda::air::plan_one_block(problem, device, air_study(take, 11));
}
template <>
cuda::air::OneCluster config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  const auto config = cuda::air::plan_one_cluster(problem, device, air_study(take, 11));
  require(config.blocks <= device.cluster_blocks, "a cluster of so many blocks");
  return config;
}

cuda::grid_select::Study grid_select_study(const Problem& problem, Taken& take) {
  cuda::grid_select::Study study;
  study.blocks = static_cast<int>(take("blocks", 0));
  study.threads = static_cast<int>(take("threads", 0));
  study.thread_queues = take("thread_queues", 0) != 0 && problem.dtype == gputopk::DType::kFloat32;
  return study;
}
template <>
cuda::grid_select::Registers config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  using cuda::grid_select::Registers;
  require(problem.k <= cuda::grid_select::kRegistersMaxK, "so large a k for lists in registers");
  return Registers::plan(problem, device, grid_select_study(problem, take));
}
template <>
cuda::grid_select::SharedList config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  auto config = cuda::grid_select::SharedList::plan(problem, device, grid_select_study(problem, take));
  config.capacity = static_cast<int>(take("capacity", config.capacity));
  return config;
}

template <>
cuda::bitonic::ManyBlocks config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  auto config = cuda::bitonic::ManyBlocks::plan(problem, device);
  const int blocks = static_cast<int>(take("blocks", 0));
  if (blocks > 0) config.blocks_per_row = blocks;
  return config;
}

template <>
cuda::delegate::FromMaxima config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  const int alpha = static_cast<int>(take("alpha", 0)), beta = static_cast<int>(take("beta", 0));
  const auto range = cuda::delegate::alphas(problem, beta == 0 ? 1 : beta);
  require(range.least <= range.most && (alpha == 0 || (alpha >= range.least && alpha <= range.most)),
          "subranges of such a size");
  auto config = cuda::delegate::FromMaxima::plan(problem, device, {alpha, beta});
  const int64_t buffer = take("buffer", -1), passes = take("likely_passes", -1);
  if (buffer >= 0) config.second_buffer = std::min(problem.cols, 2 * problem.k + buffer);
  if (passes >= 0) config.likely_passes = static_cast<int>(passes);
  return config;
}
template <>
cuda::delegate::FromSample config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  auto config = cuda::delegate::FromSample::plan(problem, device);
  // A sample's 128-byte lines are drawn from strata of two at least.
  const int64_t lines = problem.cols * gputopk::dtype_bytes(problem.dtype) / 128;
  require(lines >= 2 * 256 * config.sample.blocks + 2, "so short a row for its sample");
  const int64_t buffer = take("buffer", -1), passes = take("likely_passes", -1), rank = take("rank", -1);
  if (buffer >= 0) config.buffer = std::min(problem.cols, 2 * problem.k + buffer);
  if (passes >= 0) config.likely_passes = static_cast<int>(passes);
  if (rank > 0 && rank <= config.sample.delegates) config.sample.rank = static_cast<int>(rank);
  const int64_t upper = take("upper_rank", -1);
  if (upper >= 0 && upper <= config.sample.delegates) config.sample.upper = static_cast<int>(upper);
  config.blocks_meet = take("meet", config.blocks_meet) != 0;
  config.dealt_share = static_cast<int>(take("dealt_share", config.dealt_share));
  return config;
}

template <>
cuda::delegate::OneGrid config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  const int blocks = static_cast<int>(take("blocks", 2)), lines = static_cast<int>(take("lines", 1));
  const int group = static_cast<int>(take("group", 8));
  require(problem.cols * gputopk::dtype_bytes(problem.dtype) / 128 >= 64 * blocks * lines + 2,
          "so short a row for its sample");
  auto sample = cuda::with_lines(problem, blocks, lines, group);
  sample.rank = static_cast<int>(take("rank", sample.rank));
  require(sample.rank >= 1 && sample.rank <= sample.delegates, "a bound of that rank");
  require(problem.rows <= 2 * device.sm_count, "so many rows");  // the emulator's room
  require(problem.k <= cuda::tuning::kGridListed, "so many winners");
  cuda::delegate::OneGrid config{};
  config.sample = sample;
  config.prefetched_tiles = 2;
  config.counts = take("counts", 1) != 0;
  config.buffer = std::min(problem.cols, take("buffer", sample.room));
  return config;
}

template <>
cuda::delegate::GridParts config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  namespace tuning = cuda::tuning;
  require(problem.cols >= tuning::kGridSampled, "so short a row for its sample");
  require(problem.rows <= 2 * device.sm_count, "so many rows");  // the emulator's room
  const double share = static_cast<double>(problem.k) / static_cast<double>(problem.cols);
  const int rank = static_cast<int>(
      std::min(tuning::sample_rank(tuning::kGridSampled * share), static_cast<double>(tuning::kGridSampled)));
  cuda::delegate::GridParts config{};
  config.blocks = static_cast<int>(take("blocks", 2));
  config.rank = static_cast<int>(take("rank", rank));
  require(config.rank >= 1 && config.rank <= tuning::kGridSampled, "a bound of that rank");
  config.prefetched_tiles = 2;
  config.buffer = std::min(problem.cols, take("buffer", problem.cols));
  config.dealt = std::min(problem.cols, take("dealt", config.buffer));
  require(std::min(config.buffer, config.dealt) >= problem.k, "room for so few");
  return config;
}

template <>
cuda::delegate::TwoBounds config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  auto config = cuda::delegate::TwoBounds::plan(problem, device);
  config.sample.blocks = static_cast<int>(take("sample_blocks", config.sample.blocks));
  config.sample.threads = static_cast<int>(take("threads", config.sample.threads));
  const int64_t vectors = problem.cols * gputopk::dtype_bytes(problem.dtype) / 16;
  const int64_t places = in_sectors(config.sample) ? (vectors - 1) / 2 : problem.cols;
  require(elements_of(config.sample) / side_by_side(config.sample, problem) <= places,
          "so short a row for its sample");
  config.ranks = cuda::bound_ranks(config.sample, problem);
  config.ranks.lower = static_cast<int>(take("rank", config.ranks.lower));
  config.ranks.upper = static_cast<int>(take("upper_rank", config.ranks.upper));
  config.ranks.place = static_cast<int>(take("place", config.ranks.place));
  require(config.ranks.lower > 0 && config.ranks.upper >= 0 &&
              config.ranks.upper <= elements_of_block(config.sample) &&
              config.ranks.place < config.sample.blocks,
          "such ranks");
  config.buffer = std::min(problem.cols, take("buffer", config.buffer));
  config.likely_passes = static_cast<int>(take("likely_passes", config.likely_passes));
  config.many_win = take("many", config.many_win) != 0;
  config.blocks_meet = take("meet", config.blocks_meet) != 0;
  return config;
}

// A bound and lists of the case's, where that can be.
void take_bound(const Problem& problem, Taken& take, cuda::delegate::SampledBound& config) {
  namespace tuning = cuda::tuning;
  const int bytes = gputopk::dtype_bytes(problem.dtype);
  config.threads = static_cast<int>(take("threads", std::max(256, config.threads)));
  config.vectors = static_cast<int>(take("vectors", std::max(1, config.vectors)));
  config.rank = static_cast<int>(take("rank", std::max(1, config.rank)));
  config.room = static_cast<int>(take("room", std::max(64, config.room)));
  require(config.threads >= tuning::kClusterMinThreads && config.vectors <= tuning::cluster_vectors(bytes),
          "such a block");
  require(config.rank <= config.threads, "a bound of that rank");
  require(config.room % 64 == 0 && config.room >= problem.k &&
              config.room <= config.threads * tuning::kClusterItems,
          "such room");
  require(config.threads * config.vectors <= problem.cols * bytes / 16 - 1, "so short a row for its sample");
}
template <>
cuda::delegate::OneCluster config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  auto config = cuda::delegate::OneCluster::plan(problem, device);
  take_bound(problem, take, config);
  config.blocks = static_cast<int>(take("cluster", std::max(1, config.blocks)));
  config.reads_ahead = take("ahead", config.threads == cuda::tuning::kClusterAheadThreads ? 1 : 0) != 0;
  require(config.blocks <= device.cluster_blocks, "a cluster of so many blocks");
  require(!config.reads_ahead || config.threads <= cuda::tuning::kClusterAheadThreads,
          "so large a block that reads ahead");
  return config;
}
template <>
cuda::delegate::ResidentCluster config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  namespace tuning = cuda::tuning;
  auto config = cuda::delegate::ResidentCluster::plan(problem, device);
  config.threads = static_cast<int>(take("threads", std::max(tuning::kClusterMinThreads, config.threads)));
  config.elements = static_cast<int>(take("elements", std::max(tuning::kResidentElements, config.elements)));
  config.blocks = static_cast<int>(take("cluster", std::max(1, config.blocks)));
  config.rank = static_cast<int>(take("rank", (problem.k + config.blocks - 1) / config.blocks));
  config.room = static_cast<int>(take("room", config.threads * tuning::kResidentClusterItems));
  config.ordered_by = take("parts", config.ordered_by > 1) != 0 ? config.blocks : 1;
  require(config.threads >= tuning::kClusterMinThreads, "such a block");
  require(config.blocks <= device.cluster_blocks, "a cluster of so many blocks");
  require(config.rank <= config.threads, "a bound of that rank");
  require(config.room % 64 == 0 && config.room >= problem.k &&
              config.room <= config.threads * tuning::kResidentClusterItems,
          "such room");
  return config;
}
template <>
cuda::delegate::ResidentGrid config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  namespace tuning = cuda::tuning;
  auto config = cuda::delegate::ResidentGrid::plan(problem, device);
  config.threads = static_cast<int>(take("threads", std::max(tuning::kClusterMinThreads, config.threads)));
  config.elements = static_cast<int>(take("elements", std::max(tuning::kResidentElements, config.elements)));
  config.blocks = static_cast<int>(take("blocks", std::max(tuning::kGridLeastBlocks, config.blocks)));
  config.of_warp = static_cast<int>(take("of_warp", std::max(1, config.of_warp)));
  config.room = static_cast<int>(take("room", config.threads * tuning::kResidentClusterItems));
  config.ordered_by = static_cast<int>(take("parts", 1));
  config.without_room = cuda::delegate::EqualShares::plan(problem, device);
  const int64_t held = int64_t{config.blocks} * config.threads * config.elements;
  const int bytes = gputopk::dtype_bytes(problem.dtype);
  require(config.threads >= tuning::kClusterMinThreads && config.blocks >= tuning::kGridLeastBlocks &&
              config.ordered_by >= 1 && config.ordered_by <= config.blocks,
          "such blocks");
  require(problem.cols + 16 / bytes - 1 <= held, "so long a row for the registers");
  require(problem.k <= config.delegates(), "a bound of that rank");
  require(config.delegates() * std::max(bytes, 4) <= config.room * (bytes + 4),
          "so little room for delegates");
  require(config.room % 64 == 0 && config.room >= problem.k &&
              config.room <= config.threads * tuning::kResidentClusterItems,
          "such room");
  const bool has_room = problem.rows * config.blocks <= 2 * device.sm_count;  // the emulator's
  require(has_room || config.without_room.threads > 0, "a row of which no sample tells k");
  return config;
}
template <>
cuda::air::ResidentGrid config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  namespace tuning = cuda::tuning;
  auto config = cuda::air::ResidentGrid::plan(problem, device);
  const int bytes = gputopk::dtype_bytes(problem.dtype);
  config.blocks = static_cast<int>(take("blocks", config.blocks));
  const int64_t vectors = (problem.cols + 16 / bytes - 1) / (16 / bytes) + 1;
  config.part_vectors = static_cast<int>(tuning::held_part_vectors(vectors, config.blocks));
  config.ranked = static_cast<int>(take("ranked", config.ranked));
  config.by_index = take("by_place", config.by_index ? 1 : 0) != 0;
  require(config.blocks >= 1 && tuning::held_bytes(config.part_vectors, bytes) + tuning::kHeldStaticBytes <=
                                    device.shared_bytes_per_block,
          "so long a row for the shared memory");
  require(config.ranked >= 1 && config.ranked <= tuning::held_room(bytes), "such a list");
  require(config.by_index || (problem.k <= config.ranked && !problem.by_index),
          "so many winners, or in that order");
  return config;
}
template <>
cuda::delegate::EqualShares config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  auto config = cuda::delegate::EqualShares::plan(problem, device);
  take_bound(problem, take, config);
  config.blocks = static_cast<int>(take("blocks", std::max(1, config.blocks)));
  config.order_threads = static_cast<int>(take("order_threads", config.threads));
  require(config.order_threads >= cuda::tuning::kClusterMinThreads &&
              config.order_threads <= cuda::tuning::kClusterMaxThreads &&
              config.room <= config.order_threads * cuda::tuning::kClusterItems,
          "so small a block for so many");
  config.order_blocks = static_cast<int>(take("cluster", std::max(1, config.order_blocks)));
  require(config.order_blocks <= device.cluster_blocks, "a cluster of so many blocks");
  return config;
}

template <class Form>
Form split_bucket_config(const Problem& problem, const cuda::Device& device, Taken& take) {
  namespace split_bucket = cuda::split_bucket;
  require(Form::serves(problem, device), "so large a k");
  split_bucket::Study study;
  study.threads = static_cast<int>(take("threads", 0));
  study.cutoff = static_cast<int>(take("cutoff", 0));
  study.one_tree_a_row = take("one_tree_a_row", 1) != 0;
  study.best_buckets_first = take("best_buckets_first", 1) != 0;
  const auto config = Form::plan(problem, device, study);
  const char* reason = split_bucket::unfit_reason(problem, config.split);
  require(reason == nullptr, reason);
  return config;
}
template <>
cuda::split_bucket::Radix config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  return split_bucket_config<cuda::split_bucket::Radix>(problem, device, take);
}
template <>
cuda::split_bucket::Tree config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  return split_bucket_config<cuda::split_bucket::Tree>(problem, device, take);
}

template <>
cuda::sort::WholeRows config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  auto config = cuda::sort::WholeRows::plan(problem, device);
  cuda::sort::Shape& shape = config.shape;
  if (const int64_t parts = take("parts", 0)) shape.parts = static_cast<int>(parts);
  shape.sample_blocks = static_cast<int>(take("sample_blocks", 1));
  shape.sample_chunk = static_cast<int>(take("sample_chunk", 8 * shape.parts / shape.sample_blocks));
  require(shape.sample_blocks == 1 || shape.sample_chunk % cuda::tuning::kSortRanked == 0,
          "entries of a sample's chunk");
  shape.sample_threads = static_cast<int>(take("sample_threads", 1024));
  shape.threads = static_cast<int>(take("threads", shape.threads));
  shape.capacity = static_cast<int>(take("capacity", shape.capacity));
  shape.tile = static_cast<int>(take("tile", shape.parts > 1 && shape.tile == 0 ? 1024 : shape.tile));
  shape.blocks_per_row = static_cast<int>(take("blocks", std::max(1, shape.blocks_per_row)));
  require(shape.parts > 1 || problem.cols <= shape.capacity, "so long a row for one block");
  require(problem.cols >= shape.sample_chunk * shape.sample_blocks, "so short a row for its sample");
  // What a thread keeps: sort/numbers.h.
  const bool wide = gputopk::dtype_bytes(problem.dtype) == 8 || problem.cols > simt::most_cols_of_32_bits;
  require(shape.capacity <= (wide ? 8 : 12) * shape.threads, "so large a capacity for its threads");
  return config;
}

template <size_t kForm = 0, class Visit>
bool visit_forms(Visit&& visit) {
  if constexpr (kForm < std::variant_size_v<cuda::Config>) {
    using Form = std::variant_alternative_t<kForm, cuda::Config>;
    if (visit(static_cast<Form*>(nullptr), std::string(Form::kName))) return true;
    return visit_forms<kForm + 1>(visit);
  }
  return false;
}

}  // namespace
