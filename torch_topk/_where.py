"""Top-k of what passes a filter, by one key or several: ORDER BY a, b WHERE ... LIMIT k, without a copy of
the input that has the others masked out."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from . import _rows
from ._autograd import gather, wants_derivative
from ._errors import call
from ._fakes import RowChecks
from ._libraries import registry
from ._sharding import has_dtensor
from .ops import topk

__all__ = ["Condition", "TopKWhere", "topk_where"]

MOST_KEYS = 4
MOST_CONDITIONS = 4

_ORDERS = ("any", "value", "index")  # the operator's numbers, as of the comparisons
_COMPARISONS = ("<", "<=", "==", "!=", ">=", ">")
_SAME_KEY, _SAME_MAGNITUDE = 6, 7
_NOT_EQUAL = _COMPARISONS.index("!=")


class Condition(NamedTuple):
    """Where ``column`` compares with ``threshold``, for ``topk_where``'s mask.

    column: of the score's shape, or [cols] for all rows; any dtype of ``topk``.
    comparison: "<", "<=", "==", "!=", ">=" or ">". As PyTorch compares: of a NaN all but "!=" are False.
    threshold: a number, which an integer column's dtype must hold, and which a floating one's is rounded to;
        or a tensor of column's dtype on its device, of no dimension or of score's shape without ``dim``.
    """

    column: Tensor
    comparison: Literal["<", "<=", "==", "!=", ">=", ">"]
    threshold: float | int | bool | Tensor


Where = Tensor | Condition | Sequence[Tensor | Condition] | None


class TopKWhere(NamedTuple):
    """What ``topk_where`` returns."""

    values: Tensor | tuple[Tensor, ...]
    indices: Tensor
    counts: Tensor


def topk_where(
    score: Tensor | Sequence[Tensor],
    mask: Where,
    k: int,
    dim: int = -1,
    *,
    largest: bool | Sequence[bool] = True,
    magnitude: bool | Sequence[bool] = False,
    order: Literal["value", "index", "any"] = "value",
    pad_index: int = -1,
    index_dtype: torch.dtype = torch.int64,
) -> TopKWhere:
    """The ``k`` best along ``dim`` among the elements that pass ``mask``: ORDER BY score WHERE mask LIMIT k.

    The set is exact, and a function of the input alone. Elements are compared by the first key, those that
    are equal by the next, and those that are equal in all keys by index, the lower first.

    Args:
        score: the key, of any shape but [] and any dtype of ``topk``; or up to four keys, in a tuple, of one
            shape and device.
        mask: which elements are candidates: a bool tensor, of score's shape or [cols] for all rows; a
            ``Condition``; a sequence of these, all of which must hold; or None. A mask, and beside it at most
            four more masks and conditions.
        k: places of a row in the outputs, 0 <= k < 2**31; may exceed the size of ``dim``.
        dim: the dimension to select along. A tensor whose elements are not adjacent along it is copied.
        largest, magnitude: as in ``topk``; one for all keys, or as many as there are keys.
        order: of the winners. "value": best first. "index": by ascending index. "any": no promise.
        pad_index: what stands behind the winners.
        index_dtype: torch.int64, or torch.int32 where score.size(dim) < 2**31.

    Returns:
        ``values`` of the key, or a tuple of those of each key, of its dtype, and ``indices``, both
        contiguous, of score's shape with ``k`` in place of score.size(dim); and ``counts``, int32, of score's
        shape without ``dim``: how many winners a row has. A named tuple. Winners stand first; behind them
        ``pad_index`` and the worst value (-inf where the largest are wanted, or the least integer; 0 for the
        largest by magnitude). Values have gradients, as ``score.gather(dim, indices)`` has.

    Raises:
        TypeError, ValueError: an argument of another type or name; too many keys or conditions.
        IndexError: ``dim`` out of range.
        RuntimeError: an argument out of range, shapes, dtypes or devices that do not fit together. Raised
            before anything is launched.
        torch.OutOfMemoryError: the outputs or the workspace do not fit.

    CPU and CUDA tensors. Nothing is read on the host, whatever the mask holds: safe in a CUDA graph. Several
    keys take a selection each; the later ones look, on the device, at those rows alone where elements that
    equal the k-th are left over. Of DTensors, rows stay sharded, and ``dim`` must not be.

    Source: the query of A. Shanbhag, H. Pirk, S. Madden, "Efficient Top-K Query Processing on Massively
    Parallel Hardware", SIGMOD '18, section 5 and figure 14.
    """
    keys = (score,) if isinstance(score, Tensor) else tuple(_listed("score", score))
    wheres = () if mask is None else (mask,) if isinstance(mask, (Tensor, Condition)) else tuple(
        _listed("mask", mask)
    )  # fmt: skip
    tensors = (*keys, *(part for where in wheres for part in _tensors_of(where)))
    if has_torch_function(tensors):
        return handle_torch_function(
            topk_where, tensors, score, mask, k, dim, largest=largest, magnitude=magnitude, order=order,
            pad_index=pad_index, index_dtype=index_dtype,
        )  # fmt: skip
    _check_keys(keys)
    dim = _rows.check_dim("topk_where", keys[0], dim)
    k = _rows.integer("topk_where", "k", k)
    pad_index = _rows.integer("topk_where", "pad_index", pad_index)
    _rows.check_dtype("topk_where", "index_dtype", index_dtype)
    _rows.check_choice("topk_where", "order", order, _ORDERS)
    flags = [
        _Key(*both)
        for both in zip(
            _each("largest", largest, len(keys)), _each("magnitude", magnitude, len(keys)), strict=True
        )
    ]
    options = {"order": order, "pad_index": pad_index, "index_dtype": index_dtype}
    if has_dtensor(*tensors):
        from . import _dtensor

        options |= {"largest": [f.largest for f in flags], "magnitude": [f.magnitude for f in flags]}
        found = _dtensor.topk_where(keys, wheres, k, dim, options)
        values = found.values[0] if isinstance(score, Tensor) else found.values
        return TopKWhere(values, found.indices, found.counts)

    lead = keys[0].movedim(dim, -1).shape[:-1]
    rows = [_in_rows(key, dim) for key in keys]
    filter = _filter_of(wheres, keys[0], dim)
    if len(keys) == 1:
        values, indices, counts = _select(rows[0], k, filter, flags[0], **options)
        if rows[0].is_floating_point() and wants_derivative(rows[0]):
            values = _values_at(rows[0], indices, counts, flags[0])
        found = [values]
    else:
        found, indices, counts = _select_by_keys(rows, k, filter, flags, options)

    def shaped(tensor: Tensor) -> Tensor:
        return tensor.view(*lead, k).movedim(-1, dim).contiguous()

    values = tuple(map(shaped, found))
    return TopKWhere(values[0] if isinstance(score, Tensor) else values, shaped(indices), counts.view(lead))


# Arguments ---------------------------------------------------------------------------------------------


class _Key(NamedTuple):
    largest: bool
    magnitude: bool


class _Filter(NamedTuple):
    """As the operator has it."""

    mask: Tensor | None
    columns: list[Tensor]
    comparisons: list[int]
    thresholds: list[Tensor]

    def also(self, column: Tensor, comparison: int, threshold: Tensor) -> _Filter:
        return _Filter(
            self.mask,
            [*self.columns, column],
            [*self.comparisons, comparison],
            [*self.thresholds, threshold],
        )


def _listed(name: str, given: Any) -> Sequence[Any]:
    if not isinstance(given, (tuple, list)):
        raise TypeError(
            f"topk_where(): argument '{name}' must be Tensor or tuple, not {type(given).__name__}"
        )
    return given


def _tensors_of(where: Any) -> list[Tensor]:
    parts = (where.column, where.threshold) if isinstance(where, Condition) else (where,)
    return [part for part in parts if isinstance(part, Tensor)]


def _check_keys(keys: tuple[Any, ...]) -> None:
    if not 1 <= len(keys) <= MOST_KEYS:
        raise ValueError(f"topk_where(): score must have 1 to {MOST_KEYS} keys, but has {len(keys)}")
    for i, key in enumerate(keys):
        if not isinstance(key, Tensor):
            raise TypeError(f"topk_where(): score[{i}] must be Tensor, not {type(key).__name__}")
        for what, found, wanted in (
            ("shape", key.shape, keys[0].shape),
            ("device", key.device, keys[0].device),
        ):
            if found != wanted:
                raise RuntimeError(
                    f"topk_where(): the keys must have one {what}, but score[{i}] has {_text(found)} and "
                    f"score[0] {_text(wanted)}"
                )
    if keys[0].dim() == 0:
        raise RuntimeError("topk_where(): score must have at least 1 dimension, but has 0")


def _text(found: Any) -> str:
    return str(list(found)) if isinstance(found, torch.Size) else str(found)


def _each(name: str, flag: Any, count: int) -> list[bool]:
    """One flag a key."""
    each = [flag] * count if isinstance(flag, bool) else list(_listed_flags(name, flag))
    if len(each) != count:
        raise ValueError(f"topk_where(): {name} has {len(each)} flags, but there are {count} keys")
    return each


def _listed_flags(name: str, flags: Any) -> Sequence[bool]:
    if not isinstance(flags, (tuple, list)) or not all(isinstance(flag, bool) for flag in flags):
        raise TypeError(f"topk_where(): argument '{name}' must be bool, or a tuple of bools, not {flags!r}")
    return flags


def _in_rows(tensor: Tensor, dim: int) -> Tensor:
    moved = tensor.movedim(dim, -1)
    return moved.reshape(math.prod(moved.shape[:-1]), moved.size(-1))


def _beside(name: str, tensor: Any, key: Tensor, dim: int) -> Tensor:
    """[rows, cols], or [cols] for all rows."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"topk_where(): {name} must be Tensor, not {type(tensor).__name__}")
    if tensor.device != key.device:
        raise RuntimeError(
            f"topk_where(): {name} must be on the score's device, {key.device}, but is on {tensor.device}"
        )
    if tensor.shape == key.shape:
        return _in_rows(tensor, dim)
    if tensor.dim() == 1 and tensor.size(0) == key.size(dim):
        return tensor
    raise RuntimeError(
        f"topk_where(): {name} must have shape {list(key.shape)} or [{key.size(dim)}], "
        f"but has {list(tensor.shape)}"
    )


def _filter_of(wheres: tuple[Any, ...], key: Tensor, dim: int) -> _Filter:
    filter = _Filter(None, [], [], [])
    for i, where in enumerate(wheres):
        name = "mask" if len(wheres) == 1 else f"mask[{i}]"
        if isinstance(where, Condition):
            column = _beside(f"{name}.column", where.column, key, dim)
            _rows.check_choice("topk_where", f"{name}.comparison", where.comparison, _COMPARISONS)
            threshold = _threshold(f"{name}.threshold", where.threshold, column, key, dim)
            filter = filter.also(column, _COMPARISONS.index(where.comparison), threshold)
            continue
        mask = _beside(name, where, key, dim)
        if mask.dtype != torch.bool:
            raise RuntimeError(f"topk_where(): {name} must be bool, not {mask.dtype}")
        if filter.mask is None:
            filter = filter._replace(mask=mask)
        else:
            filter = filter.also(mask, _NOT_EQUAL, _rows.full_of(False, mask))
    if len(filter.columns) > MOST_CONDITIONS:
        raise ValueError(
            f"topk_where(): mask may have {MOST_CONDITIONS} conditions beside one mask, "
            f"but has {len(filter.columns)}"
        )
    return filter


def _threshold(name: str, threshold: Any, column: Tensor, key: Tensor, dim: int) -> Tensor:
    if isinstance(threshold, Tensor):
        if threshold.dtype != column.dtype:
            raise RuntimeError(
                f"topk_where(): {name} must have its column's dtype, {column.dtype}, not {threshold.dtype}"
            )
        threshold = _rows.one_a_row("topk_where", name, threshold, key.movedim(dim, -1), "score's")
        return threshold.reshape(-1)
    if not isinstance(threshold, (bool, int, float, torch.SymInt, torch.SymFloat)):
        raise TypeError(f"topk_where(): {name} must be a number or Tensor, not {type(threshold).__name__}")
    if not column.dtype.is_floating_point:
        least, most = _range_of(column.dtype)
        # Of a fraction or NaN neither holds.
        if not least <= threshold <= most or int(threshold) != threshold:
            raise RuntimeError(
                f"topk_where(): {name} is {threshold}, but must be an integer in [{least}, {most}], "
                f"as its column is {column.dtype}"
            )
    return _rows.full_of(threshold, column)


def _range_of(dtype: torch.dtype) -> tuple[int, int]:
    if dtype == torch.bool:
        return 0, 1
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


# Selection ---------------------------------------------------------------------------------------------


def _select(
    rows: Tensor,
    k: int,
    filter: _Filter,
    flags: _Key,
    *,
    order: str = "value",
    pad_index: int = -1,
    index_dtype: torch.dtype = torch.int64,
    row_k: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """By one key: values, indices and counts of [rows, cols]."""
    return call(
        torch.ops.gputopk.topk_where.default, rows, k, filter.columns, filter.comparisons, filter.thresholds,
        filter.mask, row_k, largest=flags.largest, magnitude=flags.magnitude, order=_ORDERS.index(order),
        pad_index=pad_index, index_dtype=index_dtype,
    )  # fmt: skip


def _select_by_keys(
    keys: list[Tensor], k: int, filter: _Filter, flags: list[_Key], options: dict[str, Any]
) -> tuple[list[Tensor], Tensor, Tensor]:
    """Values of each key, indices and counts of [rows, cols]. By stages: of the winners by one key those that
    are better than the last of them are sure; the next key decides, where there are too many, among those
    that equal it. A row without such has no winners in later stages, and costs them nothing."""
    few = min(k, keys[0].size(-1))
    found, sure = [], []
    needed = row_k = None
    for stage, (key, flag) in enumerate(zip(keys, flags, strict=True)):
        later = len(keys) - 1 - stage
        # One place more, to see whether another equals the last that is needed.
        values, indices, counts = _select(
            key, few + (later > 0), filter, flag, row_k=row_k, index_dtype=options["index_dtype"]
        )
        if later:
            counts, needed, row_k, last = call(
                torch.ops.gputopk._settle_stage, values, counts, needed, few, int(later > 1), *flag
            )
            filter = filter.also(key, _SAME_MAGNITUDE if flag.magnitude else _SAME_KEY, last)
        found.append(indices)
        sure.append(counts)
    join = functools.partial(_join, keys, found, sure, k, few, flags)
    if keys[0].is_cuda and few > _MOST_ORDERED and options["order"] != "any":
        values, indices, counts = join(order="any", pad_index=keys[0].size(-1))
        values, indices = _in_order(keys, indices, counts, flags, options)
    else:
        values, indices, counts = join(order=options["order"], pad_index=options["pad_index"])
    for i, (key, flag) in enumerate(zip(keys, flags, strict=True)):
        if key.is_floating_point() and wants_derivative(key):
            values[i] = _values_at(key, indices, counts, flag)
    return values, indices, counts


_MOST_ORDERED = 2048  # winners of a row that the operator puts in order on CUDA


def _join(
    keys: list[Tensor],
    found: list[Tensor],
    sure: list[Tensor],
    k: int,
    few: int,
    flags: list[_Key],
    order: str,
    pad_index: int,
) -> tuple[list[Tensor], Tensor, Tensor]:
    """The winners of all stages, in one of the operator's orders."""
    values, indices, counts = call(
        torch.ops.gputopk._join_stages, keys, found, sure, k, few, [flag.largest for flag in flags],
        [flag.magnitude for flag in flags], _ORDERS.index(order), pad_index,
    )  # fmt: skip
    return list(values), indices, counts


def _in_order(
    keys: list[Tensor], ids: Tensor, counts: Tensor, flags: list[_Key], options: dict[str, Any]
) -> tuple[list[Tensor], Tensor]:
    """Of winners in any order, behind them cols: values and indices in the order that is asked for. By stable
    selections of whole rows, from the last key to the first."""
    cols = keys[0].size(-1)
    ids = topk(ids, ids.size(-1), largest=False).values
    if options["order"] == "value":
        for key, flag in zip(reversed(keys), reversed(flags), strict=True):
            own = gather(key.detach(), -1, ids.clamp(max=cols - 1))
            # topk keeps equal elements in order.
            ranking = topk(own, ids.size(-1), largest=flag.largest, magnitude=flag.magnitude).indices
            ids = ids.gather(-1, ranking)
        ids = ids.gather(-1, (ids == cols).to(torch.uint8).argsort(dim=-1, stable=True))
    values = [_values_at(key, ids, counts, flag) for key, flag in zip(keys, flags, strict=True)]
    return values, ids.where(ids < cols, options["pad_index"])


def _values_at(rows: Tensor, indices: Tensor, counts: Tensor, flags: _Key) -> Tensor:
    """The elements at the winners' indices, with gradients, and the worst value behind them."""
    worst = _rows.full_of(_rows.worst_value(rows.dtype, flags.largest, flags.magnitude), rows)
    if rows.size(-1) == 0:
        return worst.expand(indices.shape).clone()
    is_winner = torch.arange(indices.size(-1), device=rows.device) < counts.unsqueeze(-1)
    return _rows.select(is_winner, gather(rows, -1, indices.long().where(is_winner, 0)), worst)


# What the stable ABI cannot register ------------------------------------------------------------------

for _name in ("topk_where", "_settle_stage", "_join_stages"):
    registry.impl(_name, torch.library.fallthrough_kernel, "Autograd")


@torch.library.register_fake("gputopk::topk_where")
def _(self, k, columns, comparisons, thresholds, mask=None, row_k=None, *, index_dtype=None, **options):
    checks = RowChecks("topk_where", self)
    index_dtype = index_dtype or torch.int64
    checks.k_and_index_dtype(k, index_dtype)
    if mask is not None:
        checks.device("mask", mask)
        checks.mask(mask)
    if row_k is not None:
        checks.one_a_row("row_k", row_k)
        checks.integers("row_k", row_k)
        checks.device("row_k", row_k)
    checks.check(
        len(columns) == len(comparisons) == len(thresholds),
        f"columns, comparisons and thresholds must be as many, but are {len(columns)}, {len(comparisons)} "
        f"and {len(thresholds)}",
    )
    for i, (column, threshold) in enumerate(zip(columns, thresholds, strict=True)):
        checks.columns(f"columns[{i}]", column)
        checks.device(f"columns[{i}]", column)
        checks.check(
            threshold.dtype == column.dtype,
            f"thresholds[{i}] must have the dtype of its column, {column.dtype}, not {threshold.dtype}",
        )
        words = f"thresholds[{i}] must have shape [] or [{checks.rows}], a number a row"
        checks.check(threshold.dim() <= 1, words)
        if threshold.dim() == 1:
            checks.check(threshold.size(0) == checks.rows, words)
        checks.device(f"thresholds[{i}]", threshold)
    rows = checks.rows
    indices = self.new_empty((rows, k), dtype=index_dtype)
    return self.new_empty((rows, k)), indices, self.new_empty((rows,), dtype=torch.int32)


@torch.library.register_vmap("gputopk::topk_where")
def _(info, in_dims, self, k, columns, comparisons, thresholds, mask=None, row_k=None, **options):
    """Examples become rows."""
    self_dim, _, column_dims, _, threshold_dims, *more_dims = in_dims
    mask_dim, row_k_dim = (*more_dims, None, None)[:2]
    examples = info.batch_size
    rows, cols = (size for dim, size in enumerate(self.shape) if dim != self_dim)

    def spread(tensor: Tensor, dim: int | None, *shape: int) -> Tensor:
        """Of every example's rows; what one number or row of all examples is stays that."""
        if dim is None and tensor.dim() < len(shape):
            return tensor
        if dim is not None:
            tensor = tensor.movedim(dim, 0)
            while tensor.dim() <= len(shape):
                tensor = tensor.unsqueeze(1)
        return tensor.expand(examples, *shape).reshape(examples * rows, *shape[1:])

    outputs = torch.ops.gputopk.topk_where(
        spread(self, self_dim, rows, cols), k,
        [spread(column, dim, rows, cols) for column, dim in zip(columns, column_dims, strict=True)],
        comparisons,
        [spread(threshold, dim, rows) for threshold, dim in zip(thresholds, threshold_dims, strict=True)],
        None if mask is None else spread(mask, mask_dim, rows, cols),
        None if row_k is None else spread(row_k, row_k_dim, rows),
        **options,
    )  # fmt: skip
    return tuple(output.view(examples, rows, *output.shape[1:]) for output in outputs), (0, 0, 0)


@torch.library.register_fake("gputopk::_settle_stage")
def _(values, counts, needed, k, spare, largest, magnitude):
    numbers = [torch.empty_like(counts) for _ in range(3)]
    return *numbers, values.new_empty((values.size(0),))


@torch.library.register_fake("gputopk::_join_stages")
def _(keys, found, counts, k, most, largest, magnitude, order, pad_index):
    rows = keys[0].size(0)
    values = [key.new_empty((rows, k)) for key in keys]
    return values, found[0].new_empty((rows, k)), torch.empty_like(counts[0])


def _all_rows(tensor: Tensor, dim: int | None, examples: int) -> Tensor:
    """The rows of every example, one behind the other."""
    tensor = tensor.expand(examples, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return tensor.reshape(-1, *tensor.shape[2:]).contiguous()


@torch.library.register_vmap("gputopk::_settle_stage")
def _(info, in_dims, values, counts, needed, *numbers):
    tensors = [
        None if tensor is None else _all_rows(tensor, dim, info.batch_size)
        for tensor, dim in zip((values, counts, needed), in_dims, strict=False)
    ]
    outputs = torch.ops.gputopk._settle_stage(*tensors, *numbers)
    return tuple(output.view(info.batch_size, -1) for output in outputs), (0, 0, 0, 0)


@torch.library.register_vmap("gputopk::_join_stages")
def _(info, in_dims, keys, found, counts, *numbers):
    lists = [
        [_all_rows(tensor, dim, info.batch_size) for tensor, dim in zip(tensors, dims, strict=True)]
        for tensors, dims in zip((keys, found, counts), in_dims, strict=False)
    ]
    values, indices, totals = torch.ops.gputopk._join_stages(*lists, *numbers)
    examples = info.batch_size
    values = [value.view(examples, -1, value.size(-1)) for value in values]
    outputs = values, indices.view(examples, -1, indices.size(-1)), totals.view(examples, -1)
    return outputs, ([0] * len(values), 0, 0)
