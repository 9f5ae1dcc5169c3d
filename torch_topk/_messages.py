"""Messages between ranks: several tensors in one, and what everyone has sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def all_gather_single(gathered: Tensor, mine: Tensor, **options: Any) -> dist.Work | None:
    """By whichever name this torch has it: the older one warns in newer versions."""
    name = "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"
    return getattr(dist, name)(gathered, mine, **options)


def exchange(mine: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """[ranks, n] of everyone's n elements."""
    ranks = dist.get_world_size(group)
    gathered = mine.new_empty(ranks * mine.numel())
    if mine.numel() > 0:
        all_gather_single(gathered, mine.contiguous(), group=group)
    return gathered.view(ranks, mine.numel())


def pack(tensors: Sequence[Tensor]) -> Tensor:
    """Their bytes, one behind the other: wider elements first, and up to a whole number of 8, so that every
    element of every rank's is aligned."""
    parts = [tensors[i].reshape(-1).view(torch.uint8) for i in _widest_first(tensors)]
    rest = -sum(part.numel() for part in parts) % 8
    return torch.cat([*parts, parts[0].new_zeros(rest)])


def unpack(gathered: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Of each tensor that was packed everyone's, [ranks, *shape]. ``gathered``: [ranks, bytes]; ``like``:
    what this rank has packed, which is of everyone's shapes and dtypes."""
    found: dict[int, Tensor] = {}
    begin = 0
    for i in _widest_first(like):
        end = begin + like[i].numel() * like[i].element_size()
        found[i] = gathered[:, begin:end].view(like[i].dtype).unflatten(1, like[i].shape)
        begin = end
    return [found[i] for i in range(len(like))]


def _widest_first(tensors: Sequence[Tensor]) -> list[int]:
    return sorted(range(len(tensors)), key=lambda i: -tensors[i].element_size())
