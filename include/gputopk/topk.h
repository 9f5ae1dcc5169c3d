// gputopk for C++ programs with LibTorch: what torch_topk.topk and torch_topk.rerank are in Python, as
// functions of at::Tensor. They call the operators torch.ops.gputopk.*, which register themselves when
// libgputopk.so, and for CUDA tensors libgputopk_cuda.so, are loaded. CMake's target gputopk::gputopk links
// both so that no linker drops them; without CMake: -Wl,--no-as-needed -lgputopk.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <c10/core/SymInt.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <optional>
#include <tuple>

namespace gputopk {

// The k largest (or smallest) elements of `self` along `dim` and where they are, as at::topk: {values,
// indices}. Among equal elements the lower index wins. NaN is above +inf, -0 equals +0.
//
//   sorted       best first, equal values by index; otherwise the same set in any order
//   magnitude    order by absolute value; values keep their sign
//   index_dtype  at::kLong, or at::kInt where self.size(dim) < 2^31
//
// Where `self` requires grad, or has a tangent, values have gradients, by self.gather(dim, indices).
// Throws c10::Error for a k, dim, dtype or device that is not served, before anything is launched.
inline std::tuple<at::Tensor, at::Tensor> topk(const at::Tensor& self, int64_t k, int64_t dim = -1,
                                               bool largest = true, bool sorted = true,
                                               bool magnitude = false,
                                               at::ScalarType index_dtype = at::kLong) {
  using Signature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, c10::SymInt, int64_t, bool, bool,
                                                       bool, std::optional<at::ScalarType>, int64_t);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("gputopk::topk", "").typed<Signature>();
  constexpr int64_t kAuto = 0;  // which algorithm runs is the plan's choice
  const bool wants_gradient =
      (self.requires_grad() && c10::GradMode::is_enabled()) || self._fw_grad(/*level=*/0).defined();
  if (!wants_gradient) return op.call(self, k, dim, largest, sorted, magnitude, index_dtype, kAuto);
  at::Tensor indices =
      std::get<1>(op.call(self.detach(), k, dim, largest, sorted, magnitude, index_dtype, kAuto));
  return {self.gather(dim, indices.to(at::kLong)), indices};
}

// Puts these kernels behind at::topk for tensors of `device`, CPU or CUDA, and with `on` = false takes them
// away again; true if they were there before. What torch_topk.install does in Python. To be called where no
// other thread is in at::topk.
inline bool install(at::DeviceType device, bool on = true) {
  // The dispatcher warns of a kernel that takes another's place, which here is meant.
  struct Silence : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  TORCH_CHECK(device == at::kCPU || device == at::kCUDA, "gputopk::install: device must be CPU or CUDA, not ",
              device);
  const char* const name = device == at::kCUDA ? "gputopk::_install_cuda" : "gputopk::_install_cpu";
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<bool(bool)>().call(on);
}

// How far a candidate is from a query.
enum class Metric : int64_t {
  kL2 = 0,            // squared Euclidean distance: less is better
  kInnerProduct = 1,  // more is better
  kCosine = 2,        // cosine similarity, 0 for a vector of zeros: more is better
};

// Which candidates a rerank looks at, and how; all tensors on the queries' device.
struct RerankOptions {
  std::optional<at::Tensor> lengths;      // [q] int32 or int64: only so many of a query's candidates count
  std::optional<at::Tensor> row_offsets;  // [q + 1], with ids of one dimension: whose each of those is (CSR)
  std::optional<at::Tensor> allow;        // bool [n], or bits in uint8 [ceil(n / 8)] or int32 [ceil(n / 32)]
  std::optional<at::Tensor> scales;       // [n] float32, of int8 and uint8 vectors: each row's factor
  bool positions = false;                 // where winners stand among the query's candidates, not their ids
};

// The k best of each query's candidates by exact distance, best first: {distances [q, k] float32, ids [q,
// k]}.
//
//   queries [q, d]: float32, float16 or bfloat16
//   vectors [n, d]: those, int8 or uint8
//   candidate_ids [q, c], or [c] for all queries: int32 or int64, rows of `vectors`; an id outside [0, n),
//     such as -1, is missing
//
// Behind all numbers come NaN distances, then id -1 for missing candidates. No gradients.
inline std::tuple<at::Tensor, at::Tensor> rerank(const at::Tensor& queries, const at::Tensor& vectors,
                                                 const at::Tensor& candidate_ids, int64_t k,
                                                 Metric metric = Metric::kL2,
                                                 const RerankOptions& options = {}) {
  using Optional = const std::optional<at::Tensor>&;
  using Signature =
      std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, const at::Tensor&, c10::SymInt,
                                         int64_t, Optional, Optional, Optional, Optional, bool);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("gputopk::rerank", "").typed<Signature>();
  return op.call(queries, vectors, candidate_ids, k, static_cast<int64_t>(metric), options.lengths,
                 options.row_offsets, options.allow, options.scales, options.positions);
}

}  // namespace gputopk
