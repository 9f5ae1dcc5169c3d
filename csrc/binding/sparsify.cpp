#include "binding/sparsify.h"

#include <cstdio>
#include <string>

#include "binding/check.h"
#include "binding/outs.h"
#include "binding/overlap.h"

namespace gputopk::binding {
namespace {

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", number);
  return text;
}

bool is_served(ScalarType type) {
  return type == ScalarType::Float || type == ScalarType::Double || type == ScalarType::Half ||
         type == ScalarType::BFloat16;
}

void check_beside(const Tensor& tensor, const char* name, const Tensor& self) {
  if (to_vector(tensor.sizes()) != to_vector(self.sizes())) {
    check(false, kSparsify, name, " must have the shape of self, ", sizes_text(self), ", but has ",
          sizes_text(tensor));
  }
  if (tensor.device() == self.device()) return;
  check(false, kSparsify, name, " must be on the device of self, ", device_name(self.device()),
        ", but is on ", device_name(tensor.device()));
}

// Of what is written in place.
void check_rows(const Tensor& tensor, const char* name) {
  if (!is_dense_in_rows(tensor)) {
    check(false, kSparsify, name, "'s elements of a row must be adjacent, but are ",
          tensor.stride(tensor.dim() - 1), " apart");
  }
  check(!overlaps_itself(tensor), kSparsify, name, " overlaps itself");
}

void check_apart(const Tensor& a, const Tensor& b, const char* names) {
  check(!overlap(a, b), kSparsify, names, " must not overlap");
}

SparsifyProblem check_request(const SparsifyArguments& arguments) {
  const auto& [self, k, add, alpha, momentum, mu, index_dtype] = arguments;
  check(self.dim() == 1 || self.dim() == 2, kSparsify, "self must have 1 or 2 dimensions, but has ",
        self.dim());
  const ScalarType type = self.scalar_type();
  check(is_served(type), kSparsify, "self must be float32, bfloat16, float16 or float64, not ",
        dtype_text(type));
  const int64_t cols = self.size(self.dim() - 1);
  check(k >= 0 && k <= cols, kSparsify, "k out of range: k is ", k, ", and a row of self has ", cols,
        " elements");
  const ScalarType index_type = index_dtype.value_or(ScalarType::Int);
  check(index_type == ScalarType::Long || index_type == ScalarType::Int, kSparsify,
        "index_dtype must be torch.int32 or torch.int64");
  check(index_type == ScalarType::Long || cols <= INT32_MAX, kSparsify,
        "index_dtype torch.int32 cannot index ", cols, " elements, at most ", INT32_MAX);
  check_rows(self, "self");

  SparsifyProblem problem;
  problem.dtype = problem.add_dtype = *dtype_of(type);
  problem.alpha = alpha;
  problem.mu = mu;
  problem.rows = self.dim() == 2 ? self.size(0) : 1;
  problem.cols = cols;
  problem.self_stride = row_stride(self);
  problem.k = k;
  problem.wide_indices = index_type == ScalarType::Long;

  check(add || !momentum, kSparsify, "momentum needs add");
  check(add || alpha == 1, kSparsify, "alpha needs add: it is ", number_text(alpha));
  check(momentum || mu == 0, kSparsify, "mu needs momentum: it is ", number_text(mu));
  check(!momentum || alpha == 1, kSparsify, "alpha must be 1 with momentum, but is ", number_text(alpha));
  if (add) {
    const ScalarType add_type = add->scalar_type();
    const bool widens =
        type == ScalarType::Float && (add_type == ScalarType::Half || add_type == ScalarType::BFloat16);
    check(add_type == type || widens, kSparsify, "add must be ", dtype_text(type),
          type == ScalarType::Float ? ", float16 or bfloat16" : "", " as self is ", dtype_text(type),
          ", not ", dtype_text(add_type));
    check_beside(*add, "add", self);
    check_apart(*add, self, "add and self");
    problem.add_dtype = *dtype_of(add_type);
    problem.update = alpha == 1 ? Update::kAdd : Update::kScaled;
  }
  if (momentum) {
    check(momentum->scalar_type() == type, kSparsify, "momentum must have self's dtype, ", dtype_text(type),
          ", not ", dtype_text(momentum->scalar_type()));
    check_beside(*momentum, "momentum", self);
    check_rows(*momentum, "momentum");
    check_apart(*momentum, self, "momentum and self");
    check_apart(*momentum, *add, "momentum and add");
    problem.momentum_stride = row_stride(*momentum);
    problem.update = Update::kMomentum;
  }
  return problem;
}

}  // namespace

std::tuple<Tensor, Tensor> sparsify(const SparsifyArguments& arguments, RunSparsify run) {
  const auto& [self, k, add, alpha, momentum, mu, index_dtype] = arguments;
  // A lazy clone gets memory of its own before that is compared.
  self.mutable_data_ptr();
  if (momentum) momentum->mutable_data_ptr();
  SparsifyProblem problem = check_request(arguments);
  std::vector<int64_t> sizes = to_vector(self.sizes());
  sizes.back() = k;
  const Tensor values = new_empty(sizes, self.scalar_type(), self, kSparsify);
  const Tensor indices = new_empty(sizes, index_dtype.value_or(ScalarType::Int), self, kSparsify);
  claim_in_place(self, kSparsify, "self");
  if (momentum) claim_in_place(*momentum, kSparsify, "momentum");
  if (problem.rows == 0 || problem.cols == 0) return {values, indices};

  Tensor add_rows = add.value_or(self);
  if (add) {
    if (!is_dense_in_rows(*add)) add_rows = dense_copy(*add, kSparsify);
    problem.add_stride = row_stride(add_rows);
  }
  SparsifyBuffers buffers;
  buffers.self = self.mutable_data_ptr();
  if (add) buffers.add = add_rows.const_data_ptr();
  if (momentum) buffers.momentum = momentum->mutable_data_ptr();
  buffers.values = values.mutable_data_ptr();
  buffers.indices = indices.mutable_data_ptr();
  run(problem, buffers, self);
  return {values, indices};
}

}  // namespace gputopk::binding
