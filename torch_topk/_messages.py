"""all_gather by whichever name this torch has it: the older one warns in newer versions."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import Tensor


def all_gather_single(gathered: Tensor, mine: Tensor, **options: Any) -> dist.Work | None:
    name = "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"
    return getattr(dist, name)(gathered, mine, **options)
