"""Top-k, top-p and min-p: which logits a sampler may draw from. What is drawn stays with the engine."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from . import _rows
from ._sharding import has_dtensor
from .ops import topk
from .selection import _mask, fill_of, keep_in_place, keep_pair

__all__ = ["top_k_top_p_filter_"]

# An element's mass is an integer of so many bits, so that a sum is the same in any order; 2^24 of the
# largest fit int64.
_MASS_BITS = 38
_NAME = "top_k_top_p_filter_"


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
        logits: [..., cols] of float16, bfloat16, float32 or float64, cols <= 2**24; temperature applied. No
            two elements may share memory.
        k: an int, or int32 or int64 on the logits' device, of no dimension or one number a row: shape [...].
        p: a float, or a float tensor of such a shape. NaN keeps the best alone.
        min_p: like p.
        fill: what others become: a number in the range of logits' dtype, infinite or NaN.

    Returns:
        ``logits``.

    Raises:
        TypeError: an argument of another type or dtype.
        RuntimeError: shapes or devices that do not fit together; more than 2**24 cols; a fill that the dtype
            does not hold; memory that is shared. Raised before anything is written.

    Nothing is read on the host: tensors may change from call to call under one CUDA graph. An int ``k`` costs
    a ``topk``; p without it, or with a tensor ``k``, sorts whole rows. Random numbers are the caller's.

    DTensors may be sharded in any dimension and stay so, but must not be pending a reduction; tensors ``k``,
    ``p`` and ``min_p`` are then DTensors too, or of no dimension. Of sharded columns the best are gathered: k
    of a row, or all where it is sorted.

    Source: no paper. The selection is ``topk``'s; the set to the element, by masses that are integers, is
    this project's definition. That k <= 0 or k >= cols means all is vLLM's way to say so.
    """
    name = _NAME
    _rows.check_dim(name, logits, -1)
    if not logits.is_floating_point() or logits.dtype.itemsize == 1:
        raise TypeError(f"{name}(): logits must be float16, bfloat16, float32 or float64, not {logits.dtype}")
    if logits.dim() == 0 or logits.size(-1) > 2**24:
        raise RuntimeError(f"{name}(): logits must have 1 to 2**24 columns, but are {list(logits.shape)}")
    if k is not None:
        k = _rows.count(name, k)
    for share_name, share in (("p", p), ("min_p", min_p)):
        _check_share(share_name, share)
    is_sharded = has_dtensor(logits, k, p, min_p)
    if not is_sharded and k is not None and p is None and min_p is None:
        return keep_in_place(name, logits, k, fill, -1, True, name="logits")
    fill = fill_of(name, fill, logits.dtype)
    _rows.check_apart(name, "logits", logits)
    if is_sharded:
        from . import _dtensor

        mask = _dtensor.mask_to_sample(logits, k, p, min_p)
    else:
        mask = mask_to_sample(logits, k, p, min_p)
    return logits if mask is None else logits.masked_fill_(~mask, fill)


def mask_to_sample(logits: Tensor, k: Any, p: Any, min_p: Any) -> Tensor | None:
    """True where a logit stays; None: everywhere."""
    cols = logits.size(-1)
    given = k
    k, p, min_p = of_rows(logits, cols, k, p, min_p)
    if cols == 0 or (k is None and p is None and min_p is None):
        return None
    if p is None and min_p is None:
        return _mask(_NAME, logits, given, -1, True, False, "index", None)
    with torch.no_grad():
        best, indices = topk(logits.detach(), most_kept(cols, k))
        # The last that is kept tells the set.
        last = indices.gather(-1, count_kept(best, cols, k, p, min_p) - 1)
        return keep_pair(logits, last, True, False, "index")


def of_rows(logits: Tensor, cols: int, k: Any, p: Any, min_p: Any) -> tuple[Any, Any, Any]:
    """Tensors as one number a row, [..., 1]; None where all of so many columns are kept."""
    p = None if isinstance(p, (int, float)) and p >= 1 else _share("p", p, logits)
    if isinstance(k, Tensor):
        k = _rows.numbers_of_rows(_NAME, "k", k, logits)
        k = k.where((k > 0) & (k < cols), cols)
    elif k is not None and (k <= 0 or k >= cols):
        k = None
    return k, p, _share("min_p", min_p, logits)


def most_kept(cols: int, k: Any) -> int:
    return cols if k is None or isinstance(k, Tensor) else k


def count_kept(best: Tensor, cols: int, k: Any, p: Any, min_p: Any) -> Tensor:
    """How many of each row are kept, [..., 1]. ``best``: the ``most_kept`` best of it, in order."""
    left = k if isinstance(k, Tensor) else torch.full((), most_kept(cols, k), device=best.device)
    return _prefix(best, left, p, min_p)


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
        kept = left.where(p >= 1, kept) if isinstance(p, Tensor) else kept
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


def _check_share(name: str, share: Any) -> None:
    if share is None or (isinstance(share, (int, float)) and not isinstance(share, bool)):
        return
    if not isinstance(share, Tensor):
        raise TypeError(f"{_NAME}(): argument '{name}' must be float or Tensor, not {type(share).__name__}")
    if not share.is_floating_point():
        raise TypeError(f"{_NAME}(): {name} must be a float tensor, not {share.dtype}")


def _share(name: str, share: Any, logits: Tensor) -> Any:
    if not isinstance(share, Tensor):
        return share
    return _rows.one_a_row(_NAME, name, share.double(), logits, "logits'")
