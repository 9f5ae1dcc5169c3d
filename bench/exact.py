"""Whether winners are the k best of a row, decided by counting: rows of billions need not be sorted for it.

Winners are right if they are elements of the row, none twice, and are all of those beyond the worst of them
and, of those equal to it, the ones with the lowest indices. For numbers without NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

PART = 2**27  # elements compared at once

Reduce = Callable[[Tensor, str], Tensor]  # over ranks: the tensor, and sum, min or max


def alone(tensor: Tensor, _: str) -> Tensor:
    return tensor


def problem_of(
    row: Tensor,
    values: Tensor,
    indices: Tensor,
    k: int,
    *,
    begin: int = 0,
    magnitude: bool = False,
    order: Literal["value", "index"] = "value",
    reduce: Reduce = alone,
) -> str | None:
    """What is wrong with those of a row's k winners that lie in [begin, begin + row's elements), or None.
    Where ranks have parts of a row, each calls it with the winners in its own, and `reduce` joins them."""

    def rank_of(x: Tensor) -> Tensor:
        return x.abs() if magnitude else x

    keys = rank_of(values)
    total = int(reduce(torch.tensor(values.numel(), device=row.device), "sum"))
    worst = keys.amin().double() if keys.numel() > 0 else torch.tensor(torch.inf, device=row.device).double()
    worst = reduce(worst, "min").to(row.dtype)
    ties = indices[keys == worst].long()
    last = int(reduce(ties.amax() if ties.numel() > 0 else torch.tensor(-1, device=row.device), "max"))

    places = indices.long() - begin
    if ((places < 0) | (places >= row.numel())).any():
        return f"an index is not in [{begin}, {begin + row.numel()})"
    if total != k:
        return f"{total} winners, not {k}"
    if not torch.equal(row[places], values):
        return "values are not those of the indices"
    if not in_order(keys, indices, order):
        return f"not in order of {order}, or an index twice"
    beyond = equal = 0
    for at in range(0, row.numel(), PART):
        part = rank_of(row[at : at + PART])
        beyond += int((part > worst).sum())
        equal += int((part[: max(0, last + 1 - begin - at)] == worst).sum())
    if beyond != int((keys > worst).sum()):
        return f"{beyond} elements are beyond the worst winner, and not as many winners"
    if equal != ties.numel():
        return f"{equal} elements equal to the worst winner come first, but {ties.numel()} of them won"
    return None


def in_order(keys: Tensor, indices: Tensor, order: str) -> bool:
    """Best first, equal ones by index; or by index alone. No index twice."""
    rises = indices[:-1] < indices[1:]
    if order == "index":
        return bool(rises.all())
    return bool(((keys[:-1] > keys[1:]) | ((keys[:-1] == keys[1:]) & rises)).all())
