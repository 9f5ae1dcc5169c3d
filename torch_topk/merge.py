"""Top-k of what lies in several places: merging lists of winners, and shards of a process group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed
from torch import Tensor

from . import _rows
from ._autograd import gather, moved
from ._messages import exchange, pack, unpack
from ._sharding import has_dtensor, is_dtensor
from .ops import topk

__all__ = ["Merged", "merge_topk", "topk_sharded"]


class Merged(NamedTuple):
    """What ``merge_topk`` and ``topk_sharded`` return."""

    values: Tensor
    ids: Tensor


def merge_topk(
    values: Tensor | Sequence[Tensor],
    ids: Tensor | Sequence[Tensor],
    k: int,
    *,
    largest: bool = True,
    order: Literal["value", "index", "any"] = "value",
    tie: Literal["id", "position"] = "id",
    unique: bool = False,
) -> Merged:
    """The ``k`` best of several lists of winners, such as those of the shards of a row.

    With ``tie="id"`` the result is what ``topk`` of the whole row gives, however the row is dealt out to
    shards: interleaved shards hold equal values whose positions say nothing of whose index is lower.

    Args:
        values: [shards, rows, k_s], or a list of [rows, k_i], of one dtype; any dtype of ``topk``.
        ids: of the same shapes, int32 or int64: what each value belongs to. Negative: padding, which never
            wins, whatever its value.
        k: how many, k >= 0; may exceed what there is.
        largest: the largest values, or the smallest.
        order: "value": best first, equal values by ``tie``. "index": by ascending id. "any": no promise.
        tie: of equal values, the lower id wins, or the earlier position: lists one after the other.
        unique: of values with equal ids the best alone counts.

    Returns:
        ``values`` and ``ids`` [rows, k]; a named tuple. Where there are fewer than k, padding stands behind:
        id -1 and the worst value (-inf where the largest are wanted, or the least integer). Values have
        gradients.

    Raises:
        TypeError, ValueError: an argument of another type or name.
        RuntimeError: shapes, dtypes or devices that do not fit together, a negative ``k``.

    Of DTensors, rows stay sharded as the first tensor's are; lists that lie on several ranks are gathered.

    Source: no paper: stable sorts of the entries by ``topk`` and torch. That equal values go to the lower id
    is this project's, so that shards give what ``topk`` of the whole row does.
    """
    name = "merge_topk"
    k = _checked_k(name, k, largest, order)
    _rows.check_choice(name, "tie", tie, ("id", "position"))
    _rows.check_bool(name, "unique", unique)
    if has_dtensor(values, ids, *_parts(values), *_parts(ids)):
        from . import _dtensor

        return _dtensor.merge_topk(values, ids, k, largest=largest, order=order, tie=tie, unique=unique)
    values, ids = _side_by_side(values, "values"), _side_by_side(ids, "ids")
    if values.shape != ids.shape:
        raise RuntimeError(
            f"{name}(): values and ids have different shapes: {list(values.shape)} and {list(ids.shape)}"
        )
    if ids.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{name}(): ids must be int32 or int64, not {ids.dtype}")
    if ids.device != values.device:
        raise RuntimeError(
            f"{name}(): ids must be on the values' device, {values.device}, but are on {ids.device}"
        )
    entries = values.size(-1)

    # topk's ties go to the lower position: entries are brought there by id.
    places = ids.argsort(dim=-1, stable=True) if tie == "id" else None
    by_id = values if places is None else gather(values, -1, places)
    ranking = topk(by_id.detach(), entries, largest=largest).indices
    ranking = ranking if places is None else places.gather(-1, ranking)
    ranked = ids.gather(-1, ranking)
    missing = ranked < 0
    if unique:
        missing = missing | _rows.repeated(ranked)
    # Padding behind all others, which stay in order.
    ranking = ranking.gather(-1, missing.to(torch.uint8).argsort(dim=-1, stable=True))[..., :k]
    present = torch.arange(ranking.size(-1), device=ids.device) < (~missing).sum(-1, keepdim=True)
    best_ids = ids.gather(-1, ranking).where(present, -1)
    if order == "index":
        last = torch.iinfo(ids.dtype).max  # an id may be that: a stable sort keeps it before padding
        by_index = best_ids.where(present, last).argsort(dim=-1, stable=True)
        ranking, best_ids = ranking.gather(-1, by_index), best_ids.gather(-1, by_index)
    worst = _rows.full_of(_rows.worst_value(values.dtype, largest, False), values)
    best = _rows.select(present, gather(values, -1, ranking), worst)
    if k > entries:
        more = (*values.shape[:-1], k - entries)
        best = _cat((best, worst.expand(more)))
        best_ids = torch.cat((best_ids, best_ids.new_full(more, -1)), -1)
    return Merged(best, best_ids)


def topk_sharded(
    input_local: Tensor,
    k: int,
    *,
    group: torch.distributed.ProcessGroup | None = None,
    offset: int | None = None,
    index_map: Callable[[Tensor], Tensor] | None = None,
    largest: bool = True,
    order: Literal["value", "index", "any"] = "value",
) -> Merged:
    """The ``k`` best of rows whose columns lie on the ranks of a process group: ``topk`` of the whole rows,
    bit for bit the same on all ranks.

    Each rank selects from its own columns, one all_gather exchanges the winners, and each rank merges them.

    Args:
        input_local: [rows, cols], this rank's columns; rows and dtype are those of all ranks, cols may
            differ.
        k: how many, the same on all ranks, k >= 0; may exceed what there is.
        group: the ranks; all by default.
        offset: the index in the whole row of this rank's first column. Neither given nor ``index_map``: the
            ranks' columns lie one behind the other, in the order of ranks.
        index_map: from int64 positions here to indices in the whole row, which must not be negative and must
            rise with the position: of interleaved shards ``lambda i: i * world_size + rank``.
        largest, order: as in ``merge_topk``.

    Returns:
        ``values`` and ``ids`` [rows, k], ids being int64 indices in the whole row; a named tuple. Where the
        whole row has fewer than k, padding stands behind as in ``merge_topk``. Without gradients.

    Raises:
        TypeError, ValueError: an argument of another type or name.
        RuntimeError: both ``offset`` and ``index_map``, a negative ``offset``, another shape than
            [rows, cols], a negative ``k``.

    All are raised before anything is sent, and on the rank with that argument alone.

    Source: A. Gaihre et al., "Dr. Top-k: Delegate-Centric Top-k on GPUs", SC '21, section 5.4: shards, local
    top-k, gather; without its bound, and with the merge on every rank.
    """
    name = "topk_sharded"
    k = _checked_k(name, k, largest, order)
    if not isinstance(input_local, Tensor):
        raise TypeError(f"{name}(): argument 'input_local' must be Tensor, not {type(input_local).__name__}")
    if offset is not None:
        offset = _rows.integer(name, "offset", offset, "int or None")
    if index_map is not None and not callable(index_map):
        raise TypeError(
            f"{name}(): argument 'index_map' must be callable or None, not {type(index_map).__name__}"
        )
    if offset is not None and index_map is not None:
        raise RuntimeError(f"{name}(): offset and index_map exclude each other")
    if is_dtensor(input_local):
        raise RuntimeError(
            f"{name}(): input_local is a DTensor, which topk() takes whole; its to_local() is what a rank has"
        )
    if input_local.dim() != 2:
        raise RuntimeError(f"{name}(): input_local must have 2 dimensions, but has {input_local.dim()}")
    rows, cols = input_local.shape
    if offset is not None and not 0 <= offset < 2**63 - cols:  # a negative id is padding
        raise RuntimeError(f"{name}(): offset must be in [0, 2^63 - {cols}), but is {offset}")
    group = torch.distributed.group.WORLD if group is None else group
    input_local = input_local.detach()

    values, indices = topk(input_local, min(k, cols), largest=largest)
    if index_map is not None:
        indices = index_map(indices)
    elif offset is not None:
        indices = indices + offset
    if cols < k:  # all ranks send as much
        values = _cat((values, values.new_empty((rows, k - cols))))
        indices = torch.cat((indices, indices.new_full((rows, k - cols), -1)), -1)

    size = torch.full((1,), cols, device=indices.device)
    mine = (values, indices, size)
    values, ids, sizes = unpack(exchange(pack(mine), group), mine)
    if offset is None and index_map is None:
        first = (sizes.cumsum(0) - sizes).unsqueeze(-1)
        ids = (ids + first).where(ids >= 0, -1)
    return merge_topk(values, ids, k, largest=largest, order=order)


def _checked_k(function: str, k: Any, largest: Any, order: Any) -> int:
    """``k``, after the checks of what both functions take."""
    k = _rows.integer(function, "k", k)
    if k < 0:
        raise RuntimeError(f"{function}(): k must be at least 0, but is {k}")
    _rows.check_bool(function, "largest", largest)
    _rows.check_choice(function, "order", order, ("value", "index", "any"))
    return k


def _parts(lists: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    return () if isinstance(lists, Tensor) else lists


def _side_by_side(lists: Tensor | Sequence[Tensor], name: str) -> Tensor:
    """[rows, all entries]."""
    if isinstance(lists, Tensor):
        if lists.dim() != 3:
            raise RuntimeError(
                f"merge_topk(): {name} must be [shards, rows, k] or a list of [rows, k], "
                f"but has {lists.dim()} dimensions"
            )
        return lists.movedim(0, 1).flatten(1)
    for part in lists:
        if not isinstance(part, Tensor):
            raise TypeError(f"merge_topk(): {name} must be Tensors, not {type(part).__name__}")
        if part.dim() != 2:
            raise RuntimeError(f"merge_topk(): {name} must have 2 dimensions each, but has {part.dim()}")
    if not lists:
        raise RuntimeError(f"merge_topk(): {name} has no lists")
    for i, part in enumerate(lists):
        for what, found, wanted in (
            ("dtype", part.dtype, lists[0].dtype),  # torch.cat would convert them
            ("device", part.device, lists[0].device),
            ("number of rows", part.size(0), lists[0].size(0)),
        ):
            if found != wanted:
                raise RuntimeError(
                    f"merge_topk(): the lists must have one {what}, but {name}[{i}] has {found} and "
                    f"{name}[0] {wanted}"
                )
    return _cat(lists)


def _cat(parts: Sequence[Tensor]) -> Tensor:
    """Along the last dimension, of every dtype."""
    return moved(lambda *parts: torch.cat(parts, -1), *parts)
