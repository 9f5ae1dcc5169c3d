"""A mixture of experts: the router's top-k, tokens grouped by expert, gradients to the router.

    python examples/moe.py [--tokens 512] [--experts 64] [--per-token 6] [--device cuda]

Two gates are shown: softmax over all experts and the best weights renormalised; and sigmoid scores with a
bias that balances the load, which chooses experts but does not weigh them. Equal scores go to the lower
expert, so that all ranks route alike. The layer is checked against a sum over all experts, the others'
weights being zero.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from torch_topk import topk


def softmax_gate(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Weights [tokens, k], which sum to 1, and experts."""
    weights, experts = topk(logits.softmax(-1), k)
    return weights / weights.sum(-1, keepdim=True), experts


def biased_gate(logits: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The bias moves the choice alone: gradients reach the scores, not the bias."""
    scores = logits.sigmoid()
    experts = topk((scores + bias).detach(), k, sorted=False).indices
    weights = scores.gather(-1, experts)
    return weights / weights.sum(-1, keepdim=True), experts


class Layer(torch.nn.Module):
    def __init__(self, width: int, experts: int, k: int):
        super().__init__()
        self.k = k
        self.router = torch.nn.Linear(width, experts, bias=False)
        self.up = torch.nn.Parameter(torch.randn(experts, width, 2 * width) / width**0.5)
        self.down = torch.nn.Parameter(torch.randn(experts, 2 * width, width) / width**0.5)
        self.register_buffer("bias", torch.zeros(experts))

    def gate(self, x: Tensor, biased: bool) -> tuple[Tensor, Tensor]:
        logits = self.router(x)
        return biased_gate(logits, self.bias, self.k) if biased else softmax_gate(logits, self.k)

    def expert(self, number: int, x: Tensor) -> Tensor:
        return torch.relu(x @ self.up[number]) @ self.down[number]

    def forward(self, x: Tensor, biased: bool = False) -> tuple[Tensor, Tensor]:
        """Also how many tokens each expert had."""
        weights, experts = self.gate(x, biased)
        order = experts.flatten().argsort(stable=True)  # tokens of one expert side by side
        loads = torch.bincount(experts.flatten(), minlength=self.bias.numel())
        y = torch.zeros_like(x)
        for number, slots in enumerate(order.split(loads.tolist())):
            tokens = slots // self.k
            share = weights.flatten()[slots, None]
            y = y.index_add(0, tokens, share * self.expert(number, x[tokens]))
        return y, loads

    def balance(self, loads: Tensor, step: float = 0.01) -> None:
        """Experts with more than their share of tokens become less likely."""
        self.bias -= step * torch.sign(loads - loads.float().mean())


def dense(layer: Layer, x: Tensor, biased: bool) -> Tensor:
    """All experts of all tokens."""
    weights, experts = layer.gate(x, biased)
    whole = torch.zeros(len(x), layer.bias.numel(), device=x.device).scatter(1, experts, weights)
    return sum(whole[:, e, None] * layer.expert(e, x) for e in range(layer.bias.numel()))


def main(arguments: list[str] | None = None) -> float:
    """The greatest difference from the dense layer, values and the router's gradients."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--experts", type=int, default=64)
    parser.add_argument("--per-token", type=int, default=6)
    parser.add_argument("--balancing", type=int, default=100, help="steps of it")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    layer = Layer(32, options.experts, options.per_token).to(options.device)
    x = torch.randn(options.tokens, 32, device=options.device)
    worst = 0.0
    for biased in (False, True):
        y, loads = layer(x, biased)
        wanted = dense(layer, x, biased)
        router = layer.router.weight
        (grad,) = torch.autograd.grad(y.square().mean(), router)
        (wanted_grad,) = torch.autograd.grad(wanted.square().mean(), router)
        worst = max(worst, float((y - wanted).detach().abs().max()), float((grad - wanted_grad).abs().max()))
        print(
            f"{'sigmoid and bias' if biased else 'softmax'}: loads {int(loads.min())} to {int(loads.max())}"
        )
    with torch.no_grad():
        for _ in range(options.balancing):
            layer.balance(layer(x, biased=True)[1])
        loads = layer(x, biased=True)[1]
    print(f"after {options.balancing} steps of balancing: loads {int(loads.min())} to {int(loads.max())}")
    print(f"greatest difference from all experts of all tokens: {worst:.1e}")
    return worst


if __name__ == "__main__":
    main()
