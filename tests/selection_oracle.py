"""What kth_value, topk_mask, keep_topk and top_k_top_p_filter_ must give, a row at a time, from the oracle's
order: `ranking` is a row's columns, best first."""

from __future__ import annotations

import numpy as np
import torch


def kth_column(ranking: np.ndarray, k: int, length: int | None = None) -> int:
    """Where the k-th best of the first `length` elements is; -1 where there is none."""
    inside = ranking if length is None else ranking[ranking < length]
    return int(inside[k - 1]) if 1 <= k <= len(inside) else -1


def kept(
    ranking: np.ndarray,
    ranks: np.ndarray,
    k: int,
    length: int | None = None,
    largest: bool = True,
    ties: str = "index",
) -> np.ndarray:
    """True at what is among the k best, bool [cols]; `ranks` are oracle.ranks of the row, for ties="all"."""
    kth = kth_column(ranking, k, length)
    if kth < 0:
        return np.ones(len(ranking), bool)
    if ties == "all":
        mask = ranks >= ranks[kth] if largest else ranks <= ranks[kth]
    else:
        inside = ranking if length is None else ranking[ranking < length]
        mask = np.zeros(len(ranking), bool)
        mask[inside[:k]] = True
    if length is not None:
        mask[max(length, 0) :] = True
    return mask


# An element's mass is an integer of so many bits.
_MASS_BITS = 38


def weights(logits: torch.Tensor, best: torch.Tensor) -> np.ndarray:
    """exp(logit - the row's best) in float32, [rows, cols], by the exp of the logits' device: no two devices'
    last bits are alike. `best` is the column of each row's best."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    top = wide.gather(1, best.view(-1, 1))
    same = (wide == top) | (wide.isnan() & top.isnan())
    return torch.where(top.isfinite(), (wide - top).float().exp(), same.float()).cpu().numpy()


def sampled(
    ranking: np.ndarray, weights: np.ndarray, k: int | None, p: float | None, min_p: float | None
) -> np.ndarray:
    """True at what a sampler may draw, bool [cols]: of the k best, the shortest prefix whose mass is at least
    p of theirs; of that, the best and what weighs at least min_p."""
    left = ranking if k is None or k <= 0 else ranking[:k]
    if p is not None and p < 1:
        masses = [int(weight * 2**_MASS_BITS) for weight in weights[left].tolist()]
        sums = np.cumsum(np.array(masses, np.int64))
        enough = sums.astype(np.float64) >= p * float(sums[-1])
        left = left[: int(enough.argmax()) + 1]
    if min_p is not None:
        heavy = weights[left].astype(np.float64) >= min_p
        heavy[:1] = True
        left = left[heavy]
    mask = np.zeros(len(ranking), bool)
    mask[left] = True
    return mask
