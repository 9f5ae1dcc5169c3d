// What tests call, through ctypes: one top-k by the kernels, on a device of the caller's making.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>

#include "cuda/plan/plan.h"
#include "cuda/topk.h"
#include "machine.h"

namespace {

namespace cuda = gputopk::cuda;
using gputopk::Problem;

// "threads=64,blocks=2"
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

// A form's config with overrides: its study, where it has one.
template <class Form>
Form config_of(const Problem& problem, const cuda::Device& device, Taken&) {
  return Form::plan(problem, device);
}

cuda::air::Study air_study(Taken& take) {
  cuda::air::Study study;
  study.threads = static_cast<int>(take("threads", 0));
  study.cluster = static_cast<int>(take("cluster", 0));
  study.digit_bits = static_cast<int>(take("digit_bits", 0));
  study.blocks = static_cast<int>(take("blocks", 0));
  study.adaptive = take("adaptive", 1) != 0;
  study.early_stop = take("early_stop", 1) != 0;
  return study;
}
template <>
cuda::air::ManyBlocks config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  auto config = cuda::air::plan_many_blocks(problem, device, air_study(take));
  config.buffer = take("buffer", config.buffer);
  return config;
}
template <>
cuda::air::OneBlock config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  return cuda::air::plan_one_block(problem, device, air_study(take));
}
template <>
cuda::air::OneCluster config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  return cuda::air::plan_one_cluster(problem, device, air_study(take));
}

template <class Form>
Form grid_select_config(const Problem& problem, const cuda::Device& device, Taken& take) {
  cuda::grid_select::Study study;
  study.blocks = static_cast<int>(take("blocks", 0));
  study.threads = static_cast<int>(take("threads", 0));
  study.thread_queues = take("thread_queues", 0) != 0;
  return Form::plan(problem, device, study);
}
template <>
cuda::grid_select::Registers config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  return grid_select_config<cuda::grid_select::Registers>(problem, device, take);
}
template <>
cuda::grid_select::SharedList config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  auto config = grid_select_config<cuda::grid_select::SharedList>(problem, device, take);
  config.capacity = static_cast<int>(take("capacity", config.capacity));
  return config;
}

template <>
cuda::delegate::FromMaxima config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  const int alpha = static_cast<int>(take("alpha", 0)), beta = static_cast<int>(take("beta", 0));
  auto config = cuda::delegate::FromMaxima::plan(problem, device, {alpha, beta});
  config.second_buffer = take("buffer", config.second_buffer);
  config.likely_passes = static_cast<int>(take("likely_passes", config.likely_passes));
  return config;
}
template <>
cuda::delegate::FromSample config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  auto config = cuda::delegate::FromSample::plan(problem, device);
  config.buffer = take("buffer", config.buffer);
  config.rank = static_cast<int>(take("rank", config.rank));
  config.likely_passes = static_cast<int>(take("likely_passes", config.likely_passes));
  return config;
}

template <>
cuda::sort::WholeRows config_of(const Problem& problem, const cuda::Device& device, Taken& take) {
  auto config = cuda::sort::WholeRows::plan(problem, device);
  cuda::sort::Shape& shape = config.shape;
  shape.parts = static_cast<int>(take("parts", shape.parts));
  shape.sample = shape.parts > 1 ? 16 * shape.parts : 0;
  shape.threads = static_cast<int>(take("threads", shape.threads));
  shape.capacity = static_cast<int>(take("capacity", shape.capacity));
  shape.tile = static_cast<int>(take("tile", shape.parts > 1 && shape.tile == 0 ? 1024 : shape.tile));
  shape.blocks_per_row = static_cast<int>(take("blocks", std::max(1, shape.blocks_per_row)));
  return config;
}

// "air::OneBlock", of the type.
template <class Form>
std::string name_of() {
  const std::string text = __PRETTY_FUNCTION__;  // "... [with Form = gputopk::cuda::air::OneBlock; ..."
  const std::string before = "Form = gputopk::cuda::";
  const size_t begin = text.find(before) + before.size();
  return text.substr(begin, text.find_first_of(";]", begin) - begin);
}

template <size_t kForm = 0, class Visit>
bool visit_forms(Visit&& visit) {
  if constexpr (kForm < std::variant_size_v<cuda::Config>) {
    using Form = std::variant_alternative_t<kForm, cuda::Config>;
    if (visit(static_cast<Form*>(nullptr), name_of<Form>())) return true;
    return visit_forms<kForm + 1>(visit);
  }
  return false;
}

}  // namespace

extern "C" {

struct SimtDevice {
  int32_t sm_count, compute_capability, shared_bytes, cluster_blocks;
  int64_t most_cols_of_32_bits;
  uint64_t seed;
};

struct SimtTopk {
  int32_t dtype, algorithm, largest, sorted, magnitude, wide_indices;
  int64_t rows, cols, row_stride, k;
  const char* form;       // "" for the plan's choice of the algorithm
  const char* overrides;  // of the form's numbers
  const void* input;
  void* values;
  void* indices;
};

}  // extern "C"

namespace {

cuda::Device use(const SimtDevice& device) {
  simt::machine.settings = {device.sm_count, device.compute_capability, device.shared_bytes,
                            device.cluster_blocks, device.seed};
  simt::machine.failed = false;
  simt::machine.message.clear();
  simt::machine.launches = simt::machine.steps = simt::machine.switches = 0;
  simt::most_cols_of_32_bits = device.most_cols_of_32_bits;
  return {device.sm_count, device.compute_capability, device.shared_bytes, device.cluster_blocks};
}

Problem problem_of(const SimtTopk& call) {
  Problem problem;
  problem.dtype = static_cast<gputopk::DType>(call.dtype);
  problem.rows = call.rows;
  problem.cols = call.cols;
  problem.row_stride = call.row_stride;
  problem.k = call.k;
  problem.largest = call.largest != 0;
  problem.sorted = call.sorted != 0;
  problem.magnitude = call.magnitude != 0;
  problem.wide_indices = call.wide_indices != 0;
  return problem;
}

// Throws where the form, or algorithm, does not serve the request.
cuda::Plan plan_of(const SimtTopk& call, const cuda::Device& device) {
  const Problem problem = problem_of(call);
  const auto algorithm = static_cast<gputopk::Algorithm>(call.algorithm);
  const std::string form = call.form;
  if (form.empty()) {
    if (const char* reason = cuda::unsupported_reason(problem, algorithm)) throw std::invalid_argument(reason);
    return cuda::make_plan(problem, device, algorithm);
  }
  std::optional<cuda::Plan> plan;
  visit_forms([&](auto* type, const std::string& name) {
    using Form = std::decay_t<decltype(*type)>;
    if (name != form) return false;
    if (const char* reason = cuda::unsupported_reason(problem, Form::kAlgorithm)) throw std::invalid_argument(reason);
    Taken take(parse(call.overrides));
    const bool forced = take("forced", 0) != 0;
    if (!forced && !Form::serves(problem, device)) throw std::invalid_argument("the form does not serve this");
    plan = cuda::plan_of(problem, device, config_of<Form>(problem, device, take));
    take.done();
    return true;
  });
  if (!plan) throw std::runtime_error("no form " + form);
  return *plan;
}

void copy_text(const std::string& from, char* to, size_t bytes) { std::snprintf(to, bytes, "%s", from.c_str()); }

// What the calls below return, besides what CUDA would.
enum { kOk = 0, kNotServed = -1, kFailed = -2 };

template <class Work>
int guarded(char* message, size_t message_bytes, Work&& work) {
  int result = kFailed;
  try {
    result = work();
  } catch (const std::invalid_argument& reason) {
    copy_text(reason.what(), message, message_bytes);
    result = kNotServed;
  } catch (const std::exception& error) {
    copy_text(error.what(), message, message_bytes);
  }
  if (result == kFailed && simt::machine.failed) copy_text(simt::machine.message, message, message_bytes);
  simt::current = nullptr;
  simt::machine.stream.clear();
  simt::clear_regions();
  return result;
}

void check_written(const char* name, const void* begin, size_t bytes, size_t element_bytes) {
  size_t first = 0;
  if (simt::is_written(begin, bytes, first)) return;
  throw std::runtime_error(std::string(name) + " number " + std::to_string(first / element_bytes) + " is not written");
}

}  // namespace

extern "C" {

// The names of all forms, separated by blanks.
int simt_forms(char* text, size_t bytes) {
  std::string names;
  visit_forms([&](auto*, const std::string& name) {
    names += (names.empty() ? "" : " ") + name;
    return false;
  });
  copy_text(names, text, bytes);
  return kOk;
}

int simt_plan(const SimtTopk* call, const SimtDevice* device, char* text, size_t bytes) {
  return guarded(text, bytes, [&] {
    char line[1024];
    cuda::describe(plan_of(*call, use(*device)), line, sizeof(line));
    copy_text(line, text, bytes);
    return kOk;
  });
}

// 0; a cudaError_t; -1 where the request is not served; -2 where the emulator has found something. `text` says
// why, and, after a run, by what plan.
int simt_topk(const SimtTopk* call, const SimtDevice* device, char* text, size_t bytes) {
  return guarded(text, bytes, [&]() -> int {
    const cuda::Plan plan = plan_of(*call, use(*device));
    const Problem& problem = plan.problem;
    char line[1024];
    cuda::describe(plan, line, sizeof(line));
    copy_text(line, text, bytes);

    const size_t element = gputopk::dtype_bytes(problem.dtype), index = problem.wide_indices ? 8 : 4;
    const size_t winners = static_cast<size_t>(problem.rows * problem.k);
    const size_t row = problem.cols * element, stride = problem.row_stride * element;
    simt::add_region("input", const_cast<void*>(call->input), (problem.rows - 1) * stride + row, simt::Region::kInput,
                     stride > row ? row : 0, stride);
    simt::add_region("values", call->values, winners * element, simt::Region::kOutput);
    simt::add_region("indices", call->indices, winners * index, simt::Region::kOutput);
    const size_t workspace_bytes = cuda::workspace_bytes(plan);
    struct Free {
      void operator()(void* memory) const { free(memory); }
    };
    const std::unique_ptr<void, Free> workspace(aligned_alloc(256, (workspace_bytes + 511) / 256 * 256));
    simt::add_region("workspace", workspace.get(), workspace_bytes, simt::Region::kWorkspace);

    gputopk::Buffers buffers;
    buffers.input = call->input;
    buffers.values = call->values;
    buffers.indices = call->indices;
    buffers.workspace = workspace_bytes > 0 ? workspace.get() : nullptr;
    const int error = cuda::run(plan, buffers, nullptr);
    if (!simt::synchronize()) return kFailed;
    if (error != 0) return error;
    check_written("value", call->values, winners * element, element);
    check_written("index", call->indices, winners * index, index);
    return kOk;
  });
}

// Of the last call: launches, turns of blocks, turns of threads.
void simt_counts(uint64_t* counts) {
  counts[0] = simt::machine.launches;
  counts[1] = simt::machine.steps;
  counts[2] = simt::machine.switches;
}

}  // extern "C"
