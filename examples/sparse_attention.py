"""Sparse attention of one decode step: an indexer scores each context's keys, the best are attended to.

    python examples/sparse_attention.py [--requests 4] [--context 8192] [--keys 2048] [--device cuda]

Contexts have different lengths, which lie on the device, and their keys and values lie in pages that
requests own in any order. ``topk_varlen`` selects by the indexer's scores and returns physical places,
through the page table, -1 behind a context that has fewer keys. The result is checked against dense attention
over the same keys, and over all keys where a context is no longer than the number selected.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from torch_topk import topk_varlen

PAGE_SIZE = 64


class PagedContexts:
    """Keys and values of some requests in pages of ``PAGE_SIZE``, dealt out at random."""

    def __init__(self, lengths: Tensor, heads: int, width: int):
        device = lengths.device
        pages = -(-int(lengths.max()) // PAGE_SIZE)  # of the longest; a server knows it as its limit
        total = lengths.numel() * pages
        self.lengths = lengths
        self.page_table = torch.randperm(total, device=device).to(torch.int32).view(lengths.numel(), pages)
        self.keys = torch.randn(total * PAGE_SIZE, heads, width, device=device)
        self.values = torch.randn(total * PAGE_SIZE, heads, width, device=device)
        self.index_keys = torch.randn(total * PAGE_SIZE, width, device=device)

    def places(self) -> Tensor:
        """[requests, positions]: where each position of a context lies, beyond its length too."""
        inside = torch.arange(PAGE_SIZE, device=self.page_table.device)
        return (self.page_table.long()[:, :, None] * PAGE_SIZE + inside).flatten(1)


def attend(query: Tensor, contexts: PagedContexts, places: Tensor) -> Tensor:
    """Attention of [requests, heads, width] queries over the keys at ``places``; negative: none."""
    present = places >= 0
    rows = places.clamp(min=0).long()
    keys, values = contexts.keys[rows], contexts.values[rows]  # [requests, places, heads, width]
    scores = torch.einsum("rhw,rnhw->rhn", query, keys) / query.shape[-1] ** 0.5
    weights = scores.masked_fill(~present[:, None], -torch.inf).softmax(-1)
    return torch.einsum("rhn,rnhw->rhw", weights, values)


def select_keys(index_query: Tensor, contexts: PagedContexts, k: int) -> tuple[Tensor, Tensor]:
    """The physical places of the k best keys of each context by the indexer, by position, and how many."""
    index_keys = contexts.index_keys[contexts.places()]  # [requests, positions, width]
    scores = torch.einsum("rw,rnw->rn", index_query, index_keys).relu()
    _, places, counts = topk_varlen(
        scores, k, lengths=contexts.lengths, page_table=contexts.page_table, page_size=PAGE_SIZE,
        order="index", return_values=False,
    )  # fmt: skip
    return places, counts


def main(arguments: list[str] | None = None) -> float:
    """The greatest difference from dense attention that was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=4)
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--keys", type=int, default=2048)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    heads, width, k = 4, 32, options.keys
    # From a context of one key to the longest.
    lengths = torch.linspace(1, options.context, options.requests, device=options.device).to(torch.int32)
    contexts = PagedContexts(lengths, heads, width)
    query = torch.randn(options.requests, heads, width, device=options.device)
    index_query = torch.randn(options.requests, width, device=options.device)

    places, counts = select_keys(index_query, contexts, k)
    sparse = attend(query, contexts, places)

    everywhere = contexts.places()
    position = torch.arange(everywhere.shape[1], device=options.device)
    everywhere = everywhere.where(position < lengths[:, None], -1)
    dense = attend(query, contexts, everywhere)

    worst = 0.0
    for r in range(options.requests):
        chosen = places[r, : counts[r]].long()
        assert torch.isin(chosen, everywhere[r]).all(), "a key of another context"
        # The same keys, picked from the whole context by a mask.
        same = everywhere[r].where(torch.isin(everywhere[r], chosen), -1)
        wanted = attend(query[r : r + 1], contexts, same[None])[0]
        if lengths[r] <= k:
            wanted = dense[r]
        worst = max(worst, float((sparse[r] - wanted).abs().max()))
        print(f"request {r}: {int(lengths[r])} keys, attended to {int(counts[r])}")
    print(f"greatest difference from dense attention over the same keys: {worst:.1e}")
    return worst


if __name__ == "__main__":
    main()
