"""Loads libgputopk_study.so, whose operators benches and GPU tests call and no user does: `_air`,
`_delegate`, `_grid_select`, `_split_bucket`, `_varlen`, `_sparsify`, `_strided`, `_form`, the baselines
`_per_thread_topk`, `_bucket_topk` and `_tree_topk`, and `_read_floor`. `make study` builds it."""

from __future__ import annotations

import torch

import torch_topk
from torch_topk._libraries import FOLDER

LIBRARY = FOLDER / "study" / "libgputopk_study.so"


def load() -> bool:
    """True where the operators are there."""
    if not torch_topk.has_cuda or not LIBRARY.exists():
        return False
    torch.ops.load_library(LIBRARY)
    return True


loaded: bool = load()
