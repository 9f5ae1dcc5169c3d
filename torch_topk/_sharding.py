"""The operators on DTensor: dimensions that are not selected along stay sharded as they are."""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch


def is_dtensor(tensor: Any) -> bool:
    """Without importing what takes a second, and what whoever has such a tensor has imported."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


@functools.cache
def register() -> None:
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.experimental import register_sharding

    operators = [torch.ops.gputopk.topk.default, torch.ops.gputopk.differentiable_topk.default]

    @register_sharding(operators)
    def _(self, k, dim=-1, largest=True, sorted=True, **options):
        """A row that lies on many ranks is gathered first, and what is partial reduced: so ties go to the
        lower index of the whole row."""
        selected = dim % max(self.ndim, 1)
        places = [Replicate(), *(Shard(d) for d in range(self.ndim) if d != selected)]
        return [([place, place], [place, None, None, None, None]) for place in places]


if "torch.distributed.tensor" in sys.modules:
    register()
