"""What topk_where must return, from ranks of each key and NumPy's lexsort of a row's candidates."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np
import torch

from tests import oracle
from tests.varlen_oracle import pad_bits
from torch_topk import Condition, TopKWhere

COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


def _rows(tensor: torch.Tensor, shape: torch.Size, dim: int) -> np.ndarray:
    """Bits, [rows, cols], or [cols] as given."""
    bits = oracle.bits_of(tensor)
    if tensor.shape != shape:
        return bits  # of all rows
    moved = np.moveaxis(bits, dim, -1)
    return moved.reshape(math.prod(moved.shape[:-1]), moved.shape[-1])


def _holds(condition: Condition, shape: torch.Size, dim: int) -> np.ndarray:
    dtype = condition.column.dtype
    threshold = condition.threshold
    if not isinstance(threshold, torch.Tensor):
        threshold = torch.tensor(threshold, dtype=dtype)
    found_nan, found = oracle.comparable(_rows(condition.column, shape, dim), dtype, False)
    wanted_nan, wanted = oracle.comparable(oracle.bits_of(threshold).reshape(-1, 1), dtype, False)
    holds = COMPARISONS[condition.comparison](found, wanted)
    is_nan = found_nan | wanted_nan
    return np.where(is_nan, condition.comparison == "!=", holds)


def candidates(mask, shape: torch.Size, dim: int) -> np.ndarray:
    rows = math.prod(size for d, size in enumerate(shape) if d != dim % len(shape))
    kept = np.ones((rows, shape[dim]), bool)
    wheres = () if mask is None else (mask,) if isinstance(mask, (torch.Tensor, Condition)) else mask
    for where in wheres:
        if isinstance(where, Condition):
            kept &= _holds(where, shape, dim)
        else:
            kept &= _rows(where, shape, dim) != 0
    return kept


def assert_where(
    result: TopKWhere,
    score: torch.Tensor | Sequence[torch.Tensor],
    mask,
    k: int,
    dim: int = -1,
    *,
    largest: bool | Sequence[bool] = True,
    magnitude: bool | Sequence[bool] = False,
    order: str = "value",
    pad_index: int = -1,
    index_dtype: torch.dtype = torch.int64,
) -> None:
    """Every bit is compared; of order "any" the pairs of value and index as a set."""
    keys = (score,) if isinstance(score, torch.Tensor) else tuple(score)
    values = (result.values,) if isinstance(score, torch.Tensor) else result.values
    shape = keys[0].shape
    lead = [size for d, size in enumerate(shape) if d != dim % len(shape)]
    wanted_shape = list(shape)
    wanted_shape[dim] = k
    assert list(result.indices.shape) == wanted_shape and result.indices.dtype == index_dtype
    assert list(result.counts.shape) == lead and result.counts.dtype == torch.int32
    assert len(values) == len(keys)
    for value, key in zip(values, keys, strict=True):
        assert list(value.shape) == wanted_shape and value.dtype == key.dtype and value.is_contiguous()
    flags = [[flag] * len(keys) if isinstance(flag, bool) else list(flag) for flag in (largest, magnitude)]
    kept = candidates(mask, shape, dim)
    bits = [_rows(key, shape, dim) for key in keys]
    ranks = [
        oracle.ranks(own.reshape(-1), key.dtype, by_magnitude).reshape(own.shape) * (-1 if is_largest else 1)
        for own, key, is_largest, by_magnitude in zip(bits, keys, *flags, strict=True)
    ]
    found = [_rows(value, value.shape, dim) for value in values]
    found_at = np.moveaxis(result.indices.cpu().numpy(), dim, -1).reshape(len(kept), k)
    counts = result.counts.cpu().numpy().reshape(-1)
    pads = [pad_bits(key.dtype, *both) for key, both in zip(keys, zip(*flags, strict=True), strict=True)]
    for r, row in enumerate(kept):
        columns = np.flatnonzero(row)
        # The last is the first key; equal ones stay by index.
        winners = columns[np.lexsort([rank[r, columns] for rank in reversed(ranks)])][:k]
        count = len(winners)
        if order == "index":
            winners = np.sort(winners)
        own = found_at[r, :count]
        by_place = slice(None)
        if order == "any":
            winners, by_place = np.sort(winners), np.argsort(own)
        assert counts[r] == count, f"row {r} has count {counts[r]}, expected {count}"
        assert (own[by_place] == winners).all(), f"row {r} has indices {own}, expected {winners}"
        assert (found_at[r, count:] == pad_index).all(), f"row {r}: {found_at[r]} behind {count} winners"
        for i, pad in enumerate(pads):
            assert (found[i][r, :count][by_place] == bits[i][r, winners]).all(), f"row {r}, key {i}"
            assert (found[i][r, count:] == pad).all(), f"row {r}, key {i}: behind {count} winners"
