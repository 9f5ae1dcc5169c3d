// gputopk::topk on CUDA: plan, allocate, run, one status check.

#include "cuda/topk.h"

#include <cuda_runtime_api.h>
#include <torch/csrc/stable/library.h>

#include <algorithm>

#include "binding/check.h"
#include "binding/cuda_device.h"
#include "binding/topk_op.h"

namespace gputopk::binding {
namespace {

void check_launch(cuda::ErrorCode error, const cuda::Plan& plan) {
  if (error == 0) return;
  cudaGetLastError();  // not left for the next call to find
  char text[512];
  cuda::describe(plan, text, sizeof(text));
  check(false, "gputopk::topk: CUDA error: ", cudaGetErrorString(static_cast<cudaError_t>(error)),
        " (plan: ", text, ")");
}

void check_algorithm(const Request& request) {
  const char* reason = cuda::unsupported_reason(request.problem, request.algorithm);
  check(reason == nullptr, "gputopk::topk: algorithm ", algorithm_name(request.algorithm),
        " cannot serve this: ", reason);
}

cuda::Plan make_plan(const Request& request) {
  return cuda::make_plan(request.problem, device_of(request.input.get_device_index()), request.algorithm);
}

void run_plan(const cuda::Plan& plan, const Request& request, Buffers buffers) {
  const int32_t device_index = request.input.get_device_index();
  const CurrentDevice current(device_index);
  const int64_t bytes = static_cast<int64_t>(cuda::workspace_bytes(plan));
  std::optional<Tensor> workspace;
  if (bytes > 0) workspace = new_empty({bytes}, ScalarType::Byte, request.input, kTopk);
  buffers.workspace = workspace ? workspace->mutable_data_ptr() : nullptr;
  check_launch(cuda::run(plan, buffers, current_stream(device_index)), plan);
}

void run(const Request& request, Buffers buffers) { run_plan(make_plan(request), request, buffers); }

std::string describe_plan(const Request& request) {
  const cuda::Plan plan = make_plan(request);
  char text[512];
  cuda::describe(plan, text, sizeof(text));
  return std::string(text) + "; workspace " + std::to_string(cuda::workspace_bytes(plan)) + " bytes";
}

constexpr Backend kCuda{check_algorithm, run, describe_plan};

// `make` gives the plan, where there is anything to do.
template <class MakePlan>
std::tuple<Tensor, Tensor> run_study(Request& request, MakePlan&& make) {
  gather_rows(request);
  const Tensor values = new_empty(request.sizes, request.value_dtype, request.input, kTopk);
  const Tensor indices = new_empty(request.sizes, request.index_dtype, request.input, kTopk);
  if (!request.empty()) run_plan(make(), request, buffers_of(request, values, indices));
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
  cuda::AirStudy study;
  study.digit_bits = static_cast<int>(digit_bits);
  study.blocks = static_cast<int>(blocks);
  study.adaptive = adaptive;
  study.early_stop = early_stop;
  study.threads = static_cast<int>(threads);
  study.cluster = static_cast<int>(cluster);
  return run_study(request, [&] { return cuda::make_air_study(request.problem, device, study); });
}

std::tuple<Tensor, Tensor> delegate_study(Tensor self, int64_t k, bool largest, bool sorted, int64_t alpha,
                                          int64_t beta) {
  Request request = canonicalise(
      self, {k, -1, largest, sorted, false, std::nullopt, static_cast<int64_t>(Algorithm::kDelegate)});
  check_algorithm(request);
  check(beta >= 0 && beta <= 2, "gputopk::_delegate: beta must be 1, 2 or 0, but is ", beta);
  if (!request.empty() && alpha != 0) {
    const cuda::AlphaRange range =
        cuda::delegate_alphas(request.problem, beta == 0 ? 1 : static_cast<int>(beta));
    check(alpha >= range.least && alpha <= range.most, "gputopk::_delegate: alpha must be in [", range.least,
          ", ", range.most, "], or 0, but is ", alpha);
  }
  const cuda::DelegateStudy study{static_cast<int>(alpha), static_cast<int>(beta)};
  return run_study(request, [&] {
    return cuda::make_delegate_study(request.problem, device_of(self.get_device_index()), study);
  });
}

std::tuple<Tensor, Tensor> grid_select_study(Tensor self, int64_t k, bool largest, bool sorted,
                                             int64_t blocks, int64_t threads, bool thread_queues,
                                             int64_t form) {
  Request request = canonicalise(self, {k, -1, largest, sorted, false, std::nullopt, 0});
  request.algorithm = Algorithm::kGridSelect;
  check_algorithm(request);
  const cuda::Device device = device_of(self.get_device_index());
  constexpr int kWarpARow = cuda::GridSelectStudy::kWarpARow;
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
  cuda::GridSelectStudy study;
  using Form = cuda::GridSelectStudy::Form;
  study.form = in_registers ? Form::kRegisters : Form::kBlock;
  study.blocks = static_cast<int>(blocks);
  study.threads = static_cast<int>(threads);
  study.thread_queues = thread_queues;
  return run_study(request, [&] { return cuda::make_grid_select_study(request.problem, device, study); });
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

}  // namespace
}  // namespace gputopk::binding

STABLE_TORCH_LIBRARY_IMPL(gputopk, CUDA, m) {
  using namespace gputopk::binding;
  m.impl("topk", TORCH_BOX(&boxed_topk<kCuda>));
  m.impl("topk.out", TORCH_BOX(&boxed_topk_out<kCuda>));
  m.impl("differentiable_topk", TORCH_BOX(&boxed_topk<kCuda>));
  m.impl("_plan", TORCH_BOX(&boxed_plan<kCuda>));
  m.impl("_air", TORCH_BOX(&air_study));
  m.impl("_delegate", TORCH_BOX(&delegate_study));
  m.impl("_grid_select", TORCH_BOX(&grid_select_study));
  m.impl("_read_floor", TORCH_BOX(&read_floor));
}
