// Draws the next token from the k best logits of each row, and lets a gradient flow back to just those. Then
// finds the nearest row of each, with one ruled out.
#include <ATen/ATen.h>
#include <gputopk/topk.h>

#include <iostream>

int main() {
  at::manual_seed(0);
  at::Tensor logits = at::randn({4, 50257}).requires_grad_();

  auto [values, indices] = gputopk::topk(logits, 50);
  at::Tensor choice = at::multinomial(at::softmax(values.detach(), -1), 1);
  std::cout << "tokens " << indices.gather(-1, choice).flatten() << '\n';

  values.sum().backward();
  const int64_t reached = logits.grad().count_nonzero().item<int64_t>();

  auto [expected, positions] = at::topk(logits.detach(), 50);
  const bool same = at::equal(values.detach(), expected) && at::equal(indices, positions);
  std::cout << (same ? "as at::topk" : "not as at::topk") << ", gradient in " << reached << " logits\n";

  // Of equal elements at::topk takes the first, once these kernels are behind it.
  gputopk::install(at::kCPU);
  const at::Tensor first = std::get<1>(at::topk(at::zeros({5000}), 100));
  bool installed = at::equal(first, at::arange(100));
  gputopk::install(at::kCPU, false);
  try {
    gputopk::install(at::kMeta);
    installed = false;  // it serves no other devices
  } catch (const c10::Error&) {
  }
  std::cout << (installed ? "installed" : "not installed") << '\n';

  const at::Tensor rows = logits.detach(), all = at::arange(4);
  gputopk::RerankOptions options;
  options.allow = all > 0;
  auto [distances, nearest] = gputopk::rerank(rows, rows, all, 1, gputopk::Metric::kL2, options);
  const bool found =
      nearest.narrow(0, 1, 3).flatten().equal(all.narrow(0, 1, 3)) && nearest[0].gt(0).all().item<bool>();
  std::cout << (found ? "the nearest rows are found\n" : "the nearest rows are not found\n");
  return same && reached == 4 * 50 && installed && found ? 0 : 1;
}
