"""Beam search: of all continuations of all beams the best, every step, until each beam has ended.

    python examples/beam_search.py [--beams 4] [--vocabulary 32000] [--steps 8] [--device cuda]

One ``topk`` over [requests, beams * vocabulary] a step. Equal scores go to the lower beam, then the lower
token, so that a search gives the same beams on every rank. The example checks itself against a search over
all sequences of a small vocabulary, where enough beams make beam search exact.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from torch_topk import topk

END = 0  # the token that ends a sequence


def beam_search(
    log_probs: Callable[[Tensor], Tensor], start: Tensor, beams: int, steps: int
) -> tuple[Tensor, Tensor]:
    """Scores [requests, beams], best first, and sequences [requests, beams, steps].

    ``log_probs`` gives [n, vocabulary] for the last tokens [n]; ``start``: [requests] first tokens.
    """
    requests, device = start.numel(), start.device
    sequences = start.view(-1, 1, 1).expand(requests, beams, 1)
    # At first the beams are alike: one alone counts.
    scores = torch.full((requests, beams), -torch.inf, device=device)
    scores[:, 0] = 0
    ended = torch.zeros((requests, beams), dtype=torch.bool, device=device)
    for _ in range(steps):
        last = sequences[..., -1]
        next_scores = log_probs(last.flatten()).view(requests, beams, -1)
        vocabulary = next_scores.shape[-1]
        # A beam that has ended goes on with END alone, at no cost.
        stays = torch.full((vocabulary,), -torch.inf, device=device)
        stays[END] = 0
        next_scores = torch.where(ended[..., None], stays, next_scores)
        scores, places = topk((scores[..., None] + next_scores).flatten(1), beams)
        parents, tokens = places // vocabulary, places % vocabulary
        history = sequences.gather(1, parents[..., None].expand(-1, -1, sequences.shape[-1]))
        sequences = torch.cat((history, tokens[..., None]), -1)
        ended = ended.gather(1, parents) | (tokens == END)
    return scores, sequences[..., 1:]


def exhaustive(table: Tensor, start: int, steps: int) -> tuple[float, list[int]]:
    """The best of all sequences of a small vocabulary."""
    best = (-float("inf"), [])
    for tokens in itertools.product(range(len(table)), repeat=steps):
        score, last, ended = 0.0, start, False
        for token in tokens:
            if ended and token != END:
                break
            score, last, ended = score + (0.0 if ended else float(table[last, token])), token, token == END
        else:
            if score > best[0]:
                best = (score, list(tokens))
    return best


def main(arguments: list[str] | None = None) -> Tensor:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)
    generator = torch.Generator().manual_seed(0)

    small = torch.randn(4, 4, generator=generator).log_softmax(-1)
    score, tokens = exhaustive(small, start=2, steps=4)
    scores, found = beam_search(lambda last: small[last], torch.tensor([2]), beams=64, steps=4)
    assert found[0, 0].tolist() == tokens and abs(float(scores[0, 0]) - score) < 1e-5

    embedding = torch.randn(options.vocabulary, 16, generator=generator).to(options.device)

    def log_probs(last: Tensor) -> Tensor:
        return (embedding[last].roll(1, -1) @ embedding.T).log_softmax(-1)

    start = torch.tensor([1, 2], device=options.device)
    scores, sequences = beam_search(log_probs, start, options.beams, options.steps)
    for request in range(len(start)):
        for beam in range(options.beams):
            print(f"request {request}: {scores[request, beam]:8.3f} {sequences[request, beam].tolist()}")
    return sequences


if __name__ == "__main__":
    main()
