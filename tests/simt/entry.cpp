// What tests call, through ctypes: the operators by the kernels, on a device of the caller's making.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "cuda/baselines.h"
#include "cuda/mask/mask.h"
#include "cuda/plan/plan.h"
#include "cuda/topk.h"
#include "form_configs.h"
#include "machine.h"
#include "probes.h"

extern "C" __attribute__((weak)) void __gcov_dump();

extern "C" {

struct SimtDevice {
  int32_t sm_count, compute_capability, shared_bytes, cluster_blocks, cluster_room;
  int64_t most_cols_of_32_bits;
  uint64_t seed;
};

struct SimtTopk {
  int32_t dtype, algorithm, largest, sorted, by_index, last_alone, magnitude, wide_indices;
  int64_t rows, cols, row_stride, k;
  const char* form;       // "" for the plan's choice of the algorithm
  const char* overrides;  // of the form's numbers
  const void* input;
  void* values;
  void* indices;
};

// The same of rows that do not lie side by side.
struct SimtLayout {
  int64_t inner, outer_stride, inner_stride, col_stride;
};
struct SimtStrided {
  SimtTopk topk;
  SimtLayout input, outputs;
  int64_t input_elements, panel_bytes, list_bytes;
};

struct SimtNumbers {
  const void* data;  // null: there are none
  int64_t elements, row_stride, col_stride;
  int32_t wide;
};

// One of gputopk::topk_where's.
struct SimtCondition {
  const void* column;
  const void* thresholds;
  int64_t column_elements, thresholds_elements, row_stride, threshold_stride;
  int32_t dtype, comparison;
};

// The arguments of gputopk::topk_varlen, and conditions.
struct SimtVarlen {
  int32_t dtype, largest, magnitude, order, wide_indices, page_shift, kth_alone;
  const char* forms;  // a beginning of their names
  int64_t rows, cols, row_stride, k, max_length, pad_index, tables, pages, mask_row_stride, mask_elements;
  int64_t value_stride, index_stride;
  SimtNumbers lengths, starts, row_k, offsets, ids, page_table, page_row, page_start;
  const void* input;
  const void* mask;
  void* values;
  void* indices;
  void* counts;
  SimtCondition conditions[gputopk::kMostConditions];
  int64_t condition_count;
};

struct SimtRerank {
  int32_t dtype, query_dtype, metric, wide_ids, wide_ranges, allow_shift, positions;
  int64_t queries, vectors, candidates, listed, dims, k, query_stride, vector_stride, id_stride, allow_bytes,
      most_stored_bytes;
  const void* query_rows;
  const void* vector_rows;
  const float* scales;
  const void* ids;
  const void* lengths;
  const void* row_offsets;
  const uint8_t* allow;
  float* distances;
  void* ids_out;
};

struct SimtSparsify {
  int32_t dtype, add_dtype, update, wide_indices;
  int32_t resident, one_read, two_sided;  // below 0: the plan's
  double alpha, mu;
  int64_t rows, cols, self_stride, add_stride, momentum_stride, k;
  void* self;
  const void* add;
  void* momentum;
  void* values;
  void* indices;
};

// A stage of a selection by several keys; the buffers as StageBuffers has them.
struct SimtStage {
  int32_t dtype, largest, magnitude, spare;
  int64_t rows, places, k;
  const void* values;
  const void* counts;
  const void* needed;
  void* sure;
  void* left;
  void* row_k;
  void* last;
};

// What is no worse than an element of each row, as a mask or kept; and the k best.
struct SimtMask {
  int32_t dtype, largest, magnitude, equals, keeps;
  int64_t rows, cols, row_stride, index_stride, out_stride;
  uint64_t fill;
  const void* input;
  const void* indices;
  const void* lengths;
  void* out;
};
struct SimtKeep {
  int32_t dtype, largest, magnitude, keeps;
  int64_t rows, cols, row_stride, k, out_stride;
  uint64_t fill;
  const char* form;
  const void* input;
  void* out;
};

// And what joins stages. Keys are rows x cols, adjacent.
struct SimtJoin {
  int32_t keys, order, wide_indices;
  int32_t dtypes[gputopk::kMostKeys], largest[gputopk::kMostKeys], magnitude[gputopk::kMostKeys];
  int64_t rows, cols, k, most, pad_index;
  int64_t places[gputopk::kMostKeys];
  const void* columns[gputopk::kMostKeys];
  const void* found[gputopk::kMostKeys];
  const void* counts[gputopk::kMostKeys];
  void* values[gputopk::kMostKeys];
  void* indices;
  void* totals;
};

}  // extern "C"

namespace {

cuda::Device use(const SimtDevice& device) {
  simt::machine.settings = {device.sm_count,       device.compute_capability, device.shared_bytes,
                            device.cluster_blocks, device.cluster_room,       device.seed};
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
  problem.by_index = call.by_index != 0;
  problem.last_alone = call.last_alone != 0;
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
    if (const char* reason = cuda::unsupported_reason(problem, device, algorithm))
      throw std::invalid_argument(reason);
    return cuda::make_plan(problem, device, algorithm);
  }
  std::optional<cuda::Plan> plan;
  visit_forms([&](auto* type, const std::string& name) {
    using Form = std::decay_t<decltype(*type)>;
    if (name != form) return false;
    Taken take(parse(call.overrides));
    const bool forced = take("forced", 0) != 0;
    // What delegate asks of a row is what its bounds do, which the case may choose.
    const bool chooses_bounds = forced && Form::kAlgorithm == gputopk::Algorithm::kDelegate;
    const char* const reason = cuda::unsupported_reason(problem, device, Form::kAlgorithm);
    if (reason != nullptr && !chooses_bounds) throw std::invalid_argument(reason);
    if (!forced && !Form::serves(problem, device))
      throw std::invalid_argument("the form does not serve this");
    plan = cuda::plan_of(problem, device, config_of<Form>(problem, device, take));
    take.done();
    return true;
  });
  if (!plan) throw std::runtime_error("no form " + form);
  return *plan;
}

void copy_text(const std::string& from, char* to, size_t bytes) {
  std::snprintf(to, bytes, "%s", from.c_str());
}

// What the calls below return, besides what CUDA would.
enum { kOk = 0, kNotServed = -1, kFailed = -2 };

template <class Work>
int guarded(char* message, size_t message_bytes, Work&& work) {
  int result = kFailed;
  message[0] = '\0';
  try {
    result = work();
  } catch (const std::invalid_argument& reason) {
    copy_text(reason.what(), message, message_bytes);
    result = kNotServed;
  } catch (const std::exception& error) {
    copy_text(error.what(), message, message_bytes);
  }
  if (result == kFailed && simt::machine.failed) {
    const std::string plan = message[0] != '\0' ? std::string(" (") + message + ")" : "";
    copy_text(simt::machine.message + plan, message, message_bytes);
  }
  simt::abandon();
  simt::clear_regions();
  return result;
}

// A call's workspace, of exactly so many bytes.
class Memory {
 public:
  explicit Memory(size_t bytes)
      : memory_(bytes > 0 ? aligned_alloc(256, (bytes + 255) / 256 * 256) : nullptr) {
    simt::add_region("workspace", memory_, bytes, simt::Region::kWorkspace);
  }
  Memory(const Memory&) = delete;
  ~Memory() { free(memory_); }
  void* get() const { return memory_; }

 private:
  void* memory_;
};

// Rows so many bytes apart: what lies between them is nobody's.
void add_rows(const char* name, const void* first, int64_t rows, size_t stride, size_t row_bytes,
              simt::Region kind = simt::Region::kInput) {
  if (first == nullptr || rows == 0) return;
  simt::add_region(name, const_cast<void*>(first), (rows - 1) * stride + row_bytes, kind,
                   rows > 1 && stride > row_bytes ? row_bytes : 0, stride);
}

void add_list(const char* name, const void* first, size_t bytes) { add_rows(name, first, 1, bytes, bytes); }

// Runs to its end what works on buffers that have been added, and on so many bytes beside them.
template <class Buffers, class Run>
int run_in(size_t workspace_bytes, Buffers buffers, Run&& run) {
  const Memory workspace(workspace_bytes);
  buffers.workspace = workspace.get();
  const int error = run(buffers);
  return simt::synchronize() ? error : kFailed;
}

struct NoWorkspace {
  void* workspace = nullptr;
};

template <class Plan, class Buffers>
int run_plan(const Plan& plan, const Buffers& buffers) {
  return run_in(cuda::workspace_bytes(plan), buffers,
                [&](const Buffers& all) { return cuda::run(plan, all, nullptr); });
}

void check_written(const char* name, const void* begin, size_t bytes, size_t element_bytes) {
  size_t first = 0;
  if (simt::is_written(begin, bytes, first)) return;
  throw std::runtime_error(std::string(name) + " number " + std::to_string(first / element_bytes) +
                           " is not written");
}

// Of what writes sets of each row's elements. Input and output may be the same rows.
template <class Call>
gputopk::KeptOutput output_of(const Call& call) {
  return {call.out, call.out_stride, call.keeps != 0, call.fill};
}

template <class Problem, class Call>
Problem problem_of(const Call& call) {
  Problem problem;
  problem.dtype = static_cast<gputopk::DType>(call.dtype);
  problem.largest = call.largest != 0;
  problem.magnitude = call.magnitude != 0;
  problem.rows = call.rows;
  problem.cols = call.cols;
  problem.row_stride = call.row_stride;
  return problem;
}

template <class Call>
void add_rows_and_output(const Call& call, size_t element) {
  const size_t place = call.keeps != 0 ? element : 1;
  const bool in_place = call.out == call.input;
  if (!in_place) {
    add_rows("input", call.input, call.rows, call.row_stride * element, call.cols * element);
  }
  add_rows("out", call.out, call.rows, call.out_stride * place, call.cols * place,
           in_place ? simt::Region::kInOut : simt::Region::kOutput);
}

template <class Call>
void check_rows_written(const Call& call, size_t element) {
  const size_t place = call.keeps != 0 ? element : 1;
  for (int64_t row = 0; row < call.rows; ++row) {
    check_written("place", static_cast<const char*>(call.out) + row * call.out_stride * place,
                  call.cols * place, place);
  }
}

// Adds a call's outputs, runs it, and looks whether all of them are written.
template <class Run>
int run_to_outputs(const SimtTopk& call, const Problem& problem, Run&& run) {
  const size_t element = gputopk::dtype_bytes(problem.dtype), index = problem.wide_indices ? 8 : 4;
  const size_t winners = static_cast<size_t>(problem.rows * problem.k);
  simt::add_region("values", call.values, winners * element, simt::Region::kOutput);
  simt::add_region("indices", call.indices, winners * index, simt::Region::kOutput);

  gputopk::Buffers buffers;
  buffers.input = call.input;
  buffers.values = call.values;
  buffers.indices = call.indices;
  if (const int error = run(buffers); error != kOk) return error;
  if (call.last_alone != 0) return kOk;  // of the other places nothing is said
  check_written("value", call.values, winners * element, element);
  check_written("index", call.indices, winners * index, index);
  return kOk;
}

template <class Run>
int run_topk(const SimtTopk& call, const Problem& problem, Run&& run) {
  const size_t element = gputopk::dtype_bytes(problem.dtype);
  add_rows("input", call.input, problem.rows, problem.row_stride * element, problem.cols * element);
  return run_to_outputs(call, problem, run);
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
    cuda::describe(plan_of(*call, use(*device)), text, bytes);
    return kOk;
  });
}

// 0; a cudaError_t; -1 where the request is not served; -2 where the emulator has found something. `text`
// says why, and, after a run, by what plan.
int simt_topk(const SimtTopk* call, const SimtDevice* device, char* text, size_t bytes) {
  return guarded(text, bytes, [&]() -> int {
    const cuda::Plan plan = plan_of(*call, use(*device));
    const Problem& problem = plan.problem;
    cuda::describe(plan, text, bytes);

    return run_topk(*call, problem, [&](const auto& buffers) { return run_plan(plan, buffers); });
  });
}

// The same of rows that do not lie side by side.
int simt_strided(const SimtStrided* call, const SimtDevice* device, char* text, size_t bytes) {
  return guarded(text, bytes, [&]() -> int {
    const cuda::Device gpu = use(*device);
    const auto layout = [](const SimtLayout& given) {
      return gputopk::RowLayout{given.inner, given.outer_stride, given.inner_stride, given.col_stride};
    };
    const gputopk::StridedProblem strided{problem_of(call->topk), layout(call->input), layout(call->outputs)};
    const Problem& problem = strided.problem;
    const auto algorithm = static_cast<gputopk::Algorithm>(call->topk.algorithm);
    const char* const reason = call->panel_bytes > 0 ? cuda::unsupported_reason(problem, gpu, algorithm)
                                                     : cuda::unsupported_reason(strided, gpu, algorithm);
    if (reason != nullptr) throw std::invalid_argument(reason);
    const auto given = [](int64_t bytes) { return bytes > 0 ? std::optional(bytes) : std::nullopt; };
    const cuda::StridedPlan plan =
        cuda::make_strided_plan(strided, gpu, algorithm, given(call->panel_bytes), given(call->list_bytes));
    cuda::describe(plan, text, bytes);
    add_list("input", call->topk.input, call->input_elements * gputopk::dtype_bytes(problem.dtype));
    return run_to_outputs(call->topk, problem, [&](const auto& buffers) { return run_plan(plan, buffers); });
  });
}

// The same by a baseline of cuda/baselines.h, whose name is the call's form.
int simt_baseline(const SimtTopk* call, const SimtDevice* device, char* text, size_t bytes) {
  return guarded(text, bytes, [&]() -> int {
    const cuda::Device gpu = use(*device);
    const Problem problem = problem_of(*call);
    const auto run_config = [&](const auto& config) {
      return run_topk(*call, problem, [&](const gputopk::Buffers& buffers) {
        return run_in(config.workspace_bytes(problem), buffers,
                      [&](const gputopk::Buffers& all) { return config.run(problem, all, nullptr); });
      });
    };
    const std::string name = call->form;
    if (name == "bucket") {
      const auto config = cuda::Bucket::plan(problem, gpu);
      std::snprintf(text, bytes, "%d blocks a row", config.blocks_per_row);
      return run_config(config);
    }
    if (name == "tree") {
      const auto config = cuda::SearchTree::plan(problem, gpu);
      std::snprintf(text, bytes, "%d levels, %d blocks a row", config.levels, config.blocks_per_row);
      return run_config(config);
    }
    const bool registers = name == "per-thread-registers";
    if (name != "per-thread" && !registers) throw std::runtime_error("no baseline " + name);
    if (registers && !cuda::PerThread::fits_registers(problem)) throw std::invalid_argument("k or dtype");
    if (problem.k > cuda::PerThread::most_k(problem.dtype, gpu))
      throw std::invalid_argument("k is too large");
    const auto config = cuda::PerThread::plan(problem, gpu, registers);
    std::snprintf(text, bytes, "%d blocks a row of %d threads", config.blocks_per_row, config.threads);
    return run_config(config);
  });
}

// The same of ragged rows.
int simt_varlen(const SimtVarlen* call, const SimtDevice* device, char* text, size_t bytes) {
  return guarded(text, bytes, [&]() -> int {
    const cuda::Device gpu = use(*device);
    const auto numbers = [](const char* name, const SimtNumbers& given) {
      add_list(name, given.data, given.elements * (given.wide ? 8 : 4));
      return gputopk::Numbers{given.data, given.wide != 0, given.row_stride, given.col_stride};
    };
    gputopk::VarlenProblem varlen;
    Problem& problem = varlen.problem;
    problem.dtype = static_cast<gputopk::DType>(call->dtype);
    problem.rows = call->rows;
    problem.cols = call->cols;
    problem.row_stride = call->row_stride;
    problem.k = call->k;
    problem.largest = call->largest != 0;
    problem.magnitude = call->magnitude != 0;
    problem.wide_indices = call->wide_indices != 0;
    varlen.order = static_cast<gputopk::WinnerOrder>(call->order);
    varlen.windows = {numbers("starts", call->starts), numbers("lengths", call->lengths),
                      numbers("row_k", call->row_k), call->cols, call->k};
    varlen.filter = {static_cast<const uint8_t*>(call->mask), call->mask_row_stride,
                     numbers("ids", call->ids)};
    for (int64_t i = 0; i < call->condition_count; ++i) {
      const SimtCondition& given = call->conditions[i];
      const auto dtype = static_cast<gputopk::DType>(given.dtype);
      add_list("column", given.column, given.column_elements * gputopk::dtype_bytes(dtype));
      add_list("thresholds", given.thresholds, given.thresholds_elements * gputopk::dtype_bytes(dtype));
      varlen.filter.conditions[i] = {given.column,
                                     given.thresholds,
                                     given.row_stride,
                                     given.threshold_stride,
                                     dtype,
                                     static_cast<gputopk::Comparison>(given.comparison)};
      ++varlen.filter.condition_count;
    }
    varlen.map.ids = varlen.filter.ids;
    varlen.map.offsets = numbers("offsets", call->offsets);
    varlen.map.page_table = numbers("page_table", call->page_table);
    varlen.map.page_row = numbers("page_row", call->page_row);
    varlen.map.page_start = numbers("page_start", call->page_start);
    varlen.map.tables = call->tables;
    varlen.map.pages = call->pages;
    varlen.map.page_shift = call->page_shift;
    varlen.map.pad_index = call->pad_index;
    varlen.max_length = call->max_length;
    varlen.kth_alone = call->kth_alone != 0;
    if (varlen.kth_alone) varlen.windows.k = call->cols;
    const cuda::VarlenPlan plan = cuda::make_varlen_plan(varlen, gpu, call->forms);
    cuda::describe(plan, text, bytes);

    const size_t element = gputopk::dtype_bytes(problem.dtype), index = problem.wide_indices ? 8 : 4;
    add_rows("input", call->input, problem.rows, problem.row_stride * element, problem.cols * element);
    add_list("mask", call->mask, call->mask_elements);
    add_rows("values", call->values, problem.rows, call->value_stride * element, problem.k * element,
             simt::Region::kOutput);
    add_rows("indices", call->indices, problem.rows, call->index_stride * index, problem.k * index,
             simt::Region::kOutput);
    simt::add_region("counts", call->counts, problem.rows * sizeof(int32_t), simt::Region::kOutput);

    gputopk::VarlenBuffers buffers;
    buffers.input = call->input;
    buffers.values = call->values;
    buffers.indices = call->indices;
    buffers.value_stride = call->value_stride;
    buffers.index_stride = call->index_stride;
    buffers.counts = static_cast<int32_t*>(call->counts);
    if (const int error = run_plan(plan, buffers); error != kOk) return error;
    for (int64_t r = 0; r < problem.rows; ++r) {
      const auto begin = [&](void* out, int64_t row_stride, size_t bytes_each) {
        return static_cast<char*>(out) + r * row_stride * bytes_each;
      };
      if (call->values != nullptr) {
        check_written("value", begin(call->values, call->value_stride, element), problem.k * element,
                      element);
      }
      check_written("index", begin(call->indices, call->index_stride, index), problem.k * index, index);
    }
    if (!varlen.kth_alone) {
      check_written("count", call->counts, problem.rows * sizeof(int32_t), sizeof(int32_t));
    }
    return kOk;
  });
}

// The same of a rerank.
int simt_rerank(const SimtRerank* call, const SimtDevice* device, char* text, size_t bytes) {
  return guarded(text, bytes, [&]() -> int {
    const cuda::Device gpu = use(*device);
    gputopk::RerankProblem problem;
    problem.dtype = static_cast<gputopk::DType>(call->dtype);
    problem.query_dtype = static_cast<gputopk::DType>(call->query_dtype);
    problem.metric = static_cast<gputopk::Metric>(call->metric);
    problem.queries = call->queries;
    problem.vectors = call->vectors;
    problem.candidates = call->candidates;
    problem.listed = call->listed;
    problem.dims = call->dims;
    problem.k = call->k;
    problem.query_stride = call->query_stride;
    problem.vector_stride = call->vector_stride;
    problem.id_stride = call->id_stride;
    problem.wide_ids = call->wide_ids != 0;
    problem.wide_ranges = call->wide_ranges != 0;
    problem.ragged = call->lengths != nullptr || call->row_offsets != nullptr;
    problem.allow_shift = call->allow_shift;
    problem.positions = call->positions != 0;
    const cuda::RerankPlan plan = cuda::make_rerank_plan(problem, gpu, call->most_stored_bytes);
    cuda::describe(plan, text, bytes);

    const size_t element = gputopk::dtype_bytes(problem.dtype), id = problem.wide_ids ? 8 : 4;
    const size_t query_element = gputopk::dtype_bytes(problem.query_dtype),
                 range = problem.wide_ranges ? 8 : 4;
    const size_t winners = static_cast<size_t>(problem.queries * problem.k);
    add_rows("queries", call->query_rows, problem.queries, problem.query_stride * query_element,
             problem.dims * query_element);
    add_rows("vectors", call->vector_rows, problem.vectors, problem.vector_stride * element,
             problem.dims * element);
    if (call->row_offsets != nullptr) {
      add_list("candidate ids", call->ids, problem.listed * id);
      add_list("row offsets", call->row_offsets, (problem.queries + 1) * range);
    } else {
      const int64_t lists = problem.id_stride == 0 ? 1 : problem.queries;
      add_rows("candidate ids", call->ids, lists, problem.id_stride * id, problem.candidates * id);
    }
    add_list("lengths", call->lengths, problem.queries * range);
    add_list("scales", call->scales, problem.vectors * sizeof(float));
    add_list("allow", call->allow, call->allow_bytes);
    simt::add_region("distances", call->distances, winners * sizeof(float), simt::Region::kOutput);
    simt::add_region("ids", call->ids_out, winners * id, simt::Region::kOutput);

    gputopk::RerankBuffers buffers;
    buffers.queries = call->query_rows;
    buffers.vectors = call->vector_rows;
    buffers.scales = call->scales;
    buffers.candidate_ids = call->ids;
    buffers.lengths = call->lengths;
    buffers.row_offsets = call->row_offsets;
    buffers.allow = call->allow;
    buffers.distances = call->distances;
    buffers.ids = call->ids_out;
    if (const int error = run_plan(plan, buffers); error != kOk) return error;
    check_written("distance", call->distances, winners * sizeof(float), sizeof(float));
    check_written("id", call->ids_out, winners * id, id);
    return kOk;
  });
}

// The same of a sparsification.
int simt_sparsify(const SimtSparsify* call, const SimtDevice* device, char* text, size_t bytes) {
  return guarded(text, bytes, [&]() -> int {
    const cuda::Device gpu = use(*device);
    gputopk::SparsifyProblem problem;
    problem.dtype = static_cast<gputopk::DType>(call->dtype);
    problem.add_dtype = static_cast<gputopk::DType>(call->add_dtype);
    problem.update = static_cast<gputopk::Update>(call->update);
    problem.alpha = call->alpha;
    problem.mu = call->mu;
    problem.rows = call->rows;
    problem.cols = call->cols;
    problem.self_stride = call->self_stride;
    problem.add_stride = call->add_stride;
    problem.momentum_stride = call->momentum_stride;
    problem.k = call->k;
    problem.wide_indices = call->wide_indices != 0;
    gputopk::SparsifyBuffers buffers;
    buffers.self = call->self;
    buffers.add = call->add;
    buffers.momentum = call->momentum;
    buffers.values = call->values;
    buffers.indices = call->indices;
    const auto choice = [](int32_t of_call) {
      return of_call < 0 ? std::nullopt : std::optional<bool>(of_call != 0);
    };
    const auto plan =
        cuda::make_sparsify_plan(problem, gpu, cuda::sparsify::is_aligned(problem, buffers),
                                 choice(call->resident), choice(call->one_read), choice(call->two_sided));
    cuda::describe(plan, text, bytes);

    const size_t element = gputopk::dtype_bytes(problem.dtype), index = problem.wide_indices ? 8 : 4;
    const size_t winners = static_cast<size_t>(problem.rows * problem.k);
    const size_t added = gputopk::dtype_bytes(problem.add_dtype);
    add_rows("self", call->self, problem.rows, call->self_stride * element, problem.cols * element,
             simt::Region::kInOut);
    add_rows("add", call->add, problem.rows, call->add_stride * added, problem.cols * added);
    add_rows("momentum", call->momentum, problem.rows, call->momentum_stride * element,
             problem.cols * element, simt::Region::kInOut);
    simt::add_region("values", call->values, winners * element, simt::Region::kOutput);
    simt::add_region("indices", call->indices, winners * index, simt::Region::kOutput);
    if (const int error = run_plan(plan, buffers); error != kOk) return error;
    check_written("value", call->values, winners * element, element);
    check_written("index", call->indices, winners * index, index);
    return kOk;
  });
}

// The steps between and behind the selections by several keys.
int simt_settle(const SimtStage* call, const SimtDevice* device, char* text, size_t bytes) {
  return guarded(text, bytes, [&]() -> int {
    use(*device);
    gputopk::Stage stage;
    stage.dtype = static_cast<gputopk::DType>(call->dtype);
    stage.largest = call->largest != 0;
    stage.magnitude = call->magnitude != 0;
    stage.rows = call->rows;
    stage.places = call->places;
    stage.k = call->k;
    stage.spare = call->spare;
    gputopk::StageBuffers buffers;
    buffers.values = call->values;
    buffers.counts = static_cast<const int32_t*>(call->counts);
    buffers.needed = static_cast<const int32_t*>(call->needed);
    buffers.sure = static_cast<int32_t*>(call->sure);
    buffers.left = static_cast<int32_t*>(call->left);
    buffers.row_k = static_cast<int32_t*>(call->row_k);
    buffers.last = call->last;
    const size_t element = gputopk::dtype_bytes(stage.dtype), numbers = stage.rows * sizeof(int32_t);
    add_list("values", call->values, stage.rows * stage.places * element);
    add_list("counts", call->counts, numbers);
    add_list("needed", call->needed, numbers);
    for (void* output : {call->sure, call->left, call->row_k}) {
      simt::add_region("numbers", output, numbers, simt::Region::kOutput);
    }
    simt::add_region("last", call->last, stage.rows * element, simt::Region::kOutput);
    const int error =
        run_in(0, NoWorkspace{}, [&](const auto&) { return cuda::stages::settle(stage, buffers, nullptr); });
    if (error != kOk) return error;
    for (const void* output : {call->sure, call->left, call->row_k})
      check_written("number", output, numbers, 4);
    check_written("last", call->last, stage.rows * element, element);
    return kOk;
  });
}

int simt_mask(const SimtMask* call, const SimtDevice* device, char* text, size_t bytes) {
  return guarded(text, bytes, [&]() -> int {
    use(*device);
    auto problem = problem_of<gputopk::MaskProblem>(*call);
    problem.equals = call->equals != 0;
    const size_t element = gputopk::dtype_bytes(problem.dtype), numbers = problem.rows * sizeof(int64_t);
    problem.indices = {call->indices, /*wide=*/true, call->index_stride, 0};
    if (call->lengths != nullptr) problem.lengths = {call->lengths, /*wide=*/true, 1, 0};
    const gputopk::MaskBuffers buffers{call->input, output_of(*call)};
    add_rows_and_output(*call, element);
    add_list("indices", call->indices, ((problem.rows - 1) * call->index_stride + 1) * sizeof(int64_t));
    add_list("lengths", call->lengths, numbers);
    const int error =
        run_in(0, NoWorkspace{}, [&](const auto&) { return cuda::mask::run(problem, buffers, nullptr); });
    if (error != kOk) return error;
    check_rows_written(*call, element);
    return kOk;
  });
}

int simt_keep(const SimtKeep* call, const SimtDevice* device, char* text, size_t bytes) {
  return guarded(text, bytes, [&]() -> int {
    const cuda::Device gpu = use(*device);
    auto problem = problem_of<Problem>(*call);
    problem.k = call->k;
    const size_t element = gputopk::dtype_bytes(problem.dtype);
    const auto plan = cuda::make_keep_plan(problem, gpu, call->form);
    cuda::describe(plan, text, bytes);
    add_rows_and_output(*call, element);
    const gputopk::KeepBuffers buffers{call->input, output_of(*call), nullptr};
    if (const int error = run_plan(plan, buffers); error != kOk) return error;
    check_rows_written(*call, element);
    return kOk;
  });
}

int simt_join(const SimtJoin* call, const SimtDevice* device, char* text, size_t bytes) {
  return guarded(text, bytes, [&]() -> int {
    use(*device);
    gputopk::JoinProblem problem;
    gputopk::JoinBuffers buffers;
    problem.rows = call->rows;
    problem.k = call->k;
    problem.most = call->most;
    problem.keys = call->keys;
    problem.order = static_cast<gputopk::WinnerOrder>(call->order);
    problem.wide_indices = call->wide_indices != 0;
    problem.pad_index = call->pad_index;
    const size_t index = problem.wide_indices ? 8 : 4;
    const size_t places = static_cast<size_t>(problem.rows * problem.k),
                 numbers = problem.rows * sizeof(int32_t);
    for (int key = 0; key < problem.keys; ++key) {
      const auto dtype = static_cast<gputopk::DType>(call->dtypes[key]);
      const size_t element = gputopk::dtype_bytes(dtype);
      problem.columns[key] = {call->columns[key],       call->cols, 1, dtype, call->largest[key] != 0,
                              call->magnitude[key] != 0};
      problem.places[key] = call->places[key];
      buffers.found[key] = call->found[key];
      buffers.counts[key] = static_cast<const int32_t*>(call->counts[key]);
      buffers.values[key] = call->values[key];
      add_list("key", call->columns[key], problem.rows * call->cols * element);
      add_list("found", call->found[key], problem.rows * call->places[key] * index);
      add_list("counts", call->counts[key], numbers);
      simt::add_region("values", call->values[key], places * element, simt::Region::kOutput);
    }
    buffers.indices = call->indices;
    buffers.totals = static_cast<int32_t*>(call->totals);
    simt::add_region("indices", call->indices, places * index, simt::Region::kOutput);
    simt::add_region("totals", call->totals, numbers, simt::Region::kOutput);
    const int error =
        run_in(0, buffers, [&](const auto& all) { return cuda::stages::join(problem, all, nullptr); });
    if (error != kOk) return error;
    for (int key = 0; key < problem.keys; ++key) {
      const size_t element = gputopk::dtype_bytes(problem.columns[key].dtype);
      check_written("value", call->values[key], places * element, element);
    }
    check_written("index", call->indices, places * index, index);
    check_written("total", call->totals, numbers, sizeof(int32_t));
    return kOk;
  });
}

// Writes out how often lines have run, for gcov. Nothing where that is not counted.
void simt_dump_coverage() {
  if (__gcov_dump != nullptr) __gcov_dump();
}

// Which of the planted faults, if any, is in force: see mutants.py.
void simt_plant(int mutant) { simt::planted = mutant; }

// A kernel of probes.cpp: its output, kProbeWords words.
int simt_probe(const char* name, const SimtDevice* device, uint32_t* output, char* text, size_t bytes) {
  return guarded(text, bytes, [&]() -> int {
    use(*device);
    std::vector<uint32_t> input(4 * simt::kProbeWords);  // and some that are nobody's
    for (int i = 0; i < simt::kProbeWords; ++i) input[i] = static_cast<uint32_t>(1000 + i);
    const Memory memory(8 * sizeof(uint32_t) * simt::kProbeWords);
    simt::add_region("input", input.data(), simt::kProbeWords * sizeof(uint32_t), simt::Region::kInput);
    simt::add_region("output", output, simt::kProbeWords * sizeof(uint32_t), simt::Region::kOutput);
    cudaMemsetAsync(memory.get(), 0, sizeof(uint32_t) * 8, nullptr);
    if (!simt::launch_probe(name, input.data(), output, static_cast<uint32_t*>(memory.get()))) {
      throw std::runtime_error(std::string("no probe ") + name);
    }
    return simt::synchronize() ? kOk : kFailed;
  });
}

// Of the last call: launches, turns of blocks, turns of threads.
void simt_counts(uint64_t* counts) {
  counts[0] = simt::machine.launches;
  counts[1] = simt::machine.steps;
  counts[2] = simt::machine.switches;
}

}  // extern "C"
