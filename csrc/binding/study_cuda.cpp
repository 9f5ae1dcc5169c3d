// The study build's operators, CUDA alone: forms and parts of algorithms that the plan would not take, for
// the papers' ablations, tuning sweeps and tests, and the yardstick of the benchmarks. Not in the library
// that users load: libgputopk_study.so holds them, beside kernels compiled with GPUTOPK_STUDY.

#include <cuda_runtime_api.h>
#include <torch/csrc/stable/library.h>

#include <algorithm>

#include "binding/canonical.h"
#include "binding/check.h"
#include "binding/cuda_algorithm.h"
#include "binding/cuda_device.h"
#include "binding/run_plan.h"
#include "binding/sparsify.h"
#include "binding/varlen.h"
#include "cuda/baselines.h"
#include "cuda/topk.h"

namespace gputopk::binding {
namespace {

// `make` gives the form's config, where there is anything to do.
template <class MakeConfig>
std::tuple<Tensor, Tensor> run_study(Request& request, MakeConfig&& make) {
  if (!request.strided().is_plain()) make_dense(request);
  const Tensor values = new_empty(request.sizes, request.value_dtype, request.input, kTopk);
  const Tensor indices = new_empty(request.sizes, request.index_dtype, request.input, kTopk);
  if (!request.empty()) {
    const cuda::Device device = device_of(request.input.get_device_index());
    run_plan(cuda::plan_of(request.problem, device, make()), buffers_of(request, values.get(), indices.get()),
             request.input, kTopk);
  }
  return {values, indices};
}

std::tuple<Tensor, Tensor> air_study(Tensor self, int64_t k, bool largest, bool sorted, int64_t digit_bits,
                                     int64_t blocks, bool adaptive, bool early_stop, int64_t threads,
                                     int64_t cluster) {
  Request request = canonicalise(self, {k, -1, largest, sorted, false, std::nullopt, 0});
  const cuda::Device device = device_of(self.get_device_index());
  check(threads == 0 || threads == 64 || threads == 128 || threads == 256 || threads == 512 ||
            (threads == 1024 && cluster > 0),
        "gputopk::_air: threads must be 64, 128, 256, 512, 1024 in a cluster, or 0, but is ", threads);
  const bool in_one_place = threads > 0 || cluster > 0;
  check(!in_one_place || request.problem.cols <= INT32_MAX, "gputopk::_air: a row of ", request.problem.cols,
        " elements is too long for one block or cluster, at most ", INT32_MAX);
  // The bins that one block can search, 32 a thread, or that need no leave for more shared memory.
  const int64_t most_bits =
      !in_one_place ? 14
                    : std::min(13, threads == 0 ? 13 : bit_width(static_cast<uint64_t>(threads * 32 - 1)));
  check(digit_bits == 0 || (digit_bits >= 4 && digit_bits <= most_bits),
        "gputopk::_air: digit_bits must be in [4, ", most_bits, "], or 0, but is ", digit_bits);
  check(blocks >= 0 && blocks <= 8 * device.sm_count, "gputopk::_air: blocks must be in [0, ",
        8 * device.sm_count, "], but is ", blocks);
  const bool takes_clusters = device.cluster_blocks > 1;
  check(cluster == 0 || takes_clusters,
        "gputopk::_air: cluster must be 0 on a device without clusters, but is ", cluster);
  check(cluster >= 0 && cluster <= device.cluster_blocks && (cluster & (cluster - 1)) == 0,
        "gputopk::_air: cluster must be a power of two in [1, ", device.cluster_blocks, "], or 0, but is ",
        cluster);
  cuda::air::Study study;
  study.digit_bits = static_cast<int>(digit_bits);
  study.blocks = static_cast<int>(blocks);
  study.adaptive = adaptive;
  study.early_stop = early_stop;
  study.threads = static_cast<int>(threads);
  study.cluster = static_cast<int>(cluster);
  return run_study(request, [&]() -> cuda::Config {
    if (study.cluster > 0) return cuda::air::plan_one_cluster(request.problem, device, study);
    if (study.threads > 0) return cuda::air::plan_one_block(request.problem, device, study);
    return cuda::air::plan_many_blocks(request.problem, device, study);
  });
}

std::tuple<Tensor, Tensor> delegate_study(Tensor self, int64_t k, bool largest, bool sorted, int64_t alpha,
                                          int64_t beta) {
  Request request = canonicalise(
      self, {k, -1, largest, sorted, false, std::nullopt, static_cast<int64_t>(Algorithm::kDelegate)});
  check_cuda_algorithm(request, device_of(self.get_device_index()));
  check(beta >= 0 && beta <= 2, "gputopk::_delegate: beta must be 1, 2 or 0, but is ", beta);
  const bool plans_choice = alpha == 0 && beta == 0;
  const cuda::Device device = device_of(self.get_device_index());
  check(request.empty() || plans_choice || cuda::delegate::FromMaxima::serves(request.problem, device),
        "gputopk::_delegate: delegate cannot serve this: rows of ", request.problem.cols,
        " elements have not ", k, " subranges");
  if (!request.empty() && alpha != 0) {
    const cuda::delegate::AlphaRange range =
        cuda::delegate::alphas(request.problem, beta == 0 ? 1 : static_cast<int>(beta));
    check(alpha >= range.least && alpha <= range.most, "gputopk::_delegate: alpha must be in [", range.least,
          ", ", range.most, "], or 0, but is ", alpha);
  }
  const cuda::delegate::Study study{static_cast<int>(alpha), static_cast<int>(beta)};
  return run_study(request, [&]() -> cuda::Config {
    if (plans_choice) return cuda::make_plan(request.problem, device, Algorithm::kDelegate).config;
    return cuda::delegate::FromMaxima::plan(request.problem, device, study);
  });
}

std::tuple<Tensor, Tensor> grid_select_study(Tensor self, int64_t k, bool largest, bool sorted,
                                             int64_t blocks, int64_t threads, bool thread_queues,
                                             int64_t form) {
  Request request = canonicalise(self, {k, -1, largest, sorted, false, std::nullopt, 0});
  request.algorithm = Algorithm::kGridSelect;
  check_cuda_algorithm(request, device_of(self.get_device_index()));
  const cuda::Device device = device_of(self.get_device_index());
  constexpr int kWarpARow = cuda::grid_select::Study::kWarpARow;
  check(form >= 0 && form <= 2, "gputopk::_grid_select: form must be in [0, 2], but is ", form);
  check(form != 1 || k <= 256, "gputopk::_grid_select: lists in registers hold k of at most 256, but k is ",
        k);
  const bool in_registers = form == 0 ? k <= 256 : form == 1;
  const int64_t least_threads = in_registers ? 32 : 64, most_threads = in_registers ? 256 : 512;
  const bool suits = in_registers ? threads % 32 == 0 : (threads & (threads - 1)) == 0;
  check(threads == 0 || (suits && threads >= least_threads && threads <= most_threads),
        "gputopk::_grid_select: threads must be ", in_registers ? "a multiple of 32" : "a power of two",
        " in [", least_threads, ", ", most_threads, "], or 0, but is ", threads);
  check(in_registers || (blocks >= 0 && !thread_queues),
        "gputopk::_grid_select: a warp a row, and a queue a thread, are for lists in registers");
  check(blocks >= kWarpARow && blocks <= 8 * device.sm_count, "gputopk::_grid_select: blocks must be in [",
        kWarpARow, ", ", 8 * device.sm_count, "], but is ", blocks);
  check(blocks != kWarpARow || request.problem.cols <= INT32_MAX, "gputopk::_grid_select: a row of ",
        request.problem.cols, " elements is too long for a warp, at most ", INT32_MAX);
  check(!thread_queues || request.problem.dtype == DType::kFloat32,
        "gputopk::_grid_select: thread_queues must be False but for float32");
  cuda::grid_select::Study study;
  using Form = cuda::grid_select::Study::Form;
  study.form = in_registers ? Form::kRegisters : Form::kSharedList;
  study.blocks = static_cast<int>(blocks);
  study.threads = static_cast<int>(threads);
  study.thread_queues = thread_queues;
  return run_study(request, [&]() -> cuda::Config {
    if (in_registers) return cuda::grid_select::Registers::plan(request.problem, device, study);
    return cuda::grid_select::SharedList::plan(request.problem, device, study);
  });
}

std::tuple<Tensor, Tensor> split_bucket_study(Tensor self, int64_t k, bool largest, bool sorted, int64_t rule,
                                              int64_t tile, int64_t cutoff, bool task, bool control_flow) {
  namespace split_bucket = cuda::split_bucket;
  Request request = canonicalise(self, {k, -1, largest, sorted, false, std::nullopt, 0});
  request.algorithm = Algorithm::kSplitBucket;
  check_cuda_algorithm(request, device_of(self.get_device_index()));
  check(rule >= 0 && rule <= 2, "gputopk::_split_bucket: rule must be in [0, 2], but is ", rule);
  const cuda::Device device = device_of(self.get_device_index());
  split_bucket::Study study;
  study.one_tree_a_row = task;
  study.best_buckets_first = control_flow;
  study.cutoff = static_cast<int>(cutoff);
  if (tile != 0) {
    const int64_t per_thread = split_bucket::row_tile(request.problem, {1, 0});
    check(tile > 0 && tile <= INT32_MAX && tile % per_thread == 0,
          "gputopk::_split_bucket: tile must be a multiple of ", per_thread, ", or 0, but is ", tile);
    study.threads = static_cast<int>(tile / per_thread);
  }
  const split_bucket::Tree tree = split_bucket::Tree::plan(request.problem, device, study);
  const char* reason = request.empty() ? nullptr : split_bucket::unfit_reason(request.problem, tree.split);
  check(reason == nullptr, "gputopk::_split_bucket: tile ", tile, " and cutoff ", cutoff, " with k ", k,
        " cannot be: ", reason);
  return run_study(request, [&]() -> cuda::Config {
    if (rule == 1) return split_bucket::Radix::plan(request.problem, device, study);
    if (rule == 2) return tree;
    return cuda::make_plan(request.problem, device, Algorithm::kSplitBucket).config;
  });
}

// One form of the plan's list, by its name, wherever it can run.
std::tuple<Tensor, Tensor> form_study(Tensor self, int64_t k, std::string name, bool largest, bool sorted,
                                      bool magnitude, bool last_alone) {
  Request request = canonicalise(self, {k, -1, largest, sorted && !last_alone, magnitude, std::nullopt, 0,
                                        /*by_index=*/false, last_alone});
  const cuda::Device device = device_of(self.get_device_index());
  std::optional<cuda::Config> found;
  cuda::visit_forms(request.problem, device, [&](const auto& config) {
    if (name == config.kName) found = config;
  });
  check(found.has_value(), "gputopk::_form: no form ", name, " serves ", request.problem.rows, " rows of ",
        request.problem.cols, " elements and k ", k);
  return run_study(request, [&] { return *found; });
}

void check_wide_elements(const char* op, const Request& request) {
  check(dtype_bytes(request.problem.dtype) >= 4, op, "self must have elements of 4 or 8 bytes, but is of ",
        dtype_name(request.problem.dtype));
}

// A baseline of cuda/baselines.h. `make` gives its config, where there is anything to do.
template <class MakeConfig>
std::tuple<Tensor, Tensor> run_baseline(const char* op, Request& request, MakeConfig&& make) {
  const Problem& problem = request.problem;
  check(!problem.sorted, op, "sorted must be False, as the winners come in any order");
  check(problem.cols < int64_t{1} << 32, op, "rows must have fewer than 2^32 elements, but have ",
        problem.cols);
  check(problem.rows <= INT32_MAX, op, "there must be at most ", INT32_MAX, " rows, but are ", problem.rows);
  if (!request.strided().is_plain()) make_dense(request);
  const Tensor values = new_empty(request.sizes, request.value_dtype, request.input, op);
  const Tensor indices = new_empty(request.sizes, request.index_dtype, request.input, op);
  if (request.empty()) return {values, indices};
  const int32_t device_index = request.input.get_device_index();
  const CurrentDevice current(device_index);
  const auto config = make(device_of(device_index));
  const Tensor workspace =
      new_empty({static_cast<int64_t>(config.workspace_bytes(problem))}, ScalarType::Byte, request.input, op);
  Buffers buffers = buffers_of(request, values.get(), indices.get());
  buffers.workspace = workspace.mutable_data_ptr();
  const cuda::ErrorCode error = config.run(problem, buffers, current_stream(device_index));
  if (error != 0) cudaGetLastError();  // not left for the next call to find
  check(error == 0, op, "CUDA error: ", cudaGetErrorString(static_cast<cudaError_t>(error)));
  return {values, indices};
}

std::tuple<Tensor, Tensor> per_thread_topk(Tensor self, int64_t k, bool largest, bool sorted,
                                           bool registers) {
  constexpr const char* kOp = "gputopk::_per_thread_topk: ";
  Request request = canonicalise(self, {k, -1, largest, sorted, false, std::nullopt, 0});
  check_wide_elements(kOp, request);
  return run_baseline(kOp, request, [&](const cuda::Device& device) {
    check(!registers || cuda::PerThread::fits_registers(request.problem), kOp,
          "registers must be False but for float32 and k of 8, 16, 32, 64 or 128; k is ", k, " and dtype ",
          dtype_name(request.problem.dtype));
    const int64_t most = cuda::PerThread::most_k(request.problem.dtype, device);
    check(k <= most, kOp, "k must be at most ", most, " for ", dtype_name(request.problem.dtype),
          ", of which a warp's heaps fit a block's shared memory, but is ", k);
    return cuda::PerThread::plan(request.problem, device, registers);
  });
}

std::tuple<Tensor, Tensor> bucket_topk(Tensor self, int64_t k, bool largest, bool sorted) {
  constexpr const char* kOp = "gputopk::_bucket_topk: ";
  Request request = canonicalise(self, {k, -1, largest, sorted, false, std::nullopt, 0});
  check_wide_elements(kOp, request);
  return run_baseline(
      kOp, request, [&](const cuda::Device& device) { return cuda::Bucket::plan(request.problem, device); });
}

std::tuple<Tensor, Tensor> tree_topk(Tensor self, int64_t k, bool largest, bool sorted) {
  Request request = canonicalise(self, {k, -1, largest, sorted, false, std::nullopt, 0});
  return run_baseline("gputopk::_tree_topk: ", request, [&](const cuda::Device& device) {
    return cuda::SearchTree::plan(request.problem, device);
  });
}

void read_floor(Tensor self, Tensor scratch) {
  check(self.is_contiguous(), "gputopk::_read_floor: self must be contiguous");
  const size_t scratch_bytes = static_cast<size_t>(scratch.numel()) * scratch.element_size();
  check(scratch_bytes >= cuda::kReadFloorScratchBytes, "gputopk::_read_floor: scratch has ", scratch_bytes,
        " bytes, and needs ", cuda::kReadFloorScratchBytes);
  const int32_t device_index = self.get_device_index();
  const CurrentDevice current(device_index);
  const cuda::ErrorCode error =
      cuda::read_floor(self.const_data_ptr(), static_cast<size_t>(self.numel()) * self.element_size(),
                       scratch.mutable_data_ptr(), device_of(device_index), current_stream(device_index));
  check(error == 0,
        "gputopk::_read_floor: CUDA error: ", cudaGetErrorString(static_cast<cudaError_t>(error)));
}

// By the form of that number in the list of those that take windows.
template <size_t kForm>
void run_varlen(const VarlenProblem& problem, VarlenBuffers buffers, const Tensor& like, const char* op) {
  using Form = std::variant_alternative_t<kForm, cuda::VarlenConfig>;
  const cuda::VarlenPlan plan =
      cuda::make_varlen_plan(problem, device_of(like.get_device_index()), Form::kName);
  check(std::holds_alternative<Form>(plan.config), "gputopk::_varlen: ", Form::kName, " does not serve this");
  run_plan(plan, buffers, like, op);
}

// Null: there is no form of that name.
template <size_t kForm = 0>
VarlenRun varlen_run_of(const std::string& name) {
  if (name == std::variant_alternative_t<kForm, cuda::VarlenConfig>::kName) return run_varlen<kForm>;
  if constexpr (kForm + 1 < std::variant_size_v<cuda::VarlenConfig>) return varlen_run_of<kForm + 1>(name);
  return nullptr;
}

VarlenOutputs varlen_study(const Tensor& self, int64_t k, const MaybeTensor& lengths,
                           const MaybeTensor& starts, const MaybeTensor& mask, int64_t order,
                           std::string form) {
  const VarlenRun run = varlen_run_of(form);
  check(run != nullptr, "gputopk::_varlen: no form ", form, " takes windows");
  const MaybeTensor none;
  const VarlenArguments arguments{self, k,    lengths, starts, none,  mask, none, none, none, 1,
                                  none, none, true,    false,  order, true, -1,   {},   {}};
  return topk_varlen(arguments, run);
}

// A way of cuda::make_sparsify_plan's.
template <bool kResident, bool kOneRead>
void run_sparsify(const SparsifyProblem& problem, SparsifyBuffers buffers, const Tensor& like) {
  const CurrentDevice current(like.get_device_index());
  const auto plan =
      cuda::make_sparsify_plan(problem, device_of(like.get_device_index()),
                               cuda::sparsify::is_aligned(problem, buffers), kResident, kOneRead);
  check(plan.resident.has_value() == kResident && (kResident || plan.one_read.has_value() == kOneRead),
        "gputopk::_sparsify: that way does not serve ", problem.rows, " rows of ", problem.cols,
        " elements and k ", problem.k);
  run_plan(plan, buffers, like, kSparsify);
}

std::tuple<Tensor, Tensor> sparsify_study(Tensor self, int64_t k, std::optional<Tensor> add, double alpha,
                                          std::optional<Tensor> momentum, double mu,
                                          std::optional<ScalarType> index_dtype, std::string way) {
  const RunSparsify run = way == "resident"   ? run_sparsify<true, false>
                          : way == "one_read" ? run_sparsify<false, true>
                          : way == "steps"    ? run_sparsify<false, false>
                                              : nullptr;
  check(run != nullptr, "gputopk::_sparsify: way must be resident, one_read or steps, but is ", way);
  return sparsify({self, k, add, alpha, momentum, mu, index_dtype}, run);
}

std::tuple<Tensor, Tensor> strided_study(Tensor self, int64_t k, int64_t dim, bool largest, bool sorted,
                                         int64_t algorithm, int64_t panel_bytes) {
  const Request request = canonicalise(self, {k, dim, largest, sorted, false, std::nullopt, algorithm});
  const char* const reason =
      cuda::unsupported_reason(request.problem, device_of(self.get_device_index()), request.algorithm);
  check(reason == nullptr, "gputopk::_strided: algorithm ", algorithm_name(request.algorithm),
        " cannot serve this: ", reason);
  check(!request.scattered, "gputopk::_strided: self has strides of which a copy would be made");
  check(panel_bytes > 0, "gputopk::_strided: panel_bytes must be positive, but is ", panel_bytes);
  const Tensor values = new_empty(request.sizes, request.value_dtype, self, kTopk);
  const Tensor indices = new_empty(request.sizes, request.index_dtype, self, kTopk);
  if (!request.empty()) {
    const cuda::Device device = device_of(self.get_device_index());
    run_plan(cuda::make_strided_plan(request.strided(), device, request.algorithm, panel_bytes),
             buffers_of(request, values.get(), indices.get()), self, kTopk);
  }
  return {values, indices};
}

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_FRAGMENT(gputopk, m) {
  // AIR along the last dimension, with parts of it off or other numbers. Over many blocks a row, or one block
  // of so many threads, or one cluster of so many blocks. Zero is the plan's choice.
  m.def(
      "_air(Tensor self, SymInt k, bool largest=True, bool sorted=True, *, int digit_bits=0, int blocks=0, "
      "bool adaptive=True, bool early_stop=True, int threads=0, int cluster=0) -> (Tensor values, Tensor "
      "indices)");
  // The same for delegate: subranges of 2^alpha elements with beta delegates each. Zero is the plan's choice.
  m.def(
      "_delegate(Tensor self, SymInt k, bool largest=True, bool sorted=True, *, int alpha=0, int beta=0) -> "
      "(Tensor values, Tensor indices)");
  // The same of GridSelect: so many blocks a row, or a warp a row where that is -1; form 1 keeps lists in
  // registers, with a queue a thread as in WarpSelect if asked (float32), form 2 a list a block.
  m.def(
      "_grid_select(Tensor self, SymInt k, bool largest=True, bool sorted=True, *, int blocks=0, int "
      "threads=0, "
      "bool thread_queues=False, int form=0) -> (Tensor values, Tensor indices)");
  // The same of split-bucket: rule 1 has buckets by digits, 2 by a search tree; a tile has so many elements
  // of the row, and hands on `cutoff` entries. Without `task` every tile builds its own tree, without
  // `control_flow` all its buckets are counted.
  m.def(
      "_split_bucket(Tensor self, SymInt k, bool largest=True, bool sorted=True, *, int rule=0, int tile=0, "
      "int cutoff=0, bool task=True, bool control_flow=True) -> (Tensor values, Tensor indices)");
  // topk_varlen by a form that takes windows.
  m.def(
      "_varlen(Tensor self, SymInt k, *, Tensor? lengths=None, Tensor? starts=None, Tensor? mask=None, int "
      "order=0, str form) -> (Tensor values, Tensor indices, Tensor counts)");
  // sparsify_ in one launch, with one read, or step by step: "resident", "one_read", "steps".
  m.def(
      "_sparsify(Tensor(a!) self, SymInt k, *, Tensor? add=None, float alpha=1, Tensor(b!)? momentum=None, "
      "float mu=0, ScalarType? index_dtype=None, str way) -> (Tensor values, Tensor indices)");
  // topk whose rows are moved together, panels of so many bytes at a time.
  m.def(
      "_strided(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True, *, int algorithm=0, "
      "int panel_bytes) -> (Tensor values, Tensor indices)");
  // Any form of the plan's list, by the name that `_forms` gives it. `last_alone`: as gputopk::_topk_kth.
  m.def(
      "_form(Tensor self, SymInt k, str name, bool largest=True, bool sorted=True, *, bool magnitude=False, "
      "bool last_alone=False) "
      "-> "
      "(Tensor values, Tensor indices)");
  // Baselines of the papers, for rows of fewer than 2^32 elements, of 4 and 8 bytes but for the search tree;
  // `sorted` must be False. Every thread keeps the k best that it sees, in a heap in shared memory, so k is
  // some hundreds at most; or in a list in registers (float32, some k).
  m.def(
      "_per_thread_topk(Tensor self, SymInt k, bool largest=True, bool sorted=False, *, bool "
      "registers=False) -> (Tensor values, Tensor indices)");
  // Buckets of equal width between the least key and the greatest.
  m.def(
      "_bucket_topk(Tensor self, SymInt k, bool largest=True, bool sorted=False) -> (Tensor values, Tensor "
      "indices)");
  // Buckets between elements of a sample, found by a search tree: sample select.
  m.def(
      "_tree_topk(Tensor self, SymInt k, bool largest=True, bool sorted=False) -> (Tensor values, Tensor "
      "indices)");
  // Reads `self` once and leaves one number a block in `scratch`: the yardstick of the benchmarks.
  m.def("_read_floor(Tensor self, Tensor(a!) scratch) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(gputopk, CUDA, m) {
  using namespace gputopk::binding;
  m.impl("_air", TORCH_BOX(&air_study));
  m.impl("_delegate", TORCH_BOX(&delegate_study));
  m.impl("_grid_select", TORCH_BOX(&grid_select_study));
  m.impl("_split_bucket", TORCH_BOX(&split_bucket_study));
  m.impl("_varlen", TORCH_BOX(&varlen_study));
  m.impl("_sparsify", TORCH_BOX(&sparsify_study));
  m.impl("_strided", TORCH_BOX(&strided_study));
  m.impl("_form", TORCH_BOX(&form_study));
  m.impl("_per_thread_topk", TORCH_BOX(&per_thread_topk));
  m.impl("_bucket_topk", TORCH_BOX(&bucket_topk));
  m.impl("_tree_topk", TORCH_BOX(&tree_topk));
  m.impl("_read_floor", TORCH_BOX(&read_floor));
}
