"""The operators on tensors without data: what they refuse, in their words, and the form of what they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

_INTEGERS = (torch.int32, torch.int64)
_INT32_MOST = 2**31 - 1


def result_shape(shape: Sequence[int], k: int, dim: int) -> list[int]:
    shape = list(shape)
    if shape:
        shape[dim] = k
    return shape


def check_dim_and_k(shape: Sequence[int], k: int, dim: int) -> None:
    dims = max(len(shape), 1)
    torch._check(
        -dims <= dim < dims,
        lambda: (
            "gputopk::topk: Dimension out of range (expected to be in range of "
            f"[{-dims}, {dims - 1}], but got {dim})"
        ),
    )
    cols = shape[dim] if len(shape) > 0 else 1
    for holds in (k >= 0, k <= cols):
        torch._check(
            holds,
            lambda: (
                f"gputopk::topk: selected index k out of range: k is {k}, "
                f"and dimension {dim % dims} has size {cols}"
            ),
        )


class RowChecks:
    """What the operators of rows, topk_varlen and those beside it, refuse, in their words."""

    def __init__(self, op: str, input: Tensor):
        self._op, self._device = op, input.device
        self.check(input.dim() == 2, f"the input must have 2 dimensions, but has {input.dim()}")
        self.rows, self.cols = input.shape

    def check(self, holds: Any, words: str) -> None:
        torch._check(holds, lambda: f"gputopk::{self._op}: {words}")

    def k_and_index_dtype(self, k: Any, index_dtype: torch.dtype) -> None:
        self.check(k >= 0, f"k must be in [0, {_INT32_MOST}], but is {k}")
        self.check(index_dtype in _INTEGERS, "index_dtype must be torch.int64 or torch.int32")
        if index_dtype == torch.int32 and type(self.cols) is int:  # of a symbol it is left to the call
            self.check(
                self.cols <= _INT32_MOST,
                f"index_dtype torch.int32 cannot index {self.cols} elements, at most {_INT32_MOST}",
            )

    def device(self, name: str, tensor: Tensor) -> None:
        self.check(
            tensor.device == self._device,
            f"{name} must be on the device of the input, {self._device}, but is on {tensor.device}",
        )

    def integers(self, name: str, tensor: Tensor, narrow: bool = False) -> None:
        kinds = "int32" if narrow else "int32 or int64"
        self.check(tensor.dtype in _INTEGERS[: 1 if narrow else 2], f"{name} must be {kinds}")

    def mask(self, tensor: Tensor) -> None:
        self.columns("mask", tensor)
        self.check(tensor.dtype == torch.bool, f"mask must be bool, not {tensor.dtype}")

    def one_a_row(self, name: str, tensor: Tensor) -> None:
        words = f"{name} must have shape [{self.rows}], a number a row"
        self.check(tensor.dim() == 1, words)
        self.check(tensor.size(0) == self.rows, words)

    def columns(self, name: str, tensor: Tensor) -> None:
        words = f"{name} must have shape [{self.rows}, {self.cols}] or [{self.cols}]"
        self.check(tensor.dim() in (1, 2), words)
        self.check(tensor.size(-1) == self.cols, words)
        if tensor.dim() == 2:
            self.check(tensor.size(0) == self.rows, words)


def check_request(self: Tensor, k: int, dim: int, index_dtype: torch.dtype | None, algorithm: int) -> None:
    """Refuses what the operator refuses, but for outs."""
    check_dim_and_k(self.shape, k, dim)
    cols = self.size(dim) if self.dim() > 0 else 1
    if index_dtype == torch.int32:
        torch._check(
            cols < 2**31,
            lambda: (
                f"gputopk::topk: index_dtype torch.int32 cannot index {cols} elements, at most {2**31 - 1}"
            ),
        )
    _check_plan(self, k, dim, index_dtype, algorithm)


def _check_plan(self: Tensor, k: int, dim: int, index_dtype: torch.dtype | None, algorithm: int) -> None:
    """Asks the plan, which knows dtypes and algorithms, about a tensor without data. On the CPU no rule
    hangs on sizes; elsewhere, while sizes are symbols, such rules are left to the call."""
    shape = tuple(self.shape)
    on_cpu = self.device.type == "cpu"
    if on_cpu or not all(type(size) is int for size in (*shape, k)):
        shape, k, dim = (1,), 1, 0
    with _disable_current_modes():
        like = torch.empty(shape, dtype=self.dtype, device="cpu" if on_cpu else "meta")
        torch.ops.gputopk._plan(like, k, dim, index_dtype=index_dtype, algorithm=algorithm)


def _check_out_kind(out: Tensor, self: Tensor, dtype: torch.dtype, name: str) -> None:
    for what, found, wanted in (("dtype", out.dtype, dtype), ("device", out.device, self.device)):
        if found != wanted:
            raise RuntimeError(
                f"gputopk::topk: Expected out tensor to have {what} {wanted}, "
                f"but got {found} instead ({name})"
            )


def _check_out_shape(out: Tensor, shape: list[int], name: str) -> None:
    def words() -> str:
        return f"gputopk::topk: {name} has shape {list(out.shape)}, but the result has {shape}"

    torch._check(out.dim() == len(shape), words)
    for found, wanted in zip(out.shape, shape, strict=True):
        torch._check(found == wanted, words)


@torch.library.register_fake("gputopk::topk")
@torch.library.register_fake("gputopk::differentiable_topk")
def _(self, k, dim=-1, largest=True, sorted=True, *, magnitude=False, index_dtype=None, algorithm=0):
    check_request(self, k, dim, index_dtype, algorithm)
    shape = result_shape(self.shape, k, dim)
    return self.new_empty(shape), self.new_empty(shape, dtype=index_dtype or torch.int64)


@torch.library.register_fake("gputopk::_topk_by_index")
@torch.library.register_fake("gputopk::_topk_kth")
def _(self, k, dim=-1, largest=True, *, magnitude=False, index_dtype=None, algorithm=0):
    check_request(self, k, dim, index_dtype, algorithm)
    shape = result_shape(self.shape, k, dim)
    return self.new_empty(shape), self.new_empty(shape, dtype=index_dtype or torch.int64)


@torch.library.register_fake("gputopk::topk.out")
def _(
    self, k, dim=-1, largest=True, sorted=True, *,
    magnitude=False, index_dtype=None, algorithm=0, values, indices,
):  # fmt: skip
    check_request(self, k, dim, index_dtype, algorithm)
    shape = result_shape(self.shape, k, dim)
    _check_out_kind(values, self, self.dtype, "values")
    _check_out_kind(indices, self, index_dtype or torch.int64, "indices")
    _check_out_shape(values, shape, "values")
    _check_out_shape(indices, shape, "indices")
