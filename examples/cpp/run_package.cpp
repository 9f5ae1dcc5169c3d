// Runs a package of make_package.py. Linking gputopk::gputopk is what registers the operator that it calls.
#include <ATen/ATen.h>
#include <gputopk/topk.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: run_package model.pt2\n";
    return 2;
  }
  torch::inductor::AOTIModelPackageLoader model(argv[1]);
  at::Tensor x = at::randn({5, 1000});
  std::vector<at::Tensor> results = model.run({x});

  auto [values, indices] = gputopk::topk(x * 2, 3);
  const bool same = at::allclose(results[0], values.sum(-1)) && at::equal(results[1], indices);
  std::cout << (same ? "the package agrees" : "the package differs") << '\n';
  return same ? 0 : 1;
}
