#include "binding/behind_aten.h"

#include "binding/check.h"
#include "binding/outs.h"

// Exported by torch, but not through its stable ABI, which has no word for it. Without it, nothing is taken
// to be deterministic.
namespace at {
class Context {
 public:
  __attribute__((weak)) bool deterministicAlgorithms() const;
};
__attribute__((weak)) Context& globalContext();
}  // namespace at

namespace gputopk::binding {
namespace {

bool wants_deterministic() { return at::globalContext && at::globalContext().deterministicAlgorithms(); }

// Those that torch.topk serves: of the others its own kernel says so.
bool has_torchs_dtype(const Tensor& self) {
  switch (self.scalar_type()) {
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Short:
    case ScalarType::Int:
    case ScalarType::Long:
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::Float:
    case ScalarType::Double: return true;
    default: return false;
  }
}

// Whatever the order of an unsorted result, it may differ from run to run: by value it does not.
Arguments ours(const AtenArguments& theirs) {
  const bool sorted = theirs.sorted || wants_deterministic();
  return {theirs.k, theirs.dim, theirs.largest, sorted, /*magnitude=*/false, std::nullopt, /*algorithm=*/0};
}

// A handle of the stable ABI is a pointer to torch's tensor. Past the ABI, as an error that passes it has
// lost its type, and what goes here is mostly refused.
void torchs_own(const Tensor& self, const AtenArguments& arguments, const Tensor& values,
                const Tensor& indices, const Backend& backend) {
  check(backend.torch_topk_out, "aten::topk: this torch has no kernel of its own by the name expected");
  const auto torchs = [](const Tensor& tensor) -> at::Tensor& {
    return *reinterpret_cast<at::Tensor*>(tensor.get());
  };
  backend.torch_topk_out(torchs(self), arguments.k, arguments.dim, arguments.largest, arguments.sorted,
                         torchs(values), torchs(indices));
}

}  // namespace

std::tuple<Tensor, Tensor> aten_topk(const Tensor& self, const AtenArguments& arguments,
                                     const Backend& backend) {
  if (has_torchs_dtype(self)) {
    try {
      return topk(self, ours(arguments), backend);
    } catch (const Refusal&) {
      if (!backend.torch_topk_out) throw;
    }
  }
  Tensor values = new_empty({0}, self.scalar_type(), self, kTopk);
  Tensor indices = new_empty({0}, ScalarType::Long, self, kTopk);
  torchs_own(self, arguments, values, indices, backend);
  return {std::move(values), std::move(indices)};
}

void aten_topk_out(const Tensor& self, const AtenArguments& arguments, const Tensor& values,
                   const Tensor& indices, const Backend& backend) {
  if (has_torchs_dtype(self)) {
    try {
      return topk_out(self, ours(arguments), values, indices, backend, resize_outs);
    } catch (const Refusal&) {
      if (!backend.torch_topk_out) throw;
    }
  }
  torchs_own(self, arguments, values, indices, backend);
}

}  // namespace gputopk::binding
