"""The k-th element, and what follows from it without a list of the k best: masks and thresholds."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from . import _rows
from ._autograd import gather, is_functorch_active, wants_derivative
from ._elsewhere import backend
from ._errors import call
from ._fakes import RowChecks
from ._libraries import registry
from ._sharding import has_dtensor
from .ops import _DTYPES, topk

__all__ = ["KthValue", "keep_topk", "keep_topk_", "kth_value", "topk_mask"]

_topk_kth = torch.ops.gputopk._topk_kth.default
_topk_mask = torch.ops.gputopk._topk_mask.default
_keep_topk = torch.ops.gputopk._keep_topk.default
_keep_topk_ = torch.ops.gputopk._keep_topk_.default


class KthValue(NamedTuple):
    """What ``kth_value`` returns."""

    values: Tensor
    indices: Tensor


def kth_value(
    input: Tensor,
    k: int | Tensor,
    dim: int = -1,
    largest: bool = True,
    *,
    magnitude: bool = False,
    lengths: Tensor | None = None,
) -> KthValue:
    """The ``k``-th best element along ``dim``, and where it is: the last that ``topk(input, k)`` selects.

    The pair tells the set exactly: an element is among the k best if it is better than the value, or equal to
    it at no higher an index. The value alone does not, as it may occur more often than k allows.

    Args:
        input: any shape, any dtype of ``topk``.
        k: counts from 1. An int in [1, size of dim], or int32 or int64 on input's device, of no dimension or
            of input's shape without ``dim``, which is never read on the host.
        dim: the dimension to select along.
        largest: the k-th largest, or the k-th smallest. (``torch.kthvalue`` counts from the smallest.)
        magnitude: order by absolute value.
        lengths: like a tensor ``k``: of each row only so many first elements count; clamped into
            [0, size of dim].

    Returns:
        ``values``, of input's dtype, and ``indices``, int64, of input's shape with ``dim`` of size 1; a named
        tuple. Where ``k`` is a tensor or there are lengths, and a row has no k-th element: index -1 and the
        worst value (-inf where the largest are wanted, or the least integer). Values have gradients. Of an
        int ``k`` both are views, which keep memory for k winners for as long as they live, unless k is at
        least 4096 and a sixteenth of the row.

    Raises:
        TypeError, IndexError: an argument of another type, ``dim`` out of range.
        RuntimeError: an int ``k`` out of range, shapes or devices that do not fit together.

    CPU and CUDA tensors; on other devices a tensor ``k``, or lengths, sort whole rows. Of a DTensor, rows
    stay sharded, and ``k`` and ``lengths`` are DTensors too, or of no dimension; where ``dim`` is sharded,
    winners are merged as in ``topk``, or, with a tensor ``k`` or lengths, rows gathered.

    Source: selection of the k-th alone is what "Optimizing top-K and selection algorithms on GPUs by
    split-bucket partition", 2024, has in section 3.4, and what the radix passes of AIR top-k find first
    (SC '23, section 3). Here an int ``k`` takes the cheapest of ``topk``'s algorithms, without an order among
    the others; a tensor ``k``, or lengths, those of ``topk_varlen``.
    """
    dim = _rows.check_dim("kth_value", input, dim)
    k = _rows.count("kth_value", k)
    _rows.check_bool("kth_value", "largest", largest)
    _rows.check_bool("kth_value", "magnitude", magnitude)
    cols = input.size(dim) if input.dim() > 0 else 1
    if not isinstance(k, Tensor):
        for holds in (k >= 1, k <= cols):
            if not holds:
                raise RuntimeError(
                    f"kth_value(): selected index k out of range: k is {k}, and dimension "
                    f"{dim % max(input.dim(), 1)} has size {cols}"
                )
    # Of a quantized tensor torch.topk itself has the k-th.
    if not (input.is_quantized and not isinstance(k, Tensor) and lengths is None):
        _check_dtype("kth_value", input)
    if has_dtensor(input, k, lengths):
        from . import _dtensor

        return _dtensor.kth_value(input, k, dim, largest, magnitude, lengths)
    rows = _with_dim_last(input, dim)
    is_there = not isinstance(k, Tensor) and lengths is None
    if is_there and not wants_derivative(rows):
        values, indices = _last_winner(rows, k, largest, magnitude)
    else:
        indices = _kth_index("kth_value", rows, k, largest, magnitude, lengths)
        if is_there:
            values = gather(rows, -1, indices)
        else:
            worst = _rows.full_of(_rows.worst_value(input.dtype, largest, magnitude), input)
            if cols == 0:
                values = worst.expand(indices.shape).clone()
            else:
                values = gather(rows, -1, indices.clamp(min=0))
                values = _rows.select(indices >= 0, values, worst)
    if input.dim() == 0:
        return KthValue(values.squeeze(-1), indices.squeeze(-1))
    return KthValue(values.movedim(-1, dim), indices.movedim(-1, dim))


def topk_mask(
    input: Tensor,
    k: int | Tensor,
    dim: int = -1,
    largest: bool = True,
    *,
    magnitude: bool = False,
    ties: Literal["index", "all"] = "index",
    lengths: Tensor | None = None,
) -> Tensor:
    """True at the ``k`` best elements along ``dim``: what ``topk`` selects, without a list.

    Args:
        input: any shape, any dtype of ``topk``.
        k: an int, or a tensor as in ``kth_value``. A row with k <= 0 or k >= the size of ``dim`` is left
            alone: True everywhere.
        dim, largest, magnitude: as in ``topk``.
        ties: "index": exactly k elements, of equal ones those of lower index. "all": also all that equal the
            k-th.
        lengths: as in ``kth_value``; elements behind a row's length are left alone: True.

    Returns:
        bool, of input's shape; of a DTensor, whatever dimension is sharded, placed as it is. It has no
        gradient.

    Raises:
        TypeError, ValueError, IndexError: an argument of another type or name, ``dim`` out of range.
        RuntimeError: shapes or devices that do not fit together.
    """
    return _mask("topk_mask", input, k, dim, largest, magnitude, ties, lengths)


def keep_topk(
    input: Tensor,
    k: int | Tensor,
    fill: float = -math.inf,
    dim: int = -1,
    largest: bool = True,
    *,
    magnitude: bool = False,
    ties: Literal["index", "all"] = "index",
    lengths: Tensor | None = None,
) -> Tensor:
    """A copy of ``input`` that has ``fill`` in place of all but the ``k`` best elements along ``dim``.

    Args:
        input: any shape, any dtype of ``topk``.
        k: as in ``topk_mask``: a row with k <= 0 or k >= the size of ``dim`` is left alone.
        fill: a number in the range of input's dtype, to which it is rounded: integers have no fractions and
            no -inf, and a finite number is not made infinite.
        dim, largest, magnitude, ties: as in ``topk_mask``.
        lengths: as in ``kth_value``; elements behind a row's length stay as they are.

    Returns:
        A tensor of input's shape and dtype; of a DTensor, whatever dimension is sharded, placed as it is.
        Gradients pass at elements that are kept.

    Raises:
        TypeError, ValueError, IndexError: an argument of another type or name, ``dim`` out of range.
        RuntimeError: a fill that the dtype does not hold, shapes or devices that do not fit together.
    """
    dim, k = _check("keep_topk", input, k, dim, largest, magnitude, ties)
    fill = fill_of("keep_topk", fill, input.dtype)
    if not wants_derivative(input):
        rows = _rows_served(input, k, dim, ties, lengths)
        if rows is not None:
            kept = call(_keep_topk, rows, k, _rows.bits_of_number(fill, input.dtype), largest=largest,
                        magnitude=magnitude)  # fmt: skip
            return _as_shaped(kept, input)
        if _is_listed(input, k, dim, ties, lengths):
            kept = torch.empty_like(input)
            _write_kept(kept, topk(input, k, dim, largest, False, magnitude=magnitude), fill, dim)
            return kept
    mask = _mask("keep_topk", input, k, dim, largest, magnitude, ties, lengths)
    return _rows.select(mask, input, _rows.full_of(fill, input))


def keep_topk_(
    input: Tensor,
    k: int | Tensor,
    fill: float = -math.inf,
    dim: int = -1,
    largest: bool = True,
    *,
    magnitude: bool = False,
    ties: Literal["index", "all"] = "index",
    lengths: Tensor | None = None,
) -> Tensor:
    """``keep_topk`` in place. Returns ``input``, no two elements of which may share memory, which is refused
    before anything is written. A DTensor must not be pending a reduction."""
    return keep_in_place("keep_topk_", input, k, fill, dim, largest, magnitude, ties, lengths)


def keep_in_place(
    function: str,
    input: Tensor,
    k: int | Tensor,
    fill: float,
    dim: int,
    largest: bool,
    magnitude: bool = False,
    ties: str = "index",
    lengths: Tensor | None = None,
    name: str = "input",
) -> Tensor:
    """``keep_topk_`` under the names that errors are to have."""
    dim, k = _check(function, input, k, dim, largest, magnitude, ties)
    fill = fill_of(function, fill, input.dtype)
    _rows.check_apart(function, name, input)
    if not wants_derivative(input):
        if input.is_neg():  # its memory holds the negatives
            kept = keep_topk(
                input.resolve_neg(), k, fill, dim, largest, magnitude=magnitude, ties=ties, lengths=lengths
            )
            return input.copy_(kept)
        rows = _rows_served(input, k, dim, ties, lengths)
        if rows is not None:
            bits = _rows.bits_of_number(fill, input.dtype)
            call(_keep_topk_, rows, k, bits, largest=largest, magnitude=magnitude)
            return input
        if _is_listed(input, k, dim, ties, lengths):
            _write_kept(input, topk(input, k, dim, largest, False, magnitude=magnitude), fill, dim)
            return input
    mask = _mask(function, input, k, dim, largest, magnitude, ties, lengths)
    bits = _rows.as_bits(input)
    if bits is input:
        return input.masked_fill_(~mask, fill)
    fill_of_dtype = _rows.full_of(fill, input)
    if not (input.is_floating_point() and wants_derivative(input)):
        bits.copy_(torch.where(mask, bits, _rows.as_bits(fill_of_dtype)))
    elif input.dim() > 0:  # a scalar is kept, whatever k is
        _fill_with_gradients(input, mask, fill_of_dtype)
    return input


def _fill_with_gradients(input: Tensor, mask: Tensor, fill: Tensor) -> None:
    """In place, of float8: torch cannot add its gradients, so backward is to see the input used once."""
    if input.requires_grad and torch.is_grad_enabled():
        try:
            places = (~mask).nonzero(as_tuple=True)
        except RuntimeError:
            pass  # under vmap, where backward will fail for want of that sum
        else:
            input.index_put_(places, fill)
            return
    input.copy_(_rows.select(mask, input, fill))


def _write_kept(out: Tensor, winners: tuple[Tensor, Tensor], fill: float, dim: int) -> None:
    # As integers: torch's scatter of float16 on the CPU changes NaN.
    values, indices = winners
    bits = _rows.integers_of(out)
    bits.fill_(_rows.bits_of_number(fill, out.dtype))
    bits.scatter_(dim, indices, _rows.integers_of(values))


def keep_pair(
    rows: Tensor,
    index: Tensor,
    largest: bool,
    magnitude: bool,
    ties: str,
    value: Tensor | None = None,
    position: Tensor | None = None,
    lengths: Tensor | None = None,
) -> Tensor:
    """True at elements of the last dimension that are no worse than the one at ``index``, [..., 1]; where
    that is -1, at all; and behind a row's length, where there are ``lengths``, [..., 1]. Of parts of rows:
    ``value``, what is at the index, and ``position``, which columns of the whole the part has."""
    rows = rows.detach()
    if value is None and position is None and backend(rows) != "torch":
        return _mask_of_kth(rows, index, lengths, largest, magnitude, ties)
    own = _rows.comparable(rows, magnitude)
    kth = own.gather(-1, index.clamp(min=0)) if value is None else _rows.comparable(value, magnitude)
    kept = ~_rows.better(kth, own, largest)
    if position is None:
        position = torch.arange(rows.size(-1), device=rows.device)
    if ties == "index":
        kept &= _rows.better(own, kth, largest) | (position <= index)
    kept = kept | (index < 0)
    return kept if lengths is None else kept | (position >= lengths)


def _mask(
    function: str,
    input: Tensor,
    k: int | Tensor,
    dim: int,
    largest: bool,
    magnitude: bool,
    ties: str,
    lengths: Tensor | None,
) -> Tensor:
    dim, k = _check(function, input, k, dim, largest, magnitude, ties)
    if has_dtensor(input, k, lengths):
        from . import _dtensor

        return _dtensor.mask(function, input, k, dim, largest, magnitude, ties, lengths)
    rows = _rows_served(input, k, dim, ties, lengths)
    if rows is not None:
        return _as_shaped(call(_topk_mask, rows, k, largest=largest, magnitude=magnitude), input)
    if _is_listed(input, k, dim, ties, lengths):
        indices = topk(input.detach(), k, dim, largest, False, magnitude=magnitude).indices
        return torch.zeros_like(input, dtype=torch.bool).scatter_(dim, indices, True)
    rows = _with_dim_last(input.detach(), dim)
    if rows.size(-1) == 0 or (not isinstance(k, Tensor) and (k <= 0 or k >= rows.size(-1))):
        return torch.ones(input.shape, dtype=torch.bool, device=input.device)
    index = _kth_index(function, rows, k, largest, magnitude, lengths)
    if lengths is not None:
        lengths = _rows.numbers_of_rows(function, "lengths", lengths, rows)
    mask = keep_pair(rows, index, largest, magnitude, ties, lengths=lengths)
    return mask.squeeze(-1) if input.dim() == 0 else mask.movedim(-1, dim)


def _check(
    function: str, input: Any, k: Any, dim: Any, largest: Any, magnitude: Any, ties: Any
) -> tuple[int, int | Tensor]:
    """``dim`` from the last, as a negative number, and ``k``."""
    dim = _rows.check_dim(function, input, dim)
    k = _rows.count(function, k)
    _rows.check_bool(function, "largest", largest)
    _rows.check_bool(function, "magnitude", magnitude)
    _rows.check_choice(function, "ties", ties, ("index", "all"))
    _check_dtype(function, input)
    return dim, k


def _check_dtype(function: str, input: Tensor) -> None:
    if input.dtype not in _DTYPES:
        raise NotImplementedError(f"{function}(): not implemented for {input.dtype}")


# As kListedColsPerK in csrc/core/mask_problem.h.
_LISTED_COLS_PER_K = 16


def _has_one_k(input: Tensor, k: int | Tensor, ties: str, lengths: Tensor | None) -> bool:
    if isinstance(k, Tensor) or lengths is not None or ties != "index" or has_dtensor(input):
        return False
    if is_functorch_active():  # vmap has no rule for a scatter of one number, nor for operators of rows
        return False
    return backend(input) != "torch"


def _rows_served(
    input: Tensor, k: int | Tensor, dim: int, ties: str, lengths: Tensor | None
) -> Tensor | None:
    """The input as rows of adjacent elements, [rows, cols], where operators of these do it all."""
    if dim != -1 or input.dim() == 0 or not _has_one_k(input, k, ties, lengths):
        return None
    cols = input.size(-1)
    if not 0 < k < cols:
        return None
    if input.dim() == 2:  # as most are: no view costs the host anything
        return input if input.stride(1) == 1 else None
    return input.view(-1, cols) if input.is_contiguous() else None


def _as_shaped(rows: Tensor, input: Tensor) -> Tensor:
    return rows if input.dim() == 2 else rows.view(input.shape)


def _is_listed(input: Tensor, k: int | Tensor, dim: int, ties: str, lengths: Tensor | None) -> bool:
    """Whether winners are listed and marked, wherever rows lie: less than to read all elements once more."""
    cols = input.size(dim) if input.dim() > 0 else 1
    return _has_one_k(input, k, ties, lengths) and k > 0 and k * _LISTED_COLS_PER_K <= cols


def _mask_of_kth(
    rows: Tensor, index: Tensor, lengths: Tensor | None, largest: bool, magnitude: bool, ties: str
) -> Tensor:
    """Of the last dimension; ``index`` and ``lengths``: [..., 1]."""
    flat = rows.reshape(-1, rows.size(-1))
    lengths = None if lengths is None else lengths.reshape(-1)
    options = {"largest": largest, "magnitude": magnitude, "equals": ties == "all"}
    mask = call(torch.ops.gputopk._mask_of_kth, flat, index.reshape(-1), lengths, **options)
    return mask.view(rows.shape)


def _with_dim_last(input: Tensor, dim: int) -> Tensor:
    return input.unsqueeze(-1) if input.dim() == 0 else input.movedim(dim, -1)


# Of so many winners, if they are such a part of a row, the last is copied.
_COPIED, _COPIED_COLS_PER_K = 4096, 16


def _last_winner(rows: Tensor, k: int, largest: bool, magnitude: bool) -> tuple[Tensor, Tensor]:
    """The last of the k best of the last dimension, [..., 1], without gradients."""
    if backend(rows) == "torch":
        winners = topk(rows, k, largest=largest, magnitude=magnitude)
    else:  # only the last has to be in its place
        winners = call(_topk_kth, rows, k, -1, largest, magnitude=magnitude)
    # Views: copies are kernels of their own, which many short rows would pay for by half. But so much memory
    # is not held on to for one winner.
    values, indices = (one[..., -1:] for one in winners)
    is_much = k >= _COPIED and k * _COPIED_COLS_PER_K >= rows.size(-1)
    return (values.clone(), indices.clone()) if is_much else (values, indices)


def _kth_index(
    function: str,
    rows: Tensor,
    k: int | Tensor,
    largest: bool,
    magnitude: bool,
    lengths: Tensor | None,
) -> Tensor:
    """Where the k-th element of the last dimension is, int64 [..., 1]; -1 where a row has none."""
    rows = rows.detach()
    if not isinstance(k, Tensor) and lengths is None:
        return _last_winner(rows, k, largest, magnitude)[1]
    cols = rows.size(-1)
    if isinstance(k, Tensor):
        rank = _rows.numbers_of_rows(function, "k", k, rows)
    else:
        rank = torch.full((*rows.shape[:-1], 1), k, device=rows.device)
    if cols == 0:
        return torch.full_like(rank, -1)
    if backend(rows) != "torch":
        sizes = lengths
        if sizes is not None:
            sizes = _rows.numbers_of_rows(function, "lengths", sizes, rows).reshape(-1)
        flat = rows.reshape(-1, cols)
        options = {"lengths": sizes, "largest": largest, "magnitude": magnitude}
        index = call(torch.ops.gputopk.kth_value, flat, rank.reshape(-1), **options)[1]
        return index.view(rank.shape)
    return _kth_by_sorting(function, rows, rank, largest, magnitude, lengths)


def _kth_by_sorting(
    function: str, rows: Tensor, rank: Tensor, largest: bool, magnitude: bool, lengths: Tensor | None
) -> Tensor:
    cols = rows.size(-1)
    ranking = topk(rows, cols, largest=largest, magnitude=magnitude).indices
    if lengths is not None:
        inside = ranking < _rows.numbers_of_rows(function, "lengths", lengths, rows)
        # Those inside, in the order that they have, before the others.
        ranking = ranking.gather(-1, inside.to(torch.int8).argsort(dim=-1, descending=True, stable=True))
        counts = inside.sum(-1, keepdim=True)
    else:
        counts = torch.full_like(rank, cols)
    index = ranking.gather(-1, (rank - 1).clamp(0, cols - 1))
    return index.where((rank >= 1) & (rank <= counts), -1)


def _range_of(dtype: torch.dtype) -> tuple[float, float]:
    if dtype == torch.bool:
        return 0, 1
    info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return info.min, info.max


_RANGES = {dtype: _range_of(dtype) for dtype in _DTYPES}


def fill_of(function: str, fill: Any, dtype: torch.dtype) -> float | int | bool:
    """``fill`` as a number of the dtype's kind. The kernels that it may come to would cut it, make it
    infinite or refuse it, each in its own way."""
    # A float, as most are, is asked no more than has to be: short calls would notice.
    if type(fill) is not float and not isinstance(fill, (int, torch.SymInt, torch.SymFloat)):
        if not isinstance(fill, Real):
            raise TypeError(f"{function}(): argument 'fill' must be a number, not {type(fill).__name__}")
        fill = int(fill) if isinstance(fill, Integral) else float(fill)
    least, most = _RANGES[dtype]
    fits = least <= fill <= most  # of neither infinity nor NaN
    if dtype.is_floating_point:
        if fits or fill != fill or (fill in (math.inf, -math.inf) and dtype != torch.float8_e4m3fn):
            return float(fill)
    elif fits and int(fill) == fill:
        return bool(fill) if dtype == torch.bool else int(fill)
    raise RuntimeError(f"{function}(): fill is {fill}, which {dtype} does not hold")


# What the stable ABI cannot register ------------------------------------------------------------------

for _name in ("kth_value", "_mask_of_kth", "_topk_mask", "_keep_topk", "_keep_topk_"):
    registry.impl(_name, torch.library.fallthrough_kernel, "Autograd")


def _checked(op: str, input: Tensor, **of_rows: Tensor | None) -> RowChecks:
    """After the checks of an operator's numbers of rows."""
    checks = RowChecks(op, input)
    for name, numbers in of_rows.items():
        if numbers is not None:
            checks.one_a_row(name, numbers)
            checks.integers(name, numbers)
            checks.device(name, numbers)
    return checks


@torch.library.register_fake("gputopk::kth_value")
def _(self, k, *, lengths=None, largest=True, magnitude=False):
    rows = _checked("kth_value", self, k=k, lengths=lengths).rows
    return self.new_empty((rows, 1)), self.new_empty((rows, 1), dtype=torch.int64)


@torch.library.register_fake("gputopk::_mask_of_kth")
def _(self, index, lengths=None, *, largest=True, magnitude=False, equals=False):
    checks = _checked("_mask_of_kth", self, index=index, lengths=lengths)
    return self.new_empty((checks.rows, checks.cols), dtype=torch.bool)


def _check_of_rows(op: str, self: Tensor, k: int) -> RowChecks:
    checks = RowChecks(op, self)
    checks.check(k >= 1 and k <= checks.cols, f"k must be in [1, {checks.cols}], but is {k}")
    return checks


@torch.library.register_fake("gputopk::_topk_mask")
def _(self, k, *, largest=True, magnitude=False):
    _check_of_rows("_topk_mask", self, k)
    return self.new_empty(self.shape, dtype=torch.bool)


@torch.library.register_fake("gputopk::_keep_topk")
def _(self, k, fill, *, largest=True, magnitude=False):
    _check_of_rows("_keep_topk", self, k)
    return self.new_empty(self.shape)


@torch.library.register_fake("gputopk::_keep_topk_")
def _(self, k, fill, *, largest=True, magnitude=False):
    """Refuses what the operator refuses, in its words, but for memory that is shared."""
    _check_of_rows("_keep_topk", self, k).check(
        self.stride(1) == 1 or self.size(1) == 1,
        f"self's elements of a row must be adjacent, but are {self.stride(1)} apart",
    )
