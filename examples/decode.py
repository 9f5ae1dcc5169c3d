"""A decoder step over a large vocabulary: temperature, top-k, top-p and min-p of each request, then a token.

    python examples/decode.py [--vocabulary 131072] [--requests 8] [--tokens 4] [--device cuda]

``Warper`` has the interface of transformers' LogitsProcessor, ``(input_ids, scores) -> scores``, so it may
stand in a LogitsProcessorList; transformers is not needed. Each request has its own numbers, in tensors on
the device: nothing is read on the host, and a CUDA graph may hold the step. The kept set is defined to the
element, so that all ranks of a tensor-parallel group that hold the same logits keep the same.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from torch_topk import top_k_top_p_filter_


class Warper:
    """What a request may sample from. ``k``: 0 for all; ``p``: 1 for all; one number a request each."""

    def __init__(self, temperature: Tensor, k: Tensor, p: Tensor, min_p: Tensor):
        self.temperature, self.k, self.p, self.min_p = temperature, k, p, min_p

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        return top_k_top_p_filter_(scores / self.temperature[:, None], self.k, self.p, self.min_p)


class Decoder(torch.nn.Module):
    """A stand-in for a language model: the next token's logits from the last token alone."""

    def __init__(self, vocabulary: int, width: int = 32):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, width)

    def forward(self, input_ids: Tensor) -> Tensor:
        hidden = self.embedding(input_ids[:, -1])
        return hidden.roll(1, -1) @ self.embedding.weight.T


def generate(decoder: Decoder, warper: Warper, input_ids: Tensor, tokens: int, seed: int = 0) -> Tensor:
    """Appends so many tokens to each row of ``input_ids``."""
    generator = torch.Generator(input_ids.device).manual_seed(seed)
    for _ in range(tokens):
        scores = warper(input_ids, decoder(input_ids).float())
        choice = torch.multinomial(scores.softmax(-1), 1, generator=generator)
        input_ids = torch.cat((input_ids, choice), 1)
    return input_ids


def main(arguments: list[str] | None = None) -> Tensor:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocabulary", type=int, default=131072)
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    rows, device = options.requests, options.device
    decoder = Decoder(options.vocabulary).to(device)
    request = torch.arange(rows, device=device)
    warper = Warper(
        temperature=0.5 + 0.1 * request,
        k=torch.where(request % 2 == 0, 50, 0),  # every other request has no top-k
        p=torch.where(request % 3 == 0, 1.0, 0.9),
        min_p=torch.zeros(rows, device=device),
    )
    prompt = request[:, None] % options.vocabulary
    with torch.inference_mode():
        allowed = warper(prompt, decoder(prompt).float()).isfinite().sum(-1)
        tokens = generate(decoder, warper, prompt, options.tokens)
    for row in range(rows):
        print(f"request {row}: {int(allowed[row])} tokens to choose from at first; {tokens[row].tolist()}")
    return tokens


if __name__ == "__main__":
    main()
