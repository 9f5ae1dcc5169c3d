"""Top-k, top-p and min-p: which logits a sampler may draw from. What is drawn stays with the engine."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from . import _rows
from .ops import topk
from .selection import keep_pair, keep_topk_

__all__ = ["top_k_top_p_filter_"]

# An element's mass is an integer of so many bits, so that a sum is the same in any order; 2^24 of the
# largest fit int64.
_MASS_BITS = 38


def top_k_top_p_filter_(
    logits: Tensor,
    k: int | Tensor | None = None,
    p: float | Tensor | None = None,
    min_p: float | Tensor | None = None,
    *,
    fill: float = -math.inf,
) -> Tensor:
    """Puts ``fill``, in place, where a logit is not among those to sample from: first top-k, then top-p over
    what is left, and min-p.

    The set is defined to the element, so that all ranks that hold the same logits keep the same:

    - Elements of a row are in ``topk``'s order: best first, equal ones by index, NaN first.
    - k keeps the first ``k`` of them. k <= 0 or k >= cols: all.
    - The mass of an element is exp(logit - the row's best) in float32, times 2**38 and cut to an integer. p
      keeps the shortest prefix of what k has left whose mass is at least ``p`` times the mass of what k has
      left, and never less than the best. p >= 1: all of it.
    - min_p keeps elements whose exp(logit - best) is at least ``min_p``, and the best.

    Args:
        logits: [..., cols] of float16, bfloat16, float32 or float64, cols <= 2**24; temperature applied.
        k: an int, or int32 or int64 on the logits' device, of no dimension or one number a row: shape [...].
        p: a float, or a float tensor of such a shape.
        min_p: like p.
        fill: what others become.

    Returns:
        ``logits``.

    Raises:
        TypeError: an argument of another type or dtype.
        RuntimeError: shapes or devices that do not fit together; more than 2**24 cols.

    Nothing is read on the host: tensors may change from call to call under one CUDA graph. An int ``k`` costs
    a ``topk``; p without it, or with a tensor ``k``, sorts whole rows. Random numbers are the caller's.
    """
    name = "top_k_top_p_filter_"
    _rows.check_dim(name, logits, -1)
    if not logits.is_floating_point() or logits.dtype.itemsize == 1:
        raise TypeError(f"{name}(): logits must be float16, bfloat16, float32 or float64, not {logits.dtype}")
    if logits.dim() == 0 or logits.size(-1) > 2**24:
        raise RuntimeError(f"{name}(): logits must have 1 to 2**24 columns, but are {list(logits.shape)}")
    if k is not None:
        _rows.check_count(name, k)
    p, min_p = _share(name, "p", p, logits), _share(name, "min_p", min_p, logits)
    p = None if isinstance(p, (int, float)) and p >= 1 else p
    cols = logits.size(-1)
    if isinstance(k, int) and (k <= 0 or k >= cols):
        k = None
    if cols == 0 or (k is None and p is None and min_p is None):
        return logits

    if p is None and min_p is None:
        return keep_topk_(logits, k, fill)
    with torch.no_grad():
        most = k if k is not None and not isinstance(k, Tensor) else cols
        best, indices = topk(logits.detach(), most)
        left = torch.full((), most, device=logits.device)
        if isinstance(k, Tensor):
            left = _rows.numbers_of_rows(name, "k", k, logits)
            left = left.where((left > 0) & (left < cols), cols)
        kept = _prefix(best, left, p, min_p)
        # The last that is kept tells the set.
        last = indices.gather(-1, kept - 1)
        mask = keep_pair(logits, last, True, False, "index")
    return logits.masked_fill_(~mask, fill)


def _prefix(best: Tensor, left: Tensor, p: Any, min_p: Any) -> Tensor:
    """How many of each row, best first, are kept, [..., 1]: of the first ``left``."""
    place = torch.arange(best.size(-1), device=best.device)
    left = left.expand(*best.shape[:-1], 1)
    weight = _weights(best)
    kept = left
    if p is not None:
        mass = (weight * 2.0**_MASS_BITS).long().where(place < left, 0)
        until = mass.cumsum(-1)
        # Elements with less than p of the whole before them.
        share = until[..., -1:].double() * p
        kept = ((until - mass).double() < share).sum(-1, keepdim=True).minimum(left)
        kept = kept.where(p < 1, left) if isinstance(p, Tensor) else kept
    if min_p is not None:
        # A number would be rounded to float32, where a tensor is not.
        kept = (weight.double() >= min_p).sum(-1, keepdim=True).minimum(kept)
    return kept.clamp(min=1)


def _weights(best: Tensor) -> Tensor:
    """exp(x - best) in float32: 1 for what equals the best, be it infinite or NaN, and then 0 for others."""
    best = best if best.dtype == torch.float64 else best.float()
    top = best[..., :1]
    same = (best == top) | (best.isnan() & top.isnan())
    distance = (best - top).float()
    return distance.masked_fill(~top.isfinite(), -math.inf).masked_fill(same, 0).exp()


def _share(function: str, name: str, share: Any, logits: Tensor) -> Any:
    if share is None or (isinstance(share, (int, float)) and not isinstance(share, bool)):
        return share
    if not isinstance(share, Tensor):
        raise TypeError(
            f"{function}(): argument '{name}' must be float or Tensor, not {type(share).__name__}"
        )
    if not share.is_floating_point():
        raise TypeError(f"{function}(): {name} must be a float tensor, not {share.dtype}")
    return _rows.one_a_row(function, name, share.double(), logits, "logits'")
