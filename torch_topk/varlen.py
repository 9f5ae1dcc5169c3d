"""Top-k of ragged rows: each with a start, a length and a k of its own, on the device."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from . import _rows
from ._errors import call
from ._fakes import RowChecks
from ._libraries import registry
from ._out import is_negative
from ._sharding import has_dtensor

__all__ = ["TopKVarlen", "topk_varlen"]

_ORDERS = ("any", "value", "index")  # the operator's numbers
_OF_ROWS = ("lengths", "starts", "row_k", "offsets", "page_row", "page_start")
_TENSORS = (
    "input", "lengths", "starts", "row_k", "mask", "offsets", "ids", "page_table", "page_row", "page_start"
)  # fmt: skip


class TopKVarlen(NamedTuple):
    """What ``topk_varlen`` returns."""

    values: Tensor | None
    indices: Tensor
    counts: Tensor


def topk_varlen(
    input: Tensor,
    k: int,
    *,
    lengths: Tensor | None = None,
    starts: Tensor | None = None,
    row_k: Tensor | None = None,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    ids: Tensor | None = None,
    page_table: Tensor | None = None,
    page_size: int = 1,
    page_row: Tensor | None = None,
    page_start: Tensor | None = None,
    largest: bool = True,
    magnitude: bool = False,
    order: Literal["any", "value", "index"] = "any",
    return_values: bool = True,
    pad_index: int = -1,
    index_dtype: torch.dtype = torch.int32,
    max_length: int | None = None,
    out: tuple[Tensor | None, Tensor] | None = None,
) -> TopKVarlen:
    """``topk`` of ragged rows: the ``k`` best of each row's window, whose start, length and k may change from
    call to call under one CUDA graph.

    The set is exact, ties go to the lower position, and a row's answer does not depend on other rows.

    Args:
        input: [rows, cols], any dtype of ``topk``. Rows may lie any distance apart, 0 included; where the
            elements of a row are not adjacent, it is copied.
        k: places of a row in the outputs, 0 <= k < 2**31; may exceed cols.
        lengths, starts: [rows], int32 or int64, of one dtype: row r's window is
            [starts[r], starts[r] + lengths[r]). Whatever they hold, they are clamped into [0, cols], the
            window's end too, and nothing outside it is read. By default all of the row, from the start on.
        row_k: [rows], int32 or int64, clamped into [0, k]: at most so many winners of that row.
        mask: bool, [rows, cols] or [cols]: False is no candidate. Counted from column 0, not from starts.
        offsets: [rows], int32 or int64: an index becomes index + offsets[r].
        ids: [rows, cols] or [cols], int32 or int64: an index becomes the id of its column, and an element
            whose id is negative is no candidate. Counted from column 0. int64 wants ``index_dtype`` int64.
        page_table: [tables, pages], int32: an index i becomes page * page_size + i % page_size, with the page
            page_table[page_row[r], page_start[r] + i // page_size]. Where that lies outside the table, or is
            negative, it becomes ``pad_index``.
        page_size: a power of two.
        page_row: [rows], int32: which table; by default the row's own.
        page_start: [rows], int32, in pages: where the row begins in its table; by default 0.
        largest, magnitude: as in ``topk``.
        order: of the winners. "value": best first, equal values by position. "index": by position. "any": no
            promise; where a window is no longer than k, by position.
        return_values: False: values are neither written nor returned.
        pad_index: what stands behind the winners.
        index_dtype: int32 or int64.
        max_length: a promise that helps the plan on CUDA; rows that are longer stay right.
        out: values, or None, and indices to write to, of the result's dtypes and shapes; their rows may lie
            apart, as in a slice of a wider buffer.

    Returns:
        ``values`` [rows, k], of input's dtype, or None; ``indices`` [rows, k]; and ``counts`` [rows], int32:
        how many winners a row has. A named tuple. Indices are positions counted from the window's start, but
        for what offsets, ids or page_table make of them. Winners stand first; behind them ``pad_index`` and
        the worst value: -inf, +inf, the least or greatest integer, or 0 for the largest by magnitude. A NaN
        or -inf inside the window is a candidate like any other. None of the three has gradients.

    Raises:
        TypeError, ValueError: an argument of another type or name.
        RuntimeError: an argument out of range, shapes, dtypes or devices that do not fit together. Raised
            before anything is launched.
        torch.OutOfMemoryError: the outputs or the workspace do not fit.

    CPU and CUDA tensors. On CUDA nothing is read on the host, and the plan looks at shapes, dtype, k and
    ``max_length`` alone. Lengths of 0 are legal. Of a DTensor, rows stay sharded; the other tensors are
    DTensors of its mesh, outs placed as it is. Columns that are sharded are refused.

    Source: none of ``topk``'s papers has windows that are read on the device: those are this project's, over
    the same algorithms. That indices count from a window's start is as in FlashInfer, vLLM and SGLang.
    """
    tensors = (input, lengths, starts, row_k, mask, offsets, ids, page_table, page_row, page_start)
    if has_torch_function(tensors):
        return handle_torch_function(
            topk_varlen, tensors, input, k, lengths=lengths, starts=starts, row_k=row_k, mask=mask,
            offsets=offsets, ids=ids, page_table=page_table, page_size=page_size, page_row=page_row,
            page_start=page_start, largest=largest, magnitude=magnitude, order=order,
            return_values=return_values, pad_index=pad_index, index_dtype=index_dtype,
            max_length=max_length, out=out,
        )  # fmt: skip
    for name, tensor in zip(_TENSORS, tensors, strict=True):
        if not isinstance(tensor, Tensor) and not (tensor is None and name != "input"):
            raise TypeError(f"topk_varlen(): argument '{name}' must be Tensor, not {type(tensor).__name__}")
    k = _rows.integer("topk_varlen", "k", k)
    page_size = _rows.integer("topk_varlen", "page_size", page_size)
    pad_index = _rows.integer("topk_varlen", "pad_index", pad_index)
    if max_length is not None:
        max_length = _rows.integer("topk_varlen", "max_length", max_length, "int or None")
    _rows.check_bool("topk_varlen", "largest", largest)
    _rows.check_bool("topk_varlen", "magnitude", magnitude)
    _rows.check_bool("topk_varlen", "return_values", return_values)
    _rows.check_dtype("topk_varlen", "index_dtype", index_dtype)
    _rows.check_choice("topk_varlen", "order", order, _ORDERS)
    options = {
        "lengths": lengths, "starts": starts, "row_k": row_k, "mask": mask, "offsets": offsets, "ids": ids,
        "page_table": page_table, "page_size": page_size, "page_row": page_row, "page_start": page_start,
        "largest": largest, "magnitude": magnitude, "order": _ORDERS.index(order), "pad_index": pad_index,
        "index_dtype": index_dtype, "max_length": max_length,
    }  # fmt: skip
    outs = None if out is None else _two_outs(out, return_values)
    if has_dtensor(*tensors, *(outs or ())):
        from . import _dtensor

        given = dict(zip(_TENSORS[1:], tensors[1:], strict=True))
        numbers = {name: option for name, option in options.items() if name not in given}
        numbers.update(order=order, return_values=return_values)
        return _dtensor.topk_varlen(input, k, given, numbers, outs)
    if outs is None:
        operator = torch.ops.gputopk.topk_varlen.default
        values, indices, counts = call(operator, input, k, return_values=return_values, **options)
        return TopKVarlen(values if return_values else None, indices, counts)
    values, indices = outs
    counts = torch.empty(input.shape[:1], dtype=torch.int32, device=input.device)
    operator = torch.ops.gputopk.topk_varlen.out
    call(operator, input, k, **options, values=values, indices=indices, counts=counts)
    return TopKVarlen(values, indices, counts)


def _two_outs(out: Any, return_values: bool) -> tuple[Tensor | None, Tensor]:
    if not isinstance(out, (tuple, list)) or len(out) != 2 or not isinstance(out[1], Tensor):
        raise TypeError("topk_varlen(): argument 'out' must be a tuple of a Tensor or None, and a Tensor")
    values, indices = out
    if not (values is None or isinstance(values, Tensor)):
        raise TypeError(f"topk_varlen(): out's values must be Tensor or None, not {type(values).__name__}")
    if values is None and return_values:
        raise RuntimeError("topk_varlen(): out has no values, which return_values=True asks for")
    values = values if return_values else None
    for name, tensor in (("values", values), ("indices", indices)):
        if is_negative(tensor):
            raise RuntimeError(
                f"topk_varlen(): {name} is a view of its elements' negatives, where results cannot be written"
            )
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (values, indices)):
        raise RuntimeError(
            "topk_varlen(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    return values, indices


# What the stable ABI cannot register ------------------------------------------------------------------

for _name in ("topk_varlen", "topk_varlen.out"):
    registry.impl(_name, torch.library.fallthrough_kernel, "Autograd")


_NONE = dict.fromkeys(_TENSORS[1:])


def _check_request(self: Tensor, k: Any, options: dict[str, Any]) -> RowChecks:
    """Refuses what the operator refuses, but for outs."""
    checks = RowChecks("topk_varlen", self)
    checks.k_and_index_dtype(k, options["index_dtype"] or torch.int32)
    tensors = {name: options[name] for name in _TENSORS[1:] if options.get(name) is not None}
    for name, tensor in tensors.items():
        checks.device(name, tensor)
        if name == "mask":
            checks.mask(tensor)
            continue
        checks.integers(name, tensor, narrow=name.startswith("page_"))
        if name in _OF_ROWS:
            checks.one_a_row(name, tensor)
        elif name != "page_table":
            checks.columns(name, tensor)
    maps = sum(options[name] is not None for name in ("offsets", "ids", "page_table"))
    checks.check(maps <= 1, "offsets, ids and page_table exclude each other")
    return checks


@torch.library.register_fake("gputopk::topk_varlen")
def _(self, k, *, return_values=True, index_dtype=None, **options):
    _check_request(self, k, {**_NONE, **options, "index_dtype": index_dtype})
    rows = self.size(0)
    values = self.new_empty((rows, k) if return_values else (0,))
    indices = self.new_empty((rows, k), dtype=index_dtype or torch.int32)
    return values, indices, self.new_empty((rows,), dtype=torch.int32)


@torch.library.register_fake("gputopk::topk_varlen.out")
def _(self, k, *, values, indices, counts, index_dtype=None, **options):
    check = _check_request(self, k, {**_NONE, **options, "index_dtype": index_dtype}).check
    rows = self.size(0)
    outs = [
        ("indices", indices, index_dtype or torch.int32, (rows, k)),
        ("counts", counts, torch.int32, (rows,)),
    ]
    if values is not None:
        outs.append(("values", values, self.dtype, (rows, k)))
    for name, out, dtype, shape in outs:
        check(out.dtype == dtype, f"Expected out tensor to have dtype {dtype}, but got {out.dtype} ({name})")
        check(out.dim() == len(shape), f"{name} has shape {list(out.shape)}")
        for found, wanted in zip(out.shape, shape, strict=True):
            check(found == wanted, f"{name} has shape {list(out.shape)}, but the result has {list(shape)}")
